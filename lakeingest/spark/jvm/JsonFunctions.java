package io.lakeingest;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonLocation;
import com.fasterxml.jackson.core.JsonParseException;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.util.JsonParserDelegate;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.catalyst.json.JacksonParser;
import org.apache.spark.sql.catalyst.util.BadRecordException;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A catalog of functions that read a JSON object in one step: parse it, prove that it is whole, and look at its names.
 *
 * <p>The parser behind from_json converts the values, so that they are what from_json would give. What is around it is
 * not from_json's, which takes eight kilobytes for each record, is no part of generated code, and tells neither what
 * followed the object nor which fields no column took, so that the text had to be read again for it. That parser is no
 * public interface: lakeingest tries the function in sessions that it did not start, and has another way to read.
 *
 * <p>A function's name is the schema of its result, as Spark's JSON: the declared columns, and then two of type BOOLEAN
 * that it sets itself: whether the value is one whole object, and whether it has a field, anywhere, that is not
 * declared. No record may have fields of these two names, so they are secret. With "round " before the schema, a number
 * of more places than its decimal has is rounded half up, and not refused.
 */
public class JsonFunctions extends Functions {
    private static final String ROUND = "round ";

    @Override
    BoundFunction named(String name) {
        boolean rounds = name.startsWith(ROUND);
        return new Parse((StructType) DataType.fromJson(rounds ? name.substring(ROUND.length()) : name), rounds);
    }

    /** The function itself; each task has one of its own. */
    public static final class Parse implements ScalarFunction<InternalRow> {
        private static final long serialVersionUID = 1L;
        private static final int OWN = 2;
        private final StructType schema;
        private final boolean rounds;
        private transient JacksonParser parser;
        private transient Names names;

        Parse(StructType schema, boolean rounds) {
            this.schema = schema;
            this.rounds = rounds;
        }

        @Override
        public DataType[] inputTypes() {
            return new DataType[] {DataTypes.BinaryType};
        }

        @Override
        public DataType resultType() {
            return schema;
        }

        @Override
        public String name() {
            return "parse_json";
        }

        /** The fields of a value; null where it is not read to its end as one object whose fields have their types. */
        public InternalRow invoke(byte[] value) {
            if (value == null || !opens(value) || !isText(value)) {
                return null;
            }
            if (parser == null) {
                names = Names.of(schema, rounds);
                parser = new JacksonParser(schema, options(), false, noFilters());
            }
            Watched[] watched = new Watched[1];
            InternalRow row;
            try {
                row = parser.parse(
                        value,
                        (factory, bytes) -> watched[0] = watched(factory, bytes, names),
                        bytes -> UTF8String.EMPTY_UTF8)
                    .head();
            } catch (Exception failed) {
                // Scala declares no exceptions.
                if (failed instanceof BadRecordException) {
                    return null;
                }
                throw failed;
            }
            if (!watched[0].whole) {
                return null;
            }
            row.setBoolean(schema.size() - OWN, true);
            row.setBoolean(schema.size() - OWN + 1, watched[0].undeclared);
            return row;
        }

        private static Watched watched(JsonFactory factory, byte[] bytes, Names names) {
            try {
                return new Watched(factory.createParser(bytes), names);
            } catch (IOException impossible) {
                throw new UncheckedIOException(impossible);
            }
        }

        /** Whether a text begins with a brace: what Jackson takes for UTF-16 or UTF-32, or skips as a mark, does not. */
        private static boolean opens(byte[] value) {
            for (int at = 0; at < value.length; at++) {
                switch (value[at]) {
                    case ' ', '\t', '\r', '\n' -> { }
                    case '{' -> {
                        return at + 1 == value.length || value[at + 1] != 0;
                    }
                    default -> {
                        return false;
                    }
                }
            }
            return false;
        }

        /** Whether a value is UTF-8. As a rule all of it is ASCII, and to see that takes a tenth of the time. */
        private static boolean isText(byte[] value) {
            byte all = 0;
            for (byte each : value) {
                all |= each;
            }
            return all >= 0 || UTF8String.fromBytes(value).isValid();
        }

        private static JSONOptions options() {
            Map<String, String> asked = Map.of("allowNonNumericNumbers", "false", "allowSingleQuotes", "false");
            return new JSONOptions(scala.collection.immutable.Map.from(CollectionConverters.asScala(asked)), "UTC", "");
        }

        private static scala.collection.immutable.Seq<Filter> noFilters() {
            return CollectionConverters.asScala(java.util.List.<Filter>of()).toSeq();
        }
    }

    /** What names a value may have in it: an object's own (null: any), and what those of each element are. */
    private static final class Names {
        private static final int NO_DECIMAL = -1;
        /** Of a value that has none that are declared. */
        private static final Names NONE = new Names(null, null, NO_DECIMAL);
        private final Map<String, Names> fields;
        private final Names each;
        /** The most places of a decimal. */
        private final int places;

        private Names(Map<String, Names> fields, Names each, int places) {
            this.fields = fields;
            this.each = each == null ? this : each;
            this.places = places;
        }

        static Names of(DataType type, boolean rounds) {
            if (type instanceof StructType struct) {
                Map<String, Names> found = new HashMap<>();
                for (StructField field : struct.fields()) {
                    found.put(field.name(), of(field.dataType(), rounds));
                }
                return new Names(found, NONE, NO_DECIMAL);
            }
            if (type instanceof DecimalType decimal) {
                return new Names(null, null, rounds ? Integer.MAX_VALUE : decimal.scale());
            }
            DataType inner = type instanceof ArrayType array ? array.elementType()
                : type instanceof MapType map ? map.valueType() : null;
            return inner == null ? NONE : new Names(null, of(inner, rounds), NO_DECIMAL);
        }
    }

    /** A parser that sees each name go by, and in the end what follows the object. */
    private static final class Watched extends JsonParserDelegate {
        /** Characters of a number, as Spark bounds those of numbers without quotes. */
        private static final int LONGEST = 1000;
        /** Digits of an exponent. */
        private static final int EXPONENT = 4;
        private final ArrayDeque<Names> around = new ArrayDeque<>();
        private Names within = Names.NONE;
        private Names next;
        boolean undeclared;
        boolean whole;

        Watched(JsonParser parser, Names names) {
            super(parser);
            next = names;
        }

        @Override
        public JsonToken nextToken() throws IOException {
            JsonToken token = delegate.nextToken();
            if (token == JsonToken.FIELD_NAME) {
                next = within.each;
                if (within.fields != null) {
                    next = within.fields.get(delegate.currentName());
                    if (next == null) {
                        next = Names.NONE;
                        undeclared = true;
                    }
                }
            } else if (token != null && token.isStructStart()) {
                around.push(within);
                within = next;
                next = within.each;
            } else if (token != null && token.isStructEnd()) {
                leave();
            } else if (token == JsonToken.VALUE_NUMBER_FLOAT || token == JsonToken.VALUE_STRING && next.places >= 0) {
                bound(token);
            }
            return token;
        }

        /** Refuses what Spark would write out digit by digit, takes for another number, or rounds. */
        private void bound(JsonToken token) throws IOException {
            char[] text = delegate.getTextCharacters();
            int begin = delegate.getTextOffset();
            int end = begin + delegate.getTextLength();
            int at = begin;
            int behind = end;
            boolean odd = end - at > LONGEST;
            while (!odd && at < end && text[at] != 'e' && text[at] != 'E') {
                odd = text[at] == ',';
                behind = text[at++] == '.' ? at : behind;
            }
            int digits = at;
            at += at + 1 < end && (text[at + 1] == '-' || text[at + 1] == '+') ? 2 : 1;
            boolean small = digits < end && text[at - 1] == '-';
            while (at < end && text[at] == '0') {
                at++;
            }
            if (odd || end - at > EXPONENT) {
                throw new JsonParseException(delegate, "a number that no column holds: " + token);
            }
            int power = 0;
            while (at < end) {
                power = 10 * power + text[at++] - '0';
            }
            int places = Math.max(0, digits - behind) + (small ? power : -power);
            if (next.places >= 0 && places > next.places && places - zeros(text, begin, digits) > next.places) {
                throw new JsonParseException(delegate, "a decimal of too many places: " + token);
            }
        }

        /** How many zeros are at the end of a number's digits; more than anything has, if there are no others. */
        private static int zeros(char[] text, int begin, int end) {
            int zeros = 0;
            int at = end - 1;
            for (; at >= begin && (text[at] == '0' || text[at] == '.'); at--) {
                zeros += text[at] == '0' ? 1 : 0;
            }
            return at < begin || text[at] == '-' || text[at] == '+' ? Integer.MAX_VALUE : zeros;
        }

        private void leave() {
            within = around.pop();
            next = within.each;
        }

        @Override
        public JsonParser skipChildren() throws IOException {
            // By tokens of its own, so that each number is looked at.
            JsonToken token = delegate.currentToken();
            if (token != null && token.isStructStart()) {
                for (int outside = around.size(); around.size() >= outside; ) {
                    nextToken();
                }
            }
            return this;
        }

        /** Nowhere: else Spark takes an object for a text column as it is written, which from_json cannot. */
        @Override
        public JsonLocation currentTokenLocation() {
            return JsonLocation.NA;
        }

        @Override
        public void close() throws IOException {
            try {
                whole = around.isEmpty() && delegate.currentToken() == JsonToken.END_OBJECT && delegate.nextToken() == null;
            } finally {
                delegate.close();
            }
        }
    }
}
