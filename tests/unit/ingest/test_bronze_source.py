"""What the log of a bronze table tells a pipeline that reads it: read from its files, without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lakeingest.config import Storage
from lakeingest.config.source import Source
from lakeingest.delta.receipt import Receipt, Run
from lakeingest.errors import SourceChanged, TableMismatch, UsageError
from lakeingest.ingest.bronze import BronzeSource, Late
from lakeingest.kafka import offsets
from lakeingest.record import OffsetRange, OffsetRanges

METADATA = {
    "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
    "metaData": {
        "id": "x",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": []}),
        "partitionColumns": [],
        "configuration": {},
    },
}
FRONTIER = {("t", 0): 100, ("t", 1): 50}


def no_spark() -> NoReturn:
    raise AssertionError("Spark is asked")


def ranges(**topics: dict[int, tuple[int, int]]) -> OffsetRanges:
    each = (OffsetRange(t, p, *ends) for t, of in topics.items() for p, ends in of.items())
    return OffsetRanges(tuple(sorted(each)))


def receipt(sequence: int, taken: OffsetRanges, name: str = "bronze", **more: Any) -> str:
    topics = {s.topic: f"id of {s.topic}" for s in taken}
    return Receipt(name, sequence, Run(), more.pop("cluster", "c"), topics, taken, "/q", **more).to_json()


def added(path: str, low: int, high: int, topic: str = "t", *, moved: bool = False, **more: Any) -> dict[str, Any]:
    """A file of rows of one topic from one offset to another."""
    ends = {"minValues": {"_topic": topic, "_offset": low}, "maxValues": {"_topic": topic, "_offset": high}}
    stats = json.dumps({"numRecords": 1, **ends})
    return {"add": {"path": path, "size": 1, "partitionValues": {}, "dataChange": not moved, "stats": stats, **more}}


def removed(path: str, *, moved: bool = False) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": not moved}}


class Bronze:
    """A table whose log is written by hand, commit by commit."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.version = folder, -1
        (folder / "_delta_log").mkdir(parents=True)
        self.commit("CREATE TABLE", None, {"protocol": METADATA["protocol"]}, {"metaData": METADATA["metaData"]})

    def commit(self, operation: str, said: str | None, *actions: dict[str, Any], **parameters: Any) -> None:
        self.version += 1
        info = {"operation": operation, "operationParameters": parameters, "userMetadata": said, "timestamp": 1}
        lines = [json.dumps(each) for each in ({"commitInfo": info}, *actions)]
        (self.folder / "_delta_log" / f"{self.version:020}.json").write_text("\n".join(lines))

    def batch(self, sequence: int, taken: OffsetRanges, *actions: dict[str, Any], **more: Any) -> None:
        self.commit("WRITE", receipt(sequence, taken, **more), *actions, mode="Append")

    def source(self, *wanted: str) -> BronzeSource:
        return BronzeSource(str(self.folder), wanted, Storage(), no_spark)

    def late(self, since: int) -> Sequence[Late]:
        source = self.source()
        source.topics()
        return source.late({"table": str(self.folder), "version": since}, FRONTIER)


@pytest.fixture
def bronze(tmp_path: Path) -> Bronze:
    """Two topic-partitions, read to offset 100 and to 50 in versions 1 and 2."""
    made = Bronze(tmp_path / "bronze")
    made.batch(1, ranges(t={0: (10, 60), 1: (0, 0)}), added("a", 10, 59))
    made.batch(2, ranges(t={0: (60, 100), 1: (0, 50)}), added("b", 0, 99))
    return made


def test_receipts_say_what_there_is(bronze: Bronze) -> None:
    """Cluster, topic ids and ends are those of the newest receipt, and it is said where they were read."""
    topics = bronze.source().topics()
    assert (topics.cluster, topics.ids, topics.last) == ("c", {"t": "id of t"}, FRONTIER)
    assert topics.read_from == {"table": str(bronze.folder), "version": 2, "id": "x"}
    assert topics.first[("t", 0)] <= 10
    assert offsets.starts(Source(table="/b"), topics, {}) == topics.first


def test_a_later_look_goes_on_from_the_one_before(bronze: Bronze) -> None:
    """New batches, of whichever pipeline, move the ends; what is no pipeline's changes nothing."""
    source = bronze.source()
    source.topics()
    bronze.batch(3, ranges(t={0: (100, 120), 1: (50, 50)}), added("c", 100, 119))
    bronze.batch(1, ranges(u={0: (0, 7)}), added("d", 0, 6, "u"), name="other")
    bronze.commit("OPTIMIZE", None, added("e", 0, 119, moved=True), removed("c", moved=True))
    topics = source.topics()
    assert topics.last == {("t", 0): 120, ("t", 1): 50, ("u", 0): 7}
    assert (topics.first["u", 0], topics.read_from["version"]) == (0, 5)
    assert bronze.source("u").topics().last == {("u", 0): 7}


def test_of_several_receipts_the_furthest_frontier_is_the_end(bronze: Bronze) -> None:
    """Two pipelines have fed one topic-partition: the one that wrote less recently hid what the other one brought."""
    bronze.batch(1, ranges(t={0: (100, 150)}), added("c", 100, 149), name="heir")
    assert bronze.source().topics().last == {("t", 0): 150, ("t", 1): 50}
    bronze.batch(3, ranges(t={0: (100, 120), 1: (50, 70)}), added("d", 50, 119))
    assert bronze.source().topics().last == {("t", 0): 150, ("t", 1): 70}
    bronze.commit("WRITE", receipt(2, ranges(t={0: (150, 160)}), name="heir").replace("id of t", "0" * 4))
    with pytest.raises(SourceChanged, match="two topics called 't'"):
        bronze.source().topics()


def test_what_cannot_be_a_source_is_refused(bronze: Bronze) -> None:
    """Topics that it lacks; records of two clusters."""
    with pytest.raises(UsageError, match="has no records of v; it has those of t"):
        bronze.source("v").topics()
    bronze.batch(1, ranges(u={0: (0, 7)}), added("d", 0, 6, "u"), name="other", cluster="d")
    with pytest.raises(SourceChanged, match="2 Kafka clusters"):
        bronze.source().topics()


def test_batches_and_services_bring_nothing_late(bronze: Bronze) -> None:
    """What bronze goes on with lies beyond the frontier; compaction and properties move rows only."""
    bronze.batch(3, ranges(t={0: (100, 120), 1: (50, 50)}), added("c", 100, 119))
    bronze.commit("OPTIMIZE", None, added("e", 0, 119, moved=True), removed("b", moved=True))
    bronze.commit("SET TBLPROPERTIES", None)
    bronze.commit("VACUUM END", None)
    assert [*bronze.late(2)] == []
    assert [*bronze.late(5)] == []


def test_what_a_replay_added_is_late(bronze: Bronze) -> None:
    """Each commit is a batch, the oldest first, of the rows that its version has and the one before has not."""
    bronze.commit("WRITE", receipt(1, ranges(), name="bronze:replay"), added("r", 20, 30), mode="Append")
    bronze.batch(3, ranges(t={0: (100, 120), 1: (50, 50)}), added("c", 100, 119))
    bronze.commit("WRITE", receipt(2, ranges(), name="bronze:backfill"), added("s", 40, 45), mode="Append")
    first, second = bronze.late(2)
    assert first.ranges == ranges(t={0: (20, 31), 1: (20, 31)})
    assert first.read_from == {"table": str(bronze.folder), "version": 3, "id": "x", "since": 2}
    assert second.ranges == ranges(t={0: (40, 46), 1: (40, 46)})
    assert second.read_from["version"] == 5
    assert [late.read_from["version"] for late in bronze.late(3)] == [5]


def test_a_path_that_is_spelt_otherwise_is_the_same_table(bronze: Bronze) -> None:
    """Else all that lies below the frontier would be compared anew."""
    source = bronze.source()
    source.topics()
    for spelt in (f"file:{bronze.folder}", f"{bronze.folder}/"):
        assert [*source.late({"table": spelt, "version": 2}, FRONTIER)] == []
    with pytest.raises(AssertionError, match="Spark is asked"):
        source.late({"table": f"{bronze.folder}_2", "version": 2}, FRONTIER)


def test_history_before_the_beginning_is_late(tmp_path: Path) -> None:
    """A backfill brings in what lies before all that bronze had when it was first looked at."""
    bronze = Bronze(tmp_path / "bronze")
    bronze.batch(1, ranges(t={0: (50, 100)}), added("a", 50, 99))
    source = bronze.source()
    before = source.topics()
    assert before.first == {("t", 0): 50}
    bronze.commit("WRITE", receipt(1, ranges(), name="bronze:backfill"), added("h", 0, 49), mode="Append")
    assert source.topics().first == {("t", 0): 0}
    (late,) = source.late(before.read_from, {("t", 0): 100})
    assert late.ranges == ranges(t={0: (0, 50)})


def test_what_is_beyond_the_frontier_is_not_late(bronze: Bronze) -> None:
    """A replay of records that the pipeline has not come to yet is read with the others."""
    bronze.batch(3, ranges(t={0: (100, 300), 1: (50, 50)}), added("c", 100, 200))
    bronze.commit("WRITE", receipt(1, ranges(), name="bronze:replay"), added("r", 210, 220), mode="Append")
    assert [*bronze.late(2)] == []


def test_without_statistics_all_below_the_frontier_is_looked_at(
    bronze: Bronze, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a file does not say which offsets it has."""
    source = bronze.source()
    source.topics()
    monkeypatch.setattr(source, "_first_offsets", lambda last: dict.fromkeys(last, 0))
    bronze.commit("WRITE", receipt(1, ranges(), name="bronze:replay"), added("r", 1, 2, stats=None), mode="Append")
    (late,) = source.late(source.topics().read_from | {"version": 2}, FRONTIER)
    assert late.ranges.frontier == FRONTIER


def test_behind_a_vacuum_what_was_added_is_told_by_the_tables(bronze: Bronze) -> None:
    """The files of the version before may be gone."""
    bronze.commit("WRITE", receipt(1, ranges(), name="bronze:replay"), added("r", 20, 30), mode="Append")
    bronze.commit("VACUUM END", None)
    (late,) = bronze.late(2)
    assert late.read_from == {"table": str(bronze.folder), "version": 3, "id": "x"}


@pytest.mark.parametrize(
    "read_from", [{"table": ""}, {"table": "/elsewhere", "version": 2}, {"version": 99}, {"version": 2, "id": "y"}]
)
def test_where_the_log_does_not_tell_all_is_looked_at(
    bronze: Bronze, read_from: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that was fed from elsewhere before, or a bronze table that was made anew."""
    source = bronze.source()
    topics = source.topics()
    monkeypatch.setattr(source, "_first_of_rows", lambda: topics.first)
    (late,) = source.late({"table": str(bronze.folder), **read_from}, FRONTIER)
    assert late == Late(ranges(t={0: (0, 100), 1: (0, 50)}), topics.read_from)


def test_a_log_that_was_cleaned_up_does_not_tell(bronze: Bronze) -> None:
    """Its oldest commits are gone: that there was nothing late cannot be known."""
    bronze.batch(3, ranges(t={0: (100, 120), 1: (50, 50)}), added("c", 100, 119))
    source = bronze.source()
    source.topics()
    assert [*source.late({"table": str(bronze.folder), "version": 2}, FRONTIER)] == []
    (bronze.folder / "_delta_log" / f"{3:020}.json").unlink()
    assert source._behind(2) is None


@pytest.mark.parametrize(
    ("operation", "actions"),
    [
        ("DELETE", [removed("a")]),
        ("MERGE", [removed("a"), added("a2", 10, 59)]),
        ("WRITE", [removed("a"), removed("b")]),
        ("TRUNCATE", [removed("a")]),
    ],
)
def test_rows_that_were_taken_away_are_told_of(bronze: Bronze, operation: str, actions: list[dict[str, Any]]) -> None:
    """What others do to bronze is never taken over in silence."""
    bronze.commit(operation, None, *actions)
    with pytest.warns(UserWarning, match=f"version 3 of .*{operation}.* has taken rows away"):
        bronze.late(2)


def test_a_table_that_ends_before_the_frontier(bronze: Bronze) -> None:
    """Bronze was restored: the cure names its pipeline, and no new topic."""
    topics = bronze.source().topics()
    with pytest.raises(SourceChanged, match="somebody has restored it"):
        offsets.starts(Source(table="/b"), topics, {("t", 0): 101})


KINDS = {"_topic": "string", "_partition": "int", "_offset": "bigint", "_timestamp": "timestamp", "value": "binary"}


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"_offset": None}, "has no coordinates of Kafka's records: _offset is missing"),
        ({"_offset": "string"}, "has no coordinates of Kafka's records: _offset string"),
        ({"value": None}, "does not keep the values of records as bytes: its column value is missing"),
        ({"value": "bigint"}, "its column value is bigint"),
        ({"_rescued": "string"}, "has the decoded fields of records, and not their bytes"),
        ({"refused_at": "timestamp"}, "is a quarantine"),
    ],
)
def test_columns_that_are_no_records_are_refused(bronze: Bronze, columns: dict[str, str | None], what: str) -> None:
    """With what is wrong."""
    kinds = {name: kind for name, kind in {**KINDS, **columns}.items() if kind is not None}
    with pytest.raises(TableMismatch, match=what):
        bronze.source()._check_columns(kinds)


def test_what_bronze_does_not_keep_is_told_once(bronze: Bronze) -> None:
    """A key that was decoded is no key as it came; a text is."""
    source = bronze.source()
    with pytest.warns(UserWarning, match="does not keep _key and _headers as they came: they are null"):
        source._check_columns({**KINDS, "_key": "bigint", "value": "string"})
    source._check_columns(KINDS)
    bronze.source()._check_columns({**KINDS, "_key": "string", "_headers": "array<struct<key:string,value:binary>>"})
