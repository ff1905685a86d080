"""Apache Kafka: one node that is broker and controller (KRaft)."""

from __future__ import annotations

import os
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence

from lakeingest.errors import SetupError
from lakeingest.local.addresses import HOST
from lakeingest.local.artifacts import fetch
from lakeingest.local.machine import java
from lakeingest.local.server import Place, listens

_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{broker},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{broker}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/log
auto.create.topics.enable=false
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""
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


class Kafka:
    """The broker, without automatic topics: a misspelt topic must be an error."""

    name = "kafka"
    version = "4.1.2"
    ports: Sequence[str] = ("broker", "controller")
    patience = 30.0

    def command(self, place: Place) -> tuple[Sequence[str], Mapping[str, str]]:
        """Write the settings, format the data folder when it is new, and say how to start."""
        settings, log4j = place.data / "server.properties", place.data / "log4j2.properties"
        settings.write_text(_PROPERTIES.format(host=HOST, folder=place.data, **place.ports))
        log4j.write_text(_LOG4J.format(logs=place.logs))
        jars = ":".join(map(str, fetch("kafka")))
        start = [str(java()), "-Xmx512m", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={log4j}", "-cp", jars]
        if not (place.data / "log" / "meta.properties").exists():
            _format([*start, "kafka.tools.StorageTool"], str(settings))
        return [*start, "kafka.Kafka", str(settings)], dict(os.environ)

    def ready(self, place: Place) -> bool:
        """Whether the broker lists its topics."""
        if not listens(place.ports["broker"]):
            return False
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        # librdkafka writes to stderr by itself unless it is told not to.
        admin = AdminClient({"bootstrap.servers": f"{HOST}:{place.ports['broker']}", "log_level": 0})
        try:
            return bool(admin.list_topics(timeout=3).brokers)
        except KafkaException:
            return False


def _format(start: Sequence[str], settings: str) -> None:
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # With "=", because an id may begin with "-".
    command = [*start, "format", f"--cluster-id={cluster}", "--ignore-formatted", "--config", settings]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(
            f"Kafka's storage tool refused to format: {(done.stderr or done.stdout).strip()}",
            cure="run `lakeingest stack down --wipe`, which deletes the stack's data, and start again",
        )
