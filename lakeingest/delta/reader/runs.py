"""The coordinates of rows as runs of offsets that follow each other: `_topic, _partition, low, high`, a row each.

`low` is the first offset, `high` one past the last. A record that has two rows is in two runs. A table of a million
rows in Kafka's order is a few runs a file; one whose rows lie in no order has as many runs as rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from lakeingest.delta.reader.log import OfflineLog, Unreadable, reading
from lakeingest.record import COORDINATES, PARTITION, TOPIC

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.dataset import Dataset

_AHEAD = 32
"""Files that are opened at once: of a small one most of the time is the store's."""
_AT_ONCE = 2**20
"""Rows whose runs are looked for together: for each call of Arrow's a tenth of a millisecond is due."""
_MOST = 2_000_000
"""Runs of one table that are read: to count them takes DuckDB a gigabyte. Spark has a disk for more."""


def of(log: OfflineLog, table: Dataset, where: Any) -> pa.Table:
    """The runs of the rows for which `where` holds.

    Raises:
        Unreadable: a file cannot be read, rows have no coordinates, or there are too many runs.
    """
    import pyarrow as pa

    tables, count = list[pa.Table](), 0
    with reading(log.identifier):
        scanner = table.scanner(columns=[*COORDINATES], filter=where, fragment_readahead=_AHEAD)
        for rows in _together(scanner.to_batches()):
            tables.append(_runs(rows))
            count += len(tables[-1])
            if count > _MOST:
                raise Unreadable("its rows lie in no order, and are many")
        return pa.concat_tables(tables) if tables else _empty()


def _empty() -> pa.Table:
    import pyarrow as pa

    place = [(TOPIC, pa.string()), (PARTITION, pa.int32())]
    return pa.schema([*place, ("low", pa.int64()), ("high", pa.int64())]).empty_table()


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
    runs = _adjacent(rows)
    # Where a batch was dealt out to several partitions of the table, its files together are in order.
    return runs if 4 * len(runs) < len(rows) else _adjacent(rows.sort_by([(name, "ascending") for name in COORDINATES]))


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
