"""A Kafka Connect worker with Debezium's connectors for PostgreSQL, MySQL and MariaDB."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from support.servers import free_port
from support.servers.databases import Database

from lakeingest.local import Addresses
from lakeingest.local.artifacts import fetch
from lakeingest.local.machine import java

_LOG4J = """rootLogger.level=INFO
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %m (%c)%n
logger.kafka.name=org.apache.kafka
logger.kafka.level=WARN
logger.connect.name=org.apache.kafka.connect.runtime
logger.connect.level=INFO
"""
_PATIENCE_S = 120
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_AVRO = "io.apicurio.registry.utils.converter.AvroConverter"

Converter = Mapping[str, str]
"""Options of a worker, or of one connector in it."""


def _each_side(options: Mapping[str, str]) -> Converter:
    return {f"{side}.converter{name}": value for side in ("key", "value") for name, value in options.items()}


# By default the converter writes a column's default in the place of null.
_NULLS = {".replace.null.with.default": "false"}
JSON = _each_side({"": _JSON, ".schemas.enable": "false", **_NULLS})
JSON_WITH_SCHEMA = _each_side({"": _JSON, ".schemas.enable": "true", **_NULLS})


def avro(stack: Addresses) -> Converter:
    """Apicurio's Avro converter as Confluent's writes: a zero, the schema's id in 4 bytes, and the datum."""
    options = {
        "": _AVRO,
        ".apicurio.registry.url": stack.registry.replace("ccompat/v7", "registry/v2"),
        ".apicurio.registry.as-confluent": "true",
        ".apicurio.registry.use-id": "contentId",
        ".apicurio.registry.auto-register": "true",
        ".apicurio.registry.headers.enabled": "false",
    }
    return _each_side(options)


class ConnectWorker:
    """A worker that can be killed and started again: it goes on from the same offsets.

    Attributes:
        log: its output, of every start.
        process: its JVM; None while it is stopped.
    """

    def __init__(self, stack: Addresses, folder: Path, options: Mapping[str, str]) -> None:
        self.log = folder / "connect.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._folder = folder
        self._connectors: dict[str, dict[str, str]] = {}
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        self._properties = {
            "bootstrap.servers": stack.kafka,
            "listeners": self.address,
            "offset.storage.file.filename": str(folder / "connect.offsets"),
            "offset.flush.interval.ms": "500",
            "plugin.discovery": "service_load",
            **options,
        }

    def start(self) -> None:
        """Start it, and give it the connectors that it had: a standalone worker forgets them."""
        settings, log4j = self._folder / "connect.properties", self._folder / "connect.log4j2.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in self._properties.items()))
        log4j.write_text(_LOG4J)
        command = [str(java()), "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-Dlog4j2.configurationFile={log4j}", "-cp", os.pathsep.join(map(str, _jars()))]
        command += ["org.apache.kafka.connect.cli.ConnectStandalone", str(settings)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        self._wait_answer()
        for name, config in self._connectors.items():
            self._ask("PUT", f"connectors/{name}/config", config)

    def stop(self) -> None:
        """End it in good order: it writes down its offsets."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None

    def kill(self) -> None:
        """End it at once: it goes on from the offsets that it wrote down last, up to half a second ago."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)
        self.process = None

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Make a connector, or change its options; wait until its task runs."""
        self._connectors[name] = dict(config)
        self._ask("PUT", f"connectors/{name}/config", self._connectors[name])
        self.wait_running(name)

    def wait_running(self, name: str) -> None:
        """Until the connector's task runs; fails with the task's error if it failed."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            tasks = self.status(name).get("tasks", [])
            assert all(task["state"] != "FAILED" for task in tasks), tasks[0].get("trace", tasks)
            if tasks and all(task["state"] == "RUNNING" for task in tasks):
                return
            assert time.monotonic() < deadline, f"{name} does not run: {tasks}; see {self.log}"
            time.sleep(0.1)

    def status(self, name: str) -> dict[str, Any]:
        """The states of the connector and of its tasks; empty where there is no such connector, or not yet."""
        return self._ask("GET", f"connectors/{name}/status") or {}

    def delete(self, name: str) -> None:
        """End a connector; its offsets stay."""
        del self._connectors[name]
        self._ask("DELETE", f"connectors/{name}")

    def _wait_answer(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            assert self.process.poll() is None, self.log.read_text(errors="replace")[-3000:]
            try:
                requests.get(self.address, timeout=5).raise_for_status()
                return
            except requests.RequestException:
                assert time.monotonic() < deadline, f"the worker does not answer; see {self.log}"
                time.sleep(0.2)

    def _ask(self, verb: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        answer = requests.request(verb, f"{self.address}/{path}", json=body, timeout=60)
        if answer.status_code == requests.codes.not_found:
            return None
        assert answer.ok, answer.text
        return answer.json() if answer.content else None


@contextmanager
def connect_worker(
    stack: Addresses, folder: Path, converter: Converter = JSON, options: Mapping[str, str] | None = None
) -> Iterator[ConnectWorker]:
    """A worker of its own, which keeps its files in the folder, and its end.

    Args:
        converter: `JSON`, `JSON_WITH_SCHEMA` or `avro(stack)`; a connector's config may name another.
        options: further properties of the worker.
    """
    worker = ConnectWorker(stack, folder, {**converter, **(options or {})})
    try:
        worker.start()
        yield worker
    finally:
        worker.stop()


def postgres_connector(database: Database, prefix: str, options: Mapping[str, str] | None = None) -> dict[str, str]:
    """A connector's config, with a slot and a publication of its own.

    Args:
        prefix: of the topics, in lower case and without hyphens.
        options: further options, or others.
    """
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "slot.name": prefix,
        "publication.name": prefix,
        "publication.autocreate.mode": "filtered",
        "database.dbname": database.database,
        **_of_any(database, prefix),
        **(options or {}),
    }


def mariadb_connector(
    database: Database, prefix: str, folder: Path, options: Mapping[str, str] | None = None
) -> dict[str, str]:
    """A connector's config; what it knows of the tables' history is a file in the folder."""
    return {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "database.server.id": str(5400 + sum(prefix.encode()) % 1000),
        "database.include.list": database.database,
        "database.ssl.mode": "disabled",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(folder / f"{prefix}.history"),
        **_of_any(database, prefix),
        **(options or {}),
    }


def _of_any(database: Database, prefix: str) -> dict[str, str]:
    return {
        "tasks.max": "1",
        "topic.prefix": prefix,
        "database.hostname": database.host,
        "database.port": str(database.port),
        "database.user": database.user,
        "database.password": database.password,
        # The broker makes no topics by itself.
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "poll.interval.ms": "50",
    }


def _jars() -> list[Path]:
    """Kafka's are those of the embedded broker."""
    listing = Path(__file__).with_name("debezium.txt").read_text(encoding="utf-8")
    return [*fetch("debezium", listing=listing), *fetch("debezium-avro", listing=listing), *fetch("kafka")]
