"""What an audit asks of the coordinates of both tables' rows: one SQL, which DuckDB and Spark answer alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from lakeingest.delta import sums
from lakeingest.delta.reader.contract import Query, View
from lakeingest.delta.sums import Sums
from lakeingest.record import PARTITION, TOPIC, Frontier, OffsetRange, OffsetRanges

if TYPE_CHECKING:
    import pyarrow as pa

Kind: TypeAlias = Literal["in_table", "in_quarantine", "moved", "restored", "forgotten", "expired", "deleted"]
"""Runs of the table; of quarantine, where it is not marked as moved; of what a replay brought to the table, and
quarantine does not say so yet; of what is marked as moved by a replay that a RESTORE of the table took back; of what
was taken out of either table (see `delta.removals`).
"""
_KINDS: tuple[Kind, ...] = get_args(Kind)
REMOVED: tuple[Kind, ...] = _KINDS[-3:]
_PIECES = f"""
    WITH edges AS (
        SELECT _topic, _partition, CASE side WHEN 1 THEN low WHEN -1 THEN high ELSE 0 END AS edge,
            {", ".join(f"side * {kind} AS {kind}" for kind in _KINDS)}, CAST(NULL AS BIGINT) AS batch_low
        FROM (RUNS) AS runs CROSS JOIN (VALUES (1), (-1), (0)) AS sides(side)
        UNION ALL
        SELECT _topic, _partition, CASE side WHEN 1 THEN low ELSE high END, {", ".join("0" for _ in _KINDS)},
            CASE WHEN kind = 'batch' AND side = 1 THEN low END
        FROM {{ranges}} CROSS JOIN (VALUES (1), (-1)) AS sides(side)
    ), steps AS (
        SELECT _topic, _partition, edge, {", ".join(f"sum({kind}) AS {kind}" for kind in _KINDS)},
            max(batch_low) AS batch_low
        FROM edges GROUP BY _topic, _partition, edge
    ), summed AS (
        SELECT _topic, _partition, edge AS low, lead(edge) OVER along AS high,
            {", ".join(f"sum({kind}) OVER along AS {kind}" for kind in _KINDS)},
            max(batch_low) OVER along AS batch_low
        FROM steps WINDOW along AS (PARTITION BY _topic, _partition ORDER BY edge)
    ), standing AS (
        SELECT _topic, _partition, low, high, batch_low, in_table,
            CASE WHEN in_table = 0 THEN in_quarantine + restored WHEN moved > 0 THEN 0 ELSE in_quarantine END
            AS in_quarantine, CASE {" ".join(f"WHEN {kind} > 0 THEN '{kind}'" for kind in REMOVED)} END AS removed
        FROM summed
    ), pieces AS (
        SELECT s._topic, s._partition, s.low, s.high, s.high - s.low AS offsets, s.batch_low, in_table, in_quarantine,
            CASE WHEN in_table + in_quarantine = 0 THEN s.removed END AS removed,
            CASE WHEN in_table + in_quarantine > 0 THEN s.removed END AS returned,
            coalesce(begun.low, BEGIN) AS begin_offset, whole.low AS range_start, whole.low IS NOT NULL AS consumed,
            unknown.low IS NOT NULL AS unknown, skipped.low IS NOT NULL AS skipped
        FROM standing AS s
        LEFT JOIN (SELECT * FROM {{ranges}} WHERE kind = 'begun') AS begun
            ON begun._topic = s._topic AND begun._partition = s._partition
        INSIDE
        WHERE in_table + in_quarantine > 0 OR (s.removed IS NOT NULL AND whole.low IS NOT NULL)
    )
"""
# The ranges of a kind share no offset, and a piece ends where one does: it lies within one of each kind at most.
_INSIDE = """LEFT JOIN (SELECT * FROM {{ranges}} WHERE kind = '{kind}') AS {kind}
    ON {kind}._topic = s._topic AND {kind}._partition = s._partition AND s.low >= {kind}.low AND s.low < {kind}.high
"""
_REMOVED_COUNT = "CAST(coalesce(sum(offsets) FILTER (WHERE removed = '{kind}'), 0) AS BIGINT) AS {kind}, "
_COUNTS = f"""
    SELECT
        {"".join(_REMOVED_COUNT.format(kind=kind) for kind in REMOVED)}
        CAST(coalesce(sum(offsets * in_table) FILTER (WHERE consumed), 0) AS BIGINT) AS in_table,
        CAST(coalesce(sum(offsets * in_quarantine) FILTER (WHERE consumed), 0) AS BIGINT) AS in_quarantine,
        CAST(coalesce(sum(offsets) FILTER (WHERE consumed), 0) AS BIGINT) AS distinct_offsets,
        CAST(coalesce(sum(offsets) FILTER (WHERE returned = 'forgotten'), 0) AS BIGINT) AS returned,
        CAST(coalesce(sum(offsets) FILTER (WHERE consumed AND unknown), 0) AS BIGINT) AS unknown,
        CAST(coalesce(sum(offsets) FILTER (WHERE consumed AND skipped), 0) AS BIGINT) AS skipped,
        CAST(coalesce(sum(offsets) FILTER (WHERE NOT consumed AND low >= begin_offset), 0) AS BIGINT) AS unexpected,
        CAST(coalesce(sum(offsets) FILTER (WHERE NOT consumed AND low < begin_offset), 0) AS BIGINT) AS earlier
    FROM pieces
"""
_NONE = OffsetRanges(())
_DOUBLE = "consumed AND in_table + in_quarantine > 1"
_STRAY = "NOT consumed AND low >= begin_offset"
_FIRST = "SELECT _topic, _partition, low, high FROM pieces WHERE {where} ORDER BY _topic, _partition, low LIMIT {most}"
_HOLES = """
    SELECT _topic, _partition, hole_start, hole_end FROM (
        SELECT _topic, _partition, low AS hole_end,
            lag(high) OVER (PARTITION BY _topic, _partition, range_start ORDER BY low) AS hole_start
        FROM (
            SELECT _topic, _partition, range_start, low, high FROM pieces WHERE consumed
            UNION ALL SELECT _topic, _partition, low, low - 1, low FROM {{ranges}} WHERE kind = 'whole'
            UNION ALL SELECT _topic, _partition, low, high, high + 1 FROM {{ranges}} WHERE kind = 'whole'
        ) AS edges_and_pieces
    ) AS neighbours
    WHERE hole_end > hole_start ORDER BY _topic, _partition, hole_end LIMIT {most}
"""
_SUMS = f"""
    SELECT batch, CAST(sum(times) AS BIGINT) AS rows, bit_xor(CASE WHEN times % 2 = 1 THEN number ELSE 0 END) AS mixed,
        bit_xor(CASE WHEN times % 2 = 1 THEN number % {sums.PART} * factor ELSE 0 END) AS placed
    FROM (
        SELECT batch, factor, times, {sums.number("_offset", "seed_1", "seed_2")} AS number
        FROM (
            SELECT batch, seed_1, seed_2, factor, times, explode(sequence(low, high - 1)) AS _offset FROM (
                SELECT b.batch, b.seed_1, b.seed_2, b.factor, p.low, p.high,
                    CAST(p.in_table + p.in_quarantine + CASE WHEN p.removed IS NULL THEN 0 ELSE 1 END AS BIGINT)
                    AS times
                FROM pieces AS p JOIN {{batches}} AS b
                    ON b._topic = p._topic AND b._partition = p._partition AND b.low = p.batch_low
                    AND p.low < b.high
            ) AS s
        ) AS offsets_of_batches
    ) AS numbers
    GROUP BY batch
"""


@dataclass(frozen=True)
class CoordinateRuns:
    """The runs of both tables.

    Attributes:
        runs: see `delta.reader.runs`; of each kind as many views as there are.
        whole: what the log says was consumed; no two of its ranges share an offset.
        begins: (topic, partition) → the first offset that the pipeline's own commits in the log have.
        removed: what was taken out: `_topic, _partition, low, high, reason`; None for nothing.
    """

    query: Query
    runs: Sequence[tuple[Kind, View]]
    whole: OffsetRanges
    begins: Frontier
    removed: View | None = None

    def counts(self, unknown: OffsetRanges, skipped: OffsetRanges) -> dict[str, int]:
        """Rows in_table and in_quarantine; records that were forgotten, expired or deleted, and are no rows; the
        distinct_offsets of all these, and those within `unknown` and `skipped`; rows that are unexpected, earlier than
        the log tells, and returned: forgotten records that are rows again.
        """
        (counts,) = self._rows(_COUNTS, {"unknown": unknown.merged, "skipped": skipped.merged})
        return counts

    def double(self, most: int) -> list[tuple[str, int, int]]:
        """The first coordinates of consumed records that are there more than once."""
        return self._first(_DOUBLE, most)

    def stray(self, most: int) -> list[tuple[str, int, int]]:
        """The first coordinates that are there, and that the log does not know."""
        return self._first(_STRAY, most)

    def holes(self, most: int) -> list[tuple[str, int, int, int]]:
        """The first ranges of consumed offsets that are nowhere: topic, partition, first offset, one past the last."""
        return [tuple(each.values()) for each in self._rows(_HOLES.format(most=most))]

    def sums_of_rows(self, batches: pa.Table) -> dict[int, Sums]:
        """Batch → the sums of the rows of both tables within its offsets.

        Args:
            batches: batch, _topic, _partition, low, high, and what `sums.number` asks for: seed_1, seed_2, factor. No
                two of its ranges share an offset.
        """
        rows = batches.select(["_topic", "_partition", "low", "high"]).to_pylist()
        ranges = OffsetRanges(tuple(OffsetRange(*row.values()) for row in rows))
        rows = self._rows(_SUMS, batches=ranges, views={"batches": batches})
        return {row["batch"]: sums.observed(row, row["rows"]) for row in rows}

    def _first(self, where: str, most: int) -> list[tuple[str, int, int]]:
        pieces = [each.values() for each in self._rows(_FIRST.format(where=where, most=most))]
        each = ((t, p, offset) for t, p, low, high in pieces for offset in range(low, min(high, low + most)))
        return [*each][:most]

    def _rows(
        self,
        text: str,
        kinds: Mapping[str, OffsetRanges] = MappingProxyType({}),
        *,
        batches: OffsetRanges = _NONE,
        views: Mapping[str, View] = MappingProxyType({}),
    ) -> list[dict[str, Any]]:
        kinds = {"whole": self.whole, "unknown": _NONE, "skipped": _NONE, **kinds}
        inside = "".join(_INSIDE.format(kind=kind) for kind in kinds)
        beginnings = OffsetRanges(tuple(OffsetRange(*tp, begin, begin) for tp, begin in self.begins.items()))
        runs = {f"runs_{number}": view for number, (_, view) in enumerate(self.runs)}
        flags = (", ".join(f"{int(kind == each)} AS {each}" for each in _KINDS) for kind, _ in self.runs)
        each_view = [*zip(runs, flags, strict=True)]
        if self.removed is not None:
            each_flag = (f"CAST(reason = '{each}' AS INT)" if each in REMOVED else "0" for each in _KINDS)
            flag = ", ".join(f"{value} AS {each}" for value, each in zip(each_flag, _KINDS, strict=True))
            each_view.append(("removed", flag))
            runs["removed"] = self.removed
        union = " UNION ALL ".join(
            f"SELECT _topic, _partition, low, high, {flag} FROM {{{name}}}" for name, flag in each_view
        )
        # Rows before the first commit that the log remembers were proved while it did; all of them, if it knows none.
        begin = 0 if self.begins else 2**63 - 1
        pieces = _PIECES.replace("RUNS", union).replace("INSIDE", inside).replace("BEGIN", str(begin))
        ranges = _ranges({**kinds, "begun": beginnings, "batch": batches})
        return self.query(pieces + text, {**runs, **views, "ranges": ranges})


def _ranges(kinds: Mapping[str, OffsetRanges]) -> pa.Table:
    import pyarrow as pa

    place = [(TOPIC, pa.string()), (PARTITION, pa.int32())]
    schema = pa.schema([("kind", pa.string()), *place, ("low", pa.int64()), ("high", pa.int64())])
    each = [(kind, s.topic, s.partition, s.start, s.end) for kind, ranges in kinds.items() for s in ranges]
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in each], schema)
