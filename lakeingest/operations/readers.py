"""The tables of a pipeline, for whoever tells of them: as their files tell without Spark, or else as Spark does.

Imports no pyspark: who waits may not have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

from lakeingest.config import PipelineConfig, Storage, periods
from lakeingest.delta import commit_log, table_properties
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.history import RECENT
from lakeingest.delta.reader import choice
from lakeingest.delta.reader.contract import Condition, TableReader, View
from lakeingest.delta.reader.files import FileTable
from lakeingest.delta.reader.log import Unreadable
from lakeingest.delta.receipt import of_replay
from lakeingest.delta.unsettled import Unsettled
from lakeingest.record import RESERVED
from lakeingest.schema import ddl
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

    @property
    def deleted_keys(self) -> TableReader:
        """The table of deleted keys, of mode upsert."""

    @property
    def removals(self) -> TableReader:
        """The list of records that were taken out."""

    @property
    def results(self) -> TableReader:
        """The table of the gate's results."""

    @property
    def completeness(self) -> TableReader:
        """The table that says until when the main one is complete."""

    def commit_logs(self, back: int | None) -> tuple[CommitLog, CommitLog]:
        """What the pipeline committed to both tables: see `PipelineTables.commit_logs`."""

    def standing(self) -> CommitLog:
        """The newest commits of the pipeline to the main table, and which batches a RESTORE took back; none where there
        is no table.
        """

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
        return FileTable(self.config.table.identifier, self.storage, tuple(RESERVED))

    @cached_property
    def quarantine(self) -> FileTable:
        from lakeingest.delta import quarantine

        return FileTable(self.config.quarantine.identifier, self.storage, _names(quarantine.COLUMNS))

    @cached_property
    def deleted_keys(self) -> FileTable:
        return FileTable(self.config.deletes, self.storage)

    @cached_property
    def removals(self) -> FileTable:
        return FileTable(self.config.removals, self.storage)

    @cached_property
    def results(self) -> FileTable:
        from lakeingest.gate import results

        return FileTable(self.config.results, self.storage, _names(results.COLUMNS))

    @cached_property
    def completeness(self) -> FileTable:
        return FileTable(self.config.completeness, self.storage, periods.RESERVED)

    def standing(self) -> CommitLog:
        if not self.main.exists:
            return CommitLog(self.main.identifier, self.config.known_as)
        log = commit_log.of_log(self.main, self.config.known_as, RECENT)
        if log.newest is None and not log.complete:
            raise Unreadable("the log does not say how far the pipeline has come")
        return log

    def commit_logs(self, back: int | None) -> tuple[CommitLog, CommitLog]:
        log, refused = (self._commits(table, back) for table in (self.main, self.quarantine))
        if log.newest is None:
            raise Unreadable("the log does not say how far the pipeline has come")
        name = self.config.known_as
        log = replace(log, property_ledger=table_properties.ledger(log.properties, name))
        schemas = commit_log.ledger(log, lambda: commit_log.of_log(self.main, name, None).commits)
        return replace(log, schemas=schemas), refused

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
        commit = next(each for each in self.main.since(replay.version - 1) if each["version"] == replay.version)
        return self.main.runs(where, files=commit["added"])


def _names(columns: str) -> list[str]:
    """Of columns as DDL."""
    return [column.name for column in ddl.parse(columns)]


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

    @cached_property
    def deleted_keys(self) -> TableReader:
        from lakeingest.delta.reader.spark import SparkTable
        from lakeingest.delta.table import Table

        return SparkTable(Table(self.tables.spark, self.config.deletes))

    @cached_property
    def removals(self) -> TableReader:
        from lakeingest.delta.reader.spark import SparkTable

        return SparkTable(self.tables.removals.table)

    @cached_property
    def results(self) -> TableReader:
        from lakeingest.delta.reader.spark import SparkTable

        return SparkTable(self.tables.results)

    @cached_property
    def completeness(self) -> TableReader:
        from lakeingest.delta.reader.spark import SparkTable
        from lakeingest.delta.table import Table

        return SparkTable(Table(self.tables.spark, self.config.completeness))

    def standing(self) -> CommitLog:
        main, pipeline = self.tables.main, self.config.known_as
        if not self.main.exists:
            return CommitLog(main.identifier, pipeline)
        return commit_log.numbered(main, commit_log.read(main, pipeline, back=RECENT))

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


class Owner(Protocol):
    """Whose tables are read: a pipeline, as a rule."""

    @property
    def config(self) -> PipelineConfig:
        """The pipeline file."""

    @property
    def storage(self) -> Storage:
        """How the store is reached."""

    @property
    def tables(self) -> PipelineTables:
        """The tables, where Spark has to be asked."""


def answer(
    owner: Owner, ask: Callable[[PipelineReader], Answer], *, files_first: bool = False, otherwise: Answer | None = None
) -> Answer:
    """What the tables' files tell without Spark, or else Spark, which is asked where it runs already.

    Args:
        files_first: whether a Spark that runs is asked only if it must be, since it says less.
        otherwise: what is given where Spark would have to be started; None to start it.

    Raises:
        StorageUnreachable: nothing listens where the store is to be.
    """

    def by_spark() -> Answer:
        if otherwise is not None and not session.runs():
            return otherwise
        return ask(SparkTables(owner.tables))

    def by_files() -> Answer:
        s3a.check_listens(owner.storage, owner.config.paths)
        return ask(FileTables(owner.config, owner.storage))

    return choice.answer(by_files, by_spark, files_first=files_first)
