"""Rows that are older than the pipeline file allows: taken out, counted as expired, and never read again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.pipelines import CHANGES, UPSERT, World, only
from support.pipelines.changes import encoded
from support.records import DIRTY, Record, produce

from lakeingest.delta.history import TableHistory
from lakeingest.delta.maintenance.outcome import Expiry
from lakeingest.ingest.events import Committed, Maintained
from lakeingest.ingest.expiry import TableExpiry

HOURLY: dict[str, Any] = {"partition": [{"by": "time", "every": "hour"}], "retention": {"table": "3 hours"}}


def old(count: int, hours: float = 6) -> list[Record]:
    """Records of some hours ago."""
    at = datetime.now(UTC) - timedelta(hours=hours)
    return [Record(json.dumps({"n": n, "text": f"{hours} hours old"}).encode(), at=at) for n in range(count)]


def expired(world: World, number: int = 0, **changes: Any) -> Expiry:
    """What a maintenance took out of one of the tables."""
    done = world.ingestion(**changes).maintain("expire")
    assert done.failure is None
    expiry = done[number].expiry
    assert expiry is not None
    return expiry


def check(world: World, count: int) -> None:
    """The audits, of the log and of the rows, count so many records as expired, and miss none."""
    for deep in (False, True):
        report = world.ingestion().audit(deep=deep)
        assert (report.conserved, report.removed["expired"]) == (True, count), report
        assert (report.missing, report.duplicated, report.unexpected) == (0, 0, 0)


def step(world: World) -> TableExpiry:
    expiry = TableExpiry.of(world.ingestion().tables, world.ingestion().tables.main)
    assert expiry is not None
    return expiry


@pytest.mark.faults
def test_old_partitions_expire(world: World) -> None:
    """What a dry run tells is taken out, once; runs go on, and a RESTORE brings it back until the next maintenance."""
    world.changes = HOURLY
    world.produce(*old(10), *old(4, 4.5), *old(5, 0), DIRTY)
    world.run()
    version = TableHistory(world.ingestion().tables.main).newest()
    (looked, *_) = world.ingestion().maintain("expire", dry_run=True)
    assert looked.expiry is not None
    assert (looked.expiry.rows, looked.expiry.partitions) == (14, 2)
    check(world, 0)
    done = world.ingestion().maintain()
    assert done.failure is None
    assert done[0].expiry is not None
    assert (done[0].expiry.rows, done[0].expiry.partitions, done[0].expiry.remaining) == (14, 2, 0)
    assert (done[0].before.count, done[0].after.count, len(world.rows())) == (3, 1, 5)
    assert expired(world).rows == 0
    check(world, 14)
    listed = world.spark.read.format("delta").load(world.path("_removed")).drop("at", "who").collect()
    assert [tuple(row) for row in listed] == [
        (world.name, world.name, 0, 0, 14, "expired", "table", version, "retention.table 3 hours")
    ]
    assert not world.ingestion().status().to_json().get("foreign_writers")

    world.produce(*old(3), *old(3, 0))
    world.run()
    check(world, 14)
    assert expired(world).rows == 3
    check(world, 17)
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")
    world.run()
    assert len(world.rows()) == 5 + 14 + 3, "those that Kafka was read for again stay out"
    check(world, 3)
    assert expired(world).rows == 14
    check(world, 17)
    assert expired(world).rows == 0


@pytest.mark.slow
def test_what_expired_is_not_read_again(world: World) -> None:
    """Kafka is read from its beginning into new tables beside the list."""
    world.changes = HOURLY
    world.produce(*old(10), *old(5, 0), DIRTY)
    world.run()
    assert expired(world).rows == 10
    for of in ("", "_quarantine"):
        world.remove_table(of)
    world.run()
    assert len(world.rows()) == 5
    check(world, 10)


def _lists(world: World, where: str) -> None:
    step(world).list_rows(where)


def _lists_and_deletes(world: World, where: str) -> None:
    it = step(world)
    it.list_rows(where)
    it.tables.removals.delete(it.table, where, "expired", "zstd")


def _lists_late_and_deletes(world: World, where: str) -> None:
    it = step(world)
    it.list_rows(where)
    appends(world)
    it.tables.removals.delete(it.table, where, "expired", "zstd")


def _lists_late_and_goes_on(world: World, where: str) -> None:
    it = step(world)
    version = it.list_rows(where)
    appends(world)
    it.delete_partitions(where, version)


def appends(world: World) -> None:
    world.produce(*old(4), *old(2, 0))
    world.run()


@pytest.mark.slow
@pytest.mark.parametrize(
    "killed",
    [
        _lists_late_and_deletes,
        *(
            pytest.param(killed, marks=pytest.mark.faults)
            for killed in (_lists, _lists_and_deletes, _lists_late_and_goes_on)
        ),
    ],
    ids=lambda f: f.__name__,
)
def test_a_process_ends_between_two_steps(world: World, killed: Callable[[World, str], None]) -> None:
    """Whatever it had done, and whoever appended meanwhile: the next maintenance leaves nothing open."""
    world.changes = HOURLY
    world.produce(*old(10), *old(5, 0), DIRTY)
    world.run()
    at = datetime.now(UTC) - timedelta(hours=6)
    killed(world, f"hour < '{at + timedelta(hours=1):%Y-%m-%d-%H}'")
    appends(world)
    expired(world)
    late = 8 if "late" in killed.__name__ else 4
    check(world, 10 + late)
    assert len(world.rows()) == 5 + late // 2
    version = TableHistory(world.ingestion().tables.main).newest()
    assert expired(world).rows == 0
    removed = world.ingestion().tables.removals.rows().count()
    expired(world)
    assert world.ingestion().tables.removals.rows().count() == removed, "nothing is looked at again"
    assert TableHistory(world.ingestion().tables.main).newest() == version


@pytest.mark.faults
def test_rows_expire_beside_a_run(world: World) -> None:
    """After each of its batches, all old rows are taken out."""
    world.changes = {**HOURLY, "trigger": {"max_records": 8}}
    world.produce(*(each for _ in range(4) for each in (*old(4), *old(3, 0), DIRTY)))
    counts: list[int] = []
    heard = only(Committed, lambda _: counts.append(expired(world).rows))
    world.ingestion().run(until_caught_up=True, on_event=heard)
    assert counts == [4, 4, 4, 4]
    assert len(world.rows()) == 12
    check(world, 16)


@pytest.mark.slow
def test_a_run_lets_rows_expire_by_itself(world: World) -> None:
    """Where the file has `maintenance.every`: when it is caught up, and it tells of it."""
    world.changes = {**HOURLY, "maintenance": {"every": "1 day"}}
    world.produce(*old(10), *old(5, 0))
    heard: list[Maintained] = []
    world.ingestion().run(until_caught_up=True, on_event=only(Maintained, heard.append))
    assert [each.files.expiry.rows for each in heard if each.files.expiry] == [10]
    assert len(world.rows()) == 5
    check(world, 10)


@pytest.mark.slow
def test_rows_without_partitions_expire_by_their_records(world: World) -> None:
    """By `_timestamp`; a dry run counts them, and only a part of a file may go."""
    world.changes = {"retention": {"table": "3 hours"}}
    world.produce(*old(10), *old(5, 0), DIRTY)
    world.run()
    (looked, *_) = world.ingestion().maintain("expire", dry_run=True)
    assert looked.expiry is not None
    assert (looked.expiry.rows, looked.expiry.partitions, len(world.rows())) == (10, 0, 15)
    assert expired(world).rows == 10
    assert {row["text"] for row in world.rows()} == {"0 hours old"}
    check(world, 10)
    assert expired(world).rows == 0


@pytest.mark.slow
@pytest.mark.parametrize("partition", [[], HOURLY["partition"]], ids=["rows", "partitions"])
def test_rows_of_mode_upsert_expire(world: World, partition: list[Any]) -> None:
    """Of the latest rows, those that are old: what the log counts is what is there."""
    world.changes = {"schema": {"columns": CHANGES}, "table": UPSERT, "partition": partition}
    at = datetime.now(UTC) - timedelta(hours=6)
    world.produce(*(Record(encoded((n % 5, n, "old", "U")), at=at) for n in range(10)))
    world.produce(*(encoded((n, 20, "new", "U")) for n in (0, 1, 7)))
    world.run()
    retention = {"retention": {"table": "3 hours"}}
    assert expired(world, **retention).rows == 3
    assert sorted(row["id"] for row in world.rows()) == [0, 1, 7]
    report = world.ingestion().audit()
    assert (report.conserved, report.table, report.removed["expired"], report.superseded) == (True, 3, 3, 7), report
    world.produce(encoded((3, 30, "new", "U")))
    world.run()
    assert expired(world, **retention).rows == 0
    assert world.ingestion().audit().conserved


@pytest.mark.faults
def test_quarantine_and_results_expire(world: World, tmp_path: Path) -> None:
    """Refused records are counted as expired, replayed ones are rows still; results go, and those of others stay."""
    suite = tmp_path / "suite.json"
    expectation = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "text"}}
    suite.write_text(json.dumps({"name": "s", "expectations": [expectation], "meta": {}}))
    world.changes = {"gate": {"suite": str(suite)}}
    world.produce(*old(5, 0), DIRTY, b'{"n": 7}', DIRTY)
    world.run()
    world.sql(
        "INSERT INTO {table} (pipeline, time) VALUES ('other', TIMESTAMP'2000-01-01')", world.path("_expectations")
    )
    assert world.ingestion(gate=None).replay("fixed").moved == 1
    time.sleep(0.1)
    short = {"retention": {"quarantine": "1 ms", "results": "1 ms"}}
    (_, refused, results, *_) = world.ingestion(**short).maintain("expire", dry_run=True)
    assert [each.expiry and each.expiry.rows for each in (refused, results)] == [3, 1]
    done = world.ingestion(**short).maintain("expire")
    assert done.failure is None
    assert [each.expiry and each.expiry.rows for each in done[:3]] == [None, 3, 1]
    assert world.refused == []
    results_left = world.spark.read.format("delta").load(world.path("_expectations"))
    assert [row["pipeline"] for row in results_left.collect()] == ["other"]
    check(world, 2)
    assert len(world.rows()) == 6
    world.produce(*old(2, 0), DIRTY)
    world.run()
    check(world, 2)
    assert world.ingestion().audit().quarantine == 1


@pytest.mark.slow
def test_a_younger_row_of_a_refused_record_stays(world: World) -> None:
    """Its batch was taken back, and read again since: the row of that time goes, and the record is no expired one."""
    world.produce(*old(5, 0), DIRTY)
    world.run()
    earlier = "* EXCEPT (refused_at, moved), refused_at - INTERVAL 2 HOURS AS refused_at"
    withdrawn = "named_struct('at', current_timestamp(), 'who', 'w', 'why', 'y', 'replay', -1L) AS moved"
    place = world.path("_quarantine")
    world.sql(f"INSERT INTO {{table}} BY NAME SELECT {earlier}, {withdrawn} FROM {{table}}", place)
    assert expired(world, 1, retention={"quarantine": "1 hour"}).rows == 1
    assert [row["moved"] for row in world.refused] == [None]
    check(world, 0)


@pytest.mark.faults
def test_rows_of_other_pipelines_stay(world: World) -> None:
    """Two pipelines have one table: each takes out what is its own."""
    world.changes = HOURLY
    world.produce(*old(10), *old(5, 0))
    world.run()
    other = f"{world.name}_other"
    produce(world.stack, other, old(4))
    beside = {"name": other, "source": {"topics": [other]}, "quarantine": {"path": world.path("_other_quarantine")}}
    world.run(**beside)
    assert (expired(world).rows, len(world.rows())) == (10, 9)
    assert (expired(world).rows, len(world.rows())) == (0, 9)
    check(world, 10)
    assert world.ingestion(**beside).audit().conserved
    assert expired(world, **beside).rows == 4
    report = world.ingestion(**beside).audit()
    assert (report.conserved, report.removed["expired"]) == (True, 4)
    check(world, 10)


@pytest.mark.slow
def test_periods_that_expire_stay_complete(world: World) -> None:
    """What is said of a period stays; fewer rows are none that came late."""
    world.changes = {**HOURLY, "contract": {"completeness": {"late": "1 minute"}}}
    world.produce(*old(10), *old(5, 0))
    world.run()
    before = complete(world)
    assert expired(world).rows == 10
    world.produce(*old(1, 0))
    world.run()
    assert before
    assert before.items() <= complete(world).items()


def complete(world: World) -> dict[Any, int]:
    rows = world.spark.read.format("delta").load(world.path("_completeness"))
    return {row["period_start"]: row["records"] for row in rows.collect()}


@pytest.mark.slow
def test_expiry_as_a_command(world: World) -> None:
    """As text, and as JSON."""
    world.changes = HOURLY
    world.produce(*old(10), *old(5, 0))
    world.run()
    looked = world.ingestion().maintain("expire", dry_run=True)
    text = "\n".join(each for each in looked.text if isinstance(each, str))
    assert f"s3a://lake/{world.name}: 10 rows from before " in text
    assert "to be taken out, 1 whole partition" in text
    assert looked.headline.endswith("0 partitions due, 10 rows expired")
    data = json.loads(json.dumps(world.ingestion().maintain("expire").to_json()))["tables"][0]
    assert {name: data["expiry"][name] for name in ("rows", "partitions", "remaining")} == {
        "rows": 10,
        "partitions": 1,
        "remaining": 0,
    }
