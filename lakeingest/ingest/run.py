"""The run of a pipeline: attempt after attempt, batch after batch, by the trigger or up to a goal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from lakeingest.delta.receipt import Counts
from lakeingest.errors import LakeingestError, StorageError
from lakeingest.ingest import preflight
from lakeingest.ingest.attempt import Attempt
from lakeingest.ingest.catalog_entry import CatalogEntry
from lakeingest.ingest.completeness import Following
from lakeingest.ingest.consumer_group import ConsumerGroup
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.events import Committed, Ended, Event, Looked, Started
from lakeingest.ingest.preflight import Accept
from lakeingest.ingest.retry import RetryBudget
from lakeingest.record import Frontier
from lakeingest.spark.platforms import local


@contextmanager
def announced(
    started: Started, tell: Callable[[Event], None], stop: threading.Event
) -> Iterator[Callable[[Event], None]]:
    """Tell that a run begins, and what became of it when the block ends. Gives what tells of what is between."""
    commits, counts, lag = 0, Counts(), 0

    def note(event: Event) -> None:
        nonlocal commits, counts, lag
        if isinstance(event, Committed):
            commits, counts, lag = commits + 1, counts + event.counts, event.lag
        elif isinstance(event, Looked):
            lag = event.lag
        tell(event)

    tell(started)
    try:
        yield note
    except Exception as failure:
        tell(Ended(failure, stop.is_set(), commits, counts, lag))
        raise
    tell(Ended(None, stop.is_set(), commits, counts, lag))


def tried_again(
    batches: Callable[[], Iterable[Committed]],
    budget: RetryBudget,
    context: RunContext,
    tell: Callable[[Event], None],
    stop: threading.Event,
) -> Counts:
    """Commit batches until there are no more, and begin anew behind a failure that a retry helps, as the budget says.

    Args:
        batches: commits batch after batch, from what the tables say when it is called.

    Returns:
        The counts of all.
    """
    total = Counts()
    while True:
        try:
            for done in batches():
                total += done.counts
                local.exercised()
                budget.renew()
                tell(done)
            return total
        except LakeingestError as failure:
            retry = budget.after(failure)
            if retry is None:
                # A store that fails would only keep the process from ending.
                if not isinstance(failure, StorageError):
                    with suppress(LakeingestError):
                        context.gate.flush(context.spark)
                raise
            tell(retry)
            if stop.wait(retry.pause_s):
                return total


class Follower(Protocol):
    """Follows what a run commits, and is no part of it."""

    def begin(self, attempt: Attempt) -> None:
        """Take up what an attempt stands for, which has committed nothing yet."""

    def follow(self, attempt: Attempt) -> None:
        """Follow the attempt, which has looked for records, and committed what there was."""


@dataclass
class PipelineRun:
    """A run that goes on until it is stopped, or has committed all that Kafka held when it began.

    A server that fails while the run goes is tried again as long as `retry.wait` says. Each time the run begins anew,
    from what the tables say, as after a crash: so there is one way to go on, and no other state.

    Attributes:
        accept: what whoever started it accepts.
        until_caught_up: whether it ends when the frontier reaches the offsets that were there at the start.
        tell: is told what happens, in this thread.
        stop: when set, the batch in hand is finished, and the run ends.
        turn: what the run computes within, where others compute beside it (see `Turns`).
    """

    context: RunContext
    accept: Accept
    until_caught_up: bool
    tell: Callable[[Event], None]
    stop: threading.Event
    turn: Callable[[], AbstractContextManager[None]]
    _goal: Frontier | None = None
    _told: int | None = None

    def __post_init__(self) -> None:
        self._budget = RetryBudget(self.context.config.retry.wait.total_seconds())
        self._followers: tuple[Follower, ...] = (
            CatalogEntry(self.context, self.tell),
            ConsumerGroup(self.context, self.tell),
            Following(self.context, self.context.source),
        )

    def run(self) -> Counts:
        """The counts of all batches; for the errors see `Pipeline.run`."""
        return tried_again(self._batches, self._budget, self.context, self.tell, self.stop)

    def _batches(self) -> Iterator[Committed]:
        """Commit batch after batch, by the pipeline's trigger, up to the goal if there is one; then wait for the gate's
        results.
        """
        source, gate, spark = self.context.source, self.context.gate, self.context.spark
        topics = source.topics()
        if self.until_caught_up and self._goal is None:
            self._goal = topics.last
        with self.turn():
            if self.stop.is_set():
                return
            attempt = Attempt.begin(self.context, topics, self.accept, self._told)
            self.accept, self._told = attempt.accept, attempt.sequence
            self._budget.underway()
        if attempt.settled is not None:
            yield attempt.settled
        with self.turn():
            for follower in self._followers:
                follower.begin(attempt)
        while not self.stop.is_set():
            begun = time.monotonic()
            with self.turn():
                # It may have been while this one waited.
                if self.stop.is_set():
                    break
                done = attempt.next_batch(topics, self._goal, self.tell)
                self.accept = attempt.accept
            if done is not None:
                self._told = done.sequence
                yield done
            with self.turn():
                for follower in self._followers:
                    follower.follow(attempt)
            if done is None and self._goal is not None:
                break
            if done is None:
                gate.flush(spark)
                self._budget.renew()
            if self._goal is None:
                if not attempt.full:
                    every = self.context.config.trigger.every.total_seconds()
                    self.stop.wait(max(0.0, every - (time.monotonic() - begun)))
                topics = source.topics()
                preflight.check_topics(attempt.last, topics)
        gate.wait(spark)
