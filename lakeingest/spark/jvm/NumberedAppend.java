package io.lakeingest;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.DeltaOperations;
import org.apache.spark.sql.delta.DeltaOptions;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.actions.Action;
import org.apache.spark.sql.delta.actions.SetTransaction;
import org.apache.spark.sql.delta.commands.DMLUtils;
import org.apache.spark.sql.delta.commands.WriteIntoDelta;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.types.DataType;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/**
 * Delta's append to a path, as a format, which learns without the state of the log that its number (txnAppId and
 * txnVersion) is new.
 *
 * <p>Delta computes that state for it at each commit, by a job of Spark's ({@code OptimisticTransaction.txnVersion} of
 * Delta 4.4.0): three quarters of what a small commit takes. But of what this JVM committed the snapshot's checksum,
 * which Delta keeps up by each commit's actions, has all live numbers ("Version Checksum File" in Delta's protocol).
 *
 * <p>The checksum is believed only where a number is new by it; else Delta is asked. The transaction depends on the
 * txnAppId as Delta's own does: a commit with the same one meanwhile makes it fail. Whatever else an append does is
 * Delta's, and a Delta of another version does it all.
 */
public final class NumberedAppend implements CreatableRelationProvider {
    private static final String DELTA = "4.4.0";

    @Override
    public BaseRelation createRelation(
            SQLContext context,
            SaveMode mode,
            scala.collection.immutable.Map<String, String> parameters,
            Dataset<Row> rows) {
        SQLConf settings = ((org.apache.spark.sql.classic.SparkSession) context.sparkSession()).sessionState().conf();
        if (mode == SaveMode.Append && isKnownDelta()) {
            return Append.append(context.sparkSession(), settings, parameters, rows);
        }
        return delta(settings).createRelation(context, mode, parameters, rows);
    }

    @Override
    public boolean supportsDataType(DataType type) {
        return true; // Delta itself refuses what it cannot write.
    }

    /**
     * Computes the state of a log where the next append has to ask Delta; whether it did. Delta itself needs the state
     * then too, for the checksum of what it commits.
     *
     * @return null if any append has to
     */
    static Boolean prefetch(SparkSession session, String path) {
        return isKnownDelta() ? Append.prefetch(session, path) : null;
    }

    /**
     * The newest version of the table at a path; -1 if there is none.
     *
     * @return null if its commits bear times of their own, or Delta is another
     */
    static Long newestVersion(SparkSession session, Path path) {
        return isKnownDelta() ? Append.newestVersion(session, path) : null;
    }

    private static boolean isKnownDelta() {
        try {
            return io.delta.package$.MODULE$.VERSION().equals(DELTA);
        } catch (LinkageError another) {
            return false;
        }
    }

    private static CreatableRelationProvider delta(SQLConf settings) {
        try {
            Class<?> delta = DataSource.lookupDataSource("delta", settings);
            return (CreatableRelationProvider) delta.getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException none) {
            throw new IllegalStateException(none);
        }
    }

    /** What Delta's command does (WriteIntoDelta.run). A class of its own, since another Delta lacks what it names. */
    private static final class Append {
        static BaseRelation append(
                SparkSession session,
                SQLConf settings,
                scala.collection.immutable.Map<String, String> parameters,
                Dataset<Row> rows) {
            DeltaLog log = DeltaLog.forTable(session, new Path(parameters.apply("path")));
            DeltaOptions options = new DeltaOptions(parameters, settings);
            WriteIntoDelta command = new WriteIntoDelta(
                log, SaveMode.Append, options, none(), Map$.MODULE$.empty(), rows, Option.empty(), Option.empty(), false);
            DeltaOperations.Write operation = new DeltaOperations.Write(
                SaveMode.Append,
                Option.apply(none()),
                Option.empty(),
                options.userMetadata(),
                Option.empty(),
                Option.empty(),
                options.canMergeSchema() ? Option.apply(true) : Option.empty(),
                Option.empty(),
                Option.empty());
            log.withNewTransaction(Option.empty(), Option.empty(), transaction -> {
                if (!isExecuted(transaction, options.txnAppId().get(), (Long) options.txnVersion().get())) {
                    DMLUtils.TaggedCommitData<Action> written =
                        command.writeAndReturnCommitData(transaction, session, Option.empty(), false);
                    transaction.commitIfNeeded(written.actions(), operation, written.stringTags());
                }
                return null;
            });
            return log.createRelation(none(), Option.empty(), Option.empty(), false);
        }

        /** Those that its checksum has; none of a snapshot that another JVM's commit made, or a checkpoint. */
        private static Option<Seq<SetTransaction>> numbers(Snapshot snapshot) {
            return snapshot.checksumOpt().flatMap(sums -> sums.setTransactions());
        }

        private static Snapshot newest(SparkSession session, Path path) {
            return DeltaLog.forTable(session, path).update(false, Option.empty(), Option.empty());
        }

        static Long newestVersion(SparkSession session, Path path) {
            Snapshot snapshot = newest(session, path);
            String ownTimes = "delta.enableInCommitTimestamps";
            return snapshot.metadata().configuration().contains(ownTimes) ? null : (Long) snapshot.version();
        }

        static boolean prefetch(SparkSession session, String path) {
            Snapshot snapshot = newest(session, new Path(path));
            if (snapshot.version() < 0 || numbers(snapshot).isDefined()) {
                return false;
            }
            snapshot.transactions();
            return true;
        }

        private static boolean isExecuted(OptimisticTransaction transaction, String application, long number) {
            Option<Seq<SetTransaction>> numbers = numbers(transaction.snapshot());
            if (numbers.isEmpty() || numbers.get().exists(each -> isReached(each, application, number))) {
                return transaction.txnVersion(application) >= number;
            }
            transaction.readTxn().$plus$eq(application);
            return false;
        }

        private static boolean isReached(SetTransaction numbered, String application, long number) {
            return numbered.appId().equals(application) && numbered.version() >= number;
        }

        @SuppressWarnings("unchecked")
        private static <T> Seq<T> none() {
            return (Seq<T>) (Seq<?>) Nil$.MODULE$;
        }
    }
}
