package io.lakeingest;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

import io.delta.storage.S3SingleDriverLogStore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.AWSBadRequestException;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;
import org.apache.hadoop.util.VersionInfo;

/**
 * A Delta log store for S3 that lets exactly one of several drivers write a version.
 *
 * <p>Delta's own store for S3 knows the writers of one JVM only (delta-io/delta#3596 and #4813): two drivers both see
 * that version N is missing, both write it, both are told that they committed, and the second has erased the first.
 * Here the object store decides: a version is PUT with {@code If-None-Match: *}, and the loser is told so and
 * resolves the conflict like on any other file system. Listing, reading and overwriting are Delta's own.
 *
 * <p>Facts it rests on, measured with Hadoop 3.4.2, Delta 4.4.0 and SeaweedFS 4.48:
 * <ul>
 *   <li>{@code create(path, false)} asks on open and not on close: of two open streams both close well.
 *   <li>With the option below {@code close()} asks, for one PUT and for a multipart upload alike; a refusal (412) is a
 *       RemoteFileChangedException, a 409 (AWS: a conflicting request is under way) an AWSBadRequestException.
 *   <li>The SDK sends a PUT again when its answer is lost and then meets its own object, so a refusal may be a success:
 *       the object is read back. A commit holds a random txnId, so equal bytes are our bytes.
 *   <li>Whether a file system can do this is asked by two such PUTs, not by its version: forks take changes over early.
 *   <li>{@code fs.s3a.performance.flags=create} (or {@code *}) leaves this write conditional, but lets a plain
 *       {@code create(path, false)} of the same session overwrite even a file that was there before: refused.
 *   <li>The probe's name begins with a dot, which sorts before every version: listFrom never sees it.
 * </ul>
 */
public class ConditionalS3LogStore extends S3SingleDriverLogStore {
    private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";
    private static final String CONDITIONAL_ENABLED = "fs.s3a.create.conditional.enabled";
    private static final String BLIND_CREATE = "fs.s3a.create.performance.enabled";
    private static final int CONFLICT = 409;
    private static final int TRIES = 6;

    /** Stores that were seen to honour the condition, by this JVM. */
    private static final Set<String> HONEST = ConcurrentHashMap.newKeySet();

    public ConditionalS3LogStore(Configuration hadoopConf) {
        super(hadoopConf);
    }

    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration hadoopConf)
            throws IOException {
        if (overwrite) {
            super.write(path, actions, true, hadoopConf);
            return;
        }
        FileSystem fs = path.getFileSystem(hadoopConf);
        refuseUnsafe(fs, path);
        byte[] ours = bytes(actions);
        if (!create(fs, path, ours) && !holds(fs, path, ours)) {
            throw new FileAlreadyExistsException(path.toString());
        }
    }

    private static byte[] bytes(Iterator<String> actions) throws IOException {
        ByteArrayOutputStream lines = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            lines.write(actions.next().getBytes(StandardCharsets.UTF_8));
            lines.write('\n');
        }
        return lines.toByteArray();
    }

    /** Writes the object if there is none; false if there is one. */
    private static boolean create(FileSystem fs, Path path, byte[] content) throws IOException {
        for (int attempt = 1; ; attempt++) {
            try {
                put(fs, path, content);
                return true;
            } catch (RemoteFileChangedException | org.apache.hadoop.fs.FileAlreadyExistsException taken) {
                return false;
            } catch (AWSBadRequestException refused) {
                if (refused.statusCode() != CONFLICT || attempt == TRIES) {
                    throw refused;
                }
                pause(50L << attempt);
            }
        }
    }

    private static void put(FileSystem fs, Path path, byte[] content) throws IOException {
        // must, not opt: a file system that does not know the option fails, where it would overwrite.
        FSDataOutputStream stream = (FSDataOutputStream)
            fs.createFile(path).recursive().overwrite(false).must(CONDITIONAL, true).build();
        // No try-with-resources: closing after a failed write would publish half a commit.
        stream.write(content);
        stream.close();
    }

    private static void pause(long millis) throws IOException {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException(stop.getMessage());
        }
    }

    private static boolean holds(FileSystem fs, Path path, byte[] content) throws IOException {
        try (FSDataInputStream stream = fs.open(path)) {
            return Arrays.equals(content, stream.readAllBytes());
        }
    }

    private static void refuseUnsafe(FileSystem fs, Path path) throws IOException {
        Configuration conf = fs.getConf(); // here S3A has folded the settings of the bucket in
        if (!conf.getBoolean(CONDITIONAL_ENABLED, true)) {
            throw unsafe(fs, CONDITIONAL_ENABLED + " is false; remove that setting");
        }
        if (fs.hasPathCapability(path, BLIND_CREATE)) {
            throw unsafe(fs, "fs.s3a.performance.flags holds create (or *), and files get overwritten in silence; "
                + "remove that flag, and fs.s3a.create.performance, for every bucket that holds tables");
        }
        String store = fs.getClass().getName() + " " + fs.getUri() + " at " + conf.getTrimmed("fs.s3a.endpoint", "AWS");
        if (!HONEST.contains(store)) {
            probe(fs, new Path(path.getParent(), ".lakeingest-probe-" + UUID.randomUUID()));
            HONEST.add(store);
        }
    }

    private static void probe(FileSystem fs, Path probe) throws IOException {
        try {
            create(fs, probe, new byte[] {1});
            if (create(fs, probe, new byte[] {2})) {
                throw unsafe(fs, "it does not honour If-None-Match: a second PUT replaced the first; "
                    + "use a store that does, or commit to this one from one driver only, with Delta's own log store");
            }
        } catch (IllegalArgumentException unknown) {
            // A file system refuses an option that it must heed and does not know: EMRFS, local files, older S3A.
            throw unsafe(fs, fs.getClass().getName() + " of Hadoop " + VersionInfo.getVersion()
                + " cannot create a file only if there is none; use S3A of Hadoop 3.4.2 or newer");
        } finally {
            delete(fs, probe);
        }
    }

    private static void delete(FileSystem fs, Path probe) throws IOException {
        try {
            fs.delete(probe, false);
        } catch (AccessDeniedException mayOnlyWrite) {
            // One byte stays behind that no reader sees; a writer without the right to delete is a good idea.
        }
    }

    private static IOException unsafe(FileSystem fs, String why) {
        return new IOException("Unsafe store: " + fs.getUri() + " cannot commit safely: " + why + ".");
    }
}
