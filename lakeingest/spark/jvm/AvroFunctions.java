package io.lakeingest;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.spark.sql.avro.SchemaConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A catalog of functions that read an Avro payload in one step: straight into Spark's values, and to its last byte.
 *
 * <p>from_avro makes records of Avro's library first, and rows of these; and it does not tell whether bytes are left,
 * so that the payload has to be copied into an envelope. The types here are those of from_avro (SchemaConverters, with
 * a union's members named by their types), and so are the values.
 *
 * <p>A function's name is a schema as JSON: of a record whose last field is the payload's, and whose other fields
 * declare what that refers to. Its result is a row with that one field, or null where the payload is none of it.
 */
public class AvroFunctions extends Functions {
    /** Of an unscaled value of 38 digits, which is what a decimal of Spark's can have. */
    private static final int MOST_BITS = 127;

    @Override
    BoundFunction named(String name) {
        return new Read(name);
    }

    /** The function itself; each task has one of its own. */
    public static final class Read implements ScalarFunction<InternalRow> {
        private static final long serialVersionUID = 1L;
        private final String envelope;
        private final StructType type;
        private transient Reader reader;
        private transient InternalRow row;
        private transient BinaryDecoder decoder;

        Read(String envelope) {
            this.envelope = envelope;
            Schema.Field value = value();
            DataType found = SchemaConverters.toSqlType(value.schema(), true, "member_", -1).dataType();
            this.type = new StructType().add(value.name(), found.asNullable());
        }

        private Schema.Field value() {
            List<Schema.Field> fields = new Schema.Parser().setValidateDefaults(false).parse(envelope).getFields();
            return fields.get(fields.size() - 1);
        }

        @Override
        public DataType[] inputTypes() {
            return new DataType[] {DataTypes.BinaryType};
        }

        @Override
        public DataType resultType() {
            return type;
        }

        @Override
        public String name() {
            return "read_avro";
        }

        /** The value; null where the payload does not end where the value does. The next call overwrites it. */
        public InternalRow invoke(byte[] payload) {
            if (payload == null) {
                return null;
            }
            if (reader == null) {
                row = new SpecificInternalRow(type);
                reader = reader(value().schema(), type.fields()[0].dataType(), true);
            }
            try {
                decoder = DecoderFactory.get().binaryDecoder(payload, decoder);
                reader.read(decoder, row, 0);
                return decoder.isEnd() ? row : null;
            } catch (IOException | RuntimeException broken) {
                return null;
            }
        }
    }

    /** Reads a value, and puts it into a row. */
    private interface Reader {
        void read(BinaryDecoder in, InternalRow into, int at) throws IOException;
    }

    /**
     * How values of a schema become values of Spark's type.
     *
     * @param once whether there is one of them in a payload, so that its row can serve for the next payload too
     */
    private static Reader reader(Schema schema, DataType type, boolean once) {
        return switch (schema.getType()) {
            case NULL -> (in, into, at) -> into.setNullAt(at);
            case BOOLEAN -> (in, into, at) -> into.setBoolean(at, in.readBoolean());
            case INT -> type instanceof LongType
                ? (in, into, at) -> into.setLong(at, in.readInt())
                : (in, into, at) -> into.setInt(at, in.readInt());
            case LONG -> numbers(schema, type);
            case FLOAT -> type instanceof DoubleType
                ? (in, into, at) -> into.setDouble(at, in.readFloat())
                : (in, into, at) -> into.setFloat(at, in.readFloat());
            case DOUBLE -> (in, into, at) -> into.setDouble(at, in.readDouble());
            case STRING -> (in, into, at) -> into.update(at, UTF8String.fromBytes(in.readBytes(null).array()));
            case ENUM -> symbols(schema.getEnumSymbols());
            case BYTES -> bytes(schema, type, in -> in.readBytes(null).array());
            case FIXED -> bytes(schema, type, in -> {
                byte[] found = new byte[schema.getFixedSize()];
                in.readFixed(found);
                return found;
            });
            case RECORD -> record(schema, (StructType) type, once);
            case ARRAY -> array(reader(schema.getElementType(), ((ArrayType) type).elementType(), false),
                new SpecificInternalRow(new StructType().add("element", ((ArrayType) type).elementType())));
            case MAP -> map(reader(schema.getValueType(), ((MapType) type).valueType(), false),
                new SpecificInternalRow(new StructType().add("value", ((MapType) type).valueType())));
            case UNION -> union(schema.getTypes(), type, once);
        };
    }

    private static Reader numbers(Schema schema, DataType type) {
        if (type instanceof DecimalType decimal) {
            return (in, into, at) ->
                into.update(at, Decimal.apply(in.readLong(), decimal.precision(), decimal.scale()));
        }
        boolean moment = type instanceof TimestampType || type instanceof TimestampNTZType;
        boolean micros = schema.getLogicalType() instanceof LogicalTypes.TimestampMicros
            || schema.getLogicalType() instanceof LogicalTypes.LocalTimestampMicros;
        return moment && !micros
            ? (in, into, at) -> into.setLong(at, Math.multiplyExact(in.readLong(), 1000L))
            : (in, into, at) -> into.setLong(at, in.readLong());
    }

    private static Reader symbols(List<String> symbols) {
        UTF8String[] texts = symbols.stream().map(UTF8String::fromString).toArray(UTF8String[]::new);
        return (in, into, at) -> into.update(at, texts[in.readEnum()]);
    }

    private interface Bytes {
        byte[] read(BinaryDecoder in) throws IOException;
    }

    private static Reader bytes(Schema schema, DataType type, Bytes bytes) {
        if (!(type instanceof DecimalType)) {
            return (in, into, at) -> into.update(at, bytes.read(in));
        }
        LogicalTypes.Decimal decimal = (LogicalTypes.Decimal) schema.getLogicalType();
        int precision = decimal.getPrecision();
        int scale = decimal.getScale();
        return (in, into, at) -> {
            BigInteger unscaled = new BigInteger(bytes.read(in));
            // What has more bits than a decimal is refused before its digits are counted, which takes long.
            if (unscaled.bitLength() > MOST_BITS) {
                throw new ArithmeticException("a decimal of more than 38 digits");
            }
            into.update(at, precision <= Decimal.MAX_LONG_DIGITS()
                ? Decimal.apply(unscaled.longValueExact(), precision, scale)
                : Decimal.apply(new BigDecimal(unscaled, scale), precision, scale));
        };
    }

    private static Reader record(Schema schema, StructType type, boolean once) {
        Reader[] fields = new Reader[type.size()];
        for (int i = 0; i < fields.length; i++) {
            fields[i] = reader(schema.getFields().get(i).schema(), type.fields()[i].dataType(), once);
        }
        InternalRow again = once ? new SpecificInternalRow(type) : null;
        return (in, into, at) -> {
            InternalRow row = again == null ? new SpecificInternalRow(type) : again;
            for (int i = 0; i < fields.length; i++) {
                fields[i].read(in, row, i);
            }
            into.update(at, row);
        };
    }

    private static Reader array(Reader element, SpecificInternalRow one) {
        return (in, into, at) -> {
            List<Object> found = new ArrayList<>();
            for (long left = in.readArrayStart(); left > 0; left = in.arrayNext()) {
                for (; left > 0; left--) {
                    element.read(in, one, 0);
                    found.add(one.genericGet(0));
                }
            }
            into.update(at, new GenericArrayData(found.toArray()));
        };
    }

    private static Reader map(Reader value, SpecificInternalRow one) {
        return (in, into, at) -> {
            Map<UTF8String, Object> found = new LinkedHashMap<>();
            for (long left = in.readMapStart(); left > 0; left = in.mapNext()) {
                for (; left > 0; left--) {
                    UTF8String key = UTF8String.fromBytes(in.readBytes(null).array());
                    value.read(in, one, 0);
                    found.put(key, one.genericGet(0));
                }
            }
            into.update(at, new ArrayBasedMapData(
                new GenericArrayData(found.keySet().toArray()), new GenericArrayData(found.values().toArray())));
        };
    }

    /** Null and one type are that type; numbers of two widths are the wider; else there is a member for each type. */
    private static Reader union(List<Schema> branches, DataType type, boolean once) {
        Reader[] readers = new Reader[branches.size()];
        long others = branches.stream().filter(branch -> branch.getType() != Schema.Type.NULL).count();
        boolean wider = type instanceof LongType || type instanceof DoubleType;
        int member = 0;
        for (int i = 0; i < readers.length; i++) {
            Schema branch = branches.get(i);
            if (branch.getType() == Schema.Type.NULL || others == 1 || wider) {
                readers[i] = reader(branch, type, once);
            } else {
                readers[i] = member(branch, (StructType) type, member++);
            }
        }
        return (in, into, at) -> readers[in.readIndex()].read(in, into, at);
    }

    private static Reader member(Schema branch, StructType type, int member) {
        Reader reader = reader(branch, type.fields()[member].dataType(), false);
        return (in, into, at) -> {
            InternalRow row = new SpecificInternalRow(type);
            reader.read(in, row, member);
            into.update(at, row);
        };
    }
}
