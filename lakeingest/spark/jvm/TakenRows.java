package io.lakeingest;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.spark.TaskContext;
import org.apache.spark.util.AccumulatorV2;

/**
 * The rows that tasks took, each as the bytes of an UnsafeRow, by the number of the partition.
 *
 * <p>A task that is run again gives what it gave before, in whose place it comes: no row is there twice.
 *
 * <p>Beside them, of all rows that were to be taken, the slots: also of those for which there was no room.
 */
final class TakenRows extends AccumulatorV2<byte[], Map<Integer, List<byte[]>>> {
    private static final long serialVersionUID = 1L;
    private Map<Integer, List<byte[]>> byPartition = new TreeMap<>();
    private BitSet slots = new BitSet();

    @Override
    public synchronized boolean isZero() {
        return byPartition.isEmpty() && slots.isEmpty();
    }

    @Override
    public synchronized TakenRows copy() {
        TakenRows copy = new TakenRows();
        copy.byPartition.putAll(byPartition);
        copy.slots.or(slots);
        return copy;
    }

    @Override
    public synchronized void reset() {
        byPartition = new TreeMap<>();
        slots = new BitSet();
    }

    @Override
    public synchronized void add(byte[] row) {
        byPartition.computeIfAbsent(TaskContext.getPartitionId(), partition -> new ArrayList<>()).add(row);
    }

    @Override
    public synchronized void merge(AccumulatorV2<byte[], Map<Integer, List<byte[]>>> other) {
        byPartition.putAll(other.value());
        slots.or(((TakenRows) other).slots());
    }

    @Override
    public synchronized Map<Integer, List<byte[]>> value() {
        return new TreeMap<>(byPartition);
    }

    synchronized void mark(int slot) {
        slots.set(slot);
    }

    synchronized BitSet slots() {
        return (BitSet) slots.clone();
    }

    synchronized long count() {
        return byPartition.values().stream().mapToLong(List::size).sum();
    }

    synchronized long bytes() {
        return byPartition.values().stream().flatMap(List::stream).mapToLong(row -> row.length).sum();
    }

    /** Spark's own method, which is no public one: rows go once, when their task ends. */
    public boolean excludeFromHeartbeat() {
        return true;
    }
}
