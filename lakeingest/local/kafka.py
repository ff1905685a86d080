"""Apache Kafka: one node that is broker and controller (KRaft)."""

from __future__ import annotations

import os
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from lakeingest.errors import SetupError
from lakeingest.local.addresses import HOST
from lakeingest.local.artifacts import fetch
from lakeingest.local.machine import java
from lakeingest.local.server import ServerPlace, listens

PROPERTIES = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}
"""Properties of each node: a misspelt topic is an error, and buffers are small."""
_LOG4J = """rootLogger.level=INFO
rootLogger.appenderRef.file.ref=file
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName={logs}/kafka-server.log
appender.file.filePattern={logs}/kafka-server.log.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %p %m (%c)%n
appender.file.policies.type=SizeBasedTriggeringPolicy
appender.file.policies.size=10MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=3
"""


def replication(brokers: int) -> dict[str, str]:
    """The properties of a cluster that keeps a record on three brokers, on two before it counts, if it has as many."""
    factor, least = str(min(3, brokers)), str(min(2, brokers))
    return {
        "default.replication.factor": factor,
        "min.insync.replicas": least,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": least,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": least,
    }


def prepare(
    properties: Mapping[str, str],
    data: Path,
    logs: Path,
    *,
    cluster: str,
    jvm: Sequence[str] = (),
    storage: Sequence[str] = (),
) -> list[str]:
    """Write the settings of one node, format its data folder when it is new, and return the command that starts it.

    Args:
        properties: server.properties but for log.dirs.
        cluster: id of a cluster that is new.
        jvm: options for Java.
        storage: further arguments of Kafka's storage tool.

    Raises:
        SetupError: no Java, no download, or the storage tool refuses.
    """
    settings, log4j = data / "server.properties", data / "log4j2.properties"
    settings.touch(mode=0o600)
    settings.write_text(
        "".join(f"{name}={value}\n" for name, value in {**properties, "log.dirs": data / "log"}.items())
    )
    log4j.write_text(_LOG4J.format(logs=logs))
    jars = ":".join(map(str, fetch("kafka")))
    start = [str(java()), *jvm, "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={log4j}", "-cp", jars]
    if not (data / "log" / "meta.properties").exists():
        _format([*start, "kafka.tools.StorageTool"], str(settings), cluster, storage)
    return [*start, "kafka.Kafka", str(settings)]


def new_cluster() -> str:
    """An id for a cluster."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def brokers_at(address: str) -> set[int]:
    """Ids of the brokers that the one at `address` (PLAINTEXT) knows to serve; empty while it does not answer."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    # librdkafka writes to stderr by itself unless it is told not to.
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    try:
        return set(admin.list_topics(timeout=3).brokers)
    except KafkaException:
        return set()


class Kafka:
    """The broker, without automatic topics: a misspelt topic must be an error."""

    name = "kafka"
    version = "4.1.2"
    ports: Sequence[str] = ("broker", "controller")
    grace_s = 30.0

    def command(self, place: ServerPlace) -> tuple[Sequence[str], Mapping[str, str]]:
        """Write the settings, format the data folder when it is new, and say how to start."""
        broker, controller = (f"{HOST}:{place.ports[name]}" for name in self.ports)
        properties = {
            **PROPERTIES,
            **replication(1),
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{broker}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }
        return prepare(properties, place.data, place.logs, cluster=new_cluster(), jvm=["-Xmx512m"]), dict(os.environ)

    def ready(self, place: ServerPlace) -> bool:
        """Whether the broker lists its topics."""
        return listens(place.ports["broker"]) and bool(brokers_at(f"{HOST}:{place.ports['broker']}"))


def _format(start: Sequence[str], settings: str, cluster: str, more: Sequence[str]) -> None:
    # With "=", because an id may begin with "-".
    command = [*start, "format", f"--cluster-id={cluster}", "--ignore-formatted", "--config", settings, *more]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SetupError(
            f"Kafka's storage tool refused to format: {(process.stderr or process.stdout).strip()}",
            cure="run `lakeingest stack down --wipe`, which deletes the stack's data, and start again",
        )
