"""Which partitions a compaction is to rewrite, as the files of a table's log tell."""

from __future__ import annotations

import pytest

from lakeingest.delta.maintenance.due import CompactionRule, due
from lakeingest.delta.reader.log import DataFile


def files(*listed: tuple[str | None, int, int]) -> list[DataFile]:
    """Files of partitions of a column d: its value, the file's bytes, and when it was written."""
    return [DataFile(f"f{n}", size, {"d": d}, None, modified=at) for n, (d, size, at) in enumerate(listed)]


def test_small_files_are_packed_within_their_partition() -> None:
    """Two files that make one of the target's size at most; a large one, and one alone, stay."""
    (each,) = due(files(("a", 60, 0), ("a", 30, 0), ("a", 90, 0), ("a", 100, 0), ("b", 1, 0)), CompactionRule(100))
    assert (each.values, each.removed, each.added, each.bytes) == ((("d", "a"),), 2, 1, 90)


@pytest.mark.parametrize(("finished_before", "partitions"), [(5, ["d=a"]), (4, []), (9, ["d=a", "d=b"]), (None, None)])
def test_a_partition_is_finished_when_no_file_came_for_a_while(
    finished_before: int | None, partitions: list[str] | None
) -> None:
    """Its newest file counts; without a time each one is."""
    listed = files(("a", 1, 2), ("a", 1, 5), ("b", 1, 9), ("b", 1, 1))
    found = sorted(map(str, due(listed, CompactionRule(100, finished_before))))
    assert found == (["d=a", "d=b"] if partitions is None else partitions)


def test_what_saves_most_comes_first() -> None:
    """By files that a byte saves."""
    listed = files(*(("a", 40, 0) for _ in range(2)), *(("b", 1, 0) for _ in range(9)), ("c", 9, 0), ("c", 9, 0))
    assert list(map(str, due(listed, CompactionRule(100)))) == ["d=b", "d=c", "d=a"]


def test_an_order_rewrites_a_partition_as_a_whole_once() -> None:
    """A partition that has as many files as its bytes need is left alone, though some are small."""
    rule = CompactionRule(100, whole=True)
    (each,) = due(files(("a", 150, 0), ("a", 90, 0), ("a", 10, 0), ("a", 10, 0)), rule)
    assert (each.removed, each.added, each.bytes) == (4, 2, 260)
    assert due(files(("a", 130, 0), ("a", 90, 0), ("b", 20, 0)), rule) == []


def test_a_condition_names_the_values_as_sql_does() -> None:
    """Null too, and quotes."""
    listed = [DataFile("f", 1, {"d`x": None, "s": "o'x"}, None), DataFile("g", 1, {"d`x": None, "s": "o'x"}, None)]
    (each,) = due(listed, CompactionRule(100))
    assert each.where == r"`d``x` IS NULL AND `s` = 'o\'x'"
    (whole,) = due([DataFile("f", 1, {}, None), DataFile("g", 1, {}, None)], CompactionRule(100))
    assert (whole.where, str(whole)) == ("", "the whole table")
