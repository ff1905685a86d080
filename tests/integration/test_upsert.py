"""Whole pipelines of mode upsert: the latest row of each key, whatever order and batches its records come in."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pipelines import CHANGES, UPSERT, World
from support.pipelines.changes import Change, check, encoded
from support.pipelines.command_line import Command
from support.records import Record

from lakeingest.config import file
from lakeingest.delta.receipt import Counts
from lakeingest.errors import TableMismatch, UsageError
from lakeingest.fleet import Fleet
from lakeingest.local import Addresses
from lakeingest.operations.audit import audit
from lakeingest.operations.readers import FileTables
from lakeingest.pipeline import Pipeline


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> World:
    return World(stack, spark, named, schema={"columns": CHANGES}, table=UPSERT)


def keep_as_bronze(world: World) -> None:
    """What was produced, as bytes, in a table beside the main one."""
    bronze = world.values(decode={"value": {"format": "bytes"}, "on_null": "write"})
    bronze |= {"name": f"{world.name}_bronze", "schema": {}, "table": {"path": world.path("_bronze")}}
    Pipeline(file.from_mapping(bronze)).run(until_caught_up=True)


def test_the_latest_row_of_each_key(world: World) -> None:
    """Newer, older and equal ones, in one batch and over two; a delete, and an older change behind it."""
    first: list[Change] = [(1, 10, "new", "I"), (2, 10, "new", "I"), (1, 20, "paid", "U"), (1, 15, "late", "U")]
    world.produce(*map(encoded, first))
    assert world.run() == Counts(4, 4)
    check(world, first)
    second: list[Change] = [(2, 30, "", "D"), (1, 20, "tie", "U"), (3, 5, "", "D"), (4, 1, "new", "I")]
    world.produce(*map(encoded, second))
    world.run()
    check(world, first + second)
    third: list[Change] = [(2, 25, "late", "U"), (3, 4, "late", "I"), (3, 6, "again", "I")]
    world.produce(*map(encoded, third))
    world.run()
    check(world, first + second + third)
    assert {row["key_1"]: row["order_1"] for row in world.rows("_deletes")} == {2: 30, 3: 5}


def test_no_key_and_no_order_are_refused(world: World) -> None:
    changes: list[Change] = [(1, 10, "a", "I"), (None, 10, "b", "I"), (2, None, "c", "I"), (None, None, "", "D")]
    world.produce(*map(encoded, changes), b"no JSON")
    plan = world.ingestion().plan()
    assert (plan.counts["accepted"], plan.counts["refused"]) == (1, 4)
    assert "_raw_deletes" not in [column["name"] for column in plan.columns]
    assert world.run() == Counts(5, 1, 4)
    check(world, changes)
    assert [(row["_offset"], row["stage"], row["reason"], row["message"]) for row in world.refused[:3]] == [
        (1, "table", "NULL_KEY", "id is null, and part of the key"),
        (2, "table", "NULL_ORDER", "at is null or NaN, and says which record is the latest"),
        (3, "table", "NULL_KEY", "id is null, and part of the key"),
    ]


def test_a_tombstone_deletes(world: World) -> None:
    """By the record's own key, in the order of offsets."""
    keyed = {**UPSERT, "keys": "key", "order_by": [], "on_delete_marker": None}
    decode = {"key": {"format": "string"}}
    values = [(b"a", 1), (b"b", 1), (b"a", None), (b"b", 2), (b"c", None), (None, 3), (None, None)]
    world.produce(*(Record(n and json.dumps({"id": n}).encode(), key, 0) for key, n in values))
    assert world.run(table=keyed, decode=decode) == Counts(7, 5, 2)
    assert [(row["_key"], row["id"]) for row in world.rows()] == [("b", 2)]
    assert [row["key_1"] for row in world.rows("_deletes")] == ["a", "c"]


@pytest.mark.parametrize("most", [*(pytest.param(most, marks=pytest.mark.slow) for most in (1, 2)), 7, 1000])
def test_cuts_and_order_change_nothing(world: World, most: int) -> None:
    """The same changes, shuffled, in batches of other sizes."""
    dice = random.Random(most)
    changes: list[Change] = [
        (key, at, f"{key} at {at}", "D" if (key + at) % 3 == 0 else "U") for key in range(3) for at in range(4)
    ]
    dice.shuffle(changes)
    world.produce(*map(encoded, changes))
    world.run(trigger={"max_records": most})
    check(world, changes)


@pytest.mark.parametrize("most", [3, 1000])
def test_a_batch_that_was_cut_off_is_settled(world: World, most: int) -> None:
    """What it refused comes to quarantine once, and what it deletes is remembered, though rows are gone by then."""
    changes: list[Change] = [(1, 1, "a", "I"), (None, 1, "b", "I"), (1, 5, "", "D"), (2, 1, "c", "I"), (2, 2, "d", "U")]
    world.produce(*map(encoded, changes))
    world.crash(trigger={"max_records": most})
    assert world.refused == []
    late: list[Change] = [(1, 4, "late", "U")]
    world.produce(*map(encoded, late))
    world.run(trigger={"max_records": most})
    check(world, changes + late)
    assert [row["_offset"] for row in world.refused] == [1]


def test_all_are_refused_or_nothing_is_there(world: World) -> None:
    """A batch without an accepted record is committed all the same, and the next one goes on behind it."""
    refused: list[Change] = [(None, 1, "a", "I"), (None, 2, "b", "I")]
    world.produce(*map(encoded, refused))
    assert world.run() == Counts(2, 0, 2)
    check(world, refused)
    assert world.ingestion().audit("source").keys_compared == 0
    more: list[Change] = [(1, 1, "a", "I")]
    world.produce(*map(encoded, more))
    assert world.run() == Counts(1, 1)
    check(world, refused + more)


@pytest.mark.faults
def test_a_replay_of_an_old_record(world: World, tmp_path: Path) -> None:
    """It loses against a newer row, and wins against an older one, or none; and it is moved once."""
    suite = tmp_path / "suite.json"

    def with_most(most: int) -> Pipeline:
        rule = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "at", "max_value": most}}
        suite.write_text(json.dumps({"name": "s", "expectations": [rule]}))
        return world.ingestion(gate={"suite": str(suite)})

    first: list[Change] = [(1, 50, "a", "U"), (2, 50, "b", "U"), (3, 50, "c", "U"), (4, 60, "", "D"), (1, 10, "d", "U")]
    world.produce(*map(encoded, first))
    assert with_most(20).run(until_caught_up=True) == Counts(5, 2, 3)
    second: list[Change] = [(2, 20, "e", "U"), (4, 55, "late", "U")]
    world.produce(*map(encoded, second))
    with_most(55).run(until_caught_up=True)
    third: list[Change] = [(1, 51, "f", "U")]
    world.produce(*map(encoded, third))
    relaxed = with_most(100)
    relaxed.run(until_caught_up=True)
    assert relaxed.replay("corrected").moved == 3
    assert relaxed.replay("again").moved == 0
    check(world, first + second + third)


@pytest.mark.slow
def test_a_backfill_behind_a_newer_state(world: World) -> None:
    """Older records lose, what nobody has comes in, and what they delete stays deleted."""
    world.changes["source"] = {"start": "latest"}
    first: list[Change] = [(1, 1, "old", "U"), (2, 90, "newer", "U"), (3, 1, "only here", "U"), (4, 80, "", "D")]
    world.produce(*map(encoded, first))
    world.run()
    second: list[Change] = [(1, 50, "new", "U"), (2, 50, "new", "U"), (5, 60, "", "D")]
    world.produce(*map(encoded, second))
    world.run()
    assert world.ingestion().backfill("earliest").counts.consumed == 4
    third: list[Change] = [(4, 70, "too late", "U"), (5, 59, "too late", "U")]
    world.produce(*map(encoded, third))
    world.run()
    check(world, first + second + third)


@pytest.mark.slow
def test_restored_and_read_again(world: World) -> None:
    """What a RESTORE takes back is read again; what was deleted then is forgotten, and remembered again."""
    first: list[Change] = [(1, 1, "a", "U"), (2, 1, "b", "U")]
    world.produce(*map(encoded, first))
    world.run()
    (newest,) = world.spark.sql(f"DESCRIBE HISTORY delta.`{world.path()}` LIMIT 1").select("version").collect()[0]
    second: list[Change] = [(1, 9, "", "D"), (None, 2, "c", "U"), (2, 5, "d", "U")]
    world.produce(*map(encoded, second))
    world.run()
    check(world, first + second)
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {newest}")
    third: list[Change] = [(1, 8, "late", "U")]
    world.produce(*map(encoded, third))
    world.run()
    check(world, first + second + third)


@pytest.mark.slow
def test_partitions_and_new_columns(stack: Addresses, spark: SparkSession, named: str) -> None:
    """A row whose partition changes moves; columns with strange names; a column that comes with a batch's commit."""
    world = World(
        stack,
        spark,
        named,
        schema={"columns": "`my.id` INT, at TIMESTAMP, who STRUCT<country: STRING>", "compatibility": "BACKWARD"},
        table={"mode": "upsert", "keys": ["my.id"], "order_by": ["at"]},
        partition=[{"by": "time", "field": "at", "every": "day"}, {"by": "field", "field": "who.country"}],
    )

    def order(n: int, day: int, country: str | None, **more: Any) -> bytes:
        return json.dumps(
            {"my.id": n, "at": f"2026-11-{day:02}T12:00:00Z", "who": {"country": country}, **more}
        ).encode()

    world.produce(order(1, 1, "NL"), order(2, 1, "DE"), order(3, 1, None))
    world.run()
    world.produce(order(1, 2, "BE", note="moved"), order(2, 3, None), order(3, 1, "FR"))
    world.run()
    rows = [(row["my.id"], str(row["day"]), row["who_country"], row["note"]) for row in world.rows()]
    assert rows == [(1, "2026-11-02", "BE", "moved"), (2, "2026-11-03", None, None), (3, "2026-11-01", "FR", None)]
    assert world.ingestion().audit().conserved


@pytest.mark.faults
def test_several_pipelines_in_one_process(stack: Addresses, spark: SparkSession, named: str) -> None:
    """Each MERGE has the receipt of its own pipeline, beside others that append and merge."""
    worlds = [
        World(stack, spark, f"{named}_{n}", schema={"columns": CHANGES}, **({"table": UPSERT} if n else {}))
        for n in range(3)
    ]
    changes: list[Change] = [(key, at, f"{key}", "U") for at in range(3) for key in range(4)]
    for world in worlds:
        world.produce(*map(encoded, changes))
    configs = [world.ingestion(trigger={"every": "1 second", "max_records": 2}).config for world in worlds]
    assert all(ended.outcome == "caught up" for ended in Fleet(configs).run(until_caught_up=True))
    for world in worlds:
        assert [commit.receipt.sequence for commit in world.commit_log().commits] == [6, 5, 4, 3, 2, 1]
        assert not world.commit_log().other_pipelines
    for world in worlds[1:]:
        check(world, changes)


def test_another_mode_key_or_order_is_refused(world: World) -> None:
    """Of a table that is there: it says what it was made with, and the cure."""
    changes: list[Change] = [(1, 10, "a", "I")]
    world.produce(*map(encoded, changes))
    world.run()
    others: list[dict[str, Any]] = [
        {"path": world.path()},
        {**UPSERT, "path": world.path(), "keys": ["id", "status"]},
        {**UPSERT, "path": world.path(), "order_by": []},
    ]
    for table, told in zip(others, ["table.mode upsert", "table.keys id,", "table.order_by at,"], strict=True):
        with pytest.raises(TableMismatch, match=told):
            world.run(table=table)
    check(world, changes)


@pytest.mark.slow
def test_what_is_masked_is_in_no_log(stack: Addresses, spark: SparkSession, named: str) -> None:
    """A masked column is compared by its masked value; a key beside it is in no log, as a bound or in statistics."""
    world = World(
        stack,
        spark,
        named,
        schema={"columns": "mail STRING, at INT"},
        decode={"key": {"format": "string"}},
        transform=[{"mask": {"mail": {"hash": "salt of sixteen"}}}],
        quarantine={"keep_bytes": "never"},
        table={"mode": "upsert", "keys": ["_key", "mail"], "order_by": ["at"]},
    )

    def record(mail: str, at: int) -> Record:
        return Record(json.dumps({"mail": mail, "at": at}).encode(), b"key of ada", 0)

    world.produce(record("ada@example.org", 1), record("ada@example.org", 3), record("bob@example.org", 2))
    world.run()
    world.produce(record("ada@example.org", 2), record("bob@example.org", 4))
    world.run()
    assert [(row["_key"], row["at"]) for row in world.rows()] == [("key of ada", 3), ("key of ada", 4)]
    logs = spark.read.text(f"{world.path()}/_delta_log/*.json")
    assert logs.where("value LIKE '%key of ada%' OR value LIKE '%example.org%'").isEmpty()


@pytest.mark.slow
def test_a_row_that_others_bring_back(world: World) -> None:
    """An audit names the key, by the files and by Spark."""
    changes: list[Change] = [(1, 10, "a", "I"), (2, 10, "b", "I"), (2, 20, "", "D"), (3, 5, "", "D")]
    world.produce(*map(encoded, changes))
    world.run()
    check(world, changes)
    world.sql("INSERT INTO {table} BY NAME SELECT * EXCEPT (id, at), 3 AS id, 4 AS at FROM {table}")
    told = "the row of the key id = 3 is older than a delete of it: others have brought it back"
    config = world.ingestion().config
    for report in (world.ingestion().audit(), audit(FileTables(config, config.storage))):
        assert not report.conserved
        assert told in report.altered


@pytest.mark.faults
@pytest.mark.parametrize("before", [UPSERT, {}], ids=["upsert", "append"])
def test_rebuilt_from_bronze(world: World, lakeingest: Command, tmp_path: Path, before: dict[str, Any]) -> None:
    """The same table comes out, whatever it was before; and the pipeline goes on in it from Kafka, where a late change
    of a deleted key stays out.
    """
    changes: list[Change] = [
        (key, at, f"{at}", "D" if at == 7 and key else "U") for at in (3, 7, 5) for key in range(4)
    ]
    refused: list[Change] = [(None, 1, "a", "U")]
    world.produce(*map(encoded, changes + refused))
    keep_as_bronze(world)
    old = {**before, "path": world.path("_old")}
    world.run(table=old)
    pipeline_file = tmp_path / "p.yaml"
    pipeline_file.write_text(json.dumps(world.values(table={**UPSERT, "path": old["path"]})))
    words = ("rebuild", pipeline_file, "--from", world.path("_bronze"), "--to", world.path(), "--output", "json")
    answer = lakeingest(*words)
    assert answer.code == 0, answer
    assert json.loads(answer.out)["compared"]["table"] == {"before": 1 if before else 13, "rebuilt": 1}
    check(world, changes + refused)
    late: list[Change] = [(1, 6, "late", "U"), (2, 8, "again", "U")]
    world.produce(*map(encoded, late))
    world.run(trigger={"max_records": 1})
    check(world, changes + refused + late)


@pytest.mark.faults
def test_compared_with_the_records(world: World, lakeingest: Command, tmp_path: Path) -> None:
    """Each key, with Kafka, with bronze and with a changelog: all agree; then they name what somebody has changed."""
    changes: list[Change] = [(key, at, f"{at}", "U") for at in (7, 5) for key in range(5)]
    changes += [(3, 8, "", "D"), (None, 1, "refused", "U"), (3, 6, "deleted", "U")]
    world.produce(*map(encoded, changes))
    world.run(trigger={"max_records": 5})
    keep_as_bronze(world)
    log = world.values(table={**UPSERT, "mode": "changelog"})
    log |= {"name": f"{world.name}_log", "table": {**log["table"], "path": world.path("_log")}}
    Pipeline(file.from_mapping(log)).run(until_caught_up=True)
    sources = ["source", world.path("_bronze"), world.path("_log")]
    for against in sources:
        report = world.ingestion().audit(against)
        assert (report.conserved, report.keys_compared, report.keys_beyond) == (True, 5, 0), report
    world.sql("DELETE FROM {table} WHERE id = 0")
    world.sql("UPDATE {table} SET status = 'by hand' WHERE id = 1")
    world.sql("UPDATE {table} SET at = 6, _offset = _offset + 5 WHERE id = 2")
    world.sql("INSERT INTO {table} BY NAME SELECT * EXCEPT (id), 3 AS id FROM {table} WHERE id = 4")
    for against in sources:
        report = world.ingestion().audit(against)
        assert [each for each in report.altered if each.split()[1] in ("key", "keys")] == [
            "1 key without a row, though a record says one: id = 0",
            "2 keys with the row of an older record than the latest, or than the delete: id = 2; id = 3",
            "1 key with a row that no record says: others have changed it: id = 1",
        ], report.altered
    (at := tmp_path / "p.yaml").write_text(json.dumps(world.values()))
    answer = lakeingest("audit", at, "--against", world.path("_bronze"))
    assert (answer.code, "5 keys compared with" in answer.out) == (1, True), answer
    with pytest.raises(TableMismatch, match="is a quarantine"):
        world.ingestion().audit(world.path("_quarantine"))
    with pytest.raises(UsageError, match="for tables of mode upsert"):
        Pipeline(file.from_mapping(log)).audit("source")


@pytest.mark.slow
def test_a_plan_tells_what_would_be_rewritten(world: World) -> None:
    """The files that may have the sample's keys; where these are most of them, it says what helps."""
    for begin in range(0, 60, 10):
        world.produce(*(encoded((key, 1, "a", "I")) for key in range(begin, begin + 10)))
    world.run(trigger={"max_records": 10})
    world.produce(encoded((25, 2, "b", "U")), encoded((58, 2, "b", "U")))
    plan = world.ingestion().plan()
    assert plan.merge is not None
    assert (plan.merge.files, plan.merge.touched < 6, plan.merge.marks) == (12, True, False)
    assert not [warning for warning in plan.warnings if "spread keys" in warning]
    world.produce(*(encoded((key, 2, "b", "U")) for key in range(60)))
    spread = world.ingestion().plan()
    assert spread.merge is not None
    assert (spread.merge.touched, spread.merge.bytes > plan.merge.bytes) == (12, True)
    assert [warning for warning in spread.warnings if warning.startswith("spread keys: those of the sample (id)")]
    assert "merge: a batch like this rewrites at most 12 files of 12" in "\n".join(map(str, spread.text))
    world.run()
    newest = world.commit_log().commits[0]
    assert newest.changes is not None
    assert newest.changes.removed == 12


def test_deletes_are_marked(world: World, lakeingest: Command, tmp_path: Path) -> None:
    """The row of a deleted key stays, with its order; there is no memory beside the table, and a view without them."""
    world.changes["table"] = {**UPSERT, "deletes": "mark"}
    changes: list[Change] = [(1, 10, "a", "I"), (1, 30, "gone", "D"), (2, 10, "a", "I"), (3, 9, "gone", "D")]
    late: list[Change] = [(1, 20, "late", "U"), (2, 20, "gone", "D"), (3, 10, "again", "U"), (2, 15, "late", "U")]
    for each in (changes, late):
        world.produce(*map(encoded, each))
        world.run()
    rows = [(row["id"], row["at"], row["status"], row["_op"]) for row in world.rows()]
    assert sorted(rows) == [(1, 30, "gone", "delete"), (2, 20, "gone", "delete"), (3, 10, "again", "upsert")]
    assert world.ingestion().config.deletes == ""
    report = world.ingestion().audit("source")
    assert (report.conserved, report.table, report.superseded, report.keys_compared) == (True, 3, 5, 3), report
    (at := tmp_path / "p.yaml").write_text(json.dumps(world.values()))
    assert lakeingest("sql", at, "SELECT id, status FROM latest", "--output", "json").data["rows"] == [
        {"id": 3, "status": "again"}
    ]
    with pytest.raises(TableMismatch, match=r"table\.deletes mark"):
        world.run(table={**UPSERT, "deletes": "remove"})


@pytest.mark.faults
@pytest.mark.parametrize("readers", [[], ["spark"]], ids=["rewritten", "marked"])
def test_exported(world: World, readers: list[str]) -> None:
    """What changed since the last export: rows that came, and keys that have none any more; a compaction is none."""
    world.changes["readers"] = readers
    place = f"{world.path()}_exports"

    def exported() -> list[tuple[int, int, str]]:
        result = world.ingestion().export(place, partition_by=[])
        paths = [f"{place}/{each.path}" for each in result.objects]
        return sorted((row["id"], row["at"], row["_op"]) for row in world.spark.read.json(paths).collect())

    def take(*changes: Change) -> None:
        world.produce(*map(encoded, changes))
        world.run()

    take(*((key, 10, "a", "I") for key in range(6)))
    assert exported() == [(key, 10, "upsert") for key in range(6)]
    take((1, 20, "b", "U"), (2, 20, "", "D"), (7, 10, "a", "I"), (8, 9, "", "D"), (3, 5, "late", "U"))
    take((4, 20, "", "D"), (4, 30, "again", "U"), (5, 20, "b", "U"), (7, 20, "b", "U"))
    world.sql("OPTIMIZE {table}")
    assert exported() == [(1, 20, "upsert"), (2, 10, "delete"), (4, 30, "upsert"), (5, 20, "upsert"), (7, 20, "upsert")]
    assert world.ingestion().export(place, partition_by=[]).rows == 0
    world.sql("ALTER TABLE {table} ADD COLUMN _OP STRING")
    with pytest.raises(UsageError, match="has a column _op, and so has what is exported"):
        world.ingestion().export(place, partition_by=[])


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode", ["upsert", *(pytest.param(mode, marks=pytest.mark.faults) for mode in ("changelog", "history"))]
)
def test_a_contract_and_every_command(world: World, lakeingest: Command, tmp_path: Path, mode: str) -> None:
    """Hours that are complete, and what shows a table, are as with append. A row goes to the hour of its record."""
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    world.changes |= {
        "table": {**UPSERT, "mode": mode},
        "partition": [{"by": "time", "every": "hour"}],
        "contract": {"completeness": {"late": "0 seconds"}, "freshness": "1 hour", "owners": ["a@b.de"]},
        "trigger": {"max_records": 3},
    }
    (at := tmp_path / "p.yaml").write_text(json.dumps(world.values()))
    made = [(3, (1, 1, "a")), (3, (2, 1, "b")), (3, (3, 1, "c")), (2, (1, 2, "d")), (2, (3, 2, "")), (0, (2, 2, "e"))]
    for ago, (key, order, status) in made:
        value = encoded((key, order, status, "" if status else "D"))
        world.produce(Record(value, at=hour - timedelta(hours=ago)))
    assert lakeingest("run", at, "--until-caught-up").code == 0
    for ago in (3, 2):
        complete = f"{hour - timedelta(hours=ago):%Y-%m-%dT%H}"
        assert lakeingest("wait", at, "--complete", complete, "--timeout", "0").code == 0
    others = ("status", at), ("report", at, "--to", tmp_path / "r.html"), ("schema", "history", at), ("maintain", at)
    for words in others:
        answer = lakeingest(*words)
        assert answer.code == 0, (words, answer.err)
    table = world.name if mode == "upsert" else "latest"
    answer = lakeingest("sql", at, f'SELECT id, "at" FROM {table} ORDER BY id', "--output", "json")
    assert [tuple(row.values()) for row in answer.data["rows"]] == [(1, 2), (2, 2)]
    if mode == "upsert":
        hours = [f"{hour - timedelta(hours=ago):%Y-%m-%d-%H}" for ago in (2, 0)]
        assert sorted(row["hour"] for row in world.rows()) == hours
    assert world.ingestion().audit().conserved


def test_ties_of_two_partitions_are_counted(world: World) -> None:
    """The partition's number decides, as it does in any order; status and audit say how often. Ties over two batches
    are known to an audit that compares the records.
    """
    values = [(1, 5, "a", 0), (1, 5, "b", 1), (2, 5, "c", 0), (2, 5, "d", 0), (3, 5, "e", 0), (3, 6, "f", 1)]
    made = (Record(encoded((key, at, status, "U")), None, partition) for key, at, status, partition in values)
    world.produce(*made, partitions=2)
    world.run()
    assert sorted((row["id"], row["status"]) for row in world.rows()) == [(1, "b"), (2, "d"), (3, "f")]
    report = world.ingestion().audit()
    assert (report.conserved, report.ties) == (True, 1)
    status = world.ingestion().status()
    assert status.commits[0]["ties"] == 1
    for text in (report.text, map(str, status.text)):
        assert "1 tie: two latest records of a key" in "\n".join(text)
    world.produce(Record(encoded((3, 6, "g", "U")), None, 0), partitions=2)
    world.run()
    assert world.ingestion().audit().ties == 1
    compared = world.ingestion().audit("source")
    assert (compared.conserved, compared.ties) == (True, 2)


@pytest.mark.faults
def test_adopted(world: World, lakeingest: Command, tmp_path: Path) -> None:
    """A table that another job merged: the pipeline goes on in it, by its keys; one with double keys is refused."""
    before = [(1, 10, "a", "U"), (2, 10, "b", "U"), (3, 10, "c", "U")]
    late: list[Change] = [(1, 5, "late", "U"), (2, 20, "new", "U"), (3, 20, "", "D"), (4, 1, "new", "I")]
    world.produce(*map(encoded, before + late))
    rows = world.spark.createDataFrame([*before, (3, 11, "double", "U")], CHANGES)
    rows.write.format("delta").save(world.path())
    (at := tmp_path / "p.yaml").write_text(json.dumps(world.values()))
    words = ("adopt", at, "--frontier", f"{world.name}:0=3")
    answer = lakeingest(*words)
    assert (answer.code, "has 1 key with several rows, and 0 rows where" in answer.err) == (2, True), answer
    world.sql("DELETE FROM {table} WHERE status = 'double'")
    answer = lakeingest(*words)
    assert answer.code == 0, answer
    world.run()
    assert sorted((row["id"], row["at"], row["status"]) for row in world.rows()) == [
        (1, 10, "a"),
        (2, 20, "new"),
        (4, 1, "new"),
    ]
    report = world.ingestion().audit()
    assert (report.conserved, report.table, report.earlier, report.superseded) == (True, 2, 1, 2), report
    compared = world.ingestion().audit("source")
    assert (compared.conserved, compared.keys_compared, compared.keys_beyond) == (True, 3, 1), compared
    world.sql("DELETE FROM {table} WHERE id = 1")
    assert not world.ingestion().audit().conserved


@pytest.mark.slow
def test_a_change_feed_by_option(world: World) -> None:
    """Of a table that is there: from the next run on."""
    world.produce(encoded((1, 1, "a", "I")), encoded((2, 1, "a", "I")))
    world.run()
    world.changes["table"] = {**UPSERT, "change_feed": True}
    world.produce(encoded((1, 2, "b", "U")), encoded((2, 2, "", "D")), encoded((3, 1, "a", "I")))
    world.run()
    since = world.commit_log().commits[0].version
    options = {"readChangeFeed": "true", "startingVersion": str(since)}
    rows = world.spark.read.format("delta").options(**options).load(world.path()).collect()
    assert sorted((row["_change_type"], row["id"], row["at"]) for row in rows) == [
        ("delete", 2, 1),
        ("insert", 3, 1),
        ("update_postimage", 1, 2),
        ("update_preimage", 1, 1),
    ]
