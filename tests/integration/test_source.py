"""Which offsets a micro-batch takes, what is refused of a source, and how a broker is asked."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from support.faults.wire import Wire
from support.records import create_topic
from support.servers import free_port

from lakeingest.config import Source
from lakeingest.errors import SourceUnreachable, UsageError
from lakeingest.kafka.broker import Broker
from lakeingest.local import Addresses


def source(**options: Any) -> Source:
    return Source.model_validate({"topics": ["a"], **options})


def test_a_broker_tells_ids_and_offsets(stack: Addresses) -> None:
    """Of every partition of every topic that is named, and of no other."""
    admin = AdminClient({"bootstrap.servers": stack.kafka, "log_level": 0})
    admin.create_topics([NewTopic("source.told", 2, 1)])["source.told"].result()
    told = Broker(source(topics=["source.told"]), stack.kafka).topics()
    assert told.first == told.last == {("source.told", 0): 0, ("source.told", 1): 0}
    assert set(told.ids) == {"source.told"}
    assert told.cluster


@pytest.mark.parametrize("error", [None, KafkaError.UNKNOWN_LEADER_EPOCH], ids=["no offset", "epoch"])
def test_a_leader_that_is_just_moving_is_asked_again(
    stack: Addresses, monkeypatch: pytest.MonkeyPatch, named: str, error: int | None
) -> None:
    """Librdkafka may answer for it without an error, with an offset that is none: the topic does not end there."""
    admin = AdminClient({"bootstrap.servers": stack.kafka, "log_level": 0})
    admin.create_topics([NewTopic(named, 1, 1)])[named].result()
    broker, moving = Broker(source(topics=[named]), stack.kafka), []
    answer = broker._answer

    def at_first_none(future: Any) -> Any:
        found = answer(future)
        if hasattr(found, "offset") and not moving:
            moving.append(found)
            if error is not None:
                raise KafkaException(KafkaError(error))
            return SimpleNamespace(offset=OFFSET_INVALID)
        return found

    monkeypatch.setattr(broker, "_answer", at_first_none)
    told = broker.topics()
    assert moving
    assert told.first == told.last == {(named, 0): 0}


def test_an_unknown_topic_is_a_mistake_of_the_file(stack: Addresses) -> None:
    """The error names topic and brokers, and is not made by waiting; the topic is not created by asking."""
    for _ in range(2):
        with pytest.raises(UsageError, match=r"(?s)topic 'source.nowhere' does not exist.*cure: create the topic"):
            Broker(source(topics=["source.nowhere"]), stack.kafka).topics()


def test_a_broker_that_does_not_answer() -> None:
    """The error comes in time, names the address and the cure, and says that a retry helps."""
    address = f"127.0.0.1:{free_port()}"
    begun = time.monotonic()
    with pytest.raises(SourceUnreachable, match=f"(?s)Kafka at {address} does not answer.*cure: start") as caught:
        Broker(source(), address, timeout_s=1.0).topics()
    assert caught.value.retry_helps
    assert time.monotonic() - begun < 10


@pytest.mark.faults
def test_a_closed_port_is_told_soon() -> None:
    """The port that a broker had, or one that is misspelt: the time for a slow answer is not waited for."""
    address = f"127.0.0.1:{free_port()}"
    begun = time.monotonic()
    with pytest.raises(SourceUnreachable, match="Connection refused"):
        Broker(source(), address, timeout_s=300).topics()
    assert time.monotonic() - begun < 150


def test_a_broker_that_comes_soon_is_waited_for(stack: Addresses) -> None:
    """One that restarts is back within a moment, so a closed port is asked again for some seconds."""
    create_topic(stack, "source.later")
    host, _, port = stack.kafka.rpartition(":")
    with Wire(host, int(port)) as wire:
        wire.cut()
        opening = threading.Timer(2, wire.mend)
        opening.start()
        assert Broker(source(topics=["source.later"]), wire.address).topics().cluster
        opening.join()
