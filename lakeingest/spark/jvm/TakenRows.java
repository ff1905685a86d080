package io.lakeingest;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.spark.TaskContext;
import org.apache.spark.util.AccumulatorV2;

/**
 * The rows that tasks took, each as the bytes of an UnsafeRow, by the number of the partition.
 *
 * <p>A task that is run again gives what it gave before, in whose place it comes: no row is there twice.
 */
final class TakenRows extends AccumulatorV2<byte[], Map<Integer, List<byte[]>>> {
    private static final long serialVersionUID = 1L;
    private Map<Integer, List<byte[]>> byPartition = new TreeMap<>();

    @Override
    public synchronized boolean isZero() {
        return byPartition.isEmpty();
    }

    @Override
    public synchronized TakenRows copy() {
        TakenRows copy = new TakenRows();
        copy.byPartition.putAll(byPartition);
        return copy;
    }

    @Override
    public synchronized void reset() {
        byPartition = new TreeMap<>();
    }

    @Override
    public synchronized void add(byte[] row) {
        byPartition.computeIfAbsent(TaskContext.getPartitionId(), partition -> new ArrayList<>()).add(row);
    }

    @Override
    public synchronized void merge(AccumulatorV2<byte[], Map<Integer, List<byte[]>>> other) {
        byPartition.putAll(other.value());
    }

    @Override
    public synchronized Map<Integer, List<byte[]>> value() {
        return new TreeMap<>(byPartition);
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
