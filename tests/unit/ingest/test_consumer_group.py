"""The consumer group that follows the table: what it is told, and what a failure of it is not allowed to do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from lakeingest.config import Source
from lakeingest.errors import SourceRefused
from lakeingest.ingest.attempt import Attempt
from lakeingest.ingest.consumer_group import ConsumerGroup
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.events import GroupUpdate
from lakeingest.kafka.offsets import Topics
from lakeingest.record import Frontier

TOPICS = Topics("cluster", {"a": "id"}, {("a", 0): 0, ("a", 1): 0}, {("a", 0): 9, ("a", 1): 9})
AWAY, DENIED = SourceRefused("away", cure="c"), SourceRefused("denied", cure="c")


class Kafka:
    """Takes what is committed, or fails as it is told to."""

    def __init__(self) -> None:
        self.failure: SourceRefused | None = None
        self.took: list[Frontier] = []

    def commit(self, group: str, frontier: Frontier) -> None:
        assert group == "g"
        if self.failure:
            raise self.failure
        self.took.append(frontier)


def following(group: str | None = "g") -> tuple[ConsumerGroup, Kafka, list[GroupUpdate]]:
    source = Source.model_validate({"topics": ["a"], "commit_to_group": group})
    kafka, told = Kafka(), list[GroupUpdate]()
    context: Any = SimpleNamespace(config=SimpleNamespace(source=source), source=kafka)
    return ConsumerGroup(cast(RunContext, context), told.append), kafka, told


def attempt(frontier: Frontier) -> Attempt:
    return cast(Attempt, SimpleNamespace(frontier=frontier, topics=TOPICS, last=object()))


def test_it_follows_the_table() -> None:
    """Each new frontier once; what Kafka holds no longer is left out; backwards too, as after a RESTORE."""
    group, kafka, told = following()
    for frontier in ({("a", 0): 3}, {("a", 0): 3}, {("a", 0): 5, ("left", 0): 7}, {("a", 0): 1}, {("left", 0): 7}):
        group.follow(attempt(frontier))
    assert kafka.took == [{("a", 0): 3}, {("a", 0): 5}, {("a", 0): 1}]
    assert told == []


def test_a_failure_is_told_once_and_tried_again() -> None:
    """By the next batch, also where that brings nothing new; that it went well again is told too."""
    group, kafka, told = following()
    for kafka.failure in (AWAY, AWAY, DENIED, None, None):
        group.follow(attempt({("a", 0): 3}))
    assert kafka.took == [{("a", 0): 3}]
    assert told == [GroupUpdate("g", AWAY), GroupUpdate("g", DENIED), GroupUpdate("g")]


def test_no_group_no_commit() -> None:
    """It is asked for by the file alone."""
    group, kafka, _ = following(None)
    group.follow(attempt({("a", 0): 3}))
    assert kafka.took == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"table": "/bronze", "commit_to_group": "g"}, "read without asking Kafka"),
        ({"topics": ["a"], "commit_to_group": "a group"}, "commit_to_group"),
        ({"topics": ["a"], "commit_to_group": ""}, "commit_to_group"),
    ],
)
def test_a_group_that_cannot_be(given: dict[str, Any], said: str) -> None:
    """A mistake of the file, found before anything runs."""
    with pytest.raises(ValidationError, match=said):
        Source.model_validate(given)
