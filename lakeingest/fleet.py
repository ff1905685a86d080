"""Many pipelines in one process, on one Spark: each with its own trigger, retries and gate, and its own fate."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import TypeAlias

from lakeingest.config import PipelineConfig, location
from lakeingest.delta.receipt import Counts
from lakeingest.errors import UsageError
from lakeingest.ingest.events import CatalogUpdate, Progress
from lakeingest.ingest.retry import Retry
from lakeingest.ingest.turns import Turns
from lakeingest.pipeline import Pipeline

Event: TypeAlias = Progress | Retry | CatalogUpdate


@dataclass(frozen=True)
class Outcome:
    """What became of a pipeline's run.

    Attributes:
        pipeline: its name.
        failure: why it ended before it was asked to; None if it did not. What is no LakeingestError is a fault of ours.
        stopped: whether it was asked to end.
        commits, counts: what it committed, and what became of the records.
        lag: offsets beyond the frontier, as Kafka stood at its last batch.
    """

    pipeline: str
    failure: Exception | None = None
    stopped: bool = False
    commits: int = 0
    counts: Counts = field(default_factory=Counts)
    lag: int = 0

    @property
    def outcome(self) -> str:
        """failed, stopped or caught up."""
        if self.failure is not None:
            return "failed"
        return "stopped" if self.stopped else "caught up"


class Fleet:
    """Pipelines that run side by side, a thread each; so many of them compute at once, in turn.

    Args:
        configs: the pipelines.
        at_once: how many compute at once; by default as many as this machine has processors.

    Raises:
        UsageError: two of them have one name, or write to one table.
        PipelineFileError, SetupError: see `Pipeline`.
    """

    def __init__(self, configs: Sequence[PipelineConfig], at_once: int | None = None) -> None:
        for one, other in combinations(configs, 2):
            _check_apart(one, other)
        turns = Turns(at_once or os.cpu_count() or 1)
        self.pipelines = tuple(Pipeline(config, turns=turns) for config in configs)
        self._begin = threading.Lock()
        self._tell = threading.Lock()

    def run(
        self,
        *,
        until_caught_up: bool = False,
        on_event: Callable[[str, Event | Outcome], None] = lambda *_: None,
        stop: threading.Event | None = None,
    ) -> list[Outcome]:
        """Run all of them until each has ended. One that fails, is held or is fenced off ends alone.

        Args:
            until_caught_up: each ends when it has committed what Kafka held when it began.
            on_event: called with a pipeline's name, and what it tells, its outcome at last; one call at a time.
            stop: when set, the batches in hand are finished, and all end.

        Returns:
            What became of each, in the order of the pipelines.

        Raises:
            SetupError: Spark cannot be started.
        """
        stop = stop or threading.Event()
        _ = self.pipelines[0].spark
        with ThreadPoolExecutor(len(self.pipelines), "pipeline") as pool:
            one = partial(self._run, until_caught_up=until_caught_up, on_event=on_event, stop=stop)
            return list(pool.map(one, self.pipelines))

    def _run(
        self,
        pipeline: Pipeline,
        *,
        until_caught_up: bool,
        on_event: Callable[[str, Event | Outcome], None],
        stop: threading.Event,
    ) -> Outcome:
        name = pipeline.config.name
        reached = Outcome(name)

        def tell(event: Event | Outcome) -> None:
            nonlocal reached
            if isinstance(event, Progress):
                commits, counts = reached.commits + 1, reached.counts + event.counts
                reached = replace(reached, commits=commits, counts=counts, lag=event.lag)
            with self._tell:
                on_event(name, event)

        failure: Exception | None = None
        try:
            # Sessions are made one after the other: what they are set to depends on those that are there.
            with self._begin:
                _ = pipeline.context
            pipeline.run(until_caught_up=until_caught_up, on_progress=tell, on_retry=tell, on_catalog=tell, stop=stop)
        except Exception as failed:
            # A fault of lakeingest's own ends one pipeline alone too.
            failure = failed
        ended = replace(reached, failure=failure, stopped=stop.is_set())
        tell(ended)
        return ended


def _check_apart(one: PipelineConfig, other: PipelineConfig) -> None:
    """Raises:
    UsageError: the two are one pipeline under Delta's eyes, or would commit to one table.
    """
    names = {one.name, one.known_as} & {other.name, other.known_as}
    if names:
        raise UsageError(
            f"two files have the name {names.pop()!r}: by it commits are known",
            cure="give one of the pipelines another name (and a table of its own), or leave one of the files out",
        )
    if location.one_place(one.table.identifier, other.table.identifier):
        raise UsageError(
            f"pipelines {one.name!r} and {other.name!r} both write to {one.table.identifier}",
            cure="give one of them a table of its own; or name both topics in one file; or run the second in a "
            "process of its own",
        )
