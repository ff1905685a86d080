package io.lakeingest;

import java.util.Arrays;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;

import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * A catalog of functions that undo zlib, and stop at a bound: a few bytes may hold a thousand times as many.
 *
 * <p>A function's name is "inflate " and the most bytes that it gives. Its result is what was compressed, or so much of
 * it; null where the payload is not one whole stream.
 */
public class ZlibFunctions extends Functions {
    private static final String INFLATE = "inflate ";

    @Override
    BoundFunction named(String name) {
        if (!name.startsWith(INFLATE)) {
            throw new IllegalArgumentException(name);
        }
        return new Inflate(Integer.parseInt(name.substring(INFLATE.length())));
    }

    /** The function itself; each task has one of its own. */
    public static final class Inflate implements ScalarFunction<byte[]> {
        private static final long serialVersionUID = 1L;
        private static final int LEAST = 256;
        private final int most;
        private transient Inflater inflater;

        Inflate(int most) {
            this.most = most;
        }

        @Override
        public DataType[] inputTypes() {
            return new DataType[] {DataTypes.BinaryType};
        }

        @Override
        public DataType resultType() {
            return DataTypes.BinaryType;
        }

        @Override
        public String name() {
            return "inflate";
        }

        /** The payload decompressed, or its first bytes. */
        public byte[] invoke(byte[] payload) {
            if (payload == null) {
                return null;
            }
            if (inflater == null) {
                inflater = new Inflater();
            }
            inflater.reset();
            inflater.setInput(payload);
            byte[] found = new byte[(int) Math.min(most, LEAST + 4L * payload.length)];
            int size = 0;
            try {
                while (size < most) {
                    if (size == found.length) {
                        found = Arrays.copyOf(found, (int) Math.min(most, 2L * size));
                    }
                    int more = inflater.inflate(found, size, found.length - size);
                    size += more;
                    if (inflater.finished()) {
                        return inflater.getRemaining() == 0 || size == most ? Arrays.copyOf(found, size) : null;
                    }
                    if (more == 0) {
                        // It wants more bytes, or a dictionary.
                        return null;
                    }
                }
                return found;
            } catch (DataFormatException broken) {
                return null;
            }
        }
    }
}
