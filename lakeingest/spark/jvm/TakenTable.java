package io.lakeingest;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The rows that were taken, with a number and a time behind the columns of each.
 *
 * <p>A task for each core, of a megabyte at least: each task generates its code anew, and writes a file of its own.
 */
record TakenTable(AtomicReference<Content> newest, StructType fields) implements SupportsRead, Scan, Batch {
    private static final int LEAST_BYTES = 1 << 20;

    /** What the table has at the moment. */
    record Content(TakenRows rows, long sequence, long micros) {}

    @Override
    public String name() {
        return "taken rows";
    }

    @Override
    public Column[] columns() {
        return columns(readSchema());
    }

    /** Spark's own function of this name takes other arguments in each version. */
    static Column[] columns(StructType fields) {
        return Arrays.stream(fields.fields())
                .map(field -> Column.create(field.name(), field.dataType(), field.nullable()))
                .toArray(Column[]::new);
    }

    @Override
    public StructType readSchema() {
        return fields.add("_raw_sequence", DataTypes.LongType).add("_raw_refused_at", DataTypes.TimestampType);
    }

    @Override
    public Set<TableCapability> capabilities() {
        return Set.of(TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return () -> this;
    }

    @Override
    public Batch toBatch() {
        return this;
    }

    @Override
    public InputPartition[] planInputPartitions() {
        Content content = newest.get();
        long all = content.rows().bytes();
        long share = Math.max(LEAST_BYTES, all / SparkContext.getOrCreate().defaultParallelism() + 1);
        List<InputPartition> chunks = new ArrayList<>();
        ArrayList<byte[]> chunk = new ArrayList<>();
        long bytes = 0;
        for (List<byte[]> ofTask : content.rows().value().values()) {
            for (byte[] row : ofTask) {
                chunk.add(row);
                bytes += row.length;
                if (bytes >= share) {
                    chunks.add(new Chunk(chunk, fields.size(), content.sequence(), content.micros()));
                    chunk = new ArrayList<>();
                    bytes = 0;
                }
            }
        }
        if (!chunk.isEmpty()) {
            chunks.add(new Chunk(chunk, fields.size(), content.sequence(), content.micros()));
        }
        return chunks.toArray(InputPartition[]::new);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new Factory();
    }

    /** Whole rows, for a task. */
    private record Chunk(ArrayList<byte[]> rows, int width, long sequence, long micros) implements InputPartition {}

    private static final class Factory implements PartitionReaderFactory {
        private static final long serialVersionUID = 1L;

        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            return new Reader((Chunk) partition);
        }
    }

    private static final class Reader implements PartitionReader<InternalRow> {
        private final Iterator<byte[]> rows;
        private final UnsafeRow row;
        private final JoinedRow joined;

        Reader(Chunk chunk) {
            rows = chunk.rows().iterator();
            row = new UnsafeRow(chunk.width());
            InternalRow constants = new GenericInternalRow(new Object[] {chunk.sequence(), chunk.micros()});
            joined = new JoinedRow(row, constants);
        }

        @Override
        public boolean next() {
            if (!rows.hasNext()) {
                return false;
            }
            byte[] bytes = rows.next();
            row.pointTo(bytes, bytes.length);
            return true;
        }

        @Override
        public InternalRow get() {
            return joined;
        }

        @Override
        public void close() {}
    }
}
