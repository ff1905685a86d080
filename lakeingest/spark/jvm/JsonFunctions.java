package io.lakeingest;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParseException;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.util.JsonParserDelegate;
import org.apache.spark.SparkUpgradeException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.catalyst.json.JacksonParser;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A catalog of functions that read a JSON object in one step: parse it, prove that it is whole, and look at its names.
 *
 * <p>The parser behind from_json converts the values, so that they are what from_json would give, but for numbers in
 * text columns: from_json makes doubles of them, and here they stay as they are written. What is around it is
 * not from_json's, which takes eight kilobytes for each record, is no part of generated code, and tells neither what
 * followed the object nor which fields no column took, so that the text had to be read again for it. That parser is no
 * public interface: lakeingest tries the function in sessions that it did not start, and has another way to read.
 *
 * <p>A function's name is the schema of its result, as Spark's JSON: the declared columns, and then two of type BOOLEAN
 * that it sets itself: whether the value is one whole object, and whether it has a field, anywhere, that is not
 * declared. No record may have fields of these two names, so they are secret. With "round " before the schema, a number
 * of more places than its decimal has is rounded half up, and not refused. With "whole " before it, a whole number may
 * be written with a point or an exponent in a column of an integer's type, as JSON Schema has it. A field whose metadata is EXACT refuses a
 * number that a double would change. In a field whose metadata is JSON a text is JSON text: its strings have quotes.
 */
public class JsonFunctions extends Functions {
    private static final String ROUND = "round ";
    private static final String WHOLE = "whole ";
    private static final String EXACT = "exact";
    /** As Spark writes it; within a name of JSON its quotes would be escaped. */
    private static final String EXACT_MARK = "{\"" + EXACT + "\":true}";
    private static final String JSON = "json";
    private static final String JSON_MARK = "{\"" + JSON + "\":true}";

    @Override
    BoundFunction named(String name) {
        boolean rounds = name.startsWith(ROUND);
        boolean wholes = name.startsWith(WHOLE);
        String schema = rounds || wholes ? name.substring(ROUND.length()) : name;
        String plain = schema.replace(EXACT_MARK, "{}").replace(JSON_MARK, "{}");
        return new Parse((StructType) DataType.fromJson(plain), (StructType) DataType.fromJson(schema), rounds, wholes);
    }

    /** The function itself; each task has one of its own. */
    public static final class Parse implements ScalarFunction<InternalRow> {
        private static final long serialVersionUID = 1L;
        private static final int OWN = 2;
        private static final int HIGH = 1;
        private static final int LOW = 2;
        private final StructType schema;
        private final StructType marked;
        private final boolean rounds;
        private final boolean wholes;
        private transient JsonFactory factory;
        private transient Names names;
        private transient Reader reader;

        Parse(StructType schema, StructType marked, boolean rounds, boolean wholes) {
            this.schema = schema;
            this.marked = marked;
            this.rounds = rounds;
            this.wholes = wholes;
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
            if (reader == null) {
                JSONOptions options = options();
                factory = options.buildJsonFactory();
                names = Names.of(marked, rounds, wholes, false, false, Names.NO_FIELD);
                reader = Reader.of(schema, new JacksonParser(schema, options, false, noFilters()));
            }
            InternalRow row;
            Watched watched;
            try {
                watched = new Watched(factory.createParser(value), names);
                try {
                    watched.nextToken();
                    row = (InternalRow) reader.read(watched);
                } finally {
                    watched.close();
                }
            } catch (SparkUpgradeException failed) {
                throw failed;
            } catch (Exception unreadable) {
                // Scala declares none of those that its converters throw.
                return null;
            }
            if (row == null || !watched.whole) {
                return null;
            }
            row.setBoolean(schema.size() - OWN, true);
            row.setBoolean(schema.size() - OWN + 1, watched.undeclared);
            return row;
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

        /** Whether a value is UTF-8, and its escapes too. As a rule it has none, and all of it is ASCII: that is quick. */
        private static boolean isText(byte[] value) {
            byte odd = 0;
            for (byte each : value) {
                odd |= (byte) (each | (each ^ '\\') - 1);
            }
            return odd >= 0 || UTF8String.fromBytes(value).isValid() && !hasLoneSurrogate(value);
        }

        /** Whether an escape is half of a character, which no UTF-8 can write. */
        private static boolean hasLoneSurrogate(byte[] value) {
            boolean open = false;
            for (int at = 0; at < value.length; at++) {
                int half = value[at] == '\\' && at + 1 < value.length && value[at + 1] == 'u' ? surrogate(value, at + 2) : 0;
                if (half == LOW ? !open : open) {
                    return true;
                }
                open = half == HIGH;
                at += half != 0 ? 5 : value[at] == '\\' ? 1 : 0;
            }
            return open;
        }

        /** HIGH or LOW, if four hexadecimal digits are one; else 0. */
        private static int surrogate(byte[] value, int at) {
            if (at + 4 > value.length || (value[at] | 0x20) != 'd' || Character.digit(value[at + 1], 16) < 8) {
                return 0;
            }
            return Character.digit(value[at + 1], 16) < 12 ? HIGH : LOW;
        }

        private static JSONOptions options() {
            Map<String, String> asked = Map.of("allowNonNumericNumbers", "false", "allowSingleQuotes", "false");
            return new JSONOptions(scala.collection.immutable.Map.from(CollectionConverters.asScala(asked)), "UTC", "");
        }

        private static scala.collection.immutable.Seq<Filter> noFilters() {
            return CollectionConverters.asScala(java.util.List.<Filter>of()).toSeq();
        }
    }

    /**
     * Reads one value, at its first token or at the name before it. Objects and arrays are read here, and other values
     * by Spark's converter of their type: for each object its own one makes arrays of defaults that no column has.
     */
    private static class Reader {
        private final Function1<JsonParser, Object> converter;
        /** What a value that is read here begins with; null where the converter reads all. */
        private final JsonToken opening;

        private Reader(Function1<JsonParser, Object> converter, JsonToken opening) {
            this.converter = converter;
            this.opening = opening;
        }

        static Reader of(DataType type, JacksonParser spark) {
            Function1<JsonParser, Object> converter = spark.makeConverter(type);
            if (type instanceof StructType struct) {
                Reader[] fields = new Reader[struct.size()];
                for (int at = 0; at < fields.length; at++) {
                    fields[at] = of(struct.fields()[at].dataType(), spark);
                }
                return new OfObject(converter, fields);
            }
            return type instanceof ArrayType array
                ? new OfArray(converter, of(array.elementType(), spark)) : new Reader(converter, null);
        }

        /** Null, and what has another type, is the converter's too. */
        final Object read(Watched parser) throws IOException {
            return opening != null && first(parser) == opening ? content(parser) : converter.apply(parser);
        }

        /** What stands behind the opening, to its end. */
        Object content(Watched parser) throws IOException {
            throw new IllegalStateException("a value without an opening has no content");
        }

        private static JsonToken first(Watched parser) throws IOException {
            JsonToken token = parser.currentToken();
            return token == JsonToken.FIELD_NAME ? parser.nextToken() : token;
        }
    }

    private static final class OfObject extends Reader {
        private final Reader[] fields;

        OfObject(Function1<JsonParser, Object> converter, Reader[] fields) {
            super(converter, JsonToken.START_OBJECT);
            this.fields = fields;
        }

        @Override
        Object content(Watched parser) throws IOException {
            GenericInternalRow row = new GenericInternalRow(fields.length);
            for (JsonToken token = parser.nextToken(); token != JsonToken.END_OBJECT; token = parser.nextToken()) {
                int at = parser.field();
                if (at == Names.NO_FIELD) {
                    parser.nextToken();
                    parser.skipChildren();
                } else {
                    row.update(at, fields[at].read(parser));
                }
            }
            return row;
        }
    }

    private static final class OfArray extends Reader {
        private final Reader element;

        OfArray(Function1<JsonParser, Object> converter, Reader element) {
            super(converter, JsonToken.START_ARRAY);
            this.element = element;
        }

        @Override
        Object content(Watched parser) throws IOException {
            List<Object> values = new ArrayList<>();
            for (JsonToken token = parser.nextToken(); token != JsonToken.END_ARRAY; token = parser.nextToken()) {
                values.add(element.read(parser));
            }
            return new GenericArrayData(values.toArray());
        }
    }

    /** What a value may have in it: an object's names (null: any), what each element is, and what it becomes. */
    private static final class Names {
        private enum Kind { OTHER, WHOLE, DECIMAL, FLOAT, DOUBLE, EXACT, TEXT, JSON }

        static final int NO_FIELD = -1;
        /** Of a value that has none that are declared. */
        private static final Names NONE = new Names(null, null, Kind.OTHER, 0, NO_FIELD);
        private final Map<String, Names> fields;
        private final Names each;
        private final Kind kind;
        /** The most places of a decimal. */
        private final int places;
        /** The field's number in its object, if it is one that is declared. */
        private final int field;

        private Names(Map<String, Names> fields, Names each, Kind kind, int places, int field) {
            this.fields = fields;
            this.each = each == null ? this : each;
            this.kind = kind;
            this.places = places;
            this.field = field;
        }

        static Names of(DataType type, boolean rounds, boolean wholes, boolean exact, boolean json, int number) {
            if (type instanceof StructType struct) {
                Map<String, Names> fields = new HashMap<>();
                for (int at = 0; at < struct.size(); at++) {
                    StructField field = struct.fields()[at];
                    fields.put(field.name(), of(field.dataType(), rounds, wholes,
                        exact || field.metadata().contains(EXACT), field.metadata().contains(JSON), at));
                }
                return new Names(fields, NONE, Kind.OTHER, 0, number);
            }
            if (type instanceof DecimalType decimal) {
                return new Names(null, NONE, Kind.DECIMAL, rounds ? Integer.MAX_VALUE : decimal.scale(), number);
            }
            DataType inner = type instanceof ArrayType array ? array.elementType()
                : type instanceof MapType map ? map.valueType() : null;
            Names each = inner == null ? NONE : of(inner, rounds, wholes, exact, json, NO_FIELD);
            return new Names(null, each, kind(type, wholes, exact, json), 0, number);
        }

        private static Kind kind(DataType type, boolean wholes, boolean exact, boolean json) {
            if (wholes && type instanceof IntegralType) {
                return Kind.WHOLE;
            }
            if (type instanceof DoubleType) {
                return exact ? Kind.EXACT : Kind.DOUBLE;
            }
            if (type instanceof FloatType) {
                return Kind.FLOAT;
            }
            return !(type instanceof StringType) ? Kind.OTHER : json ? Kind.JSON : Kind.TEXT;
        }
    }

    /** A parser that sees each name go by, and in the end what follows the object. */
    private static final class Watched extends JsonParserDelegate {
        /** Characters of a number, as Spark bounds those of numbers without quotes. */
        private static final int LONGEST = 1000;
        /** Digits of an exponent. */
        private static final int EXPONENT = 4;
        /** Significant digits that a double always gives back, and those that some of its numbers need. */
        private static final int SURE = 15;
        private static final int MOST = 17;
        /** An exponent that takes a number of few digits nowhere near the ends of a double's range. */
        private static final int ORDINARY = 250;
        /** Places of a number that is no float's 0. */
        private static final int FEW = 40;
        private static final JsonFactory WRITTEN = new JsonFactory();
        private final ArrayDeque<Names> around = new ArrayDeque<>();
        private Names within = Names.NONE;
        private Names next;
        /** What is not text as the text that a column of text has of it; null where the token is the parser's own. */
        private String text;
        /** The same of a whole number that is written with a point or an exponent. */
        private Long number;
        boolean undeclared;
        boolean whole;

        Watched(JsonParser parser, Names names) {
            super(parser);
            next = names;
        }

        /** The number of the field whose name stands here; NO_FIELD if it is not declared. */
        int field() {
            return next.field;
        }

        @Override
        public JsonToken nextToken() throws IOException {
            text = null;
            number = null;
            boolean inJson = next.kind == Names.Kind.JSON;
            boolean inText = inJson || next.kind == Names.Kind.TEXT;
            JsonToken token = step();
            if (inText && token != null && (token.isNumeric() || token.isStructStart())) {
                text = token.isNumeric() ? delegate.getText() : structure();
                return JsonToken.VALUE_STRING;
            }
            if (inJson && (token == JsonToken.VALUE_STRING || token != null && token.isBoolean())) {
                text = scalar();
                return JsonToken.VALUE_STRING;
            }
            if (token == JsonToken.VALUE_NUMBER_FLOAT && next.kind == Names.Kind.WHOLE) {
                number = whole();
            }
            return currentToken();
        }

        private JsonToken step() throws IOException {
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
            } else if (token == JsonToken.VALUE_NUMBER_FLOAT
                    || token == JsonToken.VALUE_STRING && next.kind == Names.Kind.DECIMAL
                    || token == JsonToken.VALUE_NUMBER_INT && next.kind == Names.Kind.EXACT) {
                bound(token);
            }
            return token;
        }

        /** The object or array that begins here, without blanks, its numbers as they are written. */
        private String structure() throws IOException {
            ByteArrayOutputStream to = new ByteArrayOutputStream();
            try (JsonGenerator out = WRITTEN.createGenerator(to)) {
                int outside = around.size();
                for (JsonToken token = delegate.currentToken(); around.size() >= outside; token = step()) {
                    copy(token, out);
                }
                copy(delegate.currentToken(), out);
            }
            return to.toString(StandardCharsets.UTF_8);
        }

        /** The whole number that stands here; null where it is none, or more than a long. */
        private Long whole() throws IOException {
            try {
                return new BigDecimal(delegate.getText()).longValueExact();
            } catch (ArithmeticException none) {
                return null;
            }
        }

        private String scalar() throws IOException {
            ByteArrayOutputStream to = new ByteArrayOutputStream();
            try (JsonGenerator out = WRITTEN.createGenerator(to)) {
                out.copyCurrentEvent(delegate);
            }
            return to.toString(StandardCharsets.UTF_8);
        }

        private void copy(JsonToken token, JsonGenerator out) throws IOException {
            if (token.isNumeric()) {
                out.writeNumber(delegate.getText());
            } else {
                out.copyCurrentEvent(delegate);
            }
        }

        @Override
        @SuppressWarnings("deprecation")
        public JsonToken getCurrentToken() {
            return currentToken();
        }

        @Override
        public JsonToken currentToken() {
            return text != null ? JsonToken.VALUE_STRING
                : number != null ? JsonToken.VALUE_NUMBER_INT : delegate.currentToken();
        }

        @Override
        public long getLongValue() throws IOException {
            return number == null ? delegate.getLongValue() : number;
        }

        @Override
        public int getIntValue() throws IOException {
            return number == null ? delegate.getIntValue() : (int) within(Integer.MIN_VALUE, Integer.MAX_VALUE);
        }

        @Override
        public short getShortValue() throws IOException {
            return number == null ? delegate.getShortValue() : (short) within(Short.MIN_VALUE, Short.MAX_VALUE);
        }

        @Override
        public byte getByteValue() throws IOException {
            return number == null ? delegate.getByteValue() : (byte) within(Byte.MIN_VALUE, Byte.MAX_VALUE);
        }

        private long within(long least, long most) throws IOException {
            if (number < least || number > most) {
                throw new JsonParseException(delegate, "a number that its column cannot hold");
            }
            return number;
        }

        @Override
        public String getText() throws IOException {
            return text == null ? delegate.getText() : text;
        }

        /** Refuses what Spark would write out digit by digit, takes for another number, or rounds. */
        private void bound(JsonToken token) throws IOException {
            char[] chars = delegate.getTextCharacters();
            int begin = delegate.getTextOffset();
            int end = begin + delegate.getTextLength();
            int at = begin;
            int behind = end;
            boolean odd = end - at > LONGEST;
            while (!odd && at < end && chars[at] != 'e' && chars[at] != 'E') {
                odd = chars[at] == ',';
                behind = chars[at++] == '.' ? at : behind;
            }
            int digits = at;
            at += at + 1 < end && (chars[at + 1] == '-' || chars[at + 1] == '+') ? 2 : 1;
            boolean small = digits < end && chars[at - 1] == '-';
            while (at < end && chars[at] == '0') {
                at++;
            }
            if (odd || end - at > EXPONENT) {
                throw new JsonParseException(delegate, "a number that no column holds: " + token);
            }
            int power = 0;
            while (at < end) {
                power = 10 * power + chars[at++] - '0';
            }
            int places = Math.max(0, digits - behind) + (small ? power : -power);
            switch (next.kind) {
                case DECIMAL -> {
                    if (places > next.places && places - zeros(chars, begin, digits) > next.places) {
                        throw new JsonParseException(delegate, "a decimal of too many places: " + token);
                    }
                }
                case FLOAT, DOUBLE, EXACT -> {
                    if (places > FEW && isZero() && !isZero(chars, begin, digits)
                            || next.kind == Names.Kind.EXACT && !isExact(digits - begin, power)) {
                        throw new JsonParseException(delegate, "a number that its column would change: " + token);
                    }
                }
                default -> { }
            }
        }

        /** Whether the number is 0 to its column. */
        private boolean isZero() throws IOException {
            double number = delegate.getDoubleValue();
            return next.kind == Names.Kind.FLOAT ? (float) number == 0 : number == 0;
        }

        private static boolean isZero(char[] chars, int begin, int end) {
            for (int at = begin; at < end; at++) {
                if (chars[at] >= '1' && chars[at] <= '9') {
                    return false;
                }
            }
            return true;
        }

        /** Whether the shortest number that a double is read back as is the one that is written. */
        private boolean isExact(int length, int power) throws IOException {
            if (length <= SURE && power <= ORDINARY) {
                return true;
            }
            BigDecimal written = new BigDecimal(delegate.getText()).stripTrailingZeros();
            double number = delegate.getDoubleValue();
            int digits = written.precision();
            if (digits > MOST || Double.isInfinite(number)) {
                return false;
            }
            BigDecimal nearest = new BigDecimal(number).round(new MathContext(digits, RoundingMode.HALF_EVEN));
            return nearest.compareTo(written) == 0 && (digits == 1
                || written.round(new MathContext(digits - 1, RoundingMode.FLOOR)).doubleValue() != number
                && written.round(new MathContext(digits - 1, RoundingMode.CEILING)).doubleValue() != number);
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
