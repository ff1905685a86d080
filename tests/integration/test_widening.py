"""Types that must grow, where the table's readers know no type widening: rows written anew, or records refused."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from chispa import assert_df_equality
from support.pipelines import Crash, World
from support.records import clean_records

from lakeingest.delta import commit
from lakeingest.delta.table import Table
from lakeingest.errors import TableMismatch

WIDER = {"schema": {"columns": "n BIGINT NOT NULL, text STRING", "widening": "rewrite"}}
DAILY = {"partition": [{"by": "time", "every": "day"}, {"by": "kafka_partition"}]}


@pytest.fixture
def narrow(world: World) -> World:
    """Three records in the table, partitioned and constrained, and three that come."""
    world.changes = dict(DAILY)
    world.produce(*clean_records(3), partitions=2)
    world.run()
    world.sql("ALTER TABLE {table} ADD CONSTRAINT small CHECK (n < 100)")
    world.sql("ALTER TABLE {table} ALTER COLUMN text COMMENT 'what it says'")
    world.produce(*clean_records(3, 3), partitions=2)
    return world


def features(world: World) -> set[str]:
    return {name for name in Table(world.spark, world.path()).properties() if "typeWidening" in name}


@pytest.mark.slow
def test_rows_are_written_anew(narrow: World) -> None:
    """In one commit, under the new type; all else of the table is as it was, and no reader needs to know more."""
    before = Table(narrow.spark, narrow.path())
    kept = before.properties()
    newest = history(narrow)[0]["version"]
    was = narrow.spark.read.option("versionAsOf", newest).format("delta").load(narrow.path()).drop("n")
    narrow.run(**WIDER)
    table = Table(narrow.spark, narrow.path())
    assert table.read().schema["n"].dataType.simpleString() == "bigint"
    assert table.read().schema["text"].metadata["comment"] == "what it says"
    assert table.partition_columns() == before.partition_columns()
    assert not features(narrow)
    # The ledger of schemas has one more.
    assert {n: v for n, v in table.properties().items() if v != kept.get(n)}.keys() <= {
        n for n in table.properties() if n.startswith("lakeingest")
    }
    assert_df_equality(
        table.read().where("n < 3").drop("n"), was, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True
    )
    operations = [row["operationParameters"].get("mode") for row in history(narrow)]
    assert operations.count("Overwrite") == 1
    narrow.checked(**WIDER)


def test_readers_decide(narrow: World) -> None:
    """With Athena among them rows are written anew, and delta-rs, which refuses widened tables, reads all of them."""
    changes = {"schema": {"columns": WIDER["schema"]["columns"]}, "readers": ["athena", "delta-rs"]}
    narrow.run(**changes)
    assert not features(narrow)
    found = narrow.by_delta_rs().to_pyarrow_table()
    assert str(found.schema.field("n").type) == "int64"
    assert sorted(found.column("n").to_pylist()) == [0, 1, 2, 3, 4, 5]
    narrow.checked(**changes)


@pytest.mark.faults
def test_a_table_that_shuts_a_reader_out_is_refused(narrow: World) -> None:
    """Whatever somebody switched on; nothing is read."""
    narrow.sql("ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    with pytest.raises(TableMismatch, match="has deletionVectors, which delta-rs cannot read"):
        narrow.run(readers=["spark", "delta-rs"])
    narrow.run(readers=["spark", "trino"])
    narrow.checked()


def test_the_plan_tells_what_it_costs(narrow: World) -> None:
    """How many files, and their bytes; nothing where no row is touched."""
    made = narrow.ingestion(**WIDER).plan()
    assert made.rewrites is not None
    assert made.rewrites["files"] == 2
    assert made.rewrites["bytes"] > 1000
    wider = {"columns": WIDER["schema"]["columns"], "widening": "metadata"}
    assert narrow.ingestion(schema=wider).plan().rewrites is None


def history(world: World) -> list[Any]:
    return world.spark.sql(f"DESCRIBE HISTORY delta.`{world.path()}`").collect()


@pytest.mark.faults
def test_what_comes_later_is_generated_as_before(narrow: World) -> None:
    """Delta still computes the partition columns, and the constraint still holds."""
    narrow.run(**WIDER)
    narrow.produce(b'{"n": 7}', b'{"n": 100}', partitions=2)
    assert narrow.run(**WIDER).refused == 1
    assert all(row["day"] == row["_timestamp"].date() for row in narrow.rows())
    narrow.checked(**WIDER)


@pytest.mark.faults
@pytest.mark.parametrize("widening", ["metadata", "rewrite"])
def test_a_time_without_a_zone_comes_later(world: World, widening: str) -> None:
    """Delta wants the feature of TIMESTAMP_NTZ in a table that was made without: wider, added and nested."""
    world.changes["schema"] = {"columns": "n INT, day DATE", "widening": widening}
    world.produce(b'{"n": 1, "day": "2024-02-29"}')
    world.run()
    for columns in ("n INT, day TIMESTAMP_NTZ", "n INT, day TIMESTAMP_NTZ, s STRUCT<t: TIMESTAMP_NTZ>"):
        world.changes["schema"] = {"columns": columns, "widening": widening}
        world.produce(b'{"n": 2, "day": "2024-03-01T12:00:00", "s": {"t": "2024-03-01T00:00:00"}}')
        world.run()
    assert [row["day"].isoformat() for row in world.rows()][:2] == ["2024-02-29T00:00:00", "2024-03-01T12:00:00"]
    world.checked()


@pytest.mark.faults
def test_killed_behind_the_rewriting(narrow: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the batch's own commit: the next run finds the type, and goes on."""

    def dies(*_: object, **__: object) -> None:
        raise Crash

    with monkeypatch.context() as dying:
        dying.setattr(commit, "write", dies)
        with pytest.raises(Crash):
            narrow.run(**WIDER)
    assert len(narrow.rows()) == 3
    narrow.run(**WIDER)
    narrow.checked(**WIDER)


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Somebody acts upon the table between the look at its rows and the transaction that overwrites them."""
    save, left = Table.save, [act]

    def saved(table: Table, writer: Any) -> None:
        if left:
            left.pop()()
        save(table, writer)

    monkeypatch.setattr(Table, "save", saved)


@pytest.mark.faults
def test_rows_that_others_commit_meanwhile(narrow: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta reads the table within its transaction: they are rewritten too."""
    other = World(narrow.stack, narrow.spark, f"{narrow.name}_other", **DAILY, table={"path": narrow.path()})
    other.changes["quarantine"] = {"path": narrow.path("_quarantine")}
    other.produce(*clean_records(2, 50))
    meanwhile(monkeypatch, other.run)
    narrow.run(**WIDER)
    assert sorted(row["n"] for row in narrow.rows()) == [0, 1, 2, 3, 4, 5, 50, 51]
    assert narrow.ingestion(**WIDER).audit().conserved
    assert other.ingestion(schema=WIDER["schema"]).audit().conserved


@pytest.mark.faults
def test_rows_that_others_delete_meanwhile(narrow: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not come back."""
    meanwhile(monkeypatch, lambda: narrow.sql("DELETE FROM {table} WHERE n = 1"))
    narrow.run(**WIDER)
    assert sorted(row["n"] for row in narrow.rows()) == [0, 2, 3, 4, 5]


@pytest.mark.faults
def test_columns_that_others_add_meanwhile(narrow: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rewriting, which knows nothing of them, is taken back, and done anew with them."""
    meanwhile(monkeypatch, lambda: narrow.sql("ALTER TABLE {table} ADD COLUMNS (theirs INT)"))
    changes = {**WIDER, "retry": {"wait": "1 minute"}}
    narrow.run(**changes)
    assert "theirs" in narrow.spark.read.format("delta").load(narrow.path()).columns
    narrow.checked(**changes)


@pytest.mark.faults
def test_two_widen_at_once(narrow: World) -> None:
    """Both want the wider type: one batch is committed, once."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            narrow.run(**WIDER)
        except Exception as error:
            failed.append(error)

    both = [threading.Thread(target=run) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert len(failed) <= 1, failed
    narrow.run(**WIDER)
    narrow.checked(**WIDER)


@pytest.mark.faults
def test_a_restore_before_the_rewriting(narrow: World) -> None:
    """What it took back is read again, under the wider type."""
    narrow.run(**WIDER)
    narrow.sql("RESTORE TABLE {table} TO VERSION AS OF 1")
    narrow.run(**WIDER)
    narrow.checked(**WIDER)


def test_a_type_that_may_not_grow(narrow: World) -> None:
    """A declaration that needs it is refused before anything is read."""
    with pytest.raises(TableMismatch, match=r"n would become wider, and schema\.widening is refuse"):
        narrow.run(schema={"columns": "n BIGINT NOT NULL, text STRING", "widening": "refuse"})
    assert len(narrow.rows()) == 3
