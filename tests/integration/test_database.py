"""A table of a real database and its table in the lake, by Debezium: they are compared row by row, type by type."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.cdc.captured import ENGINES, Captured, world_of
from support.oracle.database import POSTGRES, DatabaseColumn
from support.servers.databases import Database
from support.servers.debezium import JSON_WITH_SCHEMA, ConnectWorker, connect_worker

from lakeingest.errors import NotComplete
from lakeingest.local import Addresses

pytestmark = pytest.mark.slow
_LONG = timedelta(minutes=10)


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Database]]:
    """A database of each engine, which runs once it is asked for."""
    with ExitStack() as servers:
        yield cache(lambda name: servers.enter_context(ENGINES[name].running(tmp_path_factory.mktemp(name))))


@pytest.fixture(scope="module")
def worker(stack: Addresses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    with connect_worker(stack, tmp_path_factory.mktemp("connect"), JSON_WITH_SCHEMA) as running:
        yield running


Capture = Callable[..., Captured]


@pytest.fixture
def capture(
    stack: Addresses, spark: SparkSession, named: str, databases: Callable[[str], Database], worker: ConnectWorker
) -> Iterator[Capture]:
    """A table of an engine that is about to be captured."""
    name, tables = named.replace("-", "_"), list[Captured]()

    def begin(engine: str) -> Captured:
        world = world_of(stack, spark, name, ENGINES[engine])
        tables.append(Captured(world, ENGINES[engine], databases(engine), worker, seed=1))
        return tables[0]

    yield begin
    tables[0].stop()


@pytest.mark.faults
@pytest.mark.parametrize("engine", ["postgres", "mariadb"])
def test_a_database_s_table_in_the_lake(capture: Capture, engine: str, tmp_path: Path) -> None:
    """A snapshot, random changes, a column more, a wider one, an emptied table; compared at four positions."""
    captured = capture(engine)
    captured.workload.create()
    captured.workload.run(40)
    captured.start(tmp_path, skipped_operations="none")
    captured.workload.run(60)
    captured.catch_up(trigger={"max_records": 70})
    captured.check()
    captured.workload.add("note", DatabaseColumn("text", POSTGRES["word"].make))
    captured.database.execute(f"ALTER TABLE {captured.table} {captured.engine.wider}")
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


def test_a_comparison_finds_what_differs_and_nothing_else(capture: Capture, tmp_path: Path) -> None:
    """What is done in the database while nobody captures it: a row more, one less, one that is another."""
    captured = capture("postgres")
    captured.workload.create()
    captured.workload.run(40)
    captured.start(tmp_path)
    captured.catch_up()
    pipeline, url = captured.world.ingestion(), captured.database.url
    equal = pipeline.compare_database(url)
    assert equal.equal, equal.different
    assert (equal.keys, dict(equal.left_out)) == (len(captured.workload.rows()), {})
    captured.stop()
    gone, other, *_ = sorted(captured.workload.rows())
    captured.database.execute(
        f"DELETE FROM {captured.table} WHERE id = {gone}",
        f"UPDATE {captured.table} SET big = 4711, words = '{{x}}' WHERE id = {other}",
        f"INSERT INTO {captured.table} (id) VALUES (1000)",
    )
    comparison = pipeline.compare_database(url, wait=timedelta(0))
    assert {(each.key, each.kind, each.columns) for each in comparison.different} == {
        (f"id = {gone}", "extra", ()),
        (f"id = {other}", "different", ("big", "words")),
        ("id = 1000", "missing", ()),
    }
    assert (comparison.exit_code, dict(comparison.counts)) == (1, {"missing": 1, "extra": 1, "different": 1})
    captured.start(tmp_path)
    captured.catch_up()
    assert pipeline.compare_database(url).equal


@pytest.mark.faults
@pytest.mark.parametrize("engine", ["postgres", "mariadb"])
def test_a_comparison_at_a_place_while_changes_go_on(capture: Capture, engine: str, tmp_path: Path) -> None:
    """The database and the lake change all the time: what is equal is equal at once, and three planted differences,
    none of them by an event, are named for certain.
    """
    captured = capture(engine)
    captured.workload.create()
    captured.workload.run(40)
    last = 10_000
    captured.database.execute(*(f"INSERT INTO {captured.table} (id) VALUES ({id})" for id in range(last, last + 200)))
    captured.start(tmp_path)
    captured.workload.run(10)
    captured.catch_up()
    place = captured.engine.end(captured.database)
    pipeline, url = captured.world.ingestion(), captured.database.url
    with pytest.raises(NotComplete, match=f"--position {place}"):
        pipeline.compare_database(url, at=place)
    with _changes(captured):
        captured.reach(place)
        equal = pipeline.compare_database(url, wait=_LONG, at=place)
        assert (equal.equal, equal.at) == (True, place), (equal.different, equal.unsure)
        assert equal.same >= 200
        assert equal.changed_since
    path, spark = pipeline.config.table.path, captured.world.spark
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = {last}")
    spark.sql(f"UPDATE delta.`{path}` SET big = 4711 WHERE id = {last + 1}")
    copy = spark.sql(f"SELECT * FROM delta.`{path}` WHERE id = {last + 2}")
    extra = copy.withColumn("id", F.lit(last + 1000).cast(copy.schema["id"].dataType))
    extra.write.format("delta").mode("append").save(path)
    with _changes(captured):
        for at in (place, None):
            comparison = pipeline.compare_database(url, wait=_LONG, at=at)
            assert {(each.key, each.kind, each.columns) for each in comparison.different} == {
                (f"id = {last}", "missing", ()),
                (f"id = {last + 1}", "different", ("big",)),
                (f"id = {last + 1000}", "extra", ()),
            }, comparison.unsure
            assert not comparison.unsure


@contextmanager
def _changes(captured: Captured) -> Iterator[None]:
    """The database is changed, and the pipeline runs, until the block ends."""
    over = Event()

    def change() -> None:
        while not over.is_set():
            captured.workload.run(5)
            captured.world.run()

    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change)
        try:
            yield
        finally:
            over.set()
        changing.result()


@pytest.mark.faults
def test_a_snapshot_on_demand_brings_what_no_event_told_of(capture: Capture, tmp_path: Path) -> None:
    """A column with a default changes each row without an event; a snapshot while changes go on brings it."""
    captured = capture("postgres")
    signals = f"{captured.table}_signal"
    captured.database.execute(
        f"CREATE TABLE {signals} (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048))"
    )
    captured.workload.create()
    captured.workload.run(40)
    tables = f"{captured.table},{signals}"
    captured.start(tmp_path, signal_data_collection=signals, table_include_list=tables)
    captured.catch_up()
    captured.workload.add("level", DatabaseColumn("integer DEFAULT 7", lambda dice: dice.randrange(9)))
    captured.workload.run(5)
    captured.catch_up()
    comparison = captured.world.ingestion().compare_database(captured.database.url, wait=timedelta(0))
    assert {(each.kind, each.columns) for each in comparison.different} == {("different", ("level",))}
    request = json.dumps({"data-collections": [captured.table], "type": "incremental"})
    captured.database.execute(f"INSERT INTO {signals} VALUES ('1', 'execute-snapshot', '{request}')")
    captured.workload.run(40)
    deadline = time.monotonic() + 60
    while comparison.different:
        assert time.monotonic() < deadline, comparison.different
        captured.catch_up(claims=False)
        comparison = captured.world.ingestion().compare_database(captured.database.url, wait=timedelta(0))
    captured.check()
