"""Tables that a catalog has by their names, without a path: every command, and the same promises."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from support.pipelines import CHANGES, UPSERT, World
from support.pipelines.changes import Change, encoded
from support.pipelines.command_line import Command
from support.records import Record, clean_records, mixed_records
from support.servers.hive import metastore

from lakeingest.errors import TableMismatch
from lakeingest.ingest.events import Committed
from lakeingest.local import Addresses
from lakeingest.testing.process import Process

RUNS = (("run",), ("--until-caught-up",)), (("run",), ("--until-caught-up",)), (("audit",), ())


class NamedWorld(World):
    """A pipeline whose tables have names alone."""

    def values(self, **changes: Any) -> dict[str, Any]:
        values = super().values(**changes)
        del values["storage"]
        table = {name: value for name, value in values["table"].items() if name != "path"}
        return {**values, "table": {**table, "name": f"named.{self.name}"}}

    def path(self, of: str = "") -> str:
        return self.ingestion().spark.sql(f"DESCRIBE DETAIL named.{self.name}{of}").collect()[0]["location"]


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> Iterator[NamedWorld]:
    yield NamedWorld(stack, spark, named)
    spark.sql("DROP SCHEMA IF EXISTS named CASCADE")
    shutil.rmtree(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:") + "/named.db", ignore_errors=True)  # type: ignore[union-attr]


@pytest.mark.faults
def test_every_command(world: NamedWorld, lakeingest: Command, tmp_path: Path) -> None:
    """Made, gone on with, looked at, corrected, compacted: each by the name alone."""
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(world.values()))
    world.produce(*mixed_records(10))
    assert lakeingest("run", file, "--until-caught-up").code == 0
    world.produce(*clean_records(4, 10))
    assert lakeingest("plan", file).code == 0
    assert lakeingest("run", file, "--until-caught-up").code == 0
    status = lakeingest("status", file, "--output", "json").data
    assert [t["path"] for t in status["tables"].values()] == [f"named.{world.name}", f"named.{world.name}_quarantine"]
    assert lakeingest("quarantine", "list", file).code == 0
    assert lakeingest("quarantine", "discard", file, "--reason", "junk", "--where", "_offset = 0").code == 0
    assert lakeingest("quarantine", "replay", file, "--reason", "again").code == 0
    assert lakeingest("maintain", file).code == 0
    assert lakeingest("gate", "history", file).code == 2
    assert lakeingest("schema", "history", file).code == 0
    assert lakeingest("audit", file).code == 0
    assert world.spark.table(f"named.{world.name}").count() == 12
    world.checked()
    words = ("--where", "n = 12", "--why", "request 1", "--now", "--i-know")
    assert lakeingest("forget", file, *words).code == 0
    assert world.spark.table(f"named.{world.name}").count() == 11
    assert lakeingest("audit", file).code == 0


@pytest.mark.slow
def test_latest_rows_in_a_catalog(world: NamedWorld, lakeingest: Command, tmp_path: Path) -> None:
    """The memory of deletes has a name, too; every command knows it."""
    world.changes = {"table": UPSERT, "schema": {"columns": CHANGES}}
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(world.values()))
    first: list[Change] = [(1, 10, "a", "U"), (2, 10, "b", "U"), (3, 10, "c", "U")]
    second: list[Change] = [(2, 20, "", "D"), (3, 30, "e", "U"), (4, 20, "", "D"), (3, 20, "late", "U")]
    third: list[Change] = [(2, 15, "late", "U"), (4, 19, "late", "U"), (1, 40, "f", "U")]
    for changes in (first, second, third):
        world.produce(*map(encoded, changes))
        assert lakeingest("run", file, "--until-caught-up").code == 0
    for words in (("status",), ("plan",), ("maintain",), ("audit",), ("audit", "--against", "source"), ("sql",)):
        answer = lakeingest(words[0], file, *words[1:])
        assert answer.code == 0, (words, answer.err)
    rows = world.spark.table(f"named.{world.name}").orderBy("id")
    assert [(row["id"], row["at"]) for row in rows.collect()] == [(1, 40), (3, 30)]
    remembered = world.spark.table(f"named.{world.name}_deletes")
    assert sorted(row["key_1"] for row in remembered.collect()) == [2, 4]


HOURLY = {
    "partition": [{"by": "time", "every": "hour"}],
    "contract": {"completeness": {"late": "0 seconds"}, "freshness": "1 hour"},
}


@pytest.mark.faults
def test_until_when_it_is_complete(world: NamedWorld, lakeingest: Command, tmp_path: Path) -> None:
    """Said, waited for by Spark, shown, compacted; and what a RESTORE takes back is complete no more."""
    begin = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    hours = [begin + timedelta(hours=n) for n in range(3)]
    world.changes = {**HOURLY, "trigger": {"max_records": 1}}
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(world.values()))
    world.produce(
        *(Record(value, at=hour) for value, hour in zip(clean_records(3), hours, strict=True)), *clean_records(1)
    )

    def waited(hour: datetime) -> int:
        words = ("--complete", f"{hour:%Y-%m-%dT%H}", "--timeout", "0", "--output", "json")
        return int(lakeingest("wait", file, *words).code)

    assert lakeingest("run", file, "--until-caught-up").code == 0
    assert world.spark.table(f"named.{world.name}_completeness").count() == 3
    assert [*map(waited, hours)] == [0, 0, 0]
    assert lakeingest("maintain", file).code == 0
    world.spark.sql(f"RESTORE TABLE named.{world.name} TO VERSION AS OF 1").collect()
    assert [*map(waited, hours)] == [0, 1, 1]
    contract = lakeingest("status", file, "--output", "json").data["contract"]
    (found,) = (each["found"] for each in contract if each["promise"] == "completeness")
    assert found.startswith(f"complete up to {hours[0]:%Y-%m-%dT%H}, since ")
    report = lakeingest("report", file, "--to", tmp_path / "r.html", "--no-audit", "--output", "json")
    assert (report.code, found in report.out) == (0, True)
    assert lakeingest("run", file, "--until-caught-up").code == 0
    assert [*map(waited, hours)] == [0, 0, 0]
    world.checked()


@pytest.mark.faults
def test_a_run_that_died_and_a_restore(world: NamedWorld) -> None:
    """Between the commits of table and quarantine; then somebody takes the table back to its beginning."""
    world.produce(*mixed_records(10))
    world.crash()
    world.run()
    world.checked()
    world.spark.sql(f"RESTORE TABLE named.{world.name} TO VERSION AS OF 0").collect()
    world.run()
    world.checked()


@pytest.mark.faults
@pytest.mark.parametrize("widening", ["metadata", "rewrite"])
def test_columns_evolve(world: NamedWorld, widening: str) -> None:
    """A column more, and a wider one."""
    world.produce(*clean_records(3))
    world.run()
    world.changes["schema"] = {"columns": "n BIGINT, text STRING, more INT", "widening": widening}
    world.produce(*clean_records(3, 3))
    world.run()
    kinds = {f.name: f.dataType.simpleString() for f in world.spark.table(f"named.{world.name}").schema}
    assert (kinds["n"], kinds["more"]) == ("bigint", "int")
    world.checked()


RENAMED = "ALTER TABLE named.{0} RENAME TO named.{1}"
MEANWHILE = {
    "dropped": ["DROP TABLE named.{0}"],
    "renamed": [RENAMED],
    "another of its name": [
        "CREATE TABLE named.{2} SHALLOW CLONE named.{0}",
        *(f"ALTER TABLE named.{{2}} SET TBLPROPERTIES ('n' = '{n}')" for n in range(4)),
        RENAMED,
        RENAMED.replace("0", "2").replace("1", "0"),
    ],
    "no quarantine": ["DROP TABLE named.{0}_quarantine"],
}


@pytest.mark.faults
@pytest.mark.parametrize("kind", MEANWHILE)
def test_a_name_that_changes_hands_while_a_run_goes(world: NamedWorld, kind: str) -> None:
    """Nothing is written to another table, and none is made in its place."""
    world.produce(*mixed_records(9))

    def change(progress: Committed) -> None:
        for statement in MEANWHILE[kind]:
            world.spark.sql(statement.format(world.name, f"{world.name}_old", f"{world.name}_new")).collect()

    with pytest.raises(TableMismatch, match="somebody renamed, dropped or replaced it"):
        world.ingestion(trigger={"max_records": 3}).run(until_caught_up=True, on_progress=change)
    tables = {row["tableName"] for row in world.spark.sql("SHOW TABLES IN named").collect()}
    if "_old" in "".join(tables):
        world.spark.sql(f"DROP TABLE IF EXISTS named.{world.name}")
        world.spark.sql(RENAMED.format(f"{world.name}_old", world.name))
        world.run()
        world.checked()
    else:
        assert len(tables) == 1


@pytest.mark.parametrize("made", ["TABLE {} (a INT) USING PARQUET", "VIEW {} AS SELECT 1 AS a"])
def test_a_name_of_something_else(world: NamedWorld, made: str) -> None:
    """It is refused, and left as it is."""
    world.produce(*clean_records(1))
    world.spark.sql("CREATE SCHEMA IF NOT EXISTS named")
    world.spark.sql(f"CREATE {made.format(f'named.{world.name}')}")
    with pytest.raises(TableMismatch, match="and no Delta table"):
        world.run()
    assert world.spark.table(f"named.{world.name}").columns == ["a"]


def test_files_that_the_catalog_has_forgotten(world: NamedWorld) -> None:
    """Where it would put the table, one lies: it is no empty place, and nothing is written."""
    world.produce(*clean_records(2))
    world.run()
    where = Path(world.path().removeprefix("file:"))
    shutil.copytree(where, where.with_name("kept"))
    world.spark.sql(f"DROP TABLE named.{world.name}")
    where.with_name("kept").rename(where)
    with pytest.raises(TableMismatch, match="the catalog knows no table"):
        world.run()


@pytest.mark.faults
@pytest.mark.classic
@pytest.mark.pinned
def test_a_catalog_in_memory_is_refused(world: NamedWorld, tmp_path: Path) -> None:
    """A session of our own would forget the table with its process."""
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(world.values()))
    with Process(file, "--until-caught-up") as process:
        assert process.wait(120) == 4
        assert "catalog of this Spark session is in memory" in process.err


@pytest.mark.classic
@pytest.mark.faults
def test_a_hive_metastore(world: NamedWorld, stack: Addresses, tmp_path: Path) -> None:
    """Two processes, one after the other, know the table by its name."""
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(world.values()))
    world.produce(*mixed_records(10))
    with metastore(tmp_path) as conf:
        env = {"SPARK_CONF_DIR": str(conf)}
        for words, options in RUNS:
            with Process(file, *options, command=words, env=env) as process:
                assert process.wait(180) == 0, process.out + process.err
                assert words == ("run",) or "conserved" in process.out
            world.produce(*clean_records(3, 20))
