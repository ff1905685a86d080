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
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A catalog of two functions for the driver: "commit" reads the file of one commit in a Delta log, and "prefetch"
 * prepares a table for its next append.
 *
 * <p>Of values that stand in the statement itself the optimizer computes them: no job is run for a commit, as one is by
 * Spark's own reader, which also looks at the file thrice.
 */
public class LogFunctions extends Functions {
    @Override
    BoundFunction named(String name) {
        return switch (name) {
            case "commit" -> new Commit();
            case "prefetch" -> new Prefetch();
            default -> throw new IllegalArgumentException(name);
        };
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

    /** A table's path to whether the state of its log was computed (see NumberedAppend). */
    public static final class Prefetch implements ScalarFunction<Boolean> {
        private static final long serialVersionUID = 1L;

        @Override
        public DataType[] inputTypes() {
            return new DataType[] {DataTypes.StringType};
        }

        @Override
        public DataType resultType() {
            return DataTypes.BooleanType;
        }

        @Override
        public String name() {
            return "prefetch";
        }

        /** Null if each append computes it anew, and so has to be prepared in another way. */
        @Override
        public Boolean produceResult(InternalRow path) {
            return NumberedAppend.prefetch(SparkSession.active(), path.getString(0));
        }
    }
}
