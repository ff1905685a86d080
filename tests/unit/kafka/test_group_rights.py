"""Records are read without a right on a group: none is joined, though librdkafka asks who coordinates it."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError

from lakeingest.config import Source
from lakeingest.errors import SourceUnreachable
from lakeingest.kafka import consumer, peek

START = {("a", 0): 0}


class Message:
    """A record of a-0, or an error, which of a group's has no topic."""

    def __init__(self, offset: int, code: int | None = None) -> None:
        self.code, self.at = code, offset

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)

    def topic(self) -> str | None:
        return None if self.code == KafkaError.GROUP_AUTHORIZATION_FAILED else "a"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def __len__(self) -> int:
        return 1


class Consumer:
    """Gives what it was told to."""

    def __init__(self, *said: Message) -> None:
        self.said = [*said]

    def assign(self, _: Any) -> None: ...

    def close(self) -> None: ...

    def poll(self, _: float) -> Message | None:
        return self.said.pop(0)


def said(code: int) -> Consumer:
    return Consumer(Message(0), Message(-1001, code), Message(1), Message(2, KafkaError._PARTITION_EOF))


def test_by_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else goes wrong is told."""
    source = Source.model_validate({"topics": ["a"]})
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda _: said(KafkaError.GROUP_AUTHORIZATION_FAILED))
    assert [each.offset() for each in peek.read(source, "h:1", START, {("a", 0): 9}, 9)] == [0, 1]
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda _: said(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(SourceUnreachable, match="gives no records of a"):
        peek.read(source, "h:1", START, {("a", 0): 9}, 9)


def test_on_an_executor() -> None:
    """What else goes wrong ends the task."""
    span: dict[str, Any] = {"topic": "a", "partition": 0, "begin": 0, "end": 2}
    found = consumer._messages(said(KafkaError.GROUP_AUTHORIZATION_FAILED), **span)
    assert [each.offset() for each in found] == [0, 1]
    with pytest.raises(RuntimeError, match="a-0"):
        list(consumer._messages(said(KafkaError.TOPIC_AUTHORIZATION_FAILED), **span))
