package io.lakeingest;

import java.util.concurrent.atomic.AtomicReference;

import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * A catalog by which some rows of a frame come to the driver while it is computed, and are a frame again.
 *
 * <p>ID is a word that the caller makes up, another one for each frame; COLUMNS is a struct's schema as JSON:
 *
 * <ul>
 *   <li>function "take ID BYTES COLUMNS": whether the row was taken: not once the rows that a task gave are larger than
 *       its share of the bytes.
 *   <li>table "TABLE ID COUNT SEQUENCE MICROS COLUMNS": the rows that were taken, COUNT of them, and behind their columns
 *       a BIGINT and a TIMESTAMP. TABLE is a word, too: a plan that reads the table has, whenever it is executed, the
 *       rows that were named last for this word. So it is analyzed once for all batches.
 * </ul>
 *
 * <p>They come by an accumulator without a name: what is observed of a frame has one, so that Spark writes its content
 * as text into event logs and its pages, whenever a task ends.
 */
public class RecordFunctions extends Functions implements TableCatalog {
    /** Each is kept by the plan that takes, and by the table. */
    private static final KeptEntries<TakenRows> TAKEN = new KeptEntries<>();

    /** Each is kept by the plans that read the table. */
    private static final KeptEntries<AtomicReference<TakenTable.Content>> NEWEST = new KeptEntries<>();

    @Override
    BoundFunction named(String name) {
        String[] words = name.split(" ", 4);
        if (!words[0].equals("take")) {
            throw new IllegalArgumentException(name);
        }
        StructType columns = (StructType) DataType.fromJson(words[3]);
        return new Take(takenRows(words[1]), Long.parseLong(words[2]), columns);
    }

    /** A plan that is analyzed anew, while an earlier one is there, takes into the same rows. */
    private static TakenRows takenRows(String id) {
        return TAKEN.of(id, () -> {
            TakenRows taken = new TakenRows();
            SparkContext.getOrCreate().register(taken);
            return taken;
        });
    }

    /** The rows of this table's earlier plans are now those of the frame that is named. */
    @Override
    public Table loadTable(Identifier identifier) throws NoSuchTableException {
        String[] words = identifier.name().split(" ", 6);
        TakenRows rows = words.length < 6 ? null : TAKEN.existing(words[1]);
        if (rows == null) {
            throw new NoSuchTableException(identifier);
        }
        long expected = Long.parseLong(words[2]);
        if (rows.count() != expected) {
            throw new IllegalStateException(rows.count() + " rows were taken, and not " + expected);
        }
        StructType columns = (StructType) DataType.fromJson(words[5]);
        TakenTable.Content content = new TakenTable.Content(rows, Long.parseLong(words[3]), Long.parseLong(words[4]));
        AtomicReference<TakenTable.Content> newest = NEWEST.of(words[0], AtomicReference::new);
        newest.set(content);
        return new TakenTable(newest, columns);
    }

    @Override
    public Identifier[] listTables(String[] namespace) {
        return new Identifier[0];
    }

    @Override
    public Table alterTable(Identifier identifier, TableChange... changes) {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean dropTable(Identifier identifier) {
        return false;
    }

    @Override
    public void renameTable(Identifier from, Identifier to) {
        throw new UnsupportedOperationException();
    }

    /** Each task has one of its own, and so a share of its own. */
    public static final class Take implements ScalarFunction<Boolean> {
        private static final long serialVersionUID = 1L;
        private final TakenRows taken;
        private final long most;
        private final StructType columns;
        private transient UnsafeProjection projection;
        private transient long left;

        Take(TakenRows taken, long most, StructType columns) {
            this.taken = taken;
            this.most = most;
            this.columns = columns;
        }

        @Override
        public DataType[] inputTypes() {
            return new DataType[] {columns};
        }

        @Override
        public DataType resultType() {
            return DataTypes.BooleanType;
        }

        @Override
        public String name() {
            return "take";
        }

        /** Optimizing neither drops, repeats nor moves it. */
        @Override
        public boolean isDeterministic() {
            return false;
        }

        /** Whether the task's share had room for the row. */
        public boolean invoke(InternalRow row) {
            if (row == null) {
                return false;
            }
            if (projection == null) {
                projection = UnsafeProjection.create(columns);
                left = most / TaskContext.get().numPartitions();
            }
            UnsafeRow packed = projection.apply(row);
            left -= packed.getSizeInBytes();
            if (left < 0) {
                return false;
            }
            taken.add(packed.getBytes());
            return true;
        }
    }
}
