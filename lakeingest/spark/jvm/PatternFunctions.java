package io.lakeingest;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.spark.sql.catalyst.util.StringUtils;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A catalog of functions that hold a text against a pattern as rlike and like do, and give up where that has no end.
 *
 * <p>Java's patterns need a frame of the stack for each time that a group is repeated, and may try a text's parts in
 * exponentially many ways: a long text ends the JVM, which Spark does not survive either, and a short one can keep a
 * task for years.
 *
 * <p>A function's name is "rlike" or "like" and the escape character, a blank, and the pattern. Its result is whether
 * the text matches; null where it is not found out.
 */
public class PatternFunctions extends Functions {
    @Override
    BoundFunction named(String name) {
        boolean like = !name.startsWith("rlike ");
        int begin = like ? "like? ".length() : "rlike ".length();
        String pattern = name.substring(begin);
        return new Match(like ? StringUtils.escapeLikeRegex(pattern, name.charAt(begin - 2)) : pattern, like);
    }

    /** The function itself; each task has one of its own. */
    public static final class Match implements ScalarFunction<Boolean> {
        private static final long serialVersionUID = 1L;
        private final Pattern pattern;
        private final boolean whole;
        private transient Looked text;
        private transient Matcher matcher;

        Match(String pattern, boolean whole) {
            this.pattern = Pattern.compile(pattern);
            this.whole = whole;
        }

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
            return "match";
        }

        /** Whether the text matches; null where that takes too many steps, or too deep a stack. */
        public Boolean invoke(UTF8String value) {
            if (value == null) {
                return null;
            }
            if (matcher == null) {
                text = new Looked();
                matcher = pattern.matcher(text);
            }
            text.begin(value.toString());
            matcher.reset(text);
            try {
                return whole ? matcher.matches() : matcher.find();
            } catch (TooMany | StackOverflowError endless) {
                return null;
            }
        }
    }

    /** A text of which only so many characters are looked at. */
    private static final class Looked implements CharSequence {
        private static final long LEAST = 1_000_000;
        private static final long EACH = 100;
        /** Made before it is needed, which may be at the end of the stack. */
        private static final TooMany TOO_MANY = new TooMany();
        private String text = "";
        private long left;

        void begin(String next) {
            text = next;
            left = LEAST + EACH * next.length();
        }

        @Override
        public char charAt(int at) {
            if (--left < 0) {
                throw TOO_MANY;
            }
            return text.charAt(at);
        }

        @Override
        public int length() {
            return text.length();
        }

        @Override
        public CharSequence subSequence(int start, int end) {
            return text.subSequence(start, end);
        }

        @Override
        public String toString() {
            return text;
        }
    }

    private static final class TooMany extends RuntimeException {
        private static final long serialVersionUID = 1L;

        TooMany() {
            super("too many steps", null, false, false);
        }
    }
}
