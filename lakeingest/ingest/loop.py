"""The loop of every job: attempt after attempt, batch after batch, until it ends, is stopped, or fails for good."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass

from lakeingest.delta.receipt import Counts
from lakeingest.errors import LakeingestError, StorageError
from lakeingest.ingest.attempt import Attempt
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.events import Committed, Ended, Event, Looked, Started
from lakeingest.ingest.job import Job
from lakeingest.ingest.preflight import Accept
from lakeingest.ingest.retry import RetryBudget
from lakeingest.kafka.offsets import Topics
from lakeingest.spark.platforms import local


@contextmanager
def announced(
    started: Started, tell: Callable[[Event], None], stop: threading.Event
) -> Iterator[Callable[[Event], None]]:
    """Tell that a job begins, and what became of it when the block ends. Gives what tells of what is between."""
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


@dataclass
class Loop:
    """Lets a job commit batch after batch.

    A server that fails meanwhile is tried again as long as `retry.wait` says. Each time the job begins anew, from what
    the tables say, as after a crash: so there is one way to go on, and no other state.

    Attributes:
        accept: what whoever started it accepts.
        tell: is told what happens, in this thread.
        stop: when set, the batch in hand is finished, and the loop ends.
        turn: what the job computes within, where others compute beside it (see `Turns`).
    """

    context: RunContext
    job: Job
    accept: Accept
    tell: Callable[[Event], None]
    stop: threading.Event
    turn: Callable[[], AbstractContextManager[None]] = nullcontext
    _reported: int | None = None

    def __post_init__(self) -> None:
        self._budget = RetryBudget(self.context.config.retry.wait.total_seconds())

    def run(self) -> Counts:
        """The counts of all batches; for the errors see `Pipeline.run` and `Pipeline.backfill`."""
        total = Counts()
        while True:
            try:
                for batch in self._batches():
                    total += batch.counts
                    local.exercised()
                    self._budget.renew()
                    self.tell(batch)
                return total
            except LakeingestError as failure:
                retry = self._budget.after(failure)
                if retry is None:
                    # A store that fails would only keep the process from ending.
                    if not isinstance(failure, StorageError):
                        with suppress(LakeingestError):
                            self.context.gate.flush(self.context.spark)
                    raise
                self.tell(retry)
                if self.stop.wait(retry.pause_s):
                    return total

    def _batches(self) -> Iterator[Committed]:
        """Commit batch after batch, as the job takes them; then wait for the gate's results."""
        job, gate, spark = self.job, self.context.gate, self.context.spark
        topics = self.context.source.topics()
        with self.turn():
            if self.stop.is_set():
                return
            attempt = self._begin(topics)
        if attempt.settled is not None:
            yield attempt.settled
        with self.turn():
            for follower in job.followers:
                follower.begin(attempt)
        while not self.stop.is_set():
            start_s = time.monotonic()
            with self.turn():
                # Somebody may have set it while the job waited for its turn.
                if self.stop.is_set():
                    break
                if attempt.outdated:
                    attempt = self._begin(topics)
                batch = attempt.next_batch(topics)
                self.accept = attempt.accept
            if batch is not None:
                self._reported = batch.sequence
                yield batch
            with self.turn():
                for follower in job.followers:
                    follower.follow(attempt)
            if batch is None:
                if job.bounded:
                    break
                gate.flush(spark)
                self._budget.renew()
            pause_s = job.pause_s(batch, time.monotonic() - start_s)
            self.stop.wait(min(max(0.0, pause_s), threading.TIMEOUT_MAX))
            topics = job.look(topics)
        gate.wait(spark)

    def _begin(self, topics: Topics) -> Attempt:
        attempt = Attempt.begin(self.job, self.context, topics, self.accept, reported=self._reported, tell=self.tell)
        self.accept, self._reported = attempt.accept, attempt.sequence
        self._budget.underway()
        return attempt
