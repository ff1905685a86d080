"""What a pipeline committed to a table, read back from the table's log, and so where the pipeline stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakeingest.delta import table_properties
from lakeingest.delta.history import RECENT, History, Restores, TableHistory
from lakeingest.delta.receipt import Receipt, of_backfill, of_replay, removal_reason
from lakeingest.errors import TableMismatch
from lakeingest.schema.ledger import SchemaLedger
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from lakeingest.delta.table import Table


@dataclass(frozen=True)
class Changes:
    """What a commit of mode upsert did to the rows of the table, as Delta counts it.

    Attributes:
        inserted, updated, deleted: rows.
        copied: rows that were written anew as they were, since they lie in a file with one of these.
        removed, added: data files.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    copied: int = 0
    removed: int = 0
    added: int = 0

    @classmethod
    def of(cls, metrics: Mapping[str, Any]) -> Changes:
        """From the operationMetrics of a MERGE."""
        rows = [f"numTargetRows{name}" for name in ("Inserted", "Updated", "Deleted", "Copied")]
        files = ["numTargetFilesRemoved", "numTargetFilesAdded"]
        return cls(*(int(metrics.get(name) or 0) for name in (*rows, *files)))


@dataclass(frozen=True)
class Commit:
    """A receipt as it stands in the log.

    Attributes:
        version: the table's.
        time: when it was committed.
        rows: what it made rows of: those of the data files that it wrote, as Delta counts them; of mode history those
            that it inserted, of mode upsert the records that it accepted.
        files, bytes: of the data files that it wrote.
        changes: what became of the table's rows, in mode upsert; None elsewhere.
        seconds: how long the commit took behind the last data file; 0 where that was not seen.
    """

    version: int
    time: datetime
    rows: int
    receipt: Receipt
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    changes: Changes | None = None

    @property
    def begins_anew(self) -> bool:
        """Whether the table was deleted between the batch's decision and its commit: versions only grow."""
        return self.receipt.base is not None and self.version <= self.receipt.base


@dataclass(frozen=True)
class Deletion:
    """A commit of somebody else that took rows away, or may have.

    Attributes:
        version: the table's.
        operation: as Delta calls it: DELETE, MERGE, TRUNCATE, WRITE (which overwrites).
        rows: how many it took, as far as Delta counted them; None where it did not.
        time: when it was committed.
        who: the user, where the log names one, and what wrote it.
    """

    version: int
    operation: str
    rows: int | None
    time: datetime | None
    who: str

    def __str__(self) -> str:
        at = f" at {self.time:%Y-%m-%d %H:%M:%S}" if self.time else ""
        rows = "" if self.rows is None else f" (rows: {self.rows:,})"
        return f"version {self.version} is a {self.operation}{f' by {self.who}' if self.who else ''}{at}{rows}"


@dataclass(frozen=True)
class CommitLog:
    """The commits of one pipeline to one table, newest first, as far back as the log tells and was asked.

    Commits that a RESTORE took back are not among them; `last_sequence` counts them all the same, because Delta
    remembers their txn, and skips in silence a write that bears a number it has seen.

    Attributes:
        last_batch: the greatest number of a batch that they are about; on quarantine a commit may have a later number.
        taken_back: whether a RESTORE took commits of the pipeline back, and it has committed none since.
        undone_batches: the numbers of all batches that a RESTORE took back; on quarantine, of those whose account it
            took.
        undone_accounts: on quarantine, these: number of the batch → the newest receipt.
        restores: whether there is a RESTORE in what was read.
        unadopted: whether a RESTORE took back that the table was adopted, and it was not since.
        restored: whether a RESTORE came since the pipeline's newest commit, whosever commits it took back.
        version: the table's newest version; None where there is no table.
        complete: whether the log still begins with the table's first version.
        undone_starts: where the commits that a RESTORE took back began, if it took all back: (topic, partition) → first
            offset.
        recovered: the frontier as the tables' rows tell it, where no receipt is left in the log.
        schemas: the ledger of schemas (see `PipelineTables.commit_logs`).
        property_ledger: the one among the table's properties.
        properties: these; of quarantine, its own.
        other_pipelines: what they committed to the table, as far as the log was read: name → newest receipt. Their
            replays and backfills are not among it.
        backfills, replays: the commits of the pipeline's backfills, and of its replays, newest first, as far as the log
            was read.
        deletes: what others took away, the newest first, as far as the log was read.
        removed: how many rows the pipeline took out: the reason (see `receipt.of_removal`) → rows.
    """

    path: str
    pipeline: str
    commits: tuple[Commit, ...] = ()
    last_sequence: int = 0
    last_batch: int = 0
    taken_back: bool = False
    undone_batches: frozenset[int] = frozenset()
    undone_accounts: Mapping[int, Receipt] = field(default_factory=dict)
    restores: bool = False
    unadopted: bool = False
    restored: bool = False
    version: int | None = None
    complete: bool = True
    undone_starts: Mapping[tuple[str, int], int] = field(default_factory=dict)
    recovered: Mapping[tuple[str, int], int] = field(default_factory=dict)
    schemas: SchemaLedger = field(default_factory=SchemaLedger)
    property_ledger: SchemaLedger = field(default_factory=SchemaLedger)
    properties: Mapping[str, str] = field(default_factory=dict)
    other_pipelines: Mapping[str, Receipt] = field(default_factory=dict)
    backfills: tuple[Commit, ...] = ()
    replays: tuple[Commit, ...] = ()
    deletes: tuple[Deletion, ...] = ()
    removed: Mapping[str, int] = field(default_factory=dict)

    def others_of(self, topics: Collection[str]) -> dict[str, Receipt]:
        """Other pipelines that have taken records of these topics, and each one's newest receipt."""
        return {n: r for n, r in self.other_pipelines.items() if any(s.topic in topics for s in r.ranges)}

    @property
    def newest(self) -> Commit | None:
        return self.commits[0] if self.commits else None

    @property
    def standing_number(self) -> int | None:
        """The number of the newest commit that stands; 0 for none, None where clean-up may have taken its receipt."""
        if self.newest:
            return self.newest.receipt.sequence
        return 0 if self.complete else None

    @property
    def standing(self) -> int:
        """The number of the newest batch that no RESTORE took back; 0 before the first one."""
        if self.newest:
            return self.newest.receipt.sequence
        return min(self.undone_batches) - 1 if self.undone_batches else self.last_sequence

    def stands(self, sequence: int) -> bool:
        """Whether the table has what it had behind this batch: no RESTORE took it back, as far as the log was read."""
        return sequence <= self.standing and sequence not in self.undone_batches

    @property
    def adopted(self) -> Mapping[str, Any]:
        """What the table's adoption said (see `JobFields.adopted`); empty where it was not adopted, and after a RESTORE
        to before that.
        """
        of_receipt = next((c.receipt.job.adopted for c in self.commits if c.receipt.job.adopted), None)
        of_property = table_properties.adoption(self.properties, self.pipeline)
        return of_receipt or (of_property[0] if of_property else {})

    @property
    def since_adoption(self) -> CommitLog:
        """Without the commits before the newest adoption: of two, the second is a correction of the first."""
        at = next((at for at, c in enumerate(self.commits) if c.receipt.job.adopted), len(self.commits))
        return replace(self, commits=self.commits[: at + 1])

    @property
    def frontier(self) -> dict[tuple[str, int], int]:
        """(topic, partition) → the first offset not consumed; empty before the first commit."""
        if self.newest:
            return self.newest.receipt.ranges.frontier
        # Where both are known, the log's oldest commits may be gone: what is read again is known by its coordinates.
        shared = self.undone_starts.keys() & self.recovered.keys()
        least = {tp: min(self.undone_starts[tp], self.recovered[tp]) for tp in shared}
        return {**self.recovered, **self.undone_starts, **least}


def ledger(log: CommitLog, every: Callable[[], Sequence[Commit]]) -> SchemaLedger:
    """The ledger of schemas: the newest commit's own, or the one whose digest it bears.

    Args:
        every: gives all commits that the log holds: a writer that was overtaken may have kept an older ledger.
    """
    newest = log.newest.receipt if log.newest else None
    if newest is not None and (newest.schemas.entries or not newest.ledger):
        return newest.schemas
    if newest is None or log.property_ledger.digest == newest.ledger:
        return log.property_ledger
    schemas = (commit.receipt.schemas for commit in every())
    return next((each for each in schemas if each.digest == newest.ledger), log.property_ledger)


def read(table: Table, pipeline: str, *, back: int | None = 1) -> CommitLog:
    """The commits of `pipeline` to the table.

    Args:
        back: how many of the table's newest commits are read, each an object of the store, and more only if none of
            them is the pipeline's own; None reads all that the log still holds.

    Raises:
        StorageUnreachable: the table cannot be read.
        TableMismatch: a newer lakeingest has written to it.
    """
    return of_log(TableHistory(table), pipeline, back)


def of_log(log: History, pipeline: str, back: int | None) -> CommitLog:
    """The commits of `pipeline`, as `read` gives them, of whoever knows the table's log."""
    for limit in dict.fromkeys((back, RECENT, None)):
        history = log.history(limit)
        result = of_history(pipeline, history, log)
        if limit is None or result.newest is not None or not history or history[-1]["version"] == 0:
            break
    return result


def of_history(pipeline: str, history: Sequence[Mapping[str, Any]], log: Restores) -> CommitLog:
    """The commits of `pipeline` among the entries of a table's history, the newest first."""
    commits, last, last_batch = list[Commit](), 0, 0
    beside_it: dict[str, list[Commit]] = {name: [] for name in beside(pipeline)}
    taken_back = unadopted = restored = False
    starts: dict[tuple[str, int], int] = {}
    other_pipelines: dict[str, Receipt] = {}
    deletes, removed = list[Deletion](), Counter[str]()
    undone, restored_to = dict[int, Receipt](), None
    for entry in history:
        if entry["operation"] == "RESTORE":
            restored = restored or not commits
            if restored_to is None or entry["version"] <= restored_to:
                restored_to = log.restored_to(entry, history[-1]["version"])
        receipt = Receipt.from_json(entry["userMetadata"])
        stands = restored_to is None or entry["version"] <= restored_to
        if stands and (reason := removal_reason(entry["userMetadata"], pipeline)):
            removed[reason] += _deleted_rows(entry)
        elif stands and receipt is None and (deletion := _deletion(entry)):
            deletes.append(deletion)
        if receipt is None or receipt.pipeline != pipeline:
            if receipt is not None and stands:
                if receipt.pipeline in beside_it:
                    beside_it[receipt.pipeline].append(_commit(entry, receipt))
                elif ":" not in receipt.pipeline:
                    other_pipelines.setdefault(receipt.pipeline, receipt)
            continue
        last, last_batch = max(last, receipt.sequence), max(last_batch, receipt.batch)
        if stands:
            commits.append(_commit(entry, receipt))
            continue
        undone.setdefault(receipt.batch, receipt)
        if not commits:
            taken_back, unadopted = True, unadopted or bool(receipt.job.adopted)
            starts |= {(s.topic, s.partition): s.start for s in receipt.ranges}
    return CommitLog(
        path=log.identifier,
        pipeline=pipeline,
        commits=tuple(commits),
        last_sequence=last,
        last_batch=last_batch,
        taken_back=taken_back,
        undone_batches=frozenset(undone),
        undone_accounts=undone,
        restores=any(entry["operation"] == "RESTORE" for entry in history),
        unadopted=unadopted,
        restored=restored,
        version=history[0]["version"] if history else None,
        complete=not history or history[-1]["version"] == 0,
        undone_starts={} if commits else starts,
        other_pipelines=other_pipelines,
        backfills=tuple(beside_it[of_backfill(pipeline)]),
        replays=tuple(beside_it[of_replay(pipeline)]),
        deletes=tuple(deletes),
        removed=removed,
    )


def _deletion(entry: Mapping[str, Any]) -> Deletion | None:
    """What a commit without a receipt took away; None if that cannot be."""
    operation, rows = entry["operation"], _deleted_rows(entry)
    parameters, metrics = entry.get("operationParameters") or {}, entry["operationMetrics"] or {}
    overwrites = operation == "WRITE" and str(parameters.get("mode", "")).strip('"').lower() == "overwrite"
    rewrites = (entry["userMetadata"] or "").startswith("lakeingest: ")
    touched = rows or int(metrics.get("numRemovedFiles") or 0)
    if rewrites or not (overwrites or (operation in ("DELETE", "MERGE", "TRUNCATE") and touched)):
        return None
    who = (entry.get("userName"), entry.get("engineInfo"))
    by = ", ".join(str(name) for name in who if name)
    return Deletion(entry["version"], operation, rows or None, entry["timestamp"], by)


def _deleted_rows(entry: Mapping[str, Any]) -> int:
    """How many rows were deleted; of whole partitions Delta does not always count them."""
    metrics = entry["operationMetrics"] or {}
    return int(metrics.get("numDeletedRows") or metrics.get("numTargetRowsDeleted") or 0)


def _commit(entry: Mapping[str, Any], receipt: Receipt) -> Commit:
    metrics = entry["operationMetrics"] or {}
    if entry["operation"] == "MERGE":
        changes, size = Changes.of(metrics), int(metrics.get("numTargetBytesAdded") or 0)
        if receipt.account is None:
            # Of mode history: its rows stay.
            return Commit(entry["version"], entry["timestamp"], changes.inserted, receipt, changes.added, size)
        rows = receipt.account.counts.accepted
        return Commit(entry["version"], entry["timestamp"], rows, receipt, changes.added, size, changes=changes)
    rows, files, size = (int(metrics.get(f"num{name}", 0)) for name in ("OutputRows", "Files", "OutputBytes"))
    return Commit(entry["version"], entry["timestamp"], rows, receipt, files, size)


def over_a_restore(table: Table, commit: Commit) -> int | None:
    """From which version on a batch is to be taken back, since somebody restored the table between its decision and its
    commit, which Delta lets happen; None if nobody did.

    So is one before which a backfill or a replay committed over a RESTORE, and which no later RESTORE took back: it may
    have what is the run's again since then.
    """
    base = commit.receipt.base
    if base is None or commit.version <= base + 1:
        return None
    pipeline, versions = commit.receipt.pipeline.partition(":")[0], list[int]()
    for entry in TableHistory(table).standing(base):
        if entry["version"] >= commit.version:
            continue
        if entry["operation"] == "RESTORE":
            versions.append(commit.version)
        receipt = Receipt.from_json(entry["userMetadata"])
        if receipt is not None and receipt.pipeline in beside(pipeline):
            first = over_a_restore(table, _commit(entry, receipt))
            versions += [] if first is None else [first]
    return min(versions, default=None)


def beside(pipeline: str) -> tuple[str, str]:
    """What the commits are known by that are made beside a pipeline's run: its backfills', and its replays'."""
    return of_backfill(pipeline), of_replay(pipeline)


def check_deleted(table: str, newest: Commit) -> None:
    """Notice that a table was deleted while a batch was on its way: for the batch Delta makes a new one, unasked.

    Raises:
        TableMismatch: it was.
    """
    if newest.begins_anew:
        raise TableMismatch(
            f"{table} was deleted before batch {newest.receipt.sequence}, while the pipeline ran: what is there now "
            f"begins with that batch, and what was there up to version {newest.receipt.base} is gone",
            cure="bring the deleted objects back, and delete those that came since; or delete what is there, the "
            "quarantine too: the pipeline then reads all that Kafka still has",
        )


def numbered(table: Table, log: CommitLog) -> CommitLog:
    """The log with the sequence number that Delta remembers, where clean-up took all receipts that bore one."""
    if log.last_sequence or log.complete:
        return log
    number = _newest_number(table, log.pipeline)
    return replace(log, last_sequence=number, last_batch=number)


def _newest_number(table: Table, pipeline: str) -> int:
    """The sequence number that Delta remembers of the pipeline, where the log has lost the receipt that bore it.

    Clean-up deletes commits, and with them their userMetadata; their txn lives on in the log's checkpoints.

    Raises:
        StorageUnreachable: the log cannot be read.
    """
    from pyspark.sql import functions as F

    shape = "txn STRUCT<appId: STRING, version: BIGINT>"
    files = ("parquet", "*.checkpoint*.parquet"), ("json", "*.json")
    with storage_failures(table.identifier):
        read, folder = table.spark.read.schema(shape), f"{table.location}/_delta_log"
        logs = [read.format(kind).load(f"{folder}/{names}") for kind, names in files]
        numbers = logs[0].union(logs[1]).where(F.col("txn.appId") == application(pipeline))
        return int(numbers.agg(F.coalesce(F.max("txn.version"), F.lit(0))).collect()[0][0])


def application(pipeline: str) -> str:
    """What Delta knows the pipeline by: its txnAppId."""
    return f"lakeingest:{pipeline}"
