"""A table of mode upsert compared with the records themselves: each key with the latest record that it has.

The records are decided anew, under the rules of today, but for those that are in quarantine. What they say is known as
far as they go: a row whose record is not among them may be right, and is counted apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from lakeingest.delta import coordinates, quarantine
from lakeingest.delta.latest import LatestRows, struct_of
from lakeingest.delta.table import Table
from lakeingest.delta.upsert import TIED, completed, latest_of
from lakeingest.errors import UsageError, number_of
from lakeingest.ingest import endpoints
from lakeingest.ingest.batch_plan import BatchPlan, observed
from lakeingest.ingest.bronze import BronzeSource
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.ingest.source import RecordSource
from lakeingest.operations.audit import NAMED, ConsumedRanges
from lakeingest.operations.results.audit import Report
from lakeingest.record import COORDINATES, DELETE, DELETES, OPERATION, OffsetRange, OffsetRanges, count_where
from lakeingest.schema import ddl
from lakeingest.spark import frames, maps
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SOURCE = "source"
"""In place of a table: what the pipeline reads."""
_PRESENT, _WITHIN = "_raw_present", "_raw_within"
_KINDS = {
    "missing": "without a row, though a record says one",
    "older": "with the row of an older record than the latest, or than the delete",
    "changed": "with a row that no record says: others have changed it",
}


def compare(report: Report, context_of: Callable[[], RunContext], against: str | None) -> Report:
    """The report of a table's audit, with what the comparison of each key says.

    Args:
        context_of: gives the pipeline's context, if one is needed.
        against: `SOURCE`; or the path or name of a bronze table, or of a changelog, that has the same records; None for
            nothing, so that the report stays as it is.

    Raises:
        UsageError: the pipeline's table is none of mode upsert; or there is no such other table.
        TableMismatch: the other table is neither bronze nor a changelog.
        SourceError, StorageError: the records cannot be read.
    """
    if against is None:
        return report
    context = context_of()
    config = context.config
    if not config.table.upserts:
        raise UsageError(
            f"--against is for tables of mode upsert, and table.mode of {config.name!r} is {config.table.mode}",
            cure="leave it out: an audit knows of each record of other tables where it is",
        )
    return _KeyComparison(context, against).extended(report)


@dataclass(frozen=True)
class _KeyComparison:
    """See `compare`."""

    context: RunContext
    against: str

    def extended(self, report: Report) -> Report:
        """The report, with what differs."""
        log, _ = self.context.tables.commit_logs(back=None)
        # As it stands at the log's end: a run may go on meanwhile.
        rows, consumed = self.context.tables.main.existing(log.version), ConsumedRanges.of(log.since_adoption).whole
        execution = MicroBatchExecution(self.context, rows.schema, log, evolves=False)
        changelog = self._changelog()
        if changelog is None:
            batch, accepted, ranges = self._of_records(execution, consumed)
        else:
            batch, accepted, ranges = self._of_changelog(changelog, execution, consumed)
        assert batch.latest is not None
        latest = latest_of(completed(accepted, batch.latest), batch.latest)
        (place,) = latest.agg(batch.latest.newest_emptying).collect()[0] if batch.latest.has_emptying else (None,)
        if emptied := batch.latest.literal_order(place):
            latest = latest.where(f"NOT {struct_of(batch.latest.ordered)} <= {emptied}")
        pairs = _pairs(latest, rows, batch, batch.latest, ranges)
        metrics = Observation()
        counts = {"keys": F.lit(True), "beyond": F.col("kind") == "beyond", "ties": F.col(TIED)}
        counted = (count_where(condition).alias(name) for name, condition in counts.items())
        pairs = pairs.observe(metrics, *counted).where(F.col("kind") != "beyond")
        with execution.reader.failures(), frames.observing(self.context.spark):
            differing = frames.keep(pairs)
            try:
                altered = (*report.altered, *_sentences(differing))
            finally:
                frames.release(differing)
        keys, unknown, ties = (metrics.get[name] for name in counts)
        return replace(
            report, against=self.against, keys_compared=keys - unknown, keys_beyond=unknown, ties=ties, altered=altered
        )

    def _changelog(self) -> DataFrame | None:
        """The rows of the other table; None where it is no changelog."""
        if self.against == SOURCE:
            return None
        rows = Table(self.context.spark, self.against).existing()
        return rows if OPERATION in rows.columns else None

    def _of_changelog(
        self, changelog: DataFrame, execution: MicroBatchExecution, consumed: OffsetRanges
    ) -> tuple[BatchPlan, DataFrame, OffsetRanges]:
        """See `_of_records`: the rows of a changelog are decided."""
        batch = execution.plan(strict=False)
        assert batch.latest is not None
        with storage_failures(self.against):
            ranges = consumed.shared(coordinates.extent(changelog))
        deletes = F.lit(False) if batch.latest.marks else F.col(OPERATION) == DELETE
        rows = coordinates.within(changelog, ranges)
        return batch, rows.select(*map(ddl.quoted, batch.columns), deletes.alias(DELETES)), ranges

    def _of_records(
        self, execution: MicroBatchExecution, consumed: OffsetRanges
    ) -> tuple[BatchPlan, DataFrame, OffsetRanges]:
        """How they are decided, those that are accepted, with _raw_deletes, and which offsets there are."""
        context, source = self.context, self._source()
        topics = source.topics()
        spans = (OffsetRange(*tp, start, topics.last[tp]) for tp, start in topics.first.items())
        ranges = consumed.shared(OffsetRanges(tuple(spans)))
        refused = coordinates.of(quarantine.unmoved(context.tables.refused()), ranges)
        records = source.frame(context.spark, ranges).join(refused, list(COORDINATES), "left_anti")
        execution.discover_schemas(records, 0)
        batch = execution.plan(strict=False)
        return batch, batch.accepted(observed(batch.decide(records), Observation())), ranges

    def _source(self) -> RecordSource:
        context = self.context
        if self.against == SOURCE:
            return context.source
        return BronzeSource(
            self.against, context.config.source.topics, endpoints.storage(context.config), lambda: context.spark
        )


def _pairs(latest: DataFrame, table: DataFrame, batch: BatchPlan, by: LatestRows, ranges: OffsetRanges) -> DataFrame:
    """Each key that has a record or a row: kind STRING, "" where both agree; name STRING; _raw_tied (see `latest_of`).

    Args:
        latest: of each key the latest record.
        ranges: which offsets the records have.
    """
    records = latest.withColumn(_PRESENT, F.lit(True)).alias("s")
    rows = table.withColumns({_PRESENT: F.lit(True), _WITHIN: coordinates.inside(ranges)}).alias("t")
    of_row, of_record = (struct_of(f"{side}.{name}" for name in by.ordered) for side in "ts")
    has_record, has_row = (F.col(f"{side}.{_PRESENT}").isNotNull() for side in "st")
    deletes = F.coalesce(F.col(f"s.{DELETES}"), F.lit(False))
    no_record = F.when(F.col(f"t.{_WITHIN}"), "changed").otherwise("beyond")
    kind = (
        F.when(~has_row & deletes, "")
        .when(~has_row, "missing")
        .when(~has_record | F.expr(f"{of_row} > {of_record}"), no_record)
        .when(deletes | F.expr(f"{of_row} < {of_record}"), "older")
        .when(~_agree(table, batch), "changed")
        .otherwise("")
    )
    keys = (F.concat(F.lit(f"{k.path} = "), F.expr(f"string(coalesce(s.{k.sql}, t.{k.sql}))")) for k in by.keys)
    same = reduce(and_, (F.expr(f"s.{key.sql} = t.{key.sql}") for key in by.keys))
    pairs = records.join(rows, same, "full_outer")
    return pairs.select(kind.alias("kind"), F.concat_ws(", ", *keys).alias("name"), F.col(f"s.{TIED}"))


def _agree(table: DataFrame, batch: BatchPlan) -> Column:
    """BOOLEAN: whether record and row have the same values."""

    def agree(name: str) -> Column:
        record, row = (F.col(f"{side}.{ddl.quoted(name)}") for side in "st")
        kind = table.schema[name].dataType
        if maps.has_map(kind) or "variant" in kind.simpleString():
            # Spark compares neither.
            return F.to_json(F.struct(record)).eqNullSafe(F.to_json(F.struct(row)))
        return record.eqNullSafe(row)

    return reduce(and_, map(agree, batch.columns))


def _sentences(differing: DataFrame) -> Iterator[str]:
    """What is wrong with how many keys, and the first of them."""
    counts = {row["kind"]: row["count"] for row in differing.groupBy("kind").count().collect()}
    for kind, text in _KINDS.items():
        if kind in counts:
            rows = differing.where(F.col("kind") == kind).orderBy("name").limit(NAMED).collect()
            yield f"{number_of(counts[kind], 'key')} {text}: {'; '.join(row['name'] for row in rows)}"
