"""The databases and the Kafka Connect worker that tests of change data capture are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.cdc.recording import RecordTree, payload, read_records, wait_records
from support.servers.databases import Database, mariadb, postgres
from support.servers.debezium import (
    JSON_WITH_SCHEMA,
    ConnectWorker,
    connect_worker,
    mariadb_connector,
    postgres_connector,
)

from lakeingest.local import Addresses

pytestmark = pytest.mark.faults

CHANGES = (
    "INSERT INTO visits VALUES (2, 'streamed')",
    "UPDATE visits SET word = 'changed' WHERE id = 2",
    "DELETE FROM visits WHERE id = 2",
)
EXPECTED = [("r", 1, "snapshot"), ("c", 2, "streamed"), ("u", 2, "changed"), ("d", 2, None), None]
"""Operation, id and the word after it; None for the tombstone."""


def begin(database: Database) -> None:
    database.execute("CREATE TABLE visits (id int PRIMARY KEY, word varchar(20))")
    database.execute("INSERT INTO visits VALUES (1, 'snapshot')")


def summary(record: RecordTree) -> tuple[str, int, str | None] | None:
    tree = payload(record)
    return tree and (tree["op"], payload(record, "key")["id"], (tree["after"] or {}).get("word"))


def changes_in(stack: Addresses, database: Database, topic: str) -> list[Any]:
    """What the topic says once a row was inserted, changed and deleted behind the snapshot."""
    wait_records(stack, topic, lambda now: len(now) == 1)
    database.execute(*CHANGES)
    return [summary(each) for each in wait_records(stack, topic, lambda now: len(now) == len(EXPECTED))]


def test_changes_of_postgres_arrive(stack: Addresses, tmp_path: Path) -> None:
    """A snapshot's row, an insert, an update, a delete with its tombstone."""
    with postgres(tmp_path) as database, connect_worker(stack, tmp_path) as worker:
        begin(database)
        worker.put("visits", postgres_connector(database, "parts_pg"))
        assert changes_in(stack, database, "parts_pg.public.visits") == EXPECTED


def test_changes_of_mariadb_arrive(stack: Addresses, tmp_path: Path) -> None:
    """The same, in JSON with schemas."""
    with mariadb(tmp_path) as database, connect_worker(stack, tmp_path, JSON_WITH_SCHEMA) as worker:
        begin(database)
        worker.put("visits", mariadb_connector(database, "parts_maria", tmp_path))
        assert changes_in(stack, database, "parts_maria.shop.visits") == EXPECTED


def test_a_killed_worker_sends_again(stack: Addresses, tmp_path: Path) -> None:
    """From the offsets that it wrote down last: a change comes twice, with one position in the database's log."""
    options = {"offset.flush.interval.ms": "600000"}
    with postgres(tmp_path) as database, connect_worker(stack, tmp_path, options=options) as worker:
        begin(database)
        worker.put("visits", postgres_connector(database, "parts_killed"))
        topic = "parts_killed.public.visits"
        wait_records(stack, topic, lambda now: len(now) == 1)
        restart(worker)
        database.execute("UPDATE visits SET word = 'twice'")
        wait_records(stack, topic, lambda now: len(now) == 2)
        worker.kill()
        worker.start()
        worker.wait_running("visits")
        wait_records(stack, topic, lambda now: len(now) == 3)
        _, first, second = (payload(each) for each in read_records(stack, [topic]))
        assert (first["after"], first["source"]["lsn"]) == (second["after"], second["source"]["lsn"])


def restart(worker: ConnectWorker) -> None:
    """In good order, so that the end of the snapshot is written down."""
    worker.stop()
    worker.start()
    worker.wait_running("visits")
