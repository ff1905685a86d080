package io.lakeingest;

import java.io.BufferedReader;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.functional.FutureIO;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A catalog of functions for the driver: "commit" reads the file of one commit in a Delta log, "history N" those of the N
 * newest commits of a table, and "prefetch" prepares a table for its next append.
 *
 * <p>Of values that stand in the statement itself the optimizer computes them: no job is run for a commit, as one is by
 * Spark's own reader, which also looks at the file thrice.
 */
public class LogFunctions extends Functions {
    private static final JsonFactory JSON = new JsonFactory();

    @Override
    BoundFunction named(String name) {
        String[] words = name.split(" ");
        return switch (words[0]) {
            case "commit" -> new Commit();
            case "history" -> new History(Integer.parseInt(words[1]));
            case "prefetch" -> new Prefetch();
            default -> throw new IllegalArgumentException(name);
        };
    }

    /** The line with commitInfo in the file of a commit (see "Commit Provenance Information" in Delta's protocol). */
    private static String commitInfo(InputStream opened) throws IOException {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(opened, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (isCommitInfo(line)) {
                    return line;
                }
            }
            return "{}";
        }
    }

    private static boolean isCommitInfo(String action) throws IOException {
        try (JsonParser parser = JSON.createParser(action)) {
            return parser.nextToken() == JsonToken.START_OBJECT && "commitInfo".equals(parser.nextFieldName());
        }
    }

    /** What a function of one path says of itself. */
    private abstract static class OfPath<R> implements ScalarFunction<R> {
        private static final long serialVersionUID = 1L;
        private final String name;
        private final DataType result;

        OfPath(String name, DataType result) {
            this.name = name;
            this.result = result;
        }

        @Override
        public DataType[] inputTypes() {
            return new DataType[] {DataTypes.StringType};
        }

        @Override
        public DataType resultType() {
            return result;
        }

        @Override
        public String name() {
            return name;
        }
    }

    /** A file's path to its line with commitInfo. */
    public static final class Commit extends OfPath<UTF8String> {
        private static final long serialVersionUID = 1L;

        Commit() {
            super("commit", DataTypes.StringType);
        }

        /** The line as JSON, or "{}" where the file has none; null if there is no such file. */
        public UTF8String invoke(UTF8String file) throws IOException {
            Path path = new Path(file.toString());
            Configuration settings = SparkSession.active().sessionState().newHadoopConf();
            try {
                return UTF8String.fromString(commitInfo(path.getFileSystem(settings).open(path)));
            } catch (FileNotFoundException none) {
                return null;
            }
        }
    }

    /**
     * A table's path to a JSON array of its newest commits, the newest first, each as [version, milliseconds since 1970 at
     * which its file was written, its line with commitInfo as a text]. DESCRIBE HISTORY tells the same by a job.
     */
    public static final class History extends OfPath<UTF8String> {
        private static final long serialVersionUID = 1L;
        private final int most;

        History(int most) {
            super("history " + most, DataTypes.StringType);
            this.most = most;
        }

        /** As far back as the log has its files; null if these do not tell when a commit was made, or Delta is not known. */
        public UTF8String invoke(UTF8String table) throws IOException {
            Path path = new Path(table.toString());
            Long newest = NumberedAppend.newestVersion(SparkSession.active(), path);
            if (newest == null) {
                return null;
            }
            FileSystem files = path.getFileSystem(SparkSession.active().sessionState().newHadoopConf());
            StringWriter text = new StringWriter();
            try (JsonGenerator json = JSON.createGenerator(text)) {
                json.writeStartArray();
                for (long version = newest; version >= Math.max(0, newest - most + 1); version--) {
                    Path file = new Path(path, String.format("_delta_log/%020d.json", version));
                    FileStatus status;
                    try {
                        status = files.getFileStatus(file);
                    } catch (FileNotFoundException cleanedUp) {
                        break;
                    }
                    json.writeStartArray();
                    json.writeNumber(version);
                    json.writeNumber(status.getModificationTime());
                    json.writeString(commitInfo(FutureIO.awaitFuture(files.openFile(file).withFileStatus(status).build())));
                    json.writeEndArray();
                }
                json.writeEndArray();
            }
            return UTF8String.fromString(text.toString());
        }
    }

    /** A table's path to whether the state of its log was computed (see NumberedAppend). */
    public static final class Prefetch extends OfPath<Boolean> {
        private static final long serialVersionUID = 1L;

        Prefetch() {
            super("prefetch", DataTypes.BooleanType);
        }

        /** Null if each append computes it anew, and so has to be prepared in another way. */
        @Override
        public Boolean produceResult(InternalRow path) {
            return NumberedAppend.prefetch(SparkSession.active(), path.getString(0));
        }
    }
}
