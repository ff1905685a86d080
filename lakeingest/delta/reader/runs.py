"""The coordinates of rows as runs of offsets that follow each other, and what an audit asks of them.

A run is a row: _topic, _partition, low, high (first offset, and one past the last). A table of a million rows in
Kafka's order is a few runs a file; one whose rows lie in no order has as many runs as rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lakeingest.delta.reader import duck
from lakeingest.delta.reader.log import OfflineLog, Unreadable, reading
from lakeingest.record import COORDINATES, PARTITION, TOPIC, Frontier, OffsetRange, OffsetRanges

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.dataset import Dataset

FLAGS = ("in_table", "in_quarantine", "moved")
_AHEAD = 32
"""Files that are opened at once: of a small one most of the time is the store's."""
_AT_ONCE = 2**20
"""Rows whose runs are looked for together: for each call of Arrow's a tenth of a millisecond is due."""
_MOST = 2_000_000
"""Runs of one table that are held: to count them takes DuckDB a gigabyte. Spark has a disk for more."""
_PIECES = """
    WITH edges AS (
        SELECT _topic, _partition, low AS edge, in_table, in_quarantine, moved FROM runs
        UNION ALL SELECT _topic, _partition, high, -in_table, -in_quarantine, -moved FROM runs
        UNION ALL SELECT _topic, _partition, unnest([low, high]), 0, 0, 0 FROM ranges
        UNION ALL SELECT DISTINCT _topic, _partition, 0, 0, 0, 0 FROM runs
    ), steps AS (
        SELECT _topic, _partition, edge, sum(in_table) AS in_table, sum(in_quarantine) AS in_quarantine,
            sum(moved) AS moved
        FROM edges GROUP BY ALL
    ), summed AS (
        SELECT _topic, _partition, edge AS low, lead(edge) OVER along AS high,
            sum(in_table) OVER along AS in_table, sum(in_quarantine) OVER along AS in_quarantine,
            sum(moved) OVER along AS moved
        FROM steps WINDOW along AS (PARTITION BY _topic, _partition ORDER BY edge)
    ), whole AS (
        SELECT _topic, _partition, low AS first, high AS "end" FROM ranges WHERE kind = 'whole'
    ), begun AS (
        SELECT _topic, _partition, low AS begin FROM ranges WHERE kind = 'begun'
    ), pieces AS (
        SELECT summed.* REPLACE (
                CASE WHEN moved > 0 AND in_table > 0 THEN 0 ELSE in_quarantine END AS in_quarantine
            ),
            high - low AS offsets,
            coalesce(begin, 0) AS begin,
            first,
            first IS NOT NULL AS consumed
        FROM summed
        LEFT JOIN whole ON whole._topic = summed._topic AND whole._partition = summed._partition
            AND low >= first AND low < "end"
        LEFT JOIN begun ON begun._topic = summed._topic AND begun._partition = summed._partition
        WHERE in_table + in_quarantine > 0
    )
"""
_COUNTED = (
    _PIECES
    + """
    SELECT
        coalesce(sum(offsets * in_table) FILTER (consumed), 0)::BIGINT AS in_table,
        coalesce(sum(offsets * in_quarantine) FILTER (consumed), 0)::BIGINT AS in_quarantine,
        coalesce(sum(offsets) FILTER (consumed), 0)::BIGINT AS "distinct",
        coalesce(sum(offsets) FILTER (consumed AND {known}), 0)::BIGINT AS known,
        coalesce(sum(offsets) FILTER (consumed AND {spared}), 0)::BIGINT AS spared,
        coalesce(sum(offsets) FILTER (NOT consumed AND low >= begin), 0)::BIGINT AS unexpected,
        coalesce(sum(offsets) FILTER (NOT consumed AND low < begin), 0)::BIGINT AS earlier
    FROM pieces
"""
)
_INSIDE = """EXISTS (
            SELECT 1 FROM ranges WHERE kind = '{kind}' AND ranges._topic = pieces._topic
            AND ranges._partition = pieces._partition AND ranges.low <= pieces.low AND pieces.low < ranges.high
        )"""
_DOUBLE, _STRAY = "consumed AND in_table + in_quarantine > 1", "NOT consumed AND low >= begin"
_FIRST = _PIECES + "SELECT _topic, _partition, low, high FROM pieces WHERE {where} ORDER BY ALL LIMIT $most"
_HOLES = (
    _PIECES
    + """
    , there AS (
        SELECT _topic, _partition, first, low, high FROM pieces WHERE consumed
        UNION ALL SELECT _topic, _partition, first, first - 1, first FROM whole
        UNION ALL SELECT _topic, _partition, first, "end", "end" + 1 FROM whole
    )
    SELECT _topic, _partition, lag(high) OVER (PARTITION BY _topic, _partition, first ORDER BY low) AS before, low
    FROM there QUALIFY low > before ORDER BY _topic, _partition, low LIMIT $most
"""
)


@dataclass(frozen=True)
class Runs:
    """The runs of both tables.

    Attributes:
        runs: with in_table and in_quarantine: 0 or 1; and moved: 1 for those that a replay brought to the table, and
            quarantine does not say so yet.
        whole: what the log says was consumed; no two of its ranges share an offset.
        begins: (topic, partition) → the first offset that the pipeline's own commits in the log have.
    """

    runs: pa.Table
    whole: OffsetRanges
    begins: Frontier

    def counted(self, unknown: OffsetRanges, skipped: OffsetRanges) -> dict[str, int]:
        """Rows in_table and in_quarantine, distinct coordinates of them, and known and spared: those of them within
        `unknown` and `skipped`; rows that are unexpected, and earlier than the log tells.
        """
        query = _COUNTED.format(known=_INSIDE.format(kind="unknown"), spared=_INSIDE.format(kind="skipped"))
        kinds = {"unknown": unknown.merged, "skipped": skipped.merged}
        names = ("in_table", "in_quarantine", "distinct", "known", "spared", "unexpected", "earlier")
        (row,) = self._asked(query, kinds)
        return dict(zip(names, row, strict=True))

    def double(self, most: int) -> list[tuple[str, int, int]]:
        """The first coordinates of consumed records that are there more than once."""
        return self._first(_DOUBLE, most)

    def stray(self, most: int) -> list[tuple[str, int, int]]:
        """The first coordinates that are there, and that the log does not know."""
        return self._first(_STRAY, most)

    def holes(self, most: int) -> list[tuple[str, int, int, int]]:
        """The first ranges of consumed offsets that are nowhere: topic, partition, first offset, one past the last."""
        return self._asked(_HOLES, most=most)

    def _first(self, where: str, most: int) -> list[tuple[str, int, int]]:
        pieces = self._asked(_FIRST.format(where=where), most=most)
        each = ((t, p, offset) for t, p, low, high in pieces for offset in range(low, min(high, low + most)))
        return [*each][:most]

    def _asked(self, query: str, kinds: Mapping[str, OffsetRanges] = MappingProxyType({}), **values: int) -> list[Any]:
        begun = OffsetRanges(tuple(OffsetRange(*tp, begin, begin) for tp, begin in self.begins.items()))
        ranges = _ranges({"whole": self.whole, "begun": begun, **kinds})
        with duck.connected({"runs": self.runs, "ranges": ranges}) as connection:
            return connection.execute(query, values).fetchall()


def _ranges(kinds: Mapping[str, OffsetRanges]) -> pa.Table:
    import pyarrow as pa

    place = [(TOPIC, pa.string()), (PARTITION, pa.int32())]
    schema = pa.schema([("kind", pa.string()), *place, ("low", pa.int64()), ("high", pa.int64())])
    each = [(kind, s.topic, s.partition, s.start, s.end) for kind, ranges in kinds.items() for s in ranges]
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in each], schema)


def of(log: OfflineLog, table: Dataset, where: Any) -> pa.Table:
    """The runs of the rows for which `where` holds.

    Raises:
        Unreadable: a file cannot be read, rows have no coordinates, or there are too many runs.
    """
    import pyarrow as pa

    found, count = list[pa.Table](), 0
    with reading(log.identifier):
        scanner = table.scanner(columns=[*COORDINATES], filter=where, fragment_readahead=_AHEAD)
        for rows in _together(scanner.to_batches()):
            found.append(_runs(rows))
            count += len(found[-1])
            if count > _MOST:
                raise Unreadable("its rows lie in no order, and are many")
        return pa.concat_tables(found) if found else _empty()


def flagged(flag: str, found: pa.Table) -> pa.Table:
    """The same runs, with the columns `FLAGS`: 1 in one of them, 0 in the others."""
    import pyarrow as pa

    flags = [pa.repeat(int(name == flag), len(found)) for name in FLAGS]
    return pa.Table.from_arrays([*found.columns, *flags], names=[*found.schema.names, *FLAGS])


def _empty() -> pa.Table:
    return _ranges({}).drop_columns("kind")


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    import pyarrow as pa

    waiting, count = list[pa.RecordBatch](), 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            count += batch.num_rows
        if count >= _AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting, count = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _runs(rows: pa.Table) -> pa.Table:
    if any(rows[name].null_count for name in COORDINATES):
        raise Unreadable("rows have no coordinates")
    found = _adjacent(rows)
    # Where a batch was dealt out to several partitions of the table, its files together are in order.
    return (
        found if 4 * len(found) < len(rows) else _adjacent(rows.sort_by([(name, "ascending") for name in COORDINATES]))
    )


def _adjacent(rows: pa.Table) -> pa.Table:
    """The runs of rows that lie beside each other."""
    import pyarrow as pa
    from pyarrow import compute as pc

    topic, partition, offset = (rows[name].combine_chunks() for name in COORDINATES)
    follows = pc.equal(pc.add(offset[:-1], 1), offset[1:])
    for same in (topic, partition):
        follows = pc.and_(follows, pc.equal(same[:-1], same[1:]))
    starts = pc.indices_nonzero(pa.concat_arrays([pa.array([True]), pc.invert(follows)]))
    ends = pc.indices_nonzero(pa.concat_arrays([pc.invert(follows), pa.array([True])]))
    columns = [topic.take(starts), partition.take(starts), offset.take(starts), pc.add(offset.take(ends), 1)]
    return pa.Table.from_arrays(columns, schema=_empty().schema)
