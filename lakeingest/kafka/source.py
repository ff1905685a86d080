"""The Kafka side: what the topics hold, which offsets the next micro-batch takes, and the frame of exactly these.

lakeingest names the offsets of a batch itself, starting at the frontier of the Delta log. There is no checkpoint that
could be lost, stale or another pipeline's.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeingest.config import Source
from lakeingest.errors import OffsetsLost, SourceChanged, SourceRefused, SourceUnreachable, UsageError
from lakeingest.kafka import consumer
from lakeingest.record import HEADERS, OFFSET, PARTITION, RAW_KEY, RAW_VALUE, TIMESTAMP, TOPIC, Frontier, Span, Spans
from lakeingest.spark import timestamps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMEOUT_S = 30.0
_SALT = os.urandom(16)
_MOST_IN_A_TASK = 250_000
"""Offsets of a Kafka partition that one task reads: where there are fewer partitions than cores, several read one."""
_LEAST_IN_A_TASK = 2_500
"""Offsets that are worth a task: where Kafka's partitions have fewer, one task reads several, and writes one file."""
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
_LISTEN_S, _GRACE_S = 0.2, 5.0
_CURE = "start the broker, or correct source.bootstrap_servers or security.protocol in source.options"
_CURES = {
    "_AUTHENTICATION": "correct source.options (sasl.username, sasl.password, sasl.mechanism)",
    "_SSL": "let source.options name the CA of the broker's certificate (ssl.ca.location), and "
    "source.bootstrap_servers the broker as its certificate names it",
}
"""What librdkafka tells of a refusal, and only there: the requests themselves time out."""
READ_COMMITTED = "read_committed"
_COLUMNS = (
    f"{TOPIC} STRING, {PARTITION} INT, {OFFSET} BIGINT, {TIMESTAMP} TIMESTAMP, {RAW_KEY} BINARY, {RAW_VALUE} BINARY, "
    f"{HEADERS} ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


@dataclass(frozen=True)
class Topics:
    """What the broker says of the topics at one moment.

    Attributes:
        cluster: id of the Kafka cluster.
        ids: topic → topic id, "" where the cluster gives none; a topic that is deleted and made again has another one.
        first, last: (topic, partition) → first offset kept, and one past the last committed record.
    """

    cluster: str
    ids: Mapping[str, str]
    first: Frontier
    last: Frontier


class Broker:
    """Asks Kafka about topics and offsets; records themselves are read by Spark.

    Raises:
        UsageError: from the constructor, when source.options make no sense.
        SourceUnreachable: from every method, when the broker does not answer within `timeout_s` seconds, or for five
            after a password or a certificate was refused, or no broker let itself be connected.
        SourceRefused: from every method, when the broker lets us in, and not to what we ask for.
    """

    def __init__(self, source: Source, bootstrap_servers: str, *, timeout_s: float = TIMEOUT_S) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self._source = source
        self._servers = bootstrap_servers
        self._timeout_s = timeout_s
        self._heard: deque[Any] = deque(maxlen=20)
        own: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "error_cb": self._heard.append}
        try:
            self._admin = AdminClient({**_plain(source), **own}, logger=_silent())
        except KafkaException as failed:
            raise UsageError(
                f"source.options cannot be used: {_without_values(source, failed.args[0].str())}",
                cure="correct them; they are those of librdkafka, as Kafka's clients in other languages have them",
            ) from None

    def topics(self) -> Topics:
        """Ids, first and last offsets of every partition of the pipeline's topics.

        Raises:
            UsageError: a topic does not exist.
        """
        from confluent_kafka import KafkaException

        # What was told since the last question is of brokers that may be back.
        self._admin.poll(0)
        for pause_s in (*_PAUSES_S, None):
            self._heard.clear()
            try:
                return self._topics()
            except (KafkaException, TimeoutError) as failed:
                # A leader that moves, or is not elected yet for a new topic, answers a moment later.
                passing = isinstance(failed, KafkaException) and failed.args[0].code() in _passing()
                if isinstance(failed, KafkaException) and failed.args[0].code() in _denials():
                    raise self._denied(", ".join(self._source.topics), failed.args[0].str()) from failed
                if pause_s is None or not passing:
                    raise self._unreachable(failed) from failed
                time.sleep(pause_s)
                self._look_anew()
        raise AssertionError("the last attempt returns or raises")

    def _unreachable(self, failed: Exception) -> SourceUnreachable:
        heard = self._refusal() or next((e for e in reversed(self._heard) if e.name() != "_ALL_BROKERS_DOWN"), None)
        said = heard.str() if heard else str(failed) or f"no answer within {self._timeout_s:g} s"
        cure = _CURES.get(heard.name() if heard else "", _CURE)
        return SourceUnreachable(
            f"Kafka at {self._servers} does not answer: {said}", cure=f"{cure}; nothing was lost, run again"
        )

    def _denied(self, topics: str, said: str) -> SourceRefused:
        return SourceRefused(
            f"Kafka at {self._servers} denies access to {topics}: {said}",
            cure=f"let the user of source.options Describe and Read {topics} (kafka-acls.sh --add --allow-principal … "
            "--operation Read --topic …), or name another user; nothing was consumed",
        )

    def _refusal(self) -> Any:
        return next((error for error in self._heard if error.name() in _CURES), None)

    def _hopeless(self) -> bool:
        """Whether we are refused, or each broker that is known: a port is closed, or a name unknown."""
        return self._refusal() is not None or any(error.name() == "_ALL_BROKERS_DOWN" for error in self._heard)

    def _answer(self, future: Any) -> Any:
        """The result of a request. Where there is little hope of one, a few seconds are enough."""
        until = time.monotonic() + self._timeout_s
        while True:
            try:
                return future.result(_LISTEN_S)
            except TimeoutError:
                self._admin.poll(0)
                if self._hopeless():
                    until = min(until, time.monotonic() + _GRACE_S)
                if time.monotonic() > until:
                    raise

    def _look_anew(self) -> None:
        """Librdkafka keeps "no leader yet" in its cache for minutes, and asks again only when told to."""
        from confluent_kafka import KafkaException

        with suppress(KafkaException):
            self._admin.list_topics(timeout=self._timeout_s)

    def _topics(self) -> Topics:
        from confluent_kafka import TopicCollection

        cluster = self._answer(self._admin.describe_cluster(request_timeout=self._timeout_s)).cluster_id
        names = list(self._source.topics)
        described = self._admin.describe_topics(
            TopicCollection(names), request_timeout=self._timeout_s, include_authorized_operations=True
        )
        known = {name: self._described(name, future) for name, future in described.items()}
        partitions = [(name, p.id) for name, topic in known.items() for p in topic.partitions]
        return Topics(
            cluster=cluster,
            ids={name: topic_id(str(topic.topic_id)) for name, topic in known.items()},
            first=self._offsets(partitions, "earliest"),
            last=self._offsets(partitions, "latest"),
        )

    def _described(self, name: str, future: Any) -> Any:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AclOperation

        try:
            topic = self._answer(future)
            # Spark alone reads: it would be told so in the middle of the batch, as a failure of the table.
            if AclOperation.READ not in (topic.authorized_operations or [AclOperation.READ]):
                raise self._denied(name, "it may be described, and not be read")
            return topic
        except KafkaException as failed:
            if failed.args[0].code() in _denials():
                raise self._denied(name, failed.args[0].str()) from failed
            if failed.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            raise UsageError(
                f"topic {name!r} does not exist on {self._servers}",
                cure="create the topic, or correct source.topics",
            ) from failed

    def _offsets(self, partitions: Collection[tuple[str, int]], which: str) -> dict[tuple[str, int], int]:
        from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        spec = getattr(OffsetSpec, which)()
        asked = {TopicPartition(topic, partition): spec for topic, partition in partitions}
        futures = self._admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._timeout_s
        )
        found = {(tp.topic, tp.partition): self._answer(future).offset for tp, future in futures.items()}
        if any(offset < 0 for offset in found.values()):
            # What librdkafka gives, without an error, where a leader is just moving (seen: -1001).
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return found


def topic_id(told: str | None) -> str:
    """A topic's id; "" for none, and for the one of zeros that stands for none (KIP-516)."""
    return told if told and told.strip("A=") else ""


def _passing() -> set[int]:
    from confluent_kafka import KafkaError

    return {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError._NOENT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError._WAIT_COORD,
    }


def _denials() -> set[int]:
    from confluent_kafka import KafkaError

    return {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }


def starts(source: Source, topics: Topics, frontier: Frontier) -> dict[tuple[str, int], int]:
    """Where each topic-partition goes on: at its frontier, or where `source.start` says if its topic is new.

    A new partition of a topic that is known begins at its first offset, whatever `source.start` says.

    Raises:
        OffsetsLost: the frontier lies before the first offset that the broker still has.
        SourceChanged: the frontier lies after the last one, as it does when a topic was made anew.
    """
    known = {topic for topic, _ in frontier}
    begin = {}
    for tp, last in topics.last.items():
        first = topics.first[tp]
        fresh = last if source.start == "latest" and tp[0] not in known else first
        begin[tp] = frontier.get(tp, fresh)
        if begin[tp] < first:
            raise OffsetsLost(
                f"{tp[0]}-{tp[1]}: offsets {begin[tp]} to {first - 1} were never read, and Kafka no longer has them",
                cure="run once with --accept-gap to go on behind them (its commit and `audit` will name them), or "
                "begin a new table under another pipeline name; make the topic's retention longer than any stop",
            )
        if begin[tp] > last:
            raise SourceChanged(
                f"{tp[0]}-{tp[1]}: the table was fed up to offset {begin[tp]}, but the topic ends at {last}",
                cure="the topic was made anew or the cluster is another one: give the pipeline a new name and table",
            )
    return begin


def gaps(topics: Topics, frontier: Frontier) -> Spans:
    """The offsets beyond the frontier that the broker no longer has."""
    lost = ((tp, end, topics.first.get(tp, end)) for tp, end in sorted(frontier.items()))
    return Spans(tuple(Span(*tp, end, first) for tp, end, first in lost if end < first))


def next_spans(begin: Frontier, end: Frontier, max_records: int) -> Spans:
    """The next micro-batch: at most `max_records` offsets, shared out in proportion to each partition's backlog.

    Partitions without new records keep an empty span, so that the spans always hold the whole frontier. So do those
    that are beyond `end`: another run may have committed more than this one set out for.
    """
    backlog = {tp: max(0, end.get(tp, start) - start) for tp, start in begin.items()}
    total = sum(backlog.values())
    room = min(total, max_records)
    spans, given, seen = [], 0, 0
    for (topic, partition), start in sorted(begin.items()):
        # Rounding the running sum, not each share, gives out exactly `room` in the end.
        seen += backlog[topic, partition]
        upto = room * seen // total if total else 0
        spans.append(Span(topic, partition, start, start + upto - given))
        given = upto
    return Spans(tuple(spans))


def lag(frontier: Frontier, last: Frontier) -> int:
    """How many offsets Kafka holds beyond the frontier."""
    return sum(end - frontier.get(tp, 0) for tp, end in last.items())


def frame(
    spark: SparkSession, source: Source, bootstrap_servers: str, pipeline: str, spans: Spans, *, slowly: bool = False
) -> DataFrame:
    """Exactly the records of `spans`, as bytes.

    Columns: _topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP (null outside of the years 0001 to
    9999, which Python and other readers cannot hold), _raw_key BINARY, _raw_value BINARY, _headers ARRAY<STRUCT<key:
    STRING, value: BINARY>>.

    Args:
        slowly: whether they are read without Spark's reader, which fails where it cannot hold a record's time.

    Raises:
        SetupError: see `consumer.frame`.
    """
    from pyspark.sql import functions as F

    taken: dict[str, dict[str, list[int]]] = {
        topic: {p: span for p, span in partitions.items() if span[1] > span[0]}
        for topic, partitions in spans.to_json().items()
    }
    taken = {topic: partitions for topic, partitions in taken.items() if partitions}
    if not taken:
        return spark.createDataFrame([], _COLUMNS)
    if slowly:
        theirs = {"bootstrap.servers": bootstrap_servers, "isolation.level": READ_COMMITTED}
        theirs["group.id"] = _group(pipeline, source)
        return consumer.frame(spark, _plain(source) | theirs, spans, _COLUMNS)
    options = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "kafka.group.id": _group(pipeline, source),
        "kafka.isolation.level": READ_COMMITTED,
        "assign": json.dumps({topic: sorted(map(int, ps)) for topic, ps in taken.items()}),
        "startingOffsets": json.dumps({t: {p: span[0] for p, span in ps.items()} for t, ps in taken.items()}),
        "endingOffsets": json.dumps({t: {p: span[1] for p, span in ps.items()} for t, ps in taken.items()}),
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        # The default of 500 costs a sixth of the time of reading; how much is held is bounded by bytes.
        "kafka.max.poll.records": "5000",
        # Having read the newest record, a consumer asks for the next, and the broker keeps that request waiting for so
        # long. Spark asks for the ends of the log behind it, on the same connection: half a second lost in each task.
        "kafka.fetch.max.wait.ms": "10",
        "maxRecordsPerPartition": str(_MOST_IN_A_TASK),
        **_for_java(source),
    }
    reader = spark.read.format("kafka").options(**options)
    names = {
        "topic": TOPIC,
        "partition": PARTITION,
        "offset": OFFSET,
        "timestamp": TIMESTAMP,
        "key": RAW_KEY,
        "value": RAW_VALUE,
        "headers": HEADERS,
    }
    read = reader.load().withColumn("timestamp", timestamps.within_years(F.col("timestamp")))
    records = read.select(*(F.col(theirs).alias(ours) for theirs, ours in names.items()))
    fewer = -(-spans.offsets // _LEAST_IN_A_TASK)
    return records.coalesce(fewer) if fewer < sum(map(len, taken.values())) else records


def _group(pipeline: str, source: Source) -> str:
    """The name under which executors keep their consumers from batch to batch; nothing is ever committed under it.

    Spark refuses to go on with a name whose options have changed, as they do when a password is rotated. What is made
    of them says nothing about them outside this process.
    """
    options = json.dumps(_plain(source), sort_keys=True).encode()
    return f"lakeingest-{pipeline}-{hashlib.blake2s(options, key=_SALT, digest_size=4).hexdigest()}"


def _plain(source: Source) -> dict[str, str]:
    return {name: secret.get_secret_value() for name, secret in source.options.items()}


def _without_values(source: Source, text: str) -> str:
    for value in _plain(source).values():
        text = text.replace(value, "…") if len(value) > 3 else text
    return text


def _for_java(source: Source) -> dict[str, str]:
    """The same options under the names that Kafka's Java client has, so that a file says them once."""
    options = _plain(source)
    user, password = options.pop("sasl.username", None), options.pop("sasl.password", None)
    mechanism = options.pop("sasl.mechanisms", options.pop("sasl.mechanism", None))
    if mechanism is not None:
        options["sasl.mechanism"] = mechanism
    if user is not None and password is not None:
        module = "scram.ScramLoginModule" if (mechanism or "").startswith("SCRAM") else "plain.PlainLoginModule"
        user, password = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, password))
        options["sasl.jaas.config"] = (
            f'org.apache.kafka.common.security.{module} required username="{user}" password="{password}";'
        )
    if authority := options.pop("ssl.ca.location", None):
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    return {f"kafka.{name}": value for name, value in options.items()}


def _silent() -> Any:
    """Silence: librdkafka repeats every failed connection on stderr; the error that is raised says it once."""
    import logging

    logger = logging.getLogger("lakeingest.librdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
