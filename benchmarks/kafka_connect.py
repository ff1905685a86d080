"""Kafka Connect with Iceberg's sink, as a peer: one worker, one task, into an Iceberg table on S3, partitioned by day.

The worker runs until the benchmark ends, so that its second connector finds a warm JVM. Tables are made by `pyiceberg`
in the same catalog, a file of SQLite: the sink itself would take a time in JSON for text.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import requests
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import BooleanType, DoubleType, LongType, NestedField, StringType, TimestamptzType
from support.records import create_topic

from lakeingest.local import Addresses
from lakeingest.local.artifacts import fetch
from lakeingest.local.machine import java
from lakeingest.local.server import free_ports

CONTROL = "control-iceberg"
"""The topic on which the sink's tasks and its coordinator agree on a commit; it has to be there."""
_COMMIT_EVERY_MS = 5_000
"""About as often as the jobs beside it commit; the sink's own default is five minutes."""
_POLL = 5_000
"""Records of a poll, as lakeingest has it; Kafka's default is 500."""
_PATIENCE_S = 120
_FIELDS = {
    "id": LongType(),
    "ts": TimestamptzType(),
    "city": StringType(),
    "postcode": StringType(),
    "name": StringType(),
    "channel": StringType(),
    "amount": DoubleType(),
    "paid": BooleanType(),
}


class Connect:
    """A worker that runs.

    Attributes:
        process: the worker's JVM.
    """

    def __init__(self, process: subprocess.Popen[bytes], address: str, stack: Addresses, folder: Path) -> None:
        self.process = process
        self._address, self._stack = address, stack
        create_topic(stack, CONTROL)
        self._database = folder / "catalog.db"
        storage = {
            "s3.endpoint": stack.s3,
            "s3.region": "us-east-1",
            "s3.access-key-id": stack.s3_access_key,
            "s3.secret-access-key": stack.s3_secret_key,
        }
        self._catalog = SqlCatalog(
            "iceberg", uri=f"sqlite:///{self._database}", warehouse="s3://lake/iceberg", **storage
        )
        self._catalog.create_namespace_if_not_exists("bench")

    def wait_ready(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + 60
        while True:
            assert self.process.poll() is None, "the worker ended; see its log"
            try:
                requests.get(self._address, timeout=5).raise_for_status()
                return
            except requests.RequestException:
                assert time.monotonic() < deadline, "the worker does not answer"
                time.sleep(0.2)

    def take(self, topic: str, records: int, table: str) -> None:
        """Take a topic of orders in JSON into a new table; ends when a snapshot has all its records."""
        name = f"bench.{table}"
        by_day = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=DayTransform(), name="day"))
        fields = (NestedField(at, field, kind) for at, (field, kind) in enumerate(_FIELDS.items(), 1))
        self._catalog.create_table(name, Schema(*fields), partition_spec=by_day)
        self._ask("PUT", f"connectors/{table}/config", self._config(topic, name))
        there, since = 0, time.monotonic()
        while (now := self.rows(table)) < records:
            there, since = (now, time.monotonic()) if now > there else (there, since)
            status = self._ask("GET", f"connectors/{table}/status").get("tasks", [])
            assert all(task["state"] != "FAILED" for task in status), status
            still = f"{now:,} of {records:,} records are committed, and no more for {_PATIENCE_S} s; see connect.log"
            assert time.monotonic() - since < _PATIENCE_S, still
            time.sleep(0.1)
        self._ask("DELETE", f"connectors/{table}")

    def rows(self, table: str) -> int:
        """In the table's newest snapshot."""
        newest = self._catalog.load_table(f"bench.{table}").current_snapshot()
        return int(newest.summary["total-records"] or 0) if newest and newest.summary else 0

    def files(self, table: str) -> tuple[int, int]:
        """Data files, and commits, of the table."""
        there = self._catalog.load_table(f"bench.{table}")
        newest = there.current_snapshot()
        assert newest is not None
        assert newest.summary is not None
        return int(newest.summary["total-data-files"] or 0), len(there.snapshots())

    def _config(self, topic: str, table: str) -> dict[str, str]:
        catalog = {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{self._database}",
            "warehouse": "s3://lake/iceberg",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "client.region": "us-east-1",
            "s3.endpoint": self._stack.s3,
            "s3.path-style-access": "true",
            "s3.access-key-id": self._stack.s3_access_key,
            "s3.secret-access-key": self._stack.s3_secret_key,
        }
        return {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": "1",
            "topics": topic,
            "consumer.override.auto.offset.reset": "earliest",
            "consumer.override.max.poll.records": str(_POLL),
            "iceberg.tables": table,
            "iceberg.control.topic": CONTROL,
            "iceberg.control.commit.interval-ms": str(_COMMIT_EVERY_MS),
            **{f"iceberg.catalog.{name}": value for name, value in catalog.items()},
        }

    def _ask(self, verb: str, path: str, body: Any = None) -> Any:
        answer = requests.request(verb, f"{self._address}/{path}", json=body, timeout=30)
        # A connector that was just made has no status yet.
        if answer.status_code == requests.codes.not_found:
            return {}
        answer.raise_for_status()
        return answer.json() if answer.content else None


@contextmanager
def connect(stack: Addresses, folder: Path) -> Iterator[Connect]:
    """A worker of its own, in this folder, and its end."""
    listing = Path(__file__).with_name("kafka_connect.txt").read_text(encoding="utf-8")
    jars = [*fetch("connect", listing=listing), *fetch("spark")]
    # Parquet asks for Hadoop's classes; Spark has them.
    jars += Path(pyspark.__file__).with_name("jars").glob("hadoop-client-*.jar")
    port = free_ports(["connect"], {}, set())["connect"]
    properties = {
        "bootstrap.servers": stack.kafka,
        "listeners": f"http://127.0.0.1:{port}",
        "offset.storage.file.filename": folder / "connect.offsets",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        # Once a topic is read, a task looks after the sink's commits no more often than this: by default each minute.
        "offset.flush.interval.ms": "500",
    }
    settings = folder / "connect.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    command = [str(java()), "-Xmx2g", "-cp", os.pathsep.join(map(str, jars))]
    command += ["org.apache.kafka.connect.cli.ConnectStandalone", str(settings)]
    with (folder / "connect.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
        try:
            worker = Connect(process, f"http://127.0.0.1:{port}", stack, folder)
            worker.wait_ready()
            yield worker
        finally:
            process.terminate()
            process.wait(30)
