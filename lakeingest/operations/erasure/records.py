"""Which records a request is about: by a condition in tables, in refused records and in what a pipeline reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from lakeingest.delta import quarantine, sealing
from lakeingest.delta.sums import Place
from lakeingest.errors import UsageError, number_of
from lakeingest.ingest.batch_plan import observed
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.record import COORDINATES, DROPPED, OffsetRange, OffsetRanges
from lakeingest.spark import frames
from lakeingest.spark.failures import spark_failures, storage_failures, summary

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOST = 5_000_000
"""Records of one request: their coordinates are held in memory."""
_UNRESOLVED = "UNRESOLVED_COLUMN"


@dataclass(frozen=True)
class ErasureRequest:
    """What is to be forgotten.

    Attributes:
        where: a condition over columns of tables, in Spark SQL.
        why: the request's name, by which it is known again.
        search: texts that no object may hold in the end, and by which refused records are found that nobody can decode.
        everything: whether all rows of a table may match.
    """

    where: str
    why: str
    search: tuple[str, ...] = ()
    everything: bool = False


class PipelineRecords:
    """The records of one pipeline.

    Raises:
        StorageError, SourceError: from every method: a table, or what the pipeline reads, cannot be read.
    """

    def __init__(self, context: RunContext, request: ErasureRequest) -> None:
        self.context, self.tables, self._request = context, context.tables, request
        self.name = context.config.name

    @cached_property
    def is_condition(self) -> bool:
        """Whether the table has the columns that the condition names.

        Raises:
            UsageError: there is no table yet; or the condition is none.
        """
        return self._where(self.tables.main.existing()) is not None

    def matching(self) -> set[Place]:
        """The coordinates of the records that meet the condition, and of refused ones that hold a text.

        Raises:
            UsageError: they are too many; or quarantine is encrypted, and the file has no key.
        """
        places = {*self.listed}
        if self.is_condition:
            places |= self._collected(self._where(self.tables.main.read()))
            places |= self._of_source[0]
        return places | self._collected(self._refused()) | self._collected(self._holding_texts())

    def among(self, places: set[Place]) -> dict[str, set[Place]]:
        """Which of these records are rows of the table; superseded: of mode upsert, accepted and no rows; rows of
        quarantine, and there marked as moved into the table.
        """
        frame = self.frame(places)
        in_table = self._shared(self.tables.main.read(), frame)
        refused = self.tables.refused()
        in_quarantine, moved = (
            self._shared(rows, frame) for rows in (quarantine.unmoved(refused), refused.where("moved IS NOT NULL"))
        )
        accepted = self._of_source[1] if self.tables.config.table.upserts else set[Place]()
        superseded = accepted & places - in_table - in_quarantine
        return {"table": in_table, "superseded": superseded, "quarantine": in_quarantine, "moved": moved}

    def frame(self, places: set[Place]) -> DataFrame:
        """_topic STRING, _partition INT, _offset BIGINT"""
        import pyarrow as pa

        columns = [*zip(*sorted(places), strict=True)] or [(), (), ()]
        arrays = [
            pa.array(values, kind) for values, kind in zip(columns, (pa.string(), pa.int32(), pa.int64()), strict=True)
        ]
        return self.context.spark.createDataFrame(pa.Table.from_arrays(arrays, [*COORDINATES]))

    def rows(self) -> int:
        """How many rows the table has."""
        with storage_failures(self.tables.main.identifier):
            return self.tables.main.read().count()

    @cached_property
    def unreadable(self) -> int:
        """Refused records whose bytes were left out, so that nobody can tell what they held."""
        left_out = F.startswith("bytes", F.lit(sealing.LEFT_OUT))
        with storage_failures(self.tables.quarantine.identifier):
            return self.tables.refused().where(left_out).count()

    def list_rows(self) -> DataFrame | None:
        """What the list has of this request as it stands now; None where there is no list."""
        removals = self.tables.removals
        if not removals.exists:
            return None
        return removals.rows().where((F.col("reason") == "forgotten") & (F.col("why") == self._request.why))

    @cached_property
    def listed(self) -> set[Place]:
        """What the same request has listed before."""
        rows = self.list_rows()
        return set() if rows is None else self._collected(self.tables.removals.spread(rows))

    def _where(self, rows: DataFrame) -> DataFrame | None:
        """The rows for which the condition holds; None where they lack a column that it names."""
        from pyspark.errors import AnalysisException

        where = self._request.where
        try:
            chosen = rows.where(where)
            _ = chosen.schema
        except AnalysisException as wrong:
            if (wrong.getCondition() or "").startswith(_UNRESOLVED):
                return None
            raise _no_condition(where, summary(wrong)) from wrong
        except spark_failures() as wrong:
            raise _no_condition(where, summary(wrong)) from wrong
        return chosen

    def _refused(self) -> DataFrame | None:
        """Refused records that meet the condition once they are decoded."""
        if not self.is_condition:
            return None
        rows = sealing.opened(self.tables.refused(), self.tables.config.quarantine)
        return self._where(self._decided(quarantine.as_records(rows.dropDuplicates(list(COORDINATES)))))

    def _holding_texts(self) -> DataFrame | None:
        """Refused records in whose bytes, or message, a text of the request stands."""
        if not self._request.search:
            return None
        rows = sealing.opened(self.tables.refused(), self.tables.config.quarantine)
        return rows.where(reduce(or_, map(_holds, self._request.search)))

    @cached_property
    def _of_source(self) -> tuple[set[Place], set[Place]]:
        """The records of the source that meet the condition, and those of them that are not dropped. It is read where
        others read it too, or where rows do not stay.
        """
        config = self.tables.config
        if not (self.is_condition and (config.source.table or config.table.upserts)):
            return set(), set()
        rows = self._where(self._decided(self._source_records()))
        if rows is None:
            return set(), set()
        rows = frames.keep(rows.select(*COORDINATES, DROPPED))
        try:
            return self._collected(rows), self._collected(rows.where(f"NOT {DROPPED}"))
        finally:
            frames.release(rows)

    def _source_records(self) -> DataFrame:
        """What the source still has of the records that the pipeline has consumed."""
        source, log = self.context.source, self.tables.commit_logs(back=1)[0]
        first = source.topics().first
        spans = (OffsetRange(*tp, first[tp], end) for tp, end in log.frontier.items() if first.get(tp, end) < end)
        return source.frame(self.context.spark, OffsetRanges(tuple(spans)))

    def _decided(self, records: DataFrame) -> DataFrame:
        """Records with the table's columns, and those that say whether they are refused or dropped."""
        log, _ = self.tables.commit_logs(back=1)
        execution = MicroBatchExecution(self.context, self.tables.main.existing().schema, log, evolves=False)
        with execution.reader.failures():
            execution.discover_schemas(records, 0)
            return observed(execution.plan(strict=False).decide(records), Observation())

    def _shared(self, rows: DataFrame, places: DataFrame) -> set[Place]:
        return self._collected(rows.join(F.broadcast(places), list(COORDINATES), "left_semi"))

    def _collected(self, rows: DataFrame | None) -> set[Place]:
        """Their coordinates.

        Raises:
            UsageError: they are too many.
        """
        if rows is None:
            return set()
        with storage_failures(self.tables.main.identifier):
            table = rows.select(*COORDINATES).dropna().distinct().limit(MOST + 1).toArrow()
        if len(table) > MOST:
            raise UsageError(
                f"the condition is about more than {number_of(MOST, 'record')} of {self.name}",
                cure="forget a smaller part of them at a time; what is too old belongs to retention",
            )
        return set(zip(*(table[name].to_pylist() for name in COORDINATES), strict=True))


def _holds(text: str) -> Column:
    """BOOLEAN: whether a row of quarantine holds a text."""
    raw = F.lit(text.encode())
    in_bytes = [F.contains(F.col(part), raw) for part in ("key", "value")]
    in_headers = F.exists("headers", lambda header: F.contains(header["value"], raw))
    each = [*in_bytes, in_headers, F.contains(F.col("message"), F.lit(text))]
    return reduce(or_, (F.coalesce(condition, F.lit(False)) for condition in each))


def _no_condition(where: str, reason: str) -> UsageError:
    return UsageError(
        f"--where {where!r} is no condition: {reason}",
        cure='write one over the table\'s columns in Spark SQL, as in "customer_id = 7"',
    )
