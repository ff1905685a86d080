"""What an audit without Spark counts by runs of offsets is what one counts by hand, offset by offset."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import dataset as ds
from pyarrow import parquet

from lakeingest.config import Storage
from lakeingest.delta.reader import duck, runs
from lakeingest.delta.reader.log import OfflineLog, Unreadable
from lakeingest.operations.coordinate_runs import CoordinateRuns
from lakeingest.record import Frontier, OffsetRange, OffsetRanges

Place = tuple[str, int, int]
NOTHING = OffsetRanges(())
SHAPE = pa.schema([("_topic", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())])


def rows(folder: Path, places: Iterable[tuple[str | None, int | None, int | None]], name: str = "rows") -> pa.Table:
    """The runs of rows with these coordinates, as they lie in a file."""
    columns = [*zip(*places, strict=True)] or [(), (), ()]
    parquet.write_table(pa.Table.from_arrays([*map(pa.array, columns, SHAPE.types)], schema=SHAPE), folder / name)
    return runs.of(OfflineLog(str(folder), Storage()), ds.dataset(folder / name), ds.scalar(True))


def both(
    folder: Path,
    table: Iterable[Place],
    refused: Iterable[Place],
    whole: OffsetRanges,
    begins: Frontier,
    *,
    moved: Iterable[Place] = (),
    removed: Iterable[tuple[Place, str]] = (),
) -> CoordinateRuns:
    each = {"in_table": table, "in_quarantine": refused, "moved": moved}
    views = [(kind, rows(folder, places, f"{kind}.parquet")) for kind, places in each.items()]
    listed = [(*place, place[2] + 1, reason) for place, reason in removed]
    columns = [*zip(*listed, strict=True)] or [()] * 5
    types = [pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.string()]
    names = ["_topic", "_partition", "low", "high", "reason"]
    view = pa.Table.from_arrays([*map(pa.array, columns, types)], names)
    return CoordinateRuns(duck.query, views, whole, begins, view)


def within(ranges: OffsetRanges, place: Place) -> bool:
    return any((s.topic, s.partition) == place[:2] and s.start <= place[2] < s.end for s in ranges)


@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_runs_count_what_one_counts_by_hand(tmp_path: Path, seed: int, replayed: bool) -> None:
    """Rows in any order, some twice, in both tables, before, between and behind what was consumed; and in no range. Of
    those that are in both, a replay has moved some, and some are there twice for another reason. Some are listed
    as taken out, some of them twice, for several reasons, and though they are rows.
    """
    dice = random.Random(seed)

    def some(count: int) -> list[Place]:
        start = dice.randrange(20)
        places = [("t", dice.randrange(2), start + n) for n in range(count)]
        places += [(dice.choice("tu"), dice.randrange(3), dice.randrange(-5, 60)) for _ in range(dice.randrange(9))]
        # Of a topic that the log does not name, and before the first offset that there is.
        places += [("u", 3, n) for n in range(-3, 3)]
        return dice.sample(places, len(places)) if dice.random() < 0.5 else places

    def ranges(*partitions: int) -> OffsetRanges:
        ends = [(p, *sorted(dice.sample(range(60), 2))) for p in partitions]
        return OffsetRanges(tuple(OffsetRange("t", *each) for each in ends))

    table, refused = some(30), some(8)
    own = ranges(0, 1)
    # Backfills took more: beside the pipeline's own, before them, and within what it had skipped.
    whole = OffsetRanges((*own, *ranges(0, 0, 1), *ranges(0))).merged
    begin = {(s.topic, s.partition): s.start for s in own} | {("t", 2): 9}
    unknown, skipped = ranges(0, 0, 1), ranges(1)
    moved = dice.sample(sorted({*table, *refused}), 12) if replayed else []
    listed = [(place, reason) for reason in ("deleted", "expired", "forgotten") for place in some(dice.randrange(20))]
    found = both(tmp_path, table, refused, whole, begin, moved=moved, removed=listed)

    in_table, in_quarantine = Counter(table), Counter(refused)
    places = sorted({*table, *refused})
    in_quarantine = Counter({p: n for p, n in in_quarantine.items() if not (in_table[p] and p in moved)})
    consumed = [place for place in places if within(whole, place)]
    strange = [place for place in places if place not in consumed]
    stray = [place for place in strange if place[2] >= begin.get(place[:2], 0)]
    # The last reason goes first.
    reasons = {place: reason for place, reason in listed if place not in places and within(whole, place)}
    accounted = [*consumed, *reasons]
    assert found.counts(unknown, skipped) == {
        "in_table": sum(in_table[place] for place in consumed),
        "in_quarantine": sum(in_quarantine[place] for place in consumed),
        **{reason: [*reasons.values()].count(reason) for reason in ("forgotten", "expired", "deleted")},
        "returned": len({place for place, reason in listed if reason == "forgotten"} & {*places}),
        "distinct_offsets": len(accounted),
        "unknown": sum(within(unknown, place) for place in accounted),
        "skipped": sum(within(skipped, place) for place in accounted),
        "unexpected": len(stray),
        "earlier": len(strange) - len(stray),
    }
    double = [place for place in consumed if in_table[place] + in_quarantine[place] > 1]
    assert (found.double(5), found.stray(5)) == (double[:5], stray[:5])
    offsets = ((s.topic, s.partition, n) for s in whole for n in range(s.start, s.end))
    missing = [place for place in offsets if place not in accounted]
    holes = found.holes(1000)
    assert [(t, p, n) for t, p, start, end in holes for n in range(start, end)] == missing
    assert all(left[:2] != right[:2] or left[3] < right[2] for left, right in pairwise(holes))
    assert found.holes(2) == holes[:2]


def test_a_million_rows_in_order_are_one_run(tmp_path: Path) -> None:
    """Whatever is read at once."""
    found = rows(tmp_path, [("t", 0, n) for n in range(runs._AT_ONCE + 5)])
    assert sum(h - low for low, h in zip(*(found[n].to_pylist() for n in ("low", "high")), strict=True)) == 2**20 + 5
    assert len(found) <= 10


def test_a_batch_in_several_partitions_is_one_run(tmp_path: Path) -> None:
    """Its rows lie in files by another column."""
    assert len(rows(tmp_path, [("t", 0, n) for n in (*range(0, 40, 2), *range(1, 40, 2))])) == 1


def test_rows_without_coordinates_are_for_spark(tmp_path: Path) -> None:
    """Others' rows: what they count as, Spark says."""
    with pytest.raises(Unreadable, match="no coordinates"):
        rows(tmp_path, [("t", 0, None), ("t", 0, 1)])


def test_runs_that_are_too_many_are_for_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is not without end."""
    monkeypatch.setattr(runs, "_MOST", 2)
    with pytest.raises(Unreadable, match="no order"):
        rows(tmp_path, [("t", 0, n) for n in (1, 3, 5)])


def test_no_rows_are_no_runs(tmp_path: Path) -> None:
    """All that was consumed is missing then."""
    whole = OffsetRanges((OffsetRange("t", 0, 3, 7), OffsetRange("t", 0, 9, 10)))
    found = both(tmp_path, [], [], whole, {("t", 0): 3, ("t", 1): 2})
    assert set(found.counts(NOTHING, NOTHING).values()) == {0}
    assert found.holes(5) == [("t", 0, 3, 7), ("t", 0, 9, 10)]


def test_no_bar_is_drawn_on_stdout() -> None:
    """In a notebook, and where Python runs with -c, DuckDB's stood before the JSON of what took two seconds."""
    ask = "SELECT current_setting('enable_progress_bar')"
    code = (
        "from lakeingest.delta.reader import duck\n"
        f'with duck.connected({{}}) as connection: print(connection.execute("{ask}").fetchall())'
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[(False,)]\n"
