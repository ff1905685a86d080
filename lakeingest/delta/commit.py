"""The Delta log as the truth about progress: what a pipeline committed, where it stands, and the next commit.

Every commit of lakeingest carries a `Receipt` as its userMetadata: the pipeline, a sequence number, the offsets per
topic-partition, who wrote it, and (on quarantine) the counts. A table's `Ledger` reads these receipts back. Nothing
else is remembered anywhere.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakeingest.delta.history import RECENT, TableHistory
from lakeingest.errors import Fenced, StorageError, TableMismatch
from lakeingest.record import OffsetRanges, replan_reason
from lakeingest.schema.ledger import SchemaLedger
from lakeingest.spark.failures import spark_failures, storage_failures, translate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = 1
"""Version of the receipt's form; a reader refuses what is newer."""
_LAST_VERSION = "spark.databricks.delta.lastCommitVersionInSession"


@dataclass(frozen=True)
class Run:
    """One start of a pipeline: the writer. Of two, the first to commit the next sequence number wins (see `append`)."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, started {self.started}"


def somebody() -> str:
    """Who is at work, as receipts and quarantine name whoever accepts, replays or discards."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # Kubernetes gives a container any uid, which its passwd file need not know.
        user = f"uid {os.getuid()}"
    return f"{user} on {socket.gethostname()}"


@dataclass(frozen=True)
class Counts:
    """What became of the records of one batch: consumed = accepted + refused + dropped."""

    consumed: int = 0
    accepted: int = 0
    refused: int = 0
    dropped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(mine + yours for mine, yours in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Receipt:
    """What a commit says of itself.

    Attributes:
        pipeline: the pipeline's name.
        sequence: 1, 2, 3, … for each batch of the pipeline in this table; quarantine bears the batch's own.
        run: who wrote it.
        cluster, topics: id of the Kafka cluster; topic → topic id.
        spans: the offsets that were consumed, and so the frontier.
        quarantine: where the pipeline's refused records are.
        counts: on quarantine only: the table's commit is written before they are known.
        left: topic → topic id of topics that the file no longer names, and whose frontier is still in `spans`.
        ledger: digest of the ledger of schemas, this batch's included; on the table only.
        schemas: that ledger, if this batch changed it; else a table property keeps it (see kept.py).
        gaps: offsets that Kafka had deleted before they were taken, and whose loss was accepted: on the table, before
            `spans`; on quarantine, where a batch was settled too late, those of `spans` that could not be read again.
        lost: how many offsets of these gaps are in neither table; on quarantine only.
        base: the table's version when the batch was decided, if it was known; on the table only.
        settles: the batch that this commit accounts for, where that is not `sequence`; on quarantine only.
        accepted: who let a held batch through, why, and which expectations it breaks; on the table only.
    """

    pipeline: str
    sequence: int
    run: Run
    cluster: str
    topics: Mapping[str, str]
    spans: OffsetRanges
    quarantine: str
    counts: Counts | None = None
    left: Mapping[str, str] = field(default_factory=dict)
    ledger: str = ""
    schemas: SchemaLedger = field(default_factory=SchemaLedger)
    gaps: OffsetRanges = field(default_factory=lambda: OffsetRanges(()))
    accepted: Mapping[str, Any] = field(default_factory=dict)
    lost: int = 0
    settles: int = 0
    base: int | None = None

    @property
    def batch(self) -> int:
        """The number of the batch that the commit is about."""
        return self.settles or self.sequence

    def whole(self, rows: int) -> bool:
        """Whether so many rows in the table are one for each offset of the batch, so that quarantine has none of it."""
        return rows == self.spans.offsets

    def to_json(self) -> str:
        data = {
            "lakeingest": FORMAT,
            "pipeline": self.pipeline,
            "sequence": self.sequence,
            "run": vars(self.run),
            "cluster": self.cluster,
            "topics": dict(self.topics),
            "offsets": self.spans.to_json(),
            "quarantine": self.quarantine,
        }
        if self.counts is not None:
            data["counts"] = vars(self.counts)
        if self.left:
            data["left"] = dict(self.left)
        if self.ledger:
            data["ledger"] = self.ledger
        if self.schemas.entries:
            data["schemas"] = self.schemas.to_json()
        if self.gaps.spans:
            data["gaps"] = self.gaps.to_json()
        if self.accepted:
            data["accepted"] = dict(self.accepted)
        if self.lost:
            data["lost"] = self.lost
        if self.settles:
            data["settles"] = self.settles
        if self.base is not None:
            data["base"] = self.base
        return json.dumps(data, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> Receipt | None:
        """None where the text is no receipt: other tools write userMetadata too.

        Raises:
            TableMismatch: a newer lakeingest wrote it; taken for none, its batch would be read again.
        """
        try:
            data = json.loads(text or "null")
        except ValueError:
            return None
        form = data.get("lakeingest") if isinstance(data, dict) else None
        if not isinstance(form, int) or isinstance(form, bool) or form < 1:
            return None
        if form > FORMAT:
            raise TableMismatch(
                f"the table's log has a receipt of form {form}, and this lakeingest knows forms up to {FORMAT}",
                cure="a newer lakeingest has written to the table: use that version, or a later one",
            )
        return cls(
            pipeline=data["pipeline"],
            sequence=data["sequence"],
            run=Run(**data["run"]),
            cluster=data["cluster"],
            topics=data["topics"],
            spans=OffsetRanges.from_json(data["offsets"]),
            quarantine=data["quarantine"],
            counts=Counts(**data["counts"]) if "counts" in data else None,
            left=data.get("left", {}),
            ledger=data.get("ledger", ""),
            schemas=SchemaLedger.from_json(data.get("schemas", {})),
            gaps=OffsetRanges.from_json(data.get("gaps", {})),
            accepted=data.get("accepted", {}),
            lost=data.get("lost", 0),
            settles=data.get("settles", 0),
            base=data.get("base"),
        )


@dataclass(frozen=True)
class Commit:
    """A receipt as it stands in the log: in version `version`, committed at `time`, with `rows` rows."""

    version: int
    time: datetime
    rows: int
    receipt: Receipt


@dataclass(frozen=True)
class CommitLog:
    """The commits of one pipeline to one table, newest first, as far back as the log tells and was asked.

    Commits that a RESTORE took back are not among them; `last_sequence` counts them all the same, because Delta
    remembers their txn, and skips in silence a write that bears a number it has seen.

    Attributes:
        taken_back: whether a RESTORE took commits of the pipeline back, and it has committed none since.
        restored: whether a RESTORE came since the pipeline's newest commit, whosever commits it took back.
        version: the table's newest version; None where there is no table.
        complete: whether the log still begins with the table's first version.
        begun: where the commits that a RESTORE took back began, if it took all back: (topic, partition) → first offset.
        recovered: the frontier as the tables' rows tell it, where no receipt is left in the log.
        schemas: the ledger of schemas (see `table.ledgers`).
        kept: the one among the table's properties.
        properties: these.
        others: what other pipelines committed to the table, as far as the log was read: name → newest receipt.
    """

    path: str
    pipeline: str
    commits: tuple[Commit, ...] = ()
    last_sequence: int = 0
    taken_back: bool = False
    restored: bool = False
    version: int | None = None
    complete: bool = True
    begun: Mapping[tuple[str, int], int] = field(default_factory=dict)
    recovered: Mapping[tuple[str, int], int] = field(default_factory=dict)
    schemas: SchemaLedger = field(default_factory=SchemaLedger)
    kept: SchemaLedger = field(default_factory=SchemaLedger)
    properties: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, Receipt] = field(default_factory=dict)

    def others_of(self, topics: Collection[str]) -> dict[str, Receipt]:
        """Other pipelines that have taken records of these topics, and each one's newest receipt."""
        return {n: r for n, r in self.others.items() if any(s.topic in topics for s in r.spans)}

    @property
    def newest(self) -> Commit | None:
        return self.commits[0] if self.commits else None

    @property
    def frontier(self) -> dict[tuple[str, int], int]:
        """(topic, partition) → the first offset not consumed; empty before the first commit."""
        if self.newest:
            return self.newest.receipt.spans.frontier
        # Where both are known, the log's oldest commits may be gone: what is read again is known by its coordinates.
        both = self.begun.keys() & self.recovered.keys()
        return {**self.recovered, **self.begun, **{tp: min(self.begun[tp], self.recovered[tp]) for tp in both}}


def read(spark: SparkSession, path: str, pipeline: str, *, back: int | None = 1) -> CommitLog:
    """The ledger of `pipeline` in the table at `path`.

    Args:
        back: how many of the table's newest commits are read, each an object of the store, and more only if none of
            them is the pipeline's own; None reads all that the log still holds.

    Raises:
        StorageUnreachable: the table cannot be read.
        TableMismatch: a newer lakeingest has written to it.
    """
    log = TableHistory(spark, path)
    for limit in (back, RECENT, None):
        history = log.history(limit)
        ledger = _ledger(pipeline, history, log)
        if limit is None or ledger.newest is not None or not history or history[-1]["version"] == 0:
            break
    return ledger


def _ledger(pipeline: str, history: Sequence[Mapping[str, Any]], log: TableHistory) -> CommitLog:
    commits, last, taken_back, restored = list[Commit](), 0, False, False
    begun: dict[tuple[str, int], int] = {}
    others: dict[str, Receipt] = {}
    restored_to: int | None = None
    for entry in history:
        if entry["operation"] == "RESTORE":
            restored = restored or not commits
            if restored_to is None or entry["version"] <= restored_to:
                restored_to = log.restored_to(entry, history[-1]["version"])
        receipt = Receipt.from_json(entry["userMetadata"])
        stands = restored_to is None or entry["version"] <= restored_to
        if receipt is None or receipt.pipeline != pipeline:
            if receipt is not None and stands:
                others.setdefault(receipt.pipeline, receipt)
            continue
        last = max(last, receipt.sequence)
        if stands:
            rows = int((entry["operationMetrics"] or {}).get("numOutputRows", 0))
            commits.append(Commit(entry["version"], entry["timestamp"], rows, receipt))
        elif not commits:
            taken_back = True
            begun |= {(s.topic, s.partition): s.start for s in receipt.spans}
    return CommitLog(
        path=log.path,
        pipeline=pipeline,
        commits=tuple(commits),
        last_sequence=last,
        taken_back=taken_back,
        restored=restored,
        version=history[0]["version"] if history else None,
        complete=not history or history[-1]["version"] == 0,
        begun={} if commits else begun,
        others=others,
    )


def numbered(spark: SparkSession, ledger: CommitLog) -> CommitLog:
    """The ledger with the sequence number that Delta remembers, where clean-up took all receipts that bore one."""
    if ledger.last_sequence or ledger.complete:
        return ledger
    return replace(ledger, last_sequence=_newest_number(spark, ledger.path, ledger.pipeline))


def _newest_number(spark: SparkSession, path: str, pipeline: str) -> int:
    """The sequence number that Delta remembers of the pipeline, where the log has lost the receipt that bore it.

    Clean-up deletes commits, and with them their userMetadata; their txn lives on in the log's checkpoints.

    Raises:
        StorageUnreachable: the log cannot be read.
    """
    from pyspark.sql import functions as F

    shape = "txn STRUCT<appId: STRING, version: BIGINT>"
    files = ("parquet", "*.checkpoint*.parquet"), ("json", "*.json")
    with storage_failures(path):
        logs = [spark.read.schema(shape).format(kind).load(f"{path}/_delta_log/{names}") for kind, names in files]
        ours = logs[0].union(logs[1]).where(F.col("txn.appId") == _application(pipeline))
        return int(ours.agg(F.coalesce(F.max("txn.version"), F.lit(0))).collect()[0][0])


def _application(pipeline: str) -> str:
    return f"lakeingest:{pipeline}"


def append(
    spark: SparkSession, path: str, frame: DataFrame, receipt: Receipt, compression: str, *, evolve: bool = False
) -> Commit:
    """Write `frame` as the commit of `receipt`, once, and make sure that it is ours.

    1. Delta writes the files and commits, with the pipeline as txnAppId and the sequence number as txnVersion. A
       writer that committed this number meanwhile makes our commit fail; one that did so before makes Delta skip ours.
    2. The commit is read back: the log must have one of this run with this number.

    Args:
        evolve: whether columns of the frame that the table lacks are added to it, in the same commit.

    Raises:
        Fenced: another run committed; nothing of ours was written.
        UnsafeStore: the log store refuses the object store or its settings.
        StorageUnreachable: the object store failed.
        Unplanned: a record's schema is not among those that the frame was made for; nothing was written.
        Untimely: Spark's reader cannot hold a record's time; nothing was written.
    """
    assert not receipt.spans.backwards, receipt.spans
    writer = frame.write.format("delta").mode("append").option("compression", compression)
    options = {
        # A shuffle behind what is observed would count a task twice that is done again.
        "optimizeWrite": "false",
        "txnAppId": _application(receipt.pipeline),
        "txnVersion": str(receipt.sequence),
        "userMetadata": receipt.to_json(),
        "mergeSchema": str(evolve).lower(),
    }
    try:
        writer.options(**options).save(path)
    except spark_failures() as failed:
        if other := replan_reason(failed):
            raise other from failed
        if not _overtaken(spark, path, receipt):
            raise translate(path, failed) from failed
    newest = _told(spark, path, receipt) or read(spark, path, receipt.pipeline).newest
    if newest is None or not _same(newest.receipt, receipt):
        raise fenced(path, receipt, newest)
    return newest


def _same(found: Receipt, ours: Receipt) -> bool:
    return found.run.id == ours.run.id and found.sequence == ours.sequence


def _told(spark: SparkSession, path: str, receipt: Receipt) -> Commit | None:
    """The commit of this receipt, if it is in the version that the session wrote last, of whatever table.

    It is the log that tells, as DESCRIBE HISTORY does in four times the time; the session only says where to look.
    """
    version = spark.conf.get(_LAST_VERSION, None)
    if version is None:
        return None
    shape = "commitInfo STRUCT<timestamp: BIGINT, operationMetrics: MAP<STRING, STRING>, userMetadata: STRING>"
    wanted = (
        "timestamp_millis(commitInfo.timestamp) AS timestamp",
        "commitInfo.operationMetrics",
        "commitInfo.userMetadata",
    )
    try:
        actions = spark.read.schema(shape).json(f"{path}/_delta_log/{int(version):020}.json")
        rows = actions.where("commitInfo IS NOT NULL").selectExpr(*wanted).collect()
    except spark_failures():
        return None
    history = [{"version": int(version), "operation": "WRITE", **row.asDict()} for row in rows]
    newest = _ledger(receipt.pipeline, history, TableHistory(spark, path)).newest
    return newest if newest is not None and _same(newest.receipt, receipt) else None


def _overtaken(spark: SparkSession, path: str, receipt: Receipt) -> bool:
    """Whether a write failed because another run had committed; Delta may name that one's new columns as the cause."""
    try:
        newest = read(spark, path, receipt.pipeline).newest
    except StorageError:
        return False
    return (
        newest is not None and newest.receipt.run.id != receipt.run.id and newest.receipt.sequence >= receipt.sequence
    )


def fenced(path: str, receipt: Receipt, newest: Commit | None) -> Fenced:
    """The error that names the winner."""
    if newest is None:
        return Fenced(
            f"commit {receipt.sequence} of pipeline {receipt.pipeline!r} is not in the log of {path}",
            cure="look at the table's history: another session restored or replaced it; then run again",
        )
    winner = newest.receipt
    return Fenced(
        f"pipeline {receipt.pipeline!r} is held by another writer: {winner.run} committed sequence {winner.sequence} "
        f"(version {newest.version}); this writer ({receipt.run}) lost commit {receipt.sequence} to {path}",
        cure="nothing is lost or double: let the other go on, or stop it and run this one again",
    )
