"""What is read of a table's completeness without Spark, what a period waits for, and what of a contract is kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines.command_line import Command

from lakeingest.config import PipelineConfig, Storage
from lakeingest.config.file import from_mapping
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.receipt import Receipt, Run
from lakeingest.errors import SourceUnreachable, StorageUnreachable
from lakeingest.kafka.offsets import Reach, reach
from lakeingest.operations import completeness, contract, freshness
from lakeingest.operations.completeness import Complete, Row
from lakeingest.operations.freshness import Ages
from lakeingest.operations.readers import FileTables
from lakeingest.operations.wait import Waiter, Waiting, until_reached
from lakeingest.record import OffsetRange, OffsetRanges

AT = datetime(2026, 11, 23, 19, tzinfo=UTC)
START = datetime(2026, 11, 23, 14)
"""The same hour in New York."""
HOUR = timedelta(hours=1)
ROW = Row(AT + 2 * HOUR, 10, 7)


def values(folder: Path, **parts: Any) -> dict[str, Any]:
    made = {
        "name": "p",
        "source": {"topics": ["t"], "bootstrap_servers": "127.0.0.1:1"},
        "schema": {"columns": "n INT"},
        "partition": [{"by": "time", "every": "hour", "timezone": "America/New_York"}],
        "table": {"path": str(folder / "table")},
        "contract": {"completeness": {"late": "5 minutes"}},
    }
    return {**made, **parts}


def config(folder: Path, **parts: Any) -> PipelineConfig:
    return from_mapping(values(folder, **parts))


def say(folder: Path, *starts: datetime, pipeline: str = "p", sequence: int = 1) -> None:
    """Rows of the completeness table, each of an hour that begins then."""
    schema = pa.schema(
        [
            ("pipeline", pa.string()),
            ("period_start", pa.timestamp("us", "UTC")),
            ("complete_since", pa.timestamp("us", "UTC")),
            ("records", pa.int64()),
            ("sequence", pa.int64()),
        ]
    )
    rows = [
        {"pipeline": pipeline, "period_start": s, "complete_since": s + 2 * HOUR, "records": 10, "sequence": sequence}
        for s in starts
    ]
    write_deltalake(str(folder / "table_completeness"), pa.Table.from_pylist(rows, schema), mode="append")


class Asked:
    """Kafka, as far as it is asked."""

    def __init__(self, targets: dict[tuple[str, int], int] | Exception) -> None:
        self.targets, self.count = targets, 0

    def __call__(self) -> Any:
        return self

    def reach(self, moment: datetime) -> Reach:
        self.count += 1
        assert moment == AT + HOUR + timedelta(minutes=5)
        if isinstance(self.targets, Exception):
            raise self.targets
        return Reach(self.targets, dict.fromkeys(self.targets, 0))


def waiter(folder: Path, start: datetime = START, asked: Any = None) -> Waiter:
    asked = asked or Asked({("t", 0): 5, ("t", 1): 0})
    return Waiter(config(folder), Storage(), start, asked, lambda: pytest.fail("Spark is asked"))


def receipt(number: int) -> str:
    ranges = OffsetRanges((OffsetRange("t", 0, 10 * number - 10, 10 * number),))
    return Receipt("p", number, Run(), "c", {}, ranges, "q").to_json()


def batches(folder: Path, *numbers: int, restores: tuple[tuple[int, int | None], ...] = ()) -> None:
    """The log of an empty main table: these batches of 10 offsets each, and RESTOREs: at a version, to another one."""
    log = folder / "table" / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    schema = {"format": {"provider": "parquet"}, "schemaString": '{"type":"struct","fields":[]}'}
    first = [
        {"commitInfo": {"operation": "CREATE TABLE", "operationParameters": {}}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**schema, "partitionColumns": [], "configuration": {}}},
    ]
    infos: list[dict[str, Any]] = [
        {
            "operation": "WRITE",
            "operationParameters": {},
            "userMetadata": receipt(n),
        }
        for n in numbers
    ]
    for at, to in restores:
        infos.insert(at - 1, {"operation": "RESTORE", "operationParameters": {"version": to, "timestamp": None}})
    for version, actions in enumerate([first, *([{"commitInfo": info}] for info in infos)]):
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))


# How far one has to come ---------------------------------------------------------------------------------------------


def second(number: int) -> datetime:
    return datetime.fromtimestamp(number, UTC)


def test_a_marker_behind_which_records_are_older_proves_nothing() -> None:
    """Nor does a record of a time that is still to come: all that is there has to be reached."""
    for at, target in ((49, 20), (50, 7), (100, 7), (101, 20)):
        made = reach({("t", 0): 0}, {("t", 0): 20}, {("t", 0): (7, second(at))}, second(50), second(100))
        assert made.targets == {("t", 0): target}


@given(
    st.lists(st.integers(0, 30), max_size=12),
    st.integers(0, 12),
    st.integers(0, 25),
    st.integers(0, 30),
)
def test_what_is_reached_leaves_out_nothing(times: list[int], frontier: int, moment: int, now: int) -> None:
    """By the records themselves: none that is earlier than the moment, and in order, lies beyond what was reached."""
    found = next(((offset, at) for offset, at in enumerate(times) if at >= moment), None)
    early = {("t", 0): (found[0], second(found[1]))} if found else {}
    made = reach({("t", 0): 0}, {("t", 0): len(times)}, early, second(moment), second(now))
    frontier = min(frontier, len(times))
    before = found[0] if found and found[1] <= now else len(times)
    assert bool(made.missing({("t", 0): frontier})) == any(offset >= frontier for offset in range(before))


def test_an_idle_partition_is_reached_at_its_end() -> None:
    """One that has no frontier yet begins at its first offset."""
    made = reach({("t", 0): 0, ("t", 1): 9}, {("t", 0): 4, ("t", 1): 9}, {}, second(50), second(100))
    assert made.missing({("t", 0): 3}) == {("t", 0): (3, 4)}
    assert made.missing({("t", 0): 4}) == {}
    assert made.missing({}) == {("t", 0): (0, 4)}


# What is said --------------------------------------------------------------------------------------------------------


def test_a_period_without_a_row_is_complete_since_the_next_one() -> None:
    """It had no records then: a period between two rows had the oldest one's time and records, and so had a period
    before all rows (a table may be older than its contract).
    """
    later = Row(AT + 4 * HOUR, 1, 9)
    said = Complete({START: ROW, START + 2 * HOUR: later})
    assert said.of(START - 100 * HOUR) == Row(ROW.since, 0, ROW.sequence)
    assert said.of(START) == ROW
    assert said.of(START + HOUR) == Row(later.since, 0, later.sequence)
    assert said.of(START + 2 * HOUR) == later
    assert said.of(START + 3 * HOUR) is None
    assert Complete().of(START) is None


def test_what_came_late_is_counted() -> None:
    """By the rows that a period had when it was complete; rows that somebody deleted are no records that came late."""
    said = Complete({START: ROW, START + HOUR: Row(AT, 5, 8)})
    counts = {START: 12, START + HOUR: 3, START - 9 * HOUR: 4, START + 2 * HOUR: 99}
    assert said.late(counts) == {START - 9 * HOUR: 4, START: 2}
    assert Complete().late(counts) == {}


def test_the_rows_are_read_without_spark(tmp_path: Path) -> None:
    """Those of the pipeline alone: several may have one table."""
    _, late = completeness.followed(config(tmp_path))
    assert late == timedelta(minutes=5)
    assert completeness.declared(FileTables(config(tmp_path), Storage())) == Complete()
    say(tmp_path, AT)
    say(tmp_path, AT + HOUR, pipeline="other")
    assert completeness.declared(FileTables(config(tmp_path), Storage())) == Complete(
        {START: Row(AT + 2 * HOUR, 10, 1)}
    )


def test_the_rows_of_each_period_are_counted_by_the_files_alone(tmp_path: Path) -> None:
    """What is in a partition of no period is left out."""
    hours = ["2026-11-23-14"] * 3 + ["2026-11-23-15", "x", None]
    table = pa.table({"n": range(6), "hour": pa.array(hours, pa.string())})
    told = CommitProperties(custom_metadata={"userMetadata": receipt(1)})
    for _ in range(2):
        write_deltalake(str(tmp_path / "table"), table, partition_by=["hour"], mode="append", commit_properties=told)
    say(tmp_path, AT)
    said, counts = completeness.periods(FileTables(config(tmp_path), Storage()))
    assert counts == {START: 6, START + HOUR: 2}
    assert said.newest == START


# To wait -------------------------------------------------------------------------------------------------------------


def test_a_period_that_is_complete_is_not_waited_for(tmp_path: Path) -> None:
    """Kafka is not asked."""
    say(tmp_path, AT)
    batches(tmp_path, 1)
    asked = Asked({})
    assert until_reached(waiter(tmp_path, asked=asked).look, 0, pytest.fail) == Row(AT + 2 * HOUR, 10, 1)
    assert asked.count == 0


def test_it_is_waited_until_somebody_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look is told, and Kafka asked once; the pauses grow."""
    told, pauses = list[str](), list[float]()
    batches(tmp_path, 1)

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 6:
            say(tmp_path, AT)

    monkeypatch.setattr("lakeingest.operations.wait.time", SimpleNamespace(sleep=pause))
    asked = Asked({("t", 0): 1300, ("t", 1): 0})
    found = until_reached(waiter(tmp_path, asked=asked).look, None, told.append)
    assert isinstance(found, Row)
    assert pauses == [1, 2, 5, 10, 10, 10]
    assert asked.count == 1
    assert {*told} == {"p 2026-11-23T14: t-0 is committed up to 10 and has to come to 1,300"}


def test_at_the_timeout_it_is_told_what_is_missing(tmp_path: Path) -> None:
    """Which topic-partition, and how far."""
    found = until_reached(waiter(tmp_path).look, 0, pytest.fail)
    assert found == Waiting("p 2026-11-23T14: t-0 is committed up to 0 and has to come to 5", {("t", 0): (0, 5)})


@pytest.mark.parametrize(
    ("asked", "start", "text"),
    [
        (Asked({("t", 0): 0}), START, "the pipeline has not said so yet"),
        (Asked(SourceUnreachable("no answer", cure="x")), START, "cannot be told: no answer"),
        (Asked({}), datetime(2100, 1, 1), "may come until 2100-01-01 06:05:00 UTC"),
    ],
)
def test_what_else_is_waited_for(tmp_path: Path, asked: Asked, start: datetime, text: str) -> None:
    """In a sentence; a Kafka that does not answer ends no wait."""
    found = until_reached(waiter(tmp_path, start, asked).look, 0, pytest.fail)
    assert isinstance(found, Waiting)
    assert text in found.text


def test_a_store_that_is_away_for_a_moment_ends_no_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first look it does: then it is the file that is wrong."""
    log = tmp_path / "table_completeness" / "_delta_log"
    broken = log / f"{0:020}.json"
    told = list[str]()

    def pause(_: float) -> None:
        if not told[1:]:
            log.mkdir(parents=True)
            broken.write_text("{")
        else:
            broken.unlink()
            log.rmdir()
            say(tmp_path, AT)
            batches(tmp_path, 1)

    monkeypatch.setattr("lakeingest.operations.wait.time", SimpleNamespace(sleep=pause))
    assert isinstance(until_reached(waiter(tmp_path).look, None, told.append), Row)
    assert "cannot be read" in told[1]


TAKEN: dict[str, tuple[int, tuple[int, ...], tuple[tuple[int, int | None], ...], bool]] = {
    "none": (2, (1, 2), (), True),
    "before the batch": (2, (1, 2), ((3, 1),), False),
    "behind the batch": (2, (1, 2, 3), ((4, 2),), True),
    "to the beginning": (1, (1,), ((2, 0),), False),
    "gone on with since": (2, (1, 2, 3), ((3, 1),), False),
    "a batch that is behind it": (3, (1, 2, 3), ((3, 1),), True),
    "taken back itself": (2, (1, 2), ((3, 1), (4, 2)), True),
    "a batch that never was": (9, (1, 2), (), False),
}
"""Which batch said it, the batches of the log, its RESTOREs, and whether it stands."""


@pytest.mark.parametrize("case", TAKEN)
def test_what_a_restore_took_back_is_not_complete(tmp_path: Path, case: str) -> None:
    """Though no run has been there since to take the row away: neither to who waits, nor in what is kept."""
    sequence, numbers, restores, stands = TAKEN[case]
    say(tmp_path, AT, sequence=sequence)
    batches(tmp_path, *numbers, restores=restores)
    found = waiter(tmp_path, asked=Asked({("t", 0): 1000})).look()
    assert isinstance(found, Row) == stands
    said, _ = completeness.periods(FileTables(config(tmp_path), Storage()))
    assert said.newest == (START if stands else None)
    if isinstance(found, Waiting):
        standing = 10 * max(n for n in (0, *numbers) if restores[-1:] != ((len(numbers) + 1, n - 1),))
        assert found.missing[("t", 0)][0] in (0, 10, standing)


def test_what_a_restore_to_a_time_left_spark_is_asked(tmp_path: Path) -> None:
    """As it is of tables that only a catalog knows."""
    asked = list[str]()

    def spark(*_: object) -> Any:
        asked.append("spark")
        raise StorageUnreachable("it has no Spark", cure="x")

    say(tmp_path, AT)
    batches(tmp_path, 1, restores=((2, None),))
    for told in (config(tmp_path), config(tmp_path, table={"name": "lake.p"})):
        with pytest.raises(StorageUnreachable, match="no Spark"):
            Waiter(told, Storage(), START, Asked({}), spark).look()
    assert len(asked) == 2


# The command ---------------------------------------------------------------------------------------------------------


def test_the_command_ends_with_0_1_or_2(tmp_path: Path, lakeingest: Command) -> None:
    """Complete; not complete at the timeout, as JSON too; a period that cannot be, and a pipeline without."""
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(values(tmp_path)))
    say(tmp_path, AT)
    batches(tmp_path, 1)
    done = lakeingest("wait", file, "--complete", "2026-11-23T14")
    assert (done.code, done.out) == (0, "p 2026-11-23T14: complete since 2026-11-23 21:00:00 UTC\n")
    done = lakeingest("wait", file, "--complete", "2100-11-23T15", "--timeout", "0", "--output", "json")
    assert done.code == 1
    told = json.loads(done.out)
    assert (told["complete"], told["period_end"], told["missing"]) == (False, "2100-11-23T21:00:00+00:00", [])
    assert "may come until" in done.err
    for period, timeout in [("2026-11-23", "0"), ("2026-03-08T02", "0"), ("2026-11-23T14", "soon"), ("", "0")]:
        assert lakeingest("wait", file, "--complete", period, "--timeout", timeout).code == 2
    file.write_text(json.dumps(values(tmp_path, contract={})))
    done = lakeingest("wait", file, "--complete", "2026-11-23T14")
    assert (done.code, "contract: {completeness: {}}" in done.err) == (2, True)


# The contract --------------------------------------------------------------------------------------------------------


def kept(folder: Path, promised: dict[str, Any], **seen: Any) -> dict[str, dict[str, Any]]:
    found: dict[str, Any] = {"oldest": None, "complete": Complete(), "counts": {}, "now": AT, **seen}
    return {row["promise"]: row for row in contract.state(config(folder, contract=promised), **found)}


def test_freshness_is_broken_by_the_age_of_what_waits(tmp_path: Path) -> None:
    """And kept where nothing waits."""
    promised = {"freshness": "5 minutes"}
    assert kept(tmp_path, promised)["freshness"]["kept"] is True
    assert kept(tmp_path, promised, oldest=AT - timedelta(minutes=4))["freshness"]["kept"] is True
    late = kept(tmp_path, promised, oldest=AT - timedelta(minutes=14))["freshness"]
    assert (late["kept"], late["by_s"]) == (False, 540)
    assert late["found"] == "the oldest record that waits is 14 minutes old"


def log(*commits: tuple[int, float, float]) -> tuple[CommitLog, Ages]:
    """Commits of (number, hours ago, age of the oldest record in seconds) to a table that was made two days ago."""
    ranges = OffsetRanges(())
    made = [Commit(n, AT - hours * HOUR, 1, Receipt("p", n, Run(), "c", {}, ranges, "q")) for n, hours, _ in commits]
    ages = {n: (0.0, age_s) for n, _, age_s in commits}
    return CommitLog("t", "p", tuple(made)), Ages(ages, AT - 48 * HOUR)


def test_freshness_of_the_last_day_is_that_of_its_worst_batch(tmp_path: Path) -> None:
    """Without what is older than a day, and what waited before there was a table."""
    promised = {"freshness": "5 minutes"}
    assert "freshness of the last day" not in kept(tmp_path, promised)
    seen = log((4, 1, 200), (3, 2, 400), (2, 3, 49 * 3600), (1, 25, 4000))
    worst = freshness.worst(*seen, AT)
    assert worst is not None
    row = kept(tmp_path, promised, worst=worst)["freshness of the last day"]
    assert (row["kept"], row["by_s"]) == (False, 100)
    assert row["found"] == (
        "a record was 400 seconds old when batch 3 was committed; of 2 batches since 2026-11-23 17:00:00 UTC"
    )
    assert freshness.worst(*log((1, 25, 4000)), AT) is None
    assert freshness.worst(CommitLog("t", "p"), Ages(), AT) is None
    # A clock that is ahead.
    early = freshness.worst(*log((1, 1, -70)), AT)
    assert early is not None
    assert kept(tmp_path, promised, worst=early)["freshness of the last day"]["kept"] is True


def test_completeness_is_broken_by_what_is_overdue_and_what_came_late(tmp_path: Path) -> None:
    """The next hour is due 5 minutes behind its end, and the time that a record may take."""
    promised = {"completeness": {"late": "5 minutes"}, "freshness": "10 minutes"}
    assert kept(tmp_path, promised)["completeness"]["kept"] is None
    said = Complete({START: ROW})
    due = AT + 2 * HOUR + timedelta(minutes=15)
    assert kept(tmp_path, promised, complete=said, now=due)["completeness"]["kept"] is True
    overdue = kept(tmp_path, promised, complete=said, now=due + HOUR, counts={START: 13})
    assert (overdue["completeness"]["kept"], overdue["completeness"]["by_s"]) == (False, 3600)
    assert overdue["late records"]["late"] == 3
    assert overdue["late records"]["found"] == "3 came to 1 complete period: 2026-11-23T14 3"


def test_what_cannot_be_seen_is_stated(tmp_path: Path) -> None:
    """Nothing is said to be kept that nobody looked at."""
    found = kept(tmp_path, {"retention": "365 days", "owners": ["a@b.de"], "compatibility": "FORWARD"})
    assert {name: row["kept"] for name, row in found.items()} == {
        "compatibility": True,
        "retention": None,
        "owners": None,
    }
    assert contract.state(config(tmp_path, contract={}), oldest=AT, complete=Complete(), counts={}, now=AT) == ()
