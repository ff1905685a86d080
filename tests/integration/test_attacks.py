"""Ways in which records were lost or doubled, or a pipeline stopped for ever: each was seen on real servers once."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.faults import BUCKET
from support.oracle import assert_exactly_once
from support.pipelines import World, forget_receipts, only
from support.records import DIRTY, Record, clean_records, expire_records, mixed_records, produce, recreate_topic

from lakeingest.delta import commit, quarantine
from lakeingest.delta.receipt import Counts
from lakeingest.delta.table import Table
from lakeingest.errors import BatchHeld, Fenced, OffsetsLost, SourceChanged, StorageError, TableChanged, TableMismatch
from lakeingest.ingest import preflight
from lakeingest.ingest.attempt import Attempt
from lakeingest.ingest.batch_reader import BatchReader
from lakeingest.ingest.events import Committed, Retrying
from lakeingest.ingest.jobs.run import RunJob
from lakeingest.ingest.preflight import Accept
from lakeingest.kafka import offsets
from lakeingest.local import Addresses
from lakeingest.record import OffsetRange, OffsetRanges
from lakeingest.testing.s3 import Request, S3Proxy, call_after, call_before, denied


@pytest.fixture
def proxied(stack: Addresses, spark: SparkSession, named: str, s3: S3Proxy) -> World:
    """Behind the proxy that can hurt its S3."""
    return World(stack, spark, named, table={"path": f"s3a://{BUCKET}/{named}"})


@contextmanager
def python_in(zone: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This Python's own time zone."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        yield
    finally:
        monkeypatch.undo()
        time.tzset()


def to_quarantine(world: World) -> Callable[[Request], bool]:
    return lambda request: request.kind == "PUT" and request.key.startswith(f"{world.name}_quarantine/")


# RESTORE -------------------------------------------------------------------------------------------------------------


@pytest.mark.faults
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_restored_to_a_time_of_another_zone(world: World, monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    """RESTORE names its time in the zone of its own session: the files tell which version that was, no clock does."""
    world.produce(*mixed_records(10))
    world.run()
    world.sql("ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')")
    time.sleep(1.1)
    between = world.spark.sql("SELECT date_format(current_timestamp(), 'yyyy-MM-dd HH:mm:ss.SSS')").collect()[0][0]
    time.sleep(1.1)
    world.produce(*mixed_records(10))
    world.run()
    world.sql(f"RESTORE TABLE {{table}} TO TIMESTAMP AS OF '{between}'")
    with python_in(zone, monkeypatch):
        world.run()
    world.checked()


@pytest.mark.faults
def test_restored_twice_by_time(world: World) -> None:
    """A RESTORE that takes another one back: what the first one took is there again, and is not read again."""
    times = []
    for _ in range(3):
        world.produce(*clean_records(5))
        world.run()
        time.sleep(1.1)
        times.append(world.spark.sql("SELECT string(current_timestamp())").collect()[0][0])
        time.sleep(1.1)
    world.sql(f"RESTORE TABLE {{table}} TO TIMESTAMP AS OF '{times[0]}'")
    world.sql(f"RESTORE TABLE {{table}} TO TIMESTAMP AS OF '{times[1]}'")
    ledger = world.commit_log()
    assert (ledger.frontier, ledger.taken_back) == ({(world.name, 0): 10}, True)
    world.run()
    world.checked()


@pytest.mark.faults
def test_restored_while_it_runs(world: World) -> None:
    """A RESTORE between two batches of one run: the run begins anew, and reads again what was taken back."""
    world.produce(*mixed_records(30))
    restored: list[object] = []

    def restore(progress: Any) -> None:
        if progress.sequence == 2 and not restored:
            restored.append(progress)
            world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {progress.version - 1}")

    retries: list[Any] = []
    ingestion = world.ingestion(trigger={"max_records": 10}, retry={"wait": "1 minute"})
    ingestion.run(until_caught_up=True, on_progress=restore, on_event=only(Retrying, retries.append))
    assert [(type(retry.failure), "restored" in str(retry.failure)) for retry in retries] == [(TableChanged, True)]
    world.checked()


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("step", ["table", "quarantine"])
def test_restored_while_a_commit_is_on_its_way(proxied: World, s3: S3Proxy, step: str) -> None:
    """The RESTORE is made when the store sees the commit: it fails, and is decided anew; or was before the RESTORE."""
    world, other = proxied, World(proxied.stack, proxied.spark, proxied.name)
    world.produce(*mixed_records(10))
    world.run()
    path = world.path()
    version = world.commit_log().version
    world.produce(*mixed_records(10))
    world.run()
    world.produce(*mixed_records(10))
    log = f"{world.name}/_delta_log/0" if step == "table" else f"{world.name}_quarantine/_delta_log/0"
    restore = s3.fault(
        lambda r: r.kind == "PUT" and r.key.startswith(log) and '"operation":"WRITE"' in r.text,
        call_before(lambda: other.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}", path)),
        times=1,
    )
    world.run(retry={"wait": "1 minute"})
    assert restore.hits == 1
    s3.clear()
    world.run()
    world.checked()


@pytest.mark.faults
def test_replayed_between_a_restore_and_a_run(world: World, tmp_path: Path) -> None:
    """A replay leaves to the run what that is to read again, by today's rules; quarantine's rows are withdrawn."""
    world.produce(*clean_records(20))
    world.run(gate=suite(tmp_path, 5))
    world.sql("RESTORE TABLE {table} TO VERSION AS OF 0")
    relaxed = world.ingestion(gate=suite(tmp_path, 14))
    assert relaxed.replay("before the run").moved == 0
    world.run(gate=suite(tmp_path, 14), trigger={"max_records": 12})
    world.checked()
    assert relaxed.table().count() == 15
    assert relaxed.quarantine(closed=True).count() == 5
    assert Counter(row["moved"] and row["moved"]["replay"] for row in world.refused) == {
        quarantine.WITHDRAWN: 14,
        None: 5,
    }


@pytest.mark.faults
def test_restored_while_a_replay_is_on_its_way(proxied: World, s3: S3Proxy, tmp_path: Path) -> None:
    """What it committed over the RESTORE is taken back: the run reads it again, and the table has it once."""
    world, other = proxied, World(proxied.stack, proxied.spark, proxied.name)
    world.produce(*clean_records(20))
    world.run(gate=suite(tmp_path, 5))
    path, log = world.path(), f"{world.name}/_delta_log/0"
    restore = s3.fault(
        lambda r: r.kind == "PUT" and r.key.startswith(log) and '"operation":"WRITE"' in r.text,
        call_before(lambda: other.sql("RESTORE TABLE {table} TO VERSION AS OF 0", path)),
        times=1,
    )
    with pytest.raises(TableChanged, match="restored"):
        world.ingestion(gate=suite(tmp_path, 14)).replay("over a RESTORE")
    assert restore.hits == 1
    s3.clear()
    world.run(gate=suite(tmp_path, 14))
    world.checked()


@pytest.mark.faults
def test_restored_to_and_fro_over_a_crash(proxied: World, s3: S3Proxy) -> None:
    """A batch that was cut off is taken back, and after later batches it is there again: it is settled all the same."""
    world = proxied
    world.produce(*mixed_records(10))
    s3.fault(lambda r: to_quarantine(world)(r) and '"operation":"WRITE"' in r.text, denied())
    with pytest.raises(StorageError):
        world.run()
    s3.clear()
    version = world.commit_log().version
    world.sql("RESTORE TABLE {table} TO VERSION AS OF 0")
    world.run(trigger={"max_records": 4})
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")
    world.produce(*mixed_records(5))
    world.run()
    world.checked()


# Several runs --------------------------------------------------------------------------------------------------------


@pytest.mark.faults
def test_a_goal_that_another_run_has_passed(world: World) -> None:
    """A run that set out for offset 5 begins again when another one stands at 10: there is nothing for it to commit."""
    world.produce(*clean_records(5))
    late = world.ingestion()
    job = RunJob(late.context, lambda _: None, until_caught_up=True, goal=late.source.topics().last)
    world.produce(*clean_records(5))
    world.run()
    topics = late.source.topics()
    assert Attempt.begin(job, late.context, topics, Accept()).next_batch(topics) is None
    world.produce(*clean_records(5))
    world.run()
    world.checked()


@pytest.mark.slow
@pytest.mark.parametrize("behind", [pytest.param("table", marks=pytest.mark.faults), "quarantine"])
def test_what_failed_behind_its_commit_is_counted_once(proxied: World, s3: S3Proxy, behind: str) -> None:
    """An attempt that fails behind the table's commit told nothing, and the next one found nothing to commit: the
    outcome said 0 records where the run had committed 6.
    """
    world, committed, heard = proxied, [], list[Any]()
    world.produce(*(clean_records(6) if behind == "table" else mixed_records(6)))
    if behind == "table":
        log = f"{world.name}/_delta_log/"
        s3.fault(
            lambda r: r.kind == "PUT" and r.key.startswith(log) and '"operation":"WRITE"' in r.text,
            call_after(lambda: committed.append(1)),
        )
        s3.fault(
            lambda r: bool(committed) and r.kind != "PUT" and log in f"{r.key}{r.query.get('prefix', '')}", denied()
        )
    else:
        s3.fault(lambda r: to_quarantine(world)(r) and '"operation":"WRITE"' in r.text, denied())

    def hear(event: Any) -> None:
        heard.append(event)
        if isinstance(event, Retrying):
            s3.clear()

    pipeline = world.ingestion(retry={"wait": "1 minute"})
    counts = Counts(6, 6) if behind == "table" else Counts(6, 4, 2)
    assert pipeline.run(until_caught_up=True, on_event=hear) == counts
    assert sum(isinstance(event, Retrying) for event in heard) == 1
    (done,) = [event for event in heard if isinstance(event, Committed)]
    assert (done.counts, heard[-1].counts, heard[-1].commits) == (counts, counts, 1)
    assert done.refused == ({} if behind == "table" else {"WRONG_TYPE": 2})
    # The same object runs again: what it has told of is not told again.
    assert pipeline.run(until_caught_up=True) == Counts()
    world.checked()


def test_no_span_goes_backwards() -> None:
    """Of a partition that is beyond the end nothing is taken, and it counts for nothing in the others' share."""
    begin, end = {("t", 0): 150, ("t", 1): 0}, {("t", 0): 50, ("t", 1): 100}
    assert offsets.next_ranges(begin, end, 1000) == OffsetRanges(
        (OffsetRange("t", 0, 150, 150), OffsetRange("t", 1, 0, 100))
    )


@pytest.mark.faults
def test_the_audit_names_a_span_that_goes_backwards(world: World) -> None:
    """As an older version wrote them: a break, whatever the rows say."""
    world.produce(*clean_records(6))
    world.run()
    ingestion = world.ingestion()
    made = world.commit_log().commits[0].receipt
    back = replace(made, sequence=2, ranges=OffsetRanges((OffsetRange(world.name, 0, 6, 4),)))
    path = ingestion.config.table.path
    rows = world.spark.read.format("delta").load(path).limit(0)
    # An empty frame is committed where it bears a number.
    number = {"txnAppId": "somebody", "txnVersion": "1"}
    rows.write.format("delta").mode("append").options(userMetadata=back.to_json(), **number).save(path)
    assert f"commit 2 goes back: {world.name}-0 from 6 to 4" in ingestion.audit().breaks
    with pytest.raises(AssertionError):
        commit.write(Table(world.spark, path), rows, back, "zstd")


# Replays -------------------------------------------------------------------------------------------------------------


def suite(folder: Path, most: int) -> dict[str, str]:
    """A gate that lets n up to a bound pass."""
    path = folder / f"suite_{most}.json"
    rule = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "max_value": most}}
    path.write_text(json.dumps({"name": "s", "expectations": [rule]}))
    return {"suite": str(path)}


@pytest.mark.faults
def test_two_replays_at_once(proxied: World, s3: S3Proxy, tmp_path: Path) -> None:
    """Another replay commits while the candidates of the first are read: the first one loses, whenever it looks."""
    world = proxied
    world.produce(*clean_records(20))
    world.run(gate=suite(tmp_path, 5))
    one, other = (world.ingestion(gate=suite(tmp_path, 14)) for _ in range(2))
    assert one.spark is other.spark
    seen: list[int] = []

    def overtake() -> None:
        if not seen:
            seen.append(1)
            seen.append(other.replay("the other").moved)

    looked: list[Request] = []

    def behind_the_candidates(request: Request) -> bool:
        """The first look at the table's log behind those at its rows, whose coordinates are no candidates."""
        if request.key.startswith(f"{world.name}/") and request.key.endswith(".parquet"):
            looked.append(request)
        log = f"{world.name}/_delta_log/"
        return bool(looked) and (request.key.startswith(log) or request.query.get("prefix", "").startswith(log))

    s3.fault(behind_the_candidates, call_before(overtake), times=1)
    with pytest.raises(Fenced):
        one.replay("the one")
    assert seen == [1, 9]
    s3.clear()
    world.checked()


@pytest.mark.faults
@pytest.mark.parametrize(
    "then",
    ["run", "replay", "discard"],
)
def test_a_restore_behind_a_replay(world: World, tmp_path: Path, then: str) -> None:
    """What the replay had moved is in quarantine again, and can be moved again, or discarded."""
    world.produce(*clean_records(20))
    world.run(gate=suite(tmp_path, 5))
    version = world.commit_log().commits[0].version
    relaxed = world.ingestion(gate=suite(tmp_path, 14))
    assert relaxed.replay("first").moved == 9
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")
    report = relaxed.audit()
    assert (report.conserved, report.table, report.quarantine) == (True, 6, 14), report
    if then == "run":
        world.produce(*clean_records(3))
        world.run(gate=suite(tmp_path, 14))
        world.checked()
    if then == "discard":
        assert relaxed.discard("enough") == 14
        assert relaxed.replay("nothing is left").moved == 0
    else:
        assert relaxed.replay("second").moved == 9
        assert relaxed.replay("third").moved == 0
    world.checked()


@pytest.mark.faults
def test_a_discard_behind_a_killed_replay(proxied: World, s3: S3Proxy, tmp_path: Path) -> None:
    """What the replay has moved is in the table, and is not discarded; later replays go on."""
    world = proxied
    world.produce(*clean_records(20))
    world.run(gate=suite(tmp_path, 5))
    relaxed = world.ingestion(gate=suite(tmp_path, 14))
    s3.fault(to_quarantine(world), denied())
    with pytest.raises(StorageError):
        relaxed.replay("a try")
    s3.clear()
    assert relaxed.discard("enough") == 5
    world.checked()
    assert relaxed.replay("again").moved == 0
    world.produce(*clean_records(3))
    world.run(gate=suite(tmp_path, 14))
    world.checked()


# Tables that others made or share ------------------------------------------------------------------------------------


@pytest.mark.faults
@pytest.mark.parametrize(
    "how",
    [
        "CREATE TABLE {copy} USING delta AS SELECT * FROM {table}",
        "CREATE TABLE {copy} SHALLOW CLONE {table}",
    ],
)
def test_a_copy_of_a_table(world: World, how: str) -> None:
    """Its log has no receipt, or those of a past that is not its own: its rows say how far it has come."""
    world.produce(*clean_records(10))
    world.run()
    path = f"s3a://lake/{world.name}_copy"
    world.sql(how.replace("{copy}", f"delta.`{path}`"))
    world.produce(*clean_records(5))
    copy = world.ingestion(table={"path": path})
    copy.run(until_caught_up=True)
    assert_exactly_once(world.spark, copy, world.produced)
    report = copy.audit()
    assert (report.conserved, report.earlier, report.table) == (True, 10, 5), report


@pytest.mark.faults
def test_two_pipelines_share_a_quarantine(world: World, tmp_path: Path) -> None:
    """Each audit, replay and discard is about the pipeline's own records."""
    shared = {"quarantine": {"path": f"s3a://lake/{world.name}_shared"}}
    other = World(world.stack, world.spark, f"{world.name}_b", source={"topics": [world.name]})
    for each in (world, other, world):
        world.produce(*clean_records(10))
        each.run(**shared, gate=suite(tmp_path, 3))
    for each, count in ((world, 30), (other, 20)):
        report = each.ingestion(**shared).audit()
        assert (report.conserved, report.consumed) == (True, count), report
    relaxed = {**shared, "gate": suite(tmp_path, 8)}
    assert world.ingestion(**relaxed).replay("more is welcome").moved == 15
    assert other.ingestion(**relaxed).replay("more is welcome").moved == 10
    assert other.ingestion(**relaxed).discard("enough") == 2
    found = [each.ingestion(**relaxed).audit() for each in (world, other)]
    assert [(r.conserved, r.table, r.quarantine) for r in found] == [(True, 27, 3), (True, 18, 2)], found


@pytest.mark.faults
def test_a_shared_quarantine_and_two_crashes(proxied: World, s3: S3Proxy) -> None:
    """Both pipelines are cut off between their commits, at the same sequence number; each settles its own batch."""
    shared = {"quarantine": {"path": f"s3a://{BUCKET}/{proxied.name}_quarantine"}}
    own = {"table": {"path": f"s3a://{BUCKET}/{proxied.name}_b"}, "source": {"topics": [proxied.name]}}
    other = World(proxied.stack, proxied.spark, f"{proxied.name}_b", **own)
    proxied.produce(*mixed_records(10))
    for each in (proxied, other):
        each.run(**shared)
    proxied.produce(*mixed_records(10))
    for each in (proxied, other):
        s3.fault(to_quarantine(proxied), denied())
        with pytest.raises(StorageError):
            each.run(**shared)
        s3.clear()
    for each in (other, proxied):
        each.run(**shared)
        report = each.ingestion(**shared).audit()
        assert (report.conserved, report.table, report.quarantine) == (True, 16, 4), report


# Logs that forget ----------------------------------------------------------------------------------------------------


@pytest.mark.faults
def test_a_table_that_forgets_its_numbers(world: World) -> None:
    """Delta would let a writer that was overtaken commit again: the start refuses, with the cure."""
    world.produce(*mixed_records(5))
    world.run()
    for path in (f"s3a://lake/{world.name}", f"s3a://lake/{world.name}_quarantine"):
        world.sql("ALTER TABLE {table} SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = '1 day')", path)
        with pytest.raises(TableMismatch, match="forgets which commits") as refused:
            world.run()
        world.spark.sql(refused.value.cure)
        world.run()


@pytest.mark.faults
def test_quarantines_log_forgets_first(world: World) -> None:
    """Dropped records that no account names any more are not missing: the audit says what it cannot prove."""
    world.changes = {"decode": {"on_null": "ignore"}}
    world.produce(*mixed_records(10), Record(None, b"gone"), *clean_records(2))
    world.run()
    forget_receipts(world.spark, world.stack, f"s3a://lake/{world.name}_quarantine")
    report = world.ingestion().audit()
    assert (report.conserved, report.missing, report.unproved, report.quarantine) == (True, 0, 1, 2), report
    world.run()
    world.produce(*mixed_records(5))
    world.run()
    world.checked()


@pytest.mark.faults
def test_without_a_receipt_nothing_is_proved(world: World) -> None:
    """Clean-up took all of them: the audit does not call that conserved, and says how many rows it cannot vouch for."""
    world.produce(*mixed_records(10))
    world.run()
    ingestion = world.ingestion()
    forget_receipts(world.spark, world.stack, ingestion.config.table.path)
    report = ingestion.audit()
    assert (report.conserved, report.commits, report.consumed, report.earlier) == (False, 0, 0, 10), report


@pytest.mark.faults
def test_quarantine_is_ahead_of_a_table_without_receipts(world: World) -> None:
    """A RESTORE took accepted rows back, and clean-up the receipts: what quarantine has not is read again."""
    world.produce(*clean_records(5))
    world.run()
    ingestion = world.ingestion()
    version = world.commit_log().commits[0].version
    world.produce(*clean_records(5), DIRTY)
    world.run()
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")
    forget_receipts(world.spark, world.stack, ingestion.config.table.path)
    world.run()
    assert_exactly_once(world.spark, ingestion, world.produced)


@pytest.mark.faults
def test_a_topic_made_again_without_ids(world: World) -> None:
    """Where no id tells it, the newest record's time does; the same topic goes on."""
    world.produce(*clean_records(5))
    world.run()
    ingestion = world.ingestion()
    ledger = world.commit_log()

    def check() -> None:
        topics = replace(ingestion.source.topics(), ids={world.name: ""})
        preflight.check_records(ingestion.tables, BatchReader(ingestion.context), ledger, topics)

    check()
    recreate_topic(world.stack, world.name)
    produce(world.stack, world.name, clean_records(9))
    with pytest.raises(SourceChanged, match="deleted and made again: the record at"):
        check()


@pytest.mark.slow
@pytest.mark.parametrize(
    "produced", [pytest.param(0, id="all gone", marks=pytest.mark.faults), pytest.param(5, id="some left")]
)
@pytest.mark.faults
def test_retention_passes_a_batch_that_was_cut_off(proxied: World, s3: S3Proxy, produced: int) -> None:
    """Killed between its two commits, and Kafka forgot the records: they are named, and --accept-gap goes on."""
    world = proxied
    world.produce(*mixed_records(5))
    world.run()
    world.produce(*mixed_records(10), *mixed_records(produced))
    s3.fault(to_quarantine(world), denied())
    with pytest.raises(StorageError):
        world.run()
    s3.clear()
    expire_records(world.stack, world.name, 15)
    with pytest.raises(OffsetsLost, match="2 of these offsets are in neither table") as lost:
        world.run()
    assert f"{world.name}-0 offsets 5 to 14" in lost.value.what
    world.ingestion().run(until_caught_up=True, accept_gap=True)
    report = world.ingestion().audit()
    assert (report.conserved, report.lost, report.missing) == (True, 2, 0), report
    assert report.table + report.quarantine == 13 + produced
    assert report.named["lost"] == [f"{world.name}-0 offsets 5 to 14"]
    world.produce(*mixed_records(5))
    world.run()
    assert world.ingestion().audit().conserved


@pytest.mark.faults
def test_compaction_between_a_crash_and_its_settling(proxied: World, s3: S3Proxy) -> None:
    """Kafka no longer has accepted records of the batch that is settled: nothing becomes a negative count."""
    world = proxied
    world.produce(*clean_records(6), DIRTY, *clean_records(3), DIRTY)
    s3.fault(lambda r: to_quarantine(world)(r) and '"operation":"WRITE"' in r.text, denied())
    with pytest.raises(StorageError):
        world.run()
    s3.clear()
    expire_records(world.stack, world.name, 6)
    world.run()
    world.checked()


# The gate, and the table's own demands -------------------------------------------------------------------------------


@pytest.mark.faults
def test_a_consent_outlives_a_failed_commit(proxied: World, s3: S3Proxy, tmp_path: Path) -> None:
    """--accept-held is used up by the commit that it lets through, and not by one that the store refused."""
    world = proxied
    rule = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 10}}
    (tmp_path / "s.json").write_text(json.dumps({"name": "s", "expectations": [rule]}))
    world.changes |= {"gate": {"suite": str(tmp_path / "s.json")}, "retry": {"wait": "1 minute"}}
    world.produce(*clean_records(12))
    world.run()
    world.produce(*clean_records(5))
    log = s3.fault(
        lambda r: r.kind == "PUT" and r.key.startswith(f"{world.name}/_delta_log/0") and '"WRITE"' in r.text,
        denied(),
        times=1,
    )
    retries: list[object] = []
    ingestion = world.ingestion()
    ingestion.run(until_caught_up=True, accept_held="a holiday", on_event=only(Retrying, retries.append))
    assert (log.hits, len(retries)) == (1, 1)
    world.checked()
    world.produce(*clean_records(5))
    with pytest.raises(BatchHeld):
        ingestion.run(until_caught_up=True)


@pytest.mark.faults
@pytest.mark.slow
def test_a_table_with_constraints_of_its_own(world: World) -> None:
    """Records that break a CHECK go to quarantine, one over partition columns too; the others are committed."""
    world.changes = {"partition": [{"by": "field", "field": "text", "name": "part"}]}
    world.produce(*clean_records(5))
    world.run()
    for change in (
        "ADD CONSTRAINT small CHECK (n < 7)",
        "ADD CONSTRAINT there CHECK (part <> 'text 1' OR _offset < 5)",
    ):
        world.sql(f"ALTER TABLE {{table}} {change}")
    world.produce(*clean_records(10), b'{"n": 2}')
    planned = world.ingestion().plan()
    assert planned.constraints["small"] == "n < 7"
    told = {(r["stage"], r["reason"]): r["count"] for r in planned.refusals}
    assert told == {("table", "CONSTRAINT"): 5}
    world.run()
    world.checked()
    refused = world.spark.read.format("delta").load(f"s3a://lake/{world.name}_quarantine").orderBy("_offset").collect()
    assert [(row["_offset"], row["message"]) for row in refused] == [
        (6, "the table's constraint there: part <> 'text 1' OR _offset < 5"),
        *((offset, "the table's constraint small: n < 7") for offset in (12, 13, 14)),
        (15, "the table's constraint there: part <> 'text 1' OR _offset < 5"),
    ]


@pytest.mark.faults
def test_a_constraint_that_comes_while_it_runs(world: World) -> None:
    """The batch that breaks it is begun anew, and its record refused."""
    world.produce(*clean_records(20))

    def constrain(progress: Any) -> None:
        if progress.sequence == 1:
            world.sql("ALTER TABLE {table} ADD CONSTRAINT small CHECK (n < 15)")

    ingestion = world.ingestion(trigger={"max_records": 10}, retry={"wait": "1 minute"})
    ingestion.run(until_caught_up=True, on_progress=constrain)
    world.checked()
    assert ingestion.audit().quarantine == 5


def test_a_receipt_of_a_newer_form(world: World) -> None:
    """It is refused: taken for none, the batch that it tells of would be read again."""
    world.produce(*clean_records(5))
    world.run()
    ingestion = world.ingestion()
    path = ingestion.config.table.path
    rows = world.spark.read.format("delta").load(path).limit(0)
    number = {"txnAppId": "somebody", "txnVersion": "1"}
    rows.write.format("delta").mode("append").options(userMetadata='{"lakeingest": 3}', **number).save(path)
    with pytest.raises(TableMismatch, match="receipt of form 3"):
        world.run()
