package io.lakeingest;

import java.io.BufferedReader;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A catalog of one function, "commit", by which the driver reads the file of one commit in a Delta log.
 *
 * <p>Of values that stand in the statement itself the optimizer computes it: no job is run, as one is by Spark's own
 * reader, which also looks at the file thrice.
 */
public class LogFunctions extends Functions {
    @Override
    BoundFunction named(String name) {
        if (!name.equals("commit")) {
            throw new IllegalArgumentException(name);
        }
        return new Commit();
    }

    /** A file's path to its line with commitInfo (see "Commit Provenance Information" in Delta's protocol). */
    public static final class Commit implements ScalarFunction<UTF8String> {
        private static final long serialVersionUID = 1L;
        private static final JsonFactory JSON = new JsonFactory();

        @Override
        public DataType[] inputTypes() {
            return new DataType[] {DataTypes.StringType};
        }

        @Override
        public DataType resultType() {
            return DataTypes.StringType;
        }

        @Override
        public String name() {
            return "commit";
        }

        /** The line as JSON, or "{}" where the file has none; null if there is no such file. */
        public UTF8String invoke(UTF8String file) throws IOException {
            Path path = new Path(file.toString());
            Configuration settings = SparkSession.active().sessionState().newHadoopConf();
            try (InputStream opened = path.getFileSystem(settings).open(path);
                    BufferedReader lines = new BufferedReader(new InputStreamReader(opened, StandardCharsets.UTF_8))) {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    if (isCommitInfo(line)) {
                        return UTF8String.fromString(line);
                    }
                }
                return UTF8String.fromString("{}");
            } catch (FileNotFoundException none) {
                return null;
            }
        }

        private static boolean isCommitInfo(String action) throws IOException {
            try (JsonParser parser = JSON.createParser(action)) {
                return parser.nextToken() == JsonToken.START_OBJECT && "commitInfo".equals(parser.nextFieldName());
            }
        }
    }
}
