"""What a pipeline would do with the records that come next, from a sample of them. Writes nothing.

The sample is decoded, checked and partitioned as a run would do it, by the same Columns. Rates come from the records'
own timestamps, sizes from the bytes of the sample's values; a forecast is as good as the sample is typical.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakeingest.config import JsonValue, PipelineConfig
from lakeingest.decode.json import texts_of
from lakeingest.decode.least_types import fitting, join
from lakeingest.delta import quarantine
from lakeingest.delta.commit_log import CommitLog
from lakeingest.errors import UsageError
from lakeingest.gate import evaluate, predicates
from lakeingest.gate.evaluate import Result
from lakeingest.ingest import batch_gate, preflight
from lakeingest.ingest.batch_plan import BatchPlan, observed
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.ingest.preflight import Accept
from lakeingest.kafka import offsets
from lakeingest.kafka.offsets import Topics
from lakeingest.record import RAW_VALUE, REFUSED, TIMESTAMP, OffsetRanges
from lakeingest.schema import ddl
from lakeingest.schema.compatibility.widening import delta_widens
from lakeingest.schema.ledger import Entry
from lakeingest.spark.types import ddl_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_DAY_S = 86_400
_SMALL = 16 * 2**20
"""A data file below that many bytes costs readers more requests than it saves them reading."""
_MANY_PARTITIONS = 1_000
_OF_A_FILE, _OF_A_COMMIT = 5, 35
"""Requests to S3; most are HEAD and GET."""
_PACKED = 0.1
"""Bytes in Parquet for a byte of a value, roughly; the demo's flights take less, text without repetition takes more."""


@dataclass(frozen=True)
class Forecast:
    """What the rate and the layout make of a day.

    Attributes:
        records_per_day: at the rate of the sample's timestamps; None where they tell no time.
        commits_per_day: at `trigger.every` and `trigger.max_records`.
        partitions: the table's partitions that the sample touches.
        files_per_day: one for each partition that a commit touches, at least.
        average_file_bytes: estimated.
        requests_per_day: of all kinds, to write the table, roughly: `benchmarks/s3_requests.py` counts them.
    """

    records_per_day: int | None
    commits_per_day: int
    partitions: int
    files_per_day: int
    average_file_bytes: int | None
    requests_per_day: int


@dataclass(frozen=True)
class Plan:
    """What a run would do with the sample.

    Attributes:
        ranges: the offsets of the sample; "spans" in JSON.
        counts: consumed, accepted, refused and dropped records.
        columns: the columns that the table would have: name, type, new (not in the table yet), and was (the type that
            the table has now, if that is another one; else null).
        schemas: what the table would make of schemas that it has not seen yet.
        refusals: stage, reason, count and samples, as `quarantine list` has them.
        corrections: the columns that records were refused for, each with the least type that would have taken all of
            their values: column, type (DDL), records, and possible (whether the table can become that). Of JSON's
            values only. Where only STRING takes all, a type that takes fewer comes first, if there is one.
        results: what each expectation would find.
        held: why the batch would be kept back.
        constraints: what the table itself demands of its rows: name → condition.
        committed: whether the pipeline is caught up, so that the sample are its newest records, committed before.
        warnings: about files and partitions, with numbers.
    """

    pipeline: str
    ranges: OffsetRanges
    counts: dict[str, int]
    columns: tuple[dict[str, Any], ...]
    schemas: tuple[Entry, ...]
    refusals: tuple[dict[str, Any], ...]
    corrections: tuple[dict[str, Any], ...]
    results: tuple[Result, ...]
    held: tuple[str, ...]
    constraints: dict[str, str]
    forecast: Forecast
    committed: bool = False
    warnings: tuple[str, ...] = ()
    suggested: dict[str, Any] | None = None

    @property
    def problems(self) -> int:
        """1 where something would be refused, kept back or fail, 0 else."""
        wrong = self.counts["refused"] or self.held or any(not each.success for each in self.results)
        return int(bool(wrong) or any(entry.action == "quarantine" for entry in self.schemas))

    def to_json(self) -> dict[str, Any]:
        results = [each.to_json() for each in self.results]
        plain = {name: value for name, value in vars(self).items() if name != "ranges"}
        made = {**plain, "spans": self.ranges.to_json(), "results": results, "forecast": vars(self.forecast)}
        schemas = [{name: getattr(entry, name) for name in _OF_SCHEMAS} for entry in self.schemas]
        return {**made, "schemas": schemas, "problems": self.problems}


_OF_SCHEMAS = ("side", "id", "subject", "version", "verdict", "action", "changes")


def plan(context: RunContext, topics: Topics, sample: int, *, suggest: bool) -> Plan:
    """See `Pipeline.plan`."""
    config, tables = context.config, context.tables
    log = CommitLog(tables.main.identifier, config.known_as)
    columns = tables.main.schema()
    if columns is None:
        preflight.check_exists(tables)
    else:
        log, refused = tables.commit_logs()
        preflight.check(config, log, refused, topics, Accept())
    starts = offsets.starts(config.source, topics, log.frontier)
    committed = starts == topics.last
    if committed:
        share = max(1, sample // max(len(starts), 1))
        starts = {tp: max(topics.first[tp], end - share) for tp, end in topics.last.items()}
    ranges = offsets.next_ranges(starts, topics.last, sample)
    if not ranges.offsets:
        raise UsageError(
            f"{', '.join(config.source.topics)} holds no record, so that nothing can be told",
            cure="let some records come, and plan again",
        )
    execution = MicroBatchExecution(context, columns, log)
    return execution.reader.readable(lambda: _of_sample(execution, ranges, log, committed=committed, suggest=suggest))


def _of_sample(
    execution: MicroBatchExecution, ranges: OffsetRanges, log: CommitLog, *, committed: bool, suggest: bool
) -> Plan:
    """Decide about a sample without writing it. It is read several times, and so kept.

    Args:
        ranges: its offsets.
        committed: whether it was committed before.
        suggest: whether a suite is to be suggested that the accepted records meet.
    """
    kafka = execution.reader.frame(ranges).persist()
    try:
        with execution.reader.failures():
            kafka.count()
        execution.discover_schemas(kafka, log.last_sequence + 1)
        batch = execution.plan(strict=False)
        schemas = execution.evolution.ledger.entries[len(log.schemas.entries) :]
        return _decided(execution, batch, kafka, ranges=ranges, schemas=schemas, committed=committed, suggest=suggest)
    finally:
        kafka.unpersist()


def _decided(
    execution: MicroBatchExecution,
    batch: BatchPlan,
    kafka: DataFrame,
    *,
    ranges: OffsetRanges,
    schemas: Sequence[Entry],
    committed: bool,
    suggest: bool,
) -> Plan:
    config, suite, columns = execution.config, execution.context.suite, execution.writer.columns
    from pyspark.sql import Observation

    seen, decided = Observation(), batch.decide(kafka)
    rows = batch.accepted(observed(decided, seen, *batch.metrics)).persist()
    # Read once for each reason, and the diagnosis is dear.
    refused = quarantine.rows(decided.where(REFUSED), batch.refusals, config.known_as, 0, batch.now).persist()
    try:
        rows.count()
        counts = {name: seen.get[name] for name in ("consumed", "refused", "dropped")}
        counts["accepted"] = counts["consumed"] - counts["refused"] - counts["dropped"]
        refusals = quarantine.reasons(refused, 2) if counts["refused"] else []
        results: list[Result] = []
        if suite is not None:
            broken = {group["reason"]: group["count"] for group in refusals if group["stage"] == predicates.STAGE}
            found = evaluate.of_batch(suite, rows, seen.get) + evaluate.refused(suite, seen.get["decoded"], broken)
            results = evaluate.in_order(suite, found)
        held = batch_gate.held(results)
        if many := batch_gate.too_many(config, counts):
            held.append(many)
        forecast = _forecast(config, batch, kafka, rows)
        return Plan(
            config.name,
            ranges,
            counts,
            tuple(_columns(rows.schema, columns)),
            tuple(schemas),
            tuple(refusals),
            tuple(_corrections(config, batch, refused, columns)) if counts["refused"] else (),
            tuple(results),
            tuple(held),
            dict(batch.constraints.checks) if batch.constraints else {},
            forecast,
            committed,
            tuple(_warnings(config, forecast)),
            _suggested(config, rows) if suggest else None,
        )
    finally:
        rows.unpersist()
        refused.unpersist()


def _columns(wanted: StructType, table: StructType | None) -> Iterator[dict[str, Any]]:
    held = {f.name.lower(): f.dataType.simpleString() for f in table} if table is not None else {}
    for field in wanted:
        was, now = held.get(field.name.lower()), field.dataType.simpleString()
        yield {"name": field.name, "type": now, "new": was is None, "was": None if was in (None, now) else was}


def _corrections(
    config: PipelineConfig, batch: BatchPlan, refused: DataFrame, table: StructType | None
) -> Iterator[dict[str, Any]]:
    """The other types for columns with which records of the sample would have passed."""
    value = config.decode.value
    if not isinstance(value, JsonValue):
        return
    types: dict[str, str] = {}
    records, texts = Counter[str](), Counter[str]()
    schema, as_written = batch.shape.value.jsonValue(), texts_of(value)
    for (raw,) in refused.where("stage = 'value' and reason = 'WRONG_TYPE'").select("value").toLocalIterator():
        for column, least in (fitting(bytes(raw), schema, as_written) or {}).items():
            records[column] += 1
            # One text among thousands of numbers is no reason to make texts of all.
            if least == _TEXT:
                texts[column] += 1
            else:
                types[column] = join(types.get(column, least), least)
    held = ddl.Struct(ddl_columns(table)) if table is not None else None
    for column, count in records.most_common():
        least = types.get(column, _TEXT)
        found = {least: count - texts[column]} if least != _TEXT else {}
        if least == _TEXT or texts[column]:
            found[_TEXT] = count
        for type, number in found.items():
            possible = held is None or (config.compatibility != "FULL" and _becomes(held, column, type))
            yield {"column": column, "type": type, "records": number, "possible": possible}


_TEXT = "STRING"


def _becomes(held: ddl.Type, path: str, type: str) -> bool:
    """Whether Delta can widen what lies at the path (see `fitting`) to that type; so it can where nothing lies yet."""
    match held:
        case ddl.Struct(fields) if path:
            ends = ((f, path.removeprefix(".").removeprefix(f.name)) for f in fields)
            within = [(f, rest) for f, rest in ends if rest != path.removeprefix(".") and rest[:1] in ("", ".", "[")]
            return all(_becomes(f.type, rest, type) for f, rest in within)
        case ddl.Array(element) if path.startswith("[*]"):
            return _becomes(element, path[3:], type)
        case ddl.Map(_, value) if path.startswith(".*"):
            return _becomes(value, path[2:], type)
        case _:
            return not path and delta_widens(str(held), type.lower())


def _forecast(config: PipelineConfig, batch: BatchPlan, kafka: DataFrame, rows: DataFrame) -> Forecast:
    from pyspark.sql import functions as F

    stamp = F.col(TIMESTAMP).cast("double")
    count, begin, end, size = kafka.agg(
        F.count(F.lit(1)), F.min(stamp), F.max(stamp), F.avg(F.length(RAW_VALUE))
    ).collect()[0]
    # Delta makes some of them by itself, when it writes.
    places = [F.col(c.name) if c.name in rows.columns else F.expr(c.generated or "NULL") for c in batch.layout.columns]
    partitions = rows.select(*places).distinct().count() if places else 1
    # Records that came at one moment tell no rate.
    seconds = end - begin if count > 1 and end - begin >= 1 else None
    per_day = int(count / seconds * _DAY_S) if seconds else None
    commits = _commits(per_day, config.trigger.every, config.trigger.max_records)
    # A commit of fewer records than the sample touches as many partitions at most.
    files = commits * max(1, min(partitions, (per_day or count) // commits or 1))
    average = int(per_day * (size or 0) * _PACKED / files) if per_day else None
    return Forecast(per_day, commits, partitions, files, average, files * _OF_A_FILE + commits * _OF_A_COMMIT)


def _commits(per_day: int | None, every: timedelta, most: int) -> int:
    by_trigger = int(_DAY_S / max(every.total_seconds(), 1))
    return max(by_trigger, -(-(per_day or 0) // most), 1)


def _warnings(config: PipelineConfig, forecast: Forecast) -> Iterator[str]:
    size = forecast.average_file_bytes
    if size is not None and size < _SMALL:
        yield (
            f"small files: {forecast.files_per_day:,} a day of {size / 2**20:.2f} MiB on average (16 MiB and more are "
            f"good to read); a longer trigger.every than {config.trigger.every} or fewer partitions make them larger"
        )
    if forecast.partitions > _MANY_PARTITIONS:
        yield (
            f"many partitions: the sample alone touches {forecast.partitions:,}; partition by a field with fewer "
            "values, or by a longer period"
        )


# A suite to begin with ---------------------------------------------------------------------------------------------

_FEW = 20


def _suggested(config: PipelineConfig, rows: DataFrame) -> dict[str, Any]:
    """Expectations that every accepted record of the sample meets: nulls, ranges of numbers, sets of few texts."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    plain = [
        f for f in rows.schema if not f.name.startswith("_") and isinstance(f.dataType, T.NumericType | T.StringType)
    ]
    asked = []
    for f in plain:
        column = F.col(ddl.quoted(f.name))
        asked += [F.count_if(column.isNull()), F.min(column), F.max(column), F.approx_count_distinct(column)]
    values = iter(rows.agg(*asked).collect()[0]) if asked else iter(())
    expectations: list[dict[str, Any]] = []
    for f in plain:
        nulls, least, most, distinct = (next(values) for _ in range(4))
        if not nulls:
            expectations.append(_expect("values_to_not_be_null", column=f.name))
        if least is None:
            continue
        if isinstance(f.dataType, T.StringType):
            if distinct <= _FEW:
                some = rows.select(ddl.quoted(f.name)).distinct().limit(2 * _FEW).collect()
                listed = sorted(row[0] for row in some if row[0] is not None)
                expectations.append(_expect("values_to_be_in_set", column=f.name, value_set=listed))
        else:
            low, high = (value if isinstance(value, int) else float(value) for value in (least, most))
            expectations.append(_expect("values_to_be_between", column=f.name, min_value=low, max_value=high))
    return {"name": config.name, "expectations": expectations}


def _expect(what: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": f"expect_column_{what}", "kwargs": kwargs}
