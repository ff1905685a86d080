"""A table of a real database and its table in the lake, by Debezium: they are compared row by row, type by type."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.oracle.database import POSTGRES, DatabaseColumn, Workload
from support.pipelines import World
from support.records import create_topic
from support.servers.databases import Database, postgres
from support.servers.debezium import JSON_WITH_SCHEMA, ConnectWorker, connect_worker, postgres_connector

from lakeingest.local import Addresses

pytestmark = pytest.mark.slow

_PATIENCE_S = 300
_MARK = -1
"""The key of a row that is written last: behind its event nothing is to come."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with postgres(tmp_path_factory.mktemp("postgres")) as running:
        running.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        yield running


@pytest.fixture(scope="module")
def worker(stack: Addresses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    with connect_worker(stack, tmp_path_factory.mktemp("connect"), JSON_WITH_SCHEMA) as running:
        yield running


class Captured:
    """A table of the database, the connector that captures it, and the pipeline that brings it to the lake."""

    def __init__(self, world: World, database: Database, worker: ConnectWorker, seed: int) -> None:
        self.name, self.world, self.database, self.worker = world.name, world, database, worker
        self.workload = Workload(database, f"public.{self.name}", POSTGRES, seed)

    def start(self, **options: str) -> None:
        """Let the connector begin, with a snapshot."""
        listed = {"table.include.list": f"public.{self.name}", **{k.replace("_", "."): v for k, v in options.items()}}
        create_topic(self.world.stack, *self.world.topics)
        self.worker.put(self.name, postgres_connector(self.database, self.name, listed))

    def stop(self) -> None:
        self.worker.delete(self.name)

    def catch_up(self, **changes: Any) -> None:
        """Run until the lake has all that the database has by now."""
        mark = f"INSERT INTO public.{self.name} (id) VALUES ({_MARK})"
        unmark = f"DELETE FROM public.{self.name} WHERE id = {_MARK}"
        deadline = time.monotonic() + _PATIENCE_S
        for statement, is_there in ((mark, True), (unmark, False)):
            self.database.execute(statement)
            while (_MARK in self.rows(**changes)) != is_there:
                assert time.monotonic() < deadline, self.worker.log.read_text(errors="replace")[-3000:]

    def rows(self, **changes: Any) -> dict[int, dict[str, Any]]:
        """What the lake has behind a run."""
        self.world.run(**changes)
        return {row["id"]: row for row in self.world.rows()}

    def check(self) -> None:
        """The lake has the rows of the database, value by value."""
        expected = self.workload.rows()
        rows = {row["id"]: row for row in self.world.rows()}
        assert rows.keys() == expected.keys()
        for id, values in expected.items():
            pairs = {name: (_plain(rows[id][name], value), value) for name, value in values.items()}
            differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
            assert not differing, f"id {id}: {differing}"
        assert not self.world.refused
        report = self.world.ingestion().audit("source")
        assert (report.conserved, report.altered) == (True, ()), report


def _plain(value: Any, expected: Any) -> Any:
    """A value of Spark's rows, of the type of the expected one."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(expected, datetime) and expected.tzinfo and value is not None:
        return value.astimezone(UTC)
    return value


@pytest.fixture
def captured(
    stack: Addresses, spark: SparkSession, named: str, database: Database, worker: ConnectWorker
) -> Iterator[Captured]:
    name = named.replace("-", "_")
    source = {"topics": [f"{name}.public.{name}"], "bootstrap_servers": stack.kafka}
    decode = {"value": {"format": "connect_json"}, "envelope": {"format": "debezium"}}
    world = World(
        stack, spark, name, schema=None, source=source, decode=decode, table={"mode": "upsert", "keys": ["id"]}
    )
    table = Captured(world, database, worker, seed=1)
    yield table
    table.stop()


def test_a_database_s_table_in_the_lake(captured: Captured) -> None:
    """A snapshot, random changes, a column more, a wider one, an emptied table; compared at four positions."""
    captured.workload.create()
    captured.workload.run(40)
    captured.start(skipped_operations="none")
    captured.workload.run(60)
    captured.catch_up(trigger={"max_records": 70})
    captured.check()
    captured.workload.add("note", DatabaseColumn("text", POSTGRES["word"].make))
    captured.database.execute(f"ALTER TABLE {captured.workload.table} ALTER COLUMN small TYPE integer")
    captured.workload.run(60)
    captured.catch_up()
    captured.check()
    captured.workload.run(60, empties=True)
    captured.catch_up(trigger={"max_records": 40})
    captured.check()
    captured.worker.kill()
    captured.workload.run(20)
    captured.worker.start()
    captured.workload.run(20)
    captured.catch_up()
    captured.check()
    now = datetime.now(UTC).replace(tzinfo=None)
    assert all(abs((row["_changed_at"] - now).total_seconds()) < 3600 for row in captured.world.rows())


def test_a_comparison_finds_what_differs_and_nothing_else(captured: Captured) -> None:
    """What is done in the database while nobody captures it: a row more, one less, one that is another."""
    captured.workload.create()
    captured.workload.run(40)
    captured.start()
    captured.catch_up()
    pipeline, url = captured.world.ingestion(), captured.database.url
    equal = pipeline.compare_database(url)
    assert equal.equal, equal.different
    assert (equal.keys, dict(equal.left_out)) == (len(captured.workload.rows()), {})
    captured.stop()
    gone, other, *_ = sorted(captured.workload.rows())
    captured.database.execute(
        f"DELETE FROM {captured.workload.table} WHERE id = {gone}",
        f"UPDATE {captured.workload.table} SET big = 4711, words = '{{x}}' WHERE id = {other}",
        f"INSERT INTO {captured.workload.table} (id) VALUES (1000)",
    )
    comparison = pipeline.compare_database(url, wait=timedelta(0))
    assert {(each.key, each.kind, each.columns) for each in comparison.different} == {
        (f"id = {gone}", "extra", ()),
        (f"id = {other}", "different", ("big", "words")),
        ("id = 1000", "missing", ()),
    }
    assert (comparison.exit_code, dict(comparison.counts)) == (1, {"missing": 1, "extra": 1, "different": 1})
    captured.start()
    captured.catch_up()
    assert pipeline.compare_database(url).equal
