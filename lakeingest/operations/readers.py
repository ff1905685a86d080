"""The tables of a pipeline, for whoever tells of them: as their files tell without Spark, or else as Spark does.

Which of both is asked is decided here alone (`answer`). Imports no pyspark: who waits may not have it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

from lakeingest.config import PipelineConfig, Storage
from lakeingest.delta import commit_log
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.reader.contract import Condition, TableReader, View
from lakeingest.delta.reader.files import FileTable
from lakeingest.delta.reader.log import Unreadable
from lakeingest.delta.receipt import of_replay
from lakeingest.delta.unsettled import Unsettled
from lakeingest.spark import s3a, session

if TYPE_CHECKING:
    from lakeingest.delta.pipeline_tables import PipelineTables

Answer = TypeVar("Answer")


class PipelineReader(Protocol):
    """The tables of one pipeline.

    Raises:
        Unreadable: from every question, where it has to be asked of Spark.
        StorageError, TableMismatch: from every question.
    """

    @property
    def config(self) -> PipelineConfig:
        """The pipeline file."""

    @property
    def main(self) -> TableReader:
        """The table of accepted records."""

    @property
    def quarantine(self) -> TableReader:
        """The table of refused records, with today's columns."""

    def commit_logs(self, back: int | None) -> tuple[CommitLog, CommitLog]:
        """What the pipeline committed to both tables: see `PipelineTables.commit_logs`."""

    def unsettled(self) -> Unsettled:
        """What quarantine does not say yet of replays."""

    def replayed(self, replay: Commit, where: Sequence[Condition]) -> View:
        """The runs of what a replay that quarantine does not tell of brought to the table."""


@dataclass(frozen=True)
class FileTables:
    """See `PipelineReader`: without Spark."""

    config: PipelineConfig
    storage: Storage

    @cached_property
    def main(self) -> FileTable:
        return FileTable(self.config.table.identifier, self.storage)

    @cached_property
    def quarantine(self) -> FileTable:
        return FileTable(self.config.quarantine.identifier, self.storage)

    def commit_logs(self, back: int | None) -> tuple[CommitLog, CommitLog]:
        log, refused = (self._commits(table, back) for table in (self.main, self.quarantine))
        if log.newest is None:
            raise Unreadable("the log does not say how far the pipeline has come")
        return log, refused

    def _commits(self, table: FileTable, back: int | None) -> CommitLog:
        """What the pipeline committed to a table, where its log tells that for certain."""
        log = commit_log.of_log(table, self.config.known_as, back)
        if log.restores:
            raise Unreadable("somebody has restored the table")
        if "delta.setTransactionRetentionDuration" in table.state.properties:
            raise Unreadable("the table forgets which commits were made")
        if log.newest is None and not log.complete:
            raise Unreadable("the pipeline's commits are further back")
        return replace(log, properties=table.state.properties)

    def unsettled(self) -> Unsettled:
        name = of_replay(self.config.known_as)
        replays, marks = (commit_log.of_log(table, name, None) for table in (self.main, self.quarantine))
        return Unsettled.of(replays, lambda: marks)

    def replayed(self, replay: Commit, where: Sequence[Condition]) -> View:
        commit = next(each for each in self.main.behind(replay.version - 1) if each["version"] == replay.version)
        return self.main.runs(where, files=commit["added"])


@dataclass(frozen=True)
class SparkTables:
    """See `PipelineReader`: by Spark."""

    tables: PipelineTables

    @property
    def config(self) -> PipelineConfig:
        return self.tables.config

    @cached_property
    def main(self) -> TableReader:
        from lakeingest.delta.reader.spark import SparkTable

        return SparkTable(self.tables.main)

    @cached_property
    def quarantine(self) -> TableReader:
        from lakeingest.delta import quarantine
        from lakeingest.delta.reader.spark import SparkTable

        return SparkTable(self.tables.quarantine, quarantine.whole)

    def commit_logs(self, back: int | None) -> tuple[CommitLog, CommitLog]:
        from lakeingest.ingest import preflight

        preflight.check_exists(self.tables)
        return self.tables.commit_logs(back=back)

    def unsettled(self) -> Unsettled:
        from lakeingest.delta import replay_marks

        return replay_marks.unsettled(self.tables)

    def replayed(self, replay: Commit, where: Sequence[Condition]) -> View:
        from lakeingest.delta import replay_marks
        from lakeingest.delta.reader import spark

        return spark.runs(replay_marks.moved(self.tables, replay))


def answer(
    config: PipelineConfig,
    storage: Storage,
    tables: Callable[[], PipelineTables],
    ask: Callable[[PipelineReader], Answer],
    *,
    though_it_runs: bool = False,
) -> Answer:
    """What the tables' files tell without Spark, or else Spark, which is asked where it runs already.

    Args:
        tables: gives them where Spark is to be asked.
        though_it_runs: whether a Spark that runs is asked only if it must be, since it says less.

    Raises:
        StorageUnreachable: nothing listens where the store is to be.
    """
    if (though_it_runs or not session.runs()) and not session.is_elsewhere(os.environ):
        s3a.check_listens(storage, config.paths)
        with suppress(Unreadable):
            return ask(FileTables(config, storage))
    return ask(SparkTables(tables()))
