"""Asks the brokers what the topics hold: ids, first and last offsets, and offsets by time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from lakeingest.config import Source
from lakeingest.errors import SourceRefused, SourceUnreachable, UsageError
from lakeingest.kafka import librdkafka, offsets, options, peek, refusals
from lakeingest.kafka.offsets import Reach, Topics, topic_id
from lakeingest.record import Frontier

Answer = TypeVar("Answer")
TIMEOUT_S = 30.0
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
_LISTEN_S, _GRACE_S = 0.2, 5.0
_CURE = "start the broker, or correct source.bootstrap_servers or security.protocol in source.options"


class Broker:
    """Asks Kafka about topics and offsets; records themselves are read by Spark.

    Raises:
        UsageError, SetupError: from the constructor, when source.options make no sense, or need what is not installed.
        SourceUnreachable: from the constructor, when the client's own certificate has expired; from every method, when
            the broker does not answer within `timeout_s` seconds, or for five after a password or a certificate was
            refused, no token was given, or no broker let itself be connected.
        SourceRefused: from every method, when the broker lets us in, and not to what we ask for.
    """

    def __init__(self, source: Source, bootstrap_servers: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._source = source
        self._servers = bootstrap_servers
        self._timeout_s = timeout_s
        self._heard: deque[Any] = deque(maxlen=20)
        self._clients: list[Any] = []
        self._proofs: Any = None
        self._renewed()

    def _new_client(self) -> Any:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        client_options: dict[str, Any] = {"bootstrap.servers": self._servers, "error_cb": self._heard.append}
        try:
            return AdminClient(
                {**options.librdkafka(self._source, self._servers), **client_options}, logger=librdkafka.silent()
            )
        except KafkaException as failed:
            raise UsageError(
                f"source.options cannot be used: {options.without_values(self._source, failed.args[0].str())}",
                cure="correct them; they are those of librdkafka, as Kafka's clients in other languages have them",
            ) from None

    def _renewed(self) -> None:
        """Make a client where certificates are others than those of the last one: librdkafka reads a file once.

        The others stay: one that is thrown away while it waits for a token is waited for.
        """
        proofs = options.proofs(self._source)
        if not self._clients or proofs != self._proofs:
            self._clients.append(self._new_client())
        self._proofs = proofs

    @property
    def _admin(self) -> Any:
        return self._clients[-1]

    def topics(self) -> Topics:
        """Ids, first and last offsets of every partition of the pipeline's topics.

        Raises:
            UsageError: a topic does not exist.
        """
        return self._with_retries(self._topics)

    def reach(self, moment: datetime) -> Reach:
        """The offsets to reach so that nothing is missing before a moment (aware) of Kafka's time.

        What reaches Kafka later than this is asked is not among it: the moment has to be over.

        Raises:
            UsageError: a topic does not exist.
        """
        return self._with_retries(lambda: self._reach(moment))

    def _with_retries(self, ask: Callable[[], Answer]) -> Answer:
        from confluent_kafka import KafkaException

        # What was told since the last question is of brokers that may be back.
        self._admin.poll(0)
        for pause_s in (*_PAUSES_S, None):
            self._heard.clear()
            try:
                return ask()
            except (KafkaException, TimeoutError) as failed:
                # A leader that moves, or is not elected yet for a new topic, answers a moment later.
                passing = isinstance(failed, KafkaException) and failed.args[0].code() in librdkafka.passing()
                if isinstance(failed, KafkaException) and failed.args[0].code() in librdkafka.denials():
                    raise self._denied(", ".join(self._source.topics), failed.args[0].str()) from failed
                if pause_s is None or not passing:
                    raise self._unreachable(failed) from failed
                time.sleep(pause_s)
                self._look_anew()
        raise AssertionError("the last attempt returns or raises")

    def names(self) -> list[str]:
        """The names of all topics that the broker lets us see, the pipeline's or not."""
        from confluent_kafka import KafkaException

        self._admin.poll(0)
        self._heard.clear()
        try:
            # Where nobody listens, this fails in seconds; the list of topics would not.
            self._answer(self._admin.describe_cluster(request_timeout=self._timeout_s))
            return sorted(self._admin.list_topics(timeout=self._timeout_s).topics)
        except (KafkaException, TimeoutError) as failed:
            raise self._unreachable(failed) from failed

    def committed(self, group: str) -> Frontier:
        """The offsets that a consumer group has committed, in whatever topics."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        # Where a coordinator has just become so, librdkafka 2.16 answers the question for offsets with a segmentation
        # fault (it takes us for a consumer), and this one with an error.
        self.group(group)
        groups = [ConsumerGroupTopicPartitions(group)]
        offsets = self._of_group(
            group, "Describe", lambda: self._admin.list_consumer_group_offsets(groups, request_timeout=self._timeout_s)
        )
        return {(each.topic, each.partition): each.offset for each in offsets.topic_partitions if each.offset >= 0}

    def commit(self, group: str, frontier: Frontier) -> None:
        """Let a consumer group stand at these offsets; it must have no member.

        Raises:
            SourceRefused: it has one, or may not be committed to.
            SourceUnreachable: the broker does not answer within five seconds.
        """
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in sorted(frontier.items())]
        moves = [ConsumerGroupTopicPartitions(group, places)]
        self._of_group(group, "Read", lambda: self._admin.alter_consumer_group_offsets(moves, request_timeout=_GRACE_S))

    def group(self, group: str) -> tuple[int, bool]:
        """The number of a consumer group's members, and whether we may commit to it.

        Raises:
            SourceRefused: it may not be described.
            SourceUnreachable: the broker does not answer.
        """
        from confluent_kafka.admin import AclOperation

        how: dict[str, Any] = {"request_timeout": self._timeout_s, "include_authorized_operations": True}
        description = self._of_group(group, "Describe", lambda: self._admin.describe_consumer_groups([group], **how))
        allowed = description.authorized_operations or [AclOperation.READ]
        return len(description.members), AclOperation.READ in allowed

    def _of_group(self, group: str, right: str, ask: Callable[[], Mapping[str, Any]]) -> Any:
        """The answer of a group's coordinator; asked again while it is new."""
        from confluent_kafka import KafkaException

        self._admin.poll(0)
        for pause_s in (*_PAUSES_S[:3], None):
            self._heard.clear()
            try:
                (future,) = ask().values()
                answer = self._answer(future)
                wrong = [each.error for each in getattr(answer, "topic_partitions", []) if each.error is not None]
                if wrong:
                    raise KafkaException(wrong[0])
                return answer
            except (KafkaException, TimeoutError) as failed:
                code = failed.args[0].code() if isinstance(failed, KafkaException) else None
                if pause_s is None or code not in librdkafka.passing():
                    raise self._group_refused(group, right, failed) from failed
            time.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    def _group_refused(self, group: str, right: str, failed: Exception) -> SourceRefused | SourceUnreachable:
        from confluent_kafka import KafkaError, KafkaException

        if not isinstance(failed, KafkaException):
            return self._unreachable(failed)
        code, reason = failed.args[0].code(), failed.args[0].str()
        if code in librdkafka.denials():
            return SourceRefused(
                f"Kafka at {self._servers} denies access to the group {group}: {reason}",
                cure=f"let the user of source.options {right} the group {group}, or name another user",
            )
        if code in (KafkaError.NON_EMPTY_GROUP, KafkaError.UNKNOWN_MEMBER_ID):
            return SourceRefused(
                f"the group {group} has live members, and Kafka at {self._servers} lets none but them commit: {reason}",
                cure="end those consumers, or write a group of this pipeline's own into source.commit_to_group",
            )
        return self._unreachable(failed)

    def _unreachable(self, failed: Exception) -> SourceUnreachable:
        with suppress(UsageError, SourceUnreachable):
            self._renewed()
        heard = self._refusal() or next((e for e in reversed(self._heard) if e.name() != "_ALL_BROKERS_DOWN"), None)
        refusal = refusals.of(heard, self._source) if heard else refusals.no_token(self._source)
        message = heard.str() if heard else str(failed) or f"no answer within {self._timeout_s:g} s"
        reason, cure = (refusal.message, refusal.cure) if refusal else (message, _CURE)
        return SourceUnreachable(
            f"Kafka at {self._servers} does not answer: {reason}", cure=f"{cure}; nothing was lost, run again"
        )

    def _denied(self, topics: str, reason: str) -> SourceRefused:
        return SourceRefused(
            f"Kafka at {self._servers} denies access to {topics}: {reason}",
            cure=f"let the user of source.options Describe and Read {topics} (kafka-acls.sh --add --allow-principal … "
            "--operation Read --topic …), or name another user; nothing was consumed",
        )

    def _refusal(self) -> Any:
        return next((error for error in self._heard if refusals.is_one(error)), None)

    def _hopeless(self) -> bool:
        """Whether we are refused, or each broker that is known: a port is closed, or a name unknown."""
        return self._refusal() is not None or any(error.name() == "_ALL_BROKERS_DOWN" for error in self._heard)

    def _answer(self, future: Any) -> Any:
        """The result of a request. Where there is little hope of one, a few seconds are enough."""
        start = time.monotonic()
        until, looked = start + self._timeout_s, False
        while True:
            try:
                return future.result(_LISTEN_S)
            except TimeoutError:
                self._admin.poll(0)
                if not (looked or self._heard) and time.monotonic() > start + _GRACE_S:
                    # librdkafka says nothing of a server that answers, and gives no token.
                    looked = True
                    if refusals.no_token(self._source):
                        raise
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
        descriptions = {name: self._described(name, future) for name, future in described.items()}
        if missing := [repr(name) for name, topic in descriptions.items() if topic is None]:
            raise UsageError(
                f"topic{'s' * (len(missing) > 1)} {', '.join(missing)} "
                f"{'does' if len(missing) == 1 else 'do'} not exist on {self._servers}",
                cure="create the topic, or correct source.topics",
            )
        existing_topics = {name: topic for name, topic in descriptions.items() if topic is not None}
        partitions = [(name, p.id) for name, topic in existing_topics.items() for p in topic.partitions]
        return Topics(
            cluster=cluster,
            ids={name: topic_id(str(topic.topic_id)) for name, topic in existing_topics.items()},
            first=self._offsets(partitions, "earliest"),
            last=self._offsets(partitions, "latest"),
        )

    def _reach(self, moment: datetime) -> Reach:
        from confluent_kafka.admin import OffsetSpec

        now = time.time_ns() // 1_000_000
        topics = self._topics()
        at = OffsetSpec.for_timestamp(max(0, int(moment.timestamp() * 1000)))
        listed = self._listed(topics.last, at, committed=False)
        ends = self._ends(topics.last, "latest", committed=False)
        # What an open transaction has sent is there already, and not to be read yet. What is found by its time may be
        # the marker of a transaction's end, and the records behind it older: their own times count.
        # Behind the first open one Kafka gives no record, and does not say so.
        readable = {tp: each for tp, each in listed.items() if 0 <= each.offset < topics.last[tp]}
        starts = {tp: each.offset for tp, each in readable.items() if each.timestamp <= now}
        times = peek.times(self._source, self._servers, starts, topics.last) if starts else {}
        early = {tp: (starts[tp], at) for tp, at in times.items()}
        return offsets.reach(topics.first, ends, early, moment, datetime.fromtimestamp(now / 1000, UTC))

    def _described(self, name: str, future: Any) -> Any | None:
        """Kafka's description of a topic; None if there is none."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AclOperation

        try:
            topic = self._answer(future)
            # Spark alone reads: it would be told so in the middle of the batch, as a failure of the table.
            if AclOperation.READ not in (topic.authorized_operations or [AclOperation.READ]):
                raise self._denied(name, "it may be described, and not be read")
            return topic
        except KafkaException as failed:
            if failed.args[0].code() in librdkafka.denials():
                raise self._denied(name, failed.args[0].str()) from failed
            if failed.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return None

    def _offsets(self, partitions: Collection[tuple[str, int]], which: str) -> dict[tuple[str, int], int]:
        return self._ends(partitions, which, committed=True)

    def _ends(
        self, partitions: Collection[tuple[str, int]], which: str, *, committed: bool
    ) -> dict[tuple[str, int], int]:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import OffsetSpec

        listed = self._listed(partitions, getattr(OffsetSpec, which)(), committed=committed)
        offsets = {tp: each.offset for tp, each in listed.items()}
        if any(offset < 0 for offset in offsets.values()):
            # What librdkafka gives, without an error, where a leader is just moving (seen: -1001).
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return offsets

    def _listed(
        self, partitions: Collection[tuple[str, int]], spec: Any, *, committed: bool
    ) -> dict[tuple[str, int], Any]:
        """The offset and the timestamp that each partition has for this.

        Args:
            committed: whether offsets end where an open transaction begins.
        """
        from confluent_kafka import IsolationLevel, TopicPartition

        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        specs = {TopicPartition(topic, partition): spec for topic, partition in partitions}
        futures = self._admin.list_offsets(specs, isolation_level=level, request_timeout=self._timeout_s)
        return {(tp.topic, tp.partition): self._answer(future) for tp, future in futures.items()}
