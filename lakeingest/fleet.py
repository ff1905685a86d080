"""Many pipelines in one process, on one Spark: each with its own trigger, retries and gate, and its own fate."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TypeAlias

from lakeingest.config import PipelineConfig, Storage, places
from lakeingest.config import file as pipeline_file
from lakeingest.config.per_topic import PerTopic
from lakeingest.config.variables import TOPIC
from lakeingest.errors import SourceUnreachable, UsageError
from lakeingest.ingest import endpoints
from lakeingest.ingest.events import Ended, Event, Matched
from lakeingest.ingest.turns import Turns
from lakeingest.kafka.broker import Broker
from lakeingest.operations.results.fleet import Outcome, Outcomes
from lakeingest.pipeline import Pipeline
from lakeingest.spark import session

File: TypeAlias = str | Path | PipelineConfig | PerTopic
"""A pipeline file, or a folder of them, by its path; or what was read of one."""


class Fleet:
    """Pipelines that run side by side, a thread each; so many of them compute at once, in turn.

    Args:
        files: pipeline files, and folders of them, as a path or a list of paths. Pipelines that were read before, as
            `config.file.read_all` gives them, may be among them.
        at_once: how many compute at once; by default two for each processor, as each waits for Kafka and the store half
            of the time.
        allow_code: see `lakeingest.load`.

    Raises:
        UsageError: two of them have one name, or write to one table; or a folder has no file.
        PipelineFileError: with the mistakes of all files.
        SetupError: see `Pipeline`.

    Example:
        for ended in lakeingest.Fleet("pipelines/").run(until_caught_up=True):
            print(ended.pipeline, ended.outcome, ended.counts)
    """

    def __init__(
        self, files: str | Path | Sequence[File], at_once: int | None = None, *, allow_code: bool = False
    ) -> None:
        self._allow_code = allow_code
        self._turns = Turns(at_once or 2 * (os.cpu_count() or 1))
        self._configs: list[PipelineConfig] = []
        read = _read([files] if isinstance(files, str | Path) else files)
        self._pipelines = [self._pipeline(file) for file in read if isinstance(file, PipelineConfig)]
        self._patterns = [file for file in read if isinstance(file, PerTopic)]
        # What a bucket is opened with, and who writes where, is looked up and set by one at a time.
        self._making = threading.Lock()

    def run(
        self,
        *,
        until_caught_up: bool = False,
        on_event: Callable[[str, Event], None] = lambda *_: None,
        stop: threading.Event | None = None,
    ) -> Outcomes:
        """Run all of them until each has ended. One that fails, is held or is fenced off ends alone.

        Topics that a pattern matches are taken up as they come, looked for by the file's trigger.

        Args:
            until_caught_up: each ends when it has committed what Kafka held when it began.
            on_event: called with a pipeline's name, and what it tells, `Ended` at last; one call at a time.
            stop: when set, the batches in hand are finished, and all end.

        Returns:
            What became of each, in the order in which they began.

        Raises:
            SetupError: Spark cannot be started.
        """
        # In this thread, and for none of them: one whose servers are down ends alone.
        session.attach(Storage(), "fleet")
        goal = _Goal(until_caught_up, on_event, stop or threading.Event())
        with ThreadPoolExecutor(sys.maxsize, "pipeline") as pool:
            futures: list[Future[Outcome | None]] = []

            def begin(name: str, make: Callable[[], Pipeline]) -> None:
                futures.append(pool.submit(self._run, name, make, goal))

            for pipeline in self._pipelines:
                begin(pipeline.config.name, partial(_same, pipeline))
            futures += [pool.submit(self._follow, pattern, goal, begin) for pattern in self._patterns]
            # Whoever follows a pattern adds to them.
            while going := [each for each in futures if not each.done()]:
                wait(going, return_when=FIRST_COMPLETED)
        return Outcomes(ended for each in futures if (ended := each.result()) is not None)

    def _run(self, name: str, make: Callable[[], Pipeline], goal: _Goal) -> Outcome:
        ended: Ended | None = None

        def tell(event: Event) -> None:
            nonlocal ended
            ended = event if isinstance(event, Ended) else None
            goal.tell(name, event)

        try:
            with self._making:
                pipeline = make()
                _ = pipeline.context
            pipeline.run(until_caught_up=goal.until_caught_up, on_event=tell, stop=goal.stop)
        except Exception as failed:
            # A fault of lakeingest's own ends one pipeline alone too.
            if ended is None:
                ended = goal.failed(name, failed)
        assert ended is not None
        return Outcome(**vars(ended), pipeline=name)

    def _follow(
        self, file: PerTopic, goal: _Goal, begin: Callable[[str, Callable[[], Pipeline]], None]
    ) -> Outcome | None:
        """Begin a pipeline for each topic that is there, or comes; what failed, if not one pipeline alone."""
        topics = set[str]()

        def look(broker: Broker) -> list[str]:
            names = broker.names()
            new = sorted(set(filter(file.pattern.fullmatch, names)) - topics)
            if new:
                goal.tell(file.name, Matched(tuple(file.name.replace(TOPIC, topic) for topic in new)))
            for topic in new:
                topics.add(topic)
                begin(file.name.replace(TOPIC, topic), partial(self._of_topic, file, topic))
            return names

        try:
            broker = Broker(file.example.source, endpoints.addresses(file.example)[0])
            names = look(broker)
            if not topics:
                raise _no_topic(file, names)
            while not goal.until_caught_up and not goal.stop.wait(file.example.trigger.every.total_seconds()):
                # Of a broker that is away for a while, the pipelines tell.
                with suppress(SourceUnreachable):
                    look(broker)
        except Exception as failed:
            return Outcome(**vars(goal.failed(file.name, failed)), pipeline=file.name)
        return None

    def _of_topic(self, file: PerTopic, topic: str) -> Pipeline:
        return self._pipeline(file.of(topic))

    def _pipeline(self, config: PipelineConfig) -> Pipeline:
        for other in self._configs:
            _check_apart(other, config)
        self._configs.append(config)
        return Pipeline(config, turns=self._turns, allow_code=self._allow_code)


@dataclass(frozen=True)
class _Goal:
    """What a run of a fleet was asked for; see `Fleet.run`."""

    until_caught_up: bool
    on_event: Callable[[str, Event], None]
    stop: threading.Event
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, name: str, event: Event) -> None:
        with self._lock:
            self.on_event(name, event)

    def failed(self, name: str, failure: Exception) -> Ended:
        """Tell of a pipeline that could not begin."""
        ended = Ended(failure, self.stop.is_set())
        self.tell(name, ended)
        return ended


def _read(files: Sequence[File]) -> list[PipelineConfig | PerTopic]:
    paths = [Path(file) for file in files if isinstance(file, str | Path)]
    return [*pipeline_file.read_all(paths, os.environ), *(each for each in files if not isinstance(each, str | Path))]


def _same(pipeline: Pipeline) -> Pipeline:
    return pipeline


def _no_topic(file: PerTopic, names: list[str]) -> UsageError:
    close = get_close_matches(file.pattern.pattern, names, n=1, cutoff=0.3)
    some = f", as {close[0]}" if close else ""
    return UsageError(
        f"{file.pattern.pattern!r} matches no topic's whole name, of {len(names):,} that are there{some}",
        cure="correct source.topics.pattern (a regular expression, as in 'orders-.*'), or create a topic",
    )


def _check_apart(one: PipelineConfig, other: PipelineConfig) -> None:
    """Raises:
    UsageError: the two are one pipeline under Delta's eyes, or would commit to one consumer group, or to one table; or
        a table of one is a table of the other for another purpose, or lies within it.
    """
    names = {one.name, one.known_as} & {other.name, other.known_as}
    if names:
        raise UsageError(
            f"two files have the name {names.pop()!r}: by it commits are known",
            cure="give one of the pipelines another name (and a table of its own), or leave one of the files out",
        )
    shared = {*one.source.topics} & {*other.source.topics}
    if one.source.commit_to_group and one.source.commit_to_group == other.source.commit_to_group and shared:
        raise UsageError(
            f"pipelines {one.name!r} and {other.name!r} both commit offsets of {shared.pop()} to the group "
            f"{one.source.commit_to_group}",
            cure="give each a group of its own in source.commit_to_group: one has another lag than the other",
        )
    for clash in places.clashes(one, other):
        if places.shares_table(clash, one, other):
            raise UsageError(
                f"pipelines {one.name!r} and {other.name!r} both write to {one.table.identifier}",
                cure="give one of them a table of its own; or name both topics in one file; or run the second in a "
                "process of its own",
            )
        raise UsageError(clash.text, cure=clash.cure)
