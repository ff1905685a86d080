"""A table of a real database, the connector that captures it, and the pipeline that brings it to the lake."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from support.oracle.database import MARIADB, POSTGRES, DatabaseColumn, Workload
from support.pipelines import World
from support.records import create_topic
from support.servers.databases import Database, mariadb, postgres
from support.servers.debezium import ConnectWorker, mariadb_connector, postgres_connector

from lakeingest.local import Addresses
from lakeingest.operations.database_position import parse

_PATIENCE_S = 300
_MARK = -1
"""The key of a row that is written last: behind its event nothing is to come."""


@dataclass(frozen=True)
class Engine:
    """A kind of database.

    Attributes:
        columns: what a table of it is made of, beside its key.
        serve: runs one, with its files in a folder.
        setup: statements before the first table.
        schema: what stands before a table's name.
        end: asks where its log ends, as `lakeingest wait --position` takes it.
        wider: what an ALTER does so that a column has a wider type.
    """

    columns: Mapping[str, DatabaseColumn]
    serve: Callable[[Path], AbstractContextManager[Database]]
    setup: tuple[str, ...]
    schema: str
    end: Callable[[Database], str]
    wider: str

    @contextmanager
    def running(self, folder: Path) -> Iterator[Database]:
        """One of it, set up."""
        with self.serve(folder) as database:
            database.execute(*self.setup)
            yield database


def _end_of_binlog(database: Database) -> str:
    file, position, *_ = database.rows("SHOW MASTER STATUS")[0]
    return f"{file}:{position}"


ENGINES = {
    "postgres": Engine(
        POSTGRES,
        postgres,
        ("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",),
        "public",
        lambda database: str(database.rows("SELECT pg_current_wal_lsn()")[0][0]),
        "ALTER COLUMN small TYPE integer",
    ),
    "mariadb": Engine(MARIADB, mariadb, (), "shop", _end_of_binlog, "MODIFY tiny integer"),
}


def world_of(stack: Addresses, spark: SparkSession, name: str, engine: Engine, **parts: Any) -> World:
    """The pipeline of mode upsert of the table `name`.

    Args:
        name: without signs that a database would want quoted.
        parts: more of its file.
    """
    values: dict[str, Any] = {
        "source": {"topics": [f"{name}.{engine.schema}.{name}"], "bootstrap_servers": stack.kafka},
        "decode": {"value": {"format": "connect_json"}, "envelope": {"format": "debezium"}},
        "table": {"mode": "upsert", "keys": ["id"]},
    }
    return World(stack, spark, name, schema=None, **values, **parts)


class Captured:
    """See the module.

    Attributes:
        world: the pipeline, of mode upsert.
        worker: runs the connector.
        workload: changes the table.
    """

    def __init__(self, world: World, engine: Engine, database: Database, worker: ConnectWorker, seed: int) -> None:
        self.name, self.world, self.engine, self.database, self.worker = world.name, world, engine, database, worker
        self.table = f"{engine.schema}.{self.name}"
        self.workload = Workload(database, self.table, engine.columns, seed)

    def start(self, folder: Path, **options: str) -> None:
        """Let the connector begin, with a snapshot.

        Args:
            folder: for what the connector has to remember.
            options: of the connector, with underscores for dots.
        """
        listed = {"table.include.list": self.table, **{name.replace("_", "."): v for name, v in options.items()}}
        create_topic(self.world.stack, *self.world.topics)
        if self.engine is ENGINES["postgres"]:
            config = postgres_connector(self.database, self.name, listed)
        else:
            config = mariadb_connector(self.database, self.name, folder, listed)
        self.worker.put(self.name, config)

    def stop(self) -> None:
        self.worker.delete(self.name)

    def catch_up(self, *, claims: bool = True, **changes: Any) -> None:
        """Run until the lake has all that the database has by now.

        Args:
            claims: whether the table says so; not while a snapshot is under way.
        """
        self.database.execute(f"INSERT INTO {self.table} (id) VALUES ({_MARK})")
        self._await(is_there=True, **changes)
        end = self.engine.end(self.database)
        self.database.execute(f"DELETE FROM {self.table} WHERE id = {_MARK}")
        self._await(is_there=False, **changes)
        # What the table claims to hold is all that was done before, and not more than there is.
        position = self.world.ingestion().status().position
        assert position is not None
        if position.place is None and not claims:
            return
        assert position.reaches(parse(end)), (position, end)
        assert not position.reaches([part + 1 for part in parse(self.engine.end(self.database))])

    def reach(self, place: str) -> None:
        """Wait until the lake, which somebody else feeds, claims to hold all up to a place in the log."""
        deadline = time.monotonic() + _PATIENCE_S
        while not ((position := self.world.ingestion().status().position) and position.reaches(parse(place))):
            assert time.monotonic() < deadline, position
            time.sleep(0.5)

    def _await(self, *, is_there: bool, **changes: Any) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while (_MARK in self.rows(**changes)) != is_there:
            assert time.monotonic() < deadline, self.worker.log.read_text(errors="replace")[-3000:]

    def rows(self, **changes: Any) -> dict[int, dict[str, Any]]:
        """What the lake has behind a run; nothing while the connector has sent no event yet."""
        self.world.run(**changes)
        if self.world.ingestion().tables.main.schema() is None:
            return {}
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
