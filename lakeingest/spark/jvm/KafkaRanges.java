package io.lakeingest;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's Kafka source, below a plan that is analyzed once for all batches.
 *
 * <p>Its options are Kafka's, and "lakeingest.plan", a word that the caller makes up. A plan that reads it reads,
 * whenever it is planned, by the options that were loaded last for its word.
 */
public final class KafkaRanges implements TableProvider {
    private static final String PLAN = "lakeingest.plan";

    /** Each is kept by the plans that read by it. */
    private static final KeptEntries<AtomicReference<CaseInsensitiveStringMap>> NEWEST = new KeptEntries<>();

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return kafka().inferSchema(options);
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(properties);
        AtomicReference<CaseInsensitiveStringMap> newest = NEWEST.of(options.get(PLAN), AtomicReference::new);
        newest.set(options);
        return new Ranges(newest, schema);
    }

    private static TableProvider kafka() {
        Class<?> source = DataSource.lookupDataSource("kafka", SQLConf.get());
        try {
            return (TableProvider) source.getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException other) {
            throw new IllegalStateException(other);
        }
    }

    private record Ranges(AtomicReference<CaseInsensitiveStringMap> newest, StructType fields) implements SupportsRead {
        @Override
        public String name() {
            return "kafka";
        }

        @Override
        public Column[] columns() {
            return TakenTable.columns(fields);
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap first) {
            CaseInsensitiveStringMap options = newest.get();
            SupportsRead table = (SupportsRead) kafka().getTable(fields, new Transform[0], options.asCaseSensitiveMap());
            return table.newScanBuilder(options);
        }
    }
}
