"""What a run, and a maintenance, tell: one value for each thing that happens.

The live line, the log, the metrics, OpenLineage and a listener of one's own (see `extend.Listener`) are made from these
and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from lakeingest.delta.commit_log import Changes, Commit
from lakeingest.delta.maintenance.outcome import TableMaintenance
from lakeingest.delta.receipt import Counts, Run
from lakeingest.errors import BatchHeld, Fenced, LakeingestError
from lakeingest.record import OffsetRanges
from lakeingest.schema.ledger import Entry

if TYPE_CHECKING:
    from lakeingest.gate.evaluate import Result


@dataclass(frozen=True)
class Event:
    """Something that happened to a run.

    Attributes:
        at: when, in UTC.
    """

    at: datetime = field(default_factory=lambda: datetime.now(UTC), kw_only=True, compare=False)


@dataclass(frozen=True)
class Started(Event):
    """A run begins: nothing was asked of a server yet.

    Attributes:
        run: who will commit.
        topics: the topics of the pipeline file.
        brokers: Kafka's bootstrap servers; empty where a table is read instead.
        table, quarantine: where the rows go, and the refused records.
        every_s: the trigger, in seconds.
        read_from: the bronze table that is read instead of Kafka; its topics may be left to it, and are empty then.
    """

    run: Run
    topics: tuple[str, ...]
    brokers: str
    table: str
    quarantine: str
    every_s: float
    read_from: str = ""


@dataclass(frozen=True)
class Matched(Event):
    """Topics were looked for that the pattern of a pipeline file matches; told under the file's name, as `x_{topic}`.

    Attributes:
        pipelines: the names of those that begin now, one for each new topic.
    """

    pipelines: tuple[str, ...]


@dataclass(frozen=True)
class Looked(Event):
    """It has looked for new records, and takes a batch of them now if there are any.

    Attributes:
        sequence: the number of the last batch; 0 if there is none yet.
        partitions: how many it looked at.
        lag: offsets that are not committed yet; 0 if it has to wait.
    """

    sequence: int
    partitions: int
    lag: int


@dataclass(frozen=True)
class Written:
    """What a batch wrote to the table.

    Attributes:
        rows, files, bytes: of data files, as Delta counts them.
        commit_s: how long the commit itself took, behind the last data file, in seconds.
        columns: name → type (as SQL has it) of the table's columns behind it.
        changes: what became of the table's rows, in mode upsert; None elsewhere.
    """

    rows: int = 0
    files: int = 0
    bytes: int = 0
    commit_s: float = 0.0
    columns: Mapping[str, str] = field(default_factory=dict)
    changes: Changes | None = None

    @classmethod
    def of(cls, commit: Commit, columns: Mapping[str, str]) -> Written:
        """What a commit wrote."""
        return cls(commit.rows, commit.files, commit.bytes, commit.seconds, columns, commit.changes)


@dataclass(frozen=True)
class Committed(Event):
    """A batch was committed.

    Attributes:
        sequence, version: the batch's number, and the table version that holds it.
        counts: what became of its records.
        seconds: how long the batch took.
        lag: offsets beyond the frontier, as Kafka stood when the batch began; of a backfill, those that it has still to
            take.
        accepted_held: whether the gate would have held the batch, and was told to let it through.
        ranges: the offsets that it took.
        refused: why records went to quarantine: reason → how many.
        left_out: name of a condition of transform.where → the dropped records that did not meet it; and a name of
            `debezium.ROWLESS` → those that are that.
        bytes: of the keys and values of its records, as Kafka holds them decompressed.
        newest: the greatest of its records' times; None if no record has one.
        stages: how long which part took, in seconds; one of `STAGES` each.
        written: what it wrote to the table.
        schemas: the schemas that it met first, with what the table made of each.
        gate: what the expectations found.
    """

    STAGES: ClassVar = ("discover", "plan", "gate", "write", "quarantine", "results")

    sequence: int
    version: int
    counts: Counts
    seconds: float = 0
    lag: int = 0
    accepted_held: bool = False
    ranges: OffsetRanges = field(default_factory=lambda: OffsetRanges(()))
    refused: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0
    newest: datetime | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    written: Written = field(default_factory=Written)
    schemas: tuple[Entry, ...] = ()
    gate: tuple[Result, ...] = ()

    @property
    def row_changes(self) -> dict[str, int]:
        """Of mode upsert: rows that were inserted, updated and deleted; and superseded, the accepted records that
        changed none, since one of the same key is later, or there is no row to delete. Empty elsewhere.
        """
        changes = self.written.changes
        if changes is None:
            return {}
        rows = {name: getattr(changes, name) for name in ("inserted", "updated", "deleted")}
        return {**rows, "superseded": self.counts.accepted - sum(rows.values())}

    @property
    def dropped(self) -> dict[str, int]:
        """Declared drops by their reasons: the names of `left_out`, and records without a value."""
        without = self.counts.dropped - sum(self.left_out.values())
        return {name: count for name, count in {**self.left_out, "no value": without}.items() if count}


@dataclass(frozen=True)
class Retrying(Event):
    """A server failed, or somebody changed the table meanwhile: the run begins anew after a pause.

    Attributes:
        failure: why it must.
        pause_s: how long it waits first, in seconds.
        left_s: how long it will go on trying after that, in seconds.
    """

    failure: LakeingestError
    pause_s: float
    left_s: float


@dataclass(frozen=True)
class CatalogUpdate(Event):
    """The table's entry in a catalog was brought up to date, or could not be; the run goes on.

    Attributes:
        name: the table's, in the catalog.
        failure: why it could not; None if it has. The next batch tries again; the same failure is told once.
    """

    name: str
    failure: LakeingestError | None = None


@dataclass(frozen=True)
class GroupUpdate(Event):
    """The consumer group of source.commit_to_group could not be brought up to date, or is so again; the run goes on.

    Attributes:
        group: its name.
        failure: why it could not; None if it has. The next batch tries again; the same failure is told once.
    """

    group: str
    failure: LakeingestError | None = None


@dataclass(frozen=True)
class Maintained(Event):
    """A table of the pipeline was kept in shape: the same rows in other files. A run tells it where
    `maintenance.every` is set, and `Pipeline.maintain`.

    Attributes:
        files: the table, its files before and after, and what was done.
        seconds: how long it took.
    """

    files: TableMaintenance
    seconds: float


@dataclass(frozen=True)
class Ended(Event):
    """A run has ended. It is the last that is told of it.

    Attributes:
        failure: why it ended before it was asked to; None if it did not. What is no LakeingestError is a fault of ours.
        stopped: whether it was asked to end.
        commits, counts: what it committed, and what became of the records.
        lag: offsets beyond the frontier, as Kafka stood when it last looked.
    """

    OUTCOMES: ClassVar = ("caught up", "stopped", "held", "fenced", "failed")

    failure: Exception | None = None
    stopped: bool = False
    commits: int = 0
    counts: Counts = field(default_factory=Counts)
    lag: int = 0

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`."""
        match self.failure:
            case None:
                return "stopped" if self.stopped else "caught up"
            case BatchHeld():
                return "held"
            case Fenced():
                return "fenced"
        return "failed"
