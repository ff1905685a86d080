"""The receipt that each commit of lakeingest carries as its userMetadata: who, which batch, which offsets.

With the receipts the Delta log is the truth about progress: nothing else is remembered anywhere.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from lakeingest.delta.log_ends import NO_ENDS, LogEnds
from lakeingest.delta.offset_lists import NO_OFFSETS, OffsetLists
from lakeingest.delta.sums import BatchSums, Sums
from lakeingest.errors import TableMismatch
from lakeingest.record import NO_RANGES, OffsetRanges
from lakeingest.schema.ledger import SchemaLedger

FORM = 2
"""The form in which receipts are written. Form 1 is read too (see `_form_2`); a newer one is refused."""
NO_BATCH = -1
"""What a commit to quarantine settles that is about no batch."""


@dataclass(frozen=True)
class Run:
    """One start of a pipeline: the writer. Of two, the first to commit the next sequence number wins (see `append`)."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, started {self.started}"


def user() -> str:
    """The name of whoever is at work."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # Kubernetes gives a container any uid, which its passwd file need not know.
        return f"uid {os.getuid()}"


def somebody() -> str:
    """Who is at work, as receipts and quarantine name whoever accepts, replays or discards."""
    return f"{user()} on {socket.gethostname()}"


def of_backfill(pipeline: str) -> str:
    """What the receipts of a pipeline's backfills are known by: a pipeline's own name has no colon."""
    return f"{pipeline}:backfill"


def of_replay(pipeline: str) -> str:
    """What the receipts of a pipeline's replays are known by."""
    return f"{pipeline}:replay"


def of_removal(pipeline: str, reason: str) -> str:
    """The userMetadata of a commit that takes rows out.

    Args:
        reason: forgotten or expired (see `delta.removals`); superseded: of a table of mode upsert, rows which another
            job had deleted.
    """
    return json.dumps({"lakeingest_removal": pipeline, "reason": reason})


def removal_reason(user_metadata: str | None, pipeline: str | None = None) -> str | None:
    """Why a commit of a pipeline, of any one by default, took rows out; None if it is no such commit."""
    try:
        tree = json.loads(user_metadata or "null")
    except ValueError:
        return None
    removed_by = tree.get("lakeingest_removal") if isinstance(tree, dict) else None
    is_removal = removed_by is not None and pipeline in (None, removed_by)
    return str(tree.get("reason", "superseded")) if is_removal else None


@dataclass(frozen=True)
class Counts:
    """What became of the records of one batch: consumed = accepted + refused + dropped."""

    consumed: int = 0
    accepted: int = 0
    refused: int = 0
    dropped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Account:
    """What quarantine's commit says of a batch: what became of those of its offsets that have no row in the table.

    Attributes:
        counts: records.
        left_out: name of a condition of transform.where → the dropped records that did not meet it; and a name of
            `debezium.ROWLESS` → those that are that.
        lost: how many of the offsets of `gaps` are in neither table.
        gaps: where a batch was settled too late: those of its offsets that could not be read again, as Kafka had
            deleted them, and whose loss was accepted.
        settles: number of the batch, where that is not the commit's own `sequence`; else 0. `NO_BATCH` for none.
        open: where several batches have no account any more: how many are left behind this one.
        table: the sums of what the table took of the batch; None where nobody knows them any more, or an older version
            wrote it. What quarantine took is known only behind its
            commit: the next receipt has it.
        deletes: of mode upsert: how many deletes the batch remembers: of each key the newest one, if it is the latest
            record of the key.
        ties: of mode upsert: how many keys, at least, have two latest records with the same order, of two partitions.
        remembered: of mode upsert, on the table: the version of the table of deleted keys that the batch has seen; None
            where there was none.
        refused: of mode upsert, on the table: which records were refused. There rows do not stay, so that none of them
            is known by what is missing.
    """

    counts: Counts = Counts()
    left_out: Mapping[str, int] = field(default_factory=dict)
    lost: int = 0
    gaps: OffsetRanges = NO_RANGES
    settles: int = 0
    open: int = 0
    table: Sums | None = None
    deletes: int = 0
    ties: int = 0
    remembered: int | None = None
    refused: OffsetLists = NO_OFFSETS

    def to_json(self) -> dict[str, Any]:
        always = {"counts": vars(self.counts)}
        return always | _filled(
            left_out=dict(self.left_out),
            lost=self.lost or None,
            gaps=self.gaps.to_json(),
            settles=self.settles or None,
            open=self.open or None,
            table=self.table and self.table.to_json(),
            deletes=self.deletes or None,
            ties=self.ties or None,
            remembered=self.remembered,
            refused=self.refused.to_json(),
        )

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Account:
        gaps = OffsetRanges.from_json(tree.get("gaps", {}))
        table = Sums.from_json(tree["table"]) if "table" in tree else None
        counts, refused = Counts(**tree["counts"]), OffsetLists.from_json(tree.get("refused", {}))
        return cls(**{**tree, "counts": counts, "gaps": gaps, "table": table, "refused": refused})


@dataclass(frozen=True)
class JobFields:
    """What made a commit, and what only such a job says of it.

    Attributes:
        name: the pipeline's run; the part of it that takes records which came into its source late; a backfill, a
            replay, an adoption; an export, in the log of its place.
        gaps: of a run: offsets before those of the batch that Kafka had deleted unread, and whose loss was accepted;
            on the table only.
        accepted: of a batch that the gate would have held: `who` let it through, `why`, and the expectations that it
            breaks (`broken`); of a replay: `who` made it, and `why`. On the table, and on a replay's marks.
        adopted: of an adoption: the table had rows already which no receipt tells of, and the pipeline goes on behind
            them, at the commit's offsets. The `version` that was looked at; the `rows` it had, and how many of them
            are `without` coordinates; `how` the offsets were told, and by `who`.
        remaining: of a backfill: how many offsets it has still to take behind this batch.
        read_from: where the records were not read from Kafka: the table, and the version up to which was looked at what
            came into it below the frontier (see `ingest.bronze`).
        late: of late records: offsets that they lie within, all of them below the frontier.
        dropped_topics: of a run: topic → topic id of topics that the file no longer names, which was accepted, and
            whose frontier is still in the commit's offsets.
        moved: of a replay into a table of mode upsert: the records that it takes out of quarantine. There rows do not
            stay, so that none of them is known by its row.
    """

    name: Literal["run", "late", "backfill", "replay", "adoption", "export"] = "run"
    gaps: OffsetRanges = NO_RANGES
    accepted: Mapping[str, Any] = field(default_factory=dict)
    adopted: Mapping[str, Any] = field(default_factory=dict)
    remaining: int | None = None
    read_from: Mapping[str, Any] = field(default_factory=dict)
    late: OffsetRanges = NO_RANGES
    dropped_topics: Mapping[str, str] = field(default_factory=dict)
    moved: OffsetLists = NO_OFFSETS

    def to_json(self) -> dict[str, Any]:
        always = {"name": self.name}
        return always | _filled(
            gaps=self.gaps.to_json(),
            accepted=dict(self.accepted),
            adopted=dict(self.adopted),
            remaining=self.remaining,
            read_from=dict(self.read_from),
            late=self.late.to_json(),
            dropped_topics=dict(self.dropped_topics),
            moved=self.moved.to_json(),
        )

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> JobFields:
        ranges = {name: OffsetRanges.from_json(tree.get(name, {})) for name in ("gaps", "late")}
        return cls(**{**tree, **ranges, "moved": OffsetLists.from_json(tree.get("moved", {}))})


@dataclass(frozen=True)
class Receipt:
    """What a commit says of itself.

    Attributes:
        pipeline: the pipeline's name; its backfills and replays have names of their own (`of_backfill`, `of_replay`).
        sequence: 1, 2, 3, … for each batch of the pipeline in this table; quarantine bears the batch's own.
        run: who wrote it.
        cluster: id of the Kafka cluster.
        topics: topic → topic id.
        ranges: the offsets that were consumed, and so the frontier.
        quarantine: where the pipeline's refused records are.
        job: what made the commit.
        account: what became of the records; on quarantine only, as the table's commit is written before that is known;
            in mode upsert on both.
        ledger: digest of the ledger of schemas, this batch's included; on the table only.
        schemas: that ledger, if this batch changed it; else a table property keeps it (see table_properties.py).
        base: the version of the receipt's own table when the batch was decided, if it was known.
        aside: the number of the newest commit to quarantine then, 0 for none; on the table only. None if an older
            version wrote it. Where quarantine has no such commit any more, a RESTORE took it back, or it was made anew.
        before: the sums of the batch before this one, which were not known when its own receipt was written; on the
            table only. None before the first batch, and where an older version wrote it.
        log_ends: of a database's change events, how far its log is known behind the batch; on the table only.
    """

    pipeline: str
    sequence: int
    run: Run
    cluster: str
    topics: Mapping[str, str]
    ranges: OffsetRanges
    quarantine: str
    job: JobFields = JobFields()
    account: Account | None = None
    ledger: str = ""
    schemas: SchemaLedger = field(default_factory=SchemaLedger)
    base: int | None = None
    aside: int | None = None
    before: BatchSums | None = None
    log_ends: LogEnds = NO_ENDS

    @property
    def batch(self) -> int:
        """The number of the batch that the commit is about."""
        return (self.account and self.account.settles) or self.sequence

    @property
    def all_topics(self) -> dict[str, str]:
        """Topic → topic id, also of those that the file no longer names."""
        return {**self.job.dropped_topics, **self.topics}

    def whole(self, rows: int) -> bool:
        """Whether so many rows in the table are one for each offset of the batch, so that quarantine has none of it."""
        return not self.job.late.ranges and rows == self.ranges.offsets

    def to_json(self) -> str:
        """The text that is the commit's userMetadata."""
        ledger = self.schemas.to_json() if self.schemas.entries else {}
        always: dict[str, Any] = {
            "lakeingest": FORM,
            "pipeline": self.pipeline,
            "sequence": self.sequence,
            "run": vars(self.run),
            "cluster": self.cluster,
            "topics": dict(self.topics),
            "offsets": self.ranges.to_json(),
            "quarantine": self.quarantine,
            "job": self.job.to_json(),
        }
        tree = always | _filled(
            account=self.account and self.account.to_json(),
            schemas=_filled(digest=self.ledger or None) | ledger,
            decided=_filled(version=self.base, account=self.aside),
            before=self.before and self.before.to_json(),
            log_ends=self.log_ends.to_json(),
        )
        return json.dumps(tree, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> Receipt | None:
        """None where the text is no receipt: other tools write userMetadata too.

        Raises:
            TableMismatch: a newer lakeingest wrote it; taken for none, its batch would be read again.
        """
        try:
            tree = json.loads(text or "null")
        except ValueError:
            return None
        form = tree.get("lakeingest") if isinstance(tree, dict) else None
        if not isinstance(form, int) or isinstance(form, bool) or form < 1:
            return None
        if form > FORM:
            raise TableMismatch(
                f"the table's log has a receipt of form {form}, and this lakeingest knows forms up to {FORM}",
                cure="a newer lakeingest has written to the table: use that version, or a later one",
            )
        return cls._of_tree(_form_2(tree) if form == 1 else tree)

    @classmethod
    def _of_tree(cls, tree: Mapping[str, Any]) -> Receipt:
        schemas, decided = tree.get("schemas", {}), tree.get("decided", {})
        return cls(
            pipeline=tree["pipeline"],
            sequence=tree["sequence"],
            run=Run(**tree["run"]),
            cluster=tree["cluster"],
            topics=tree["topics"],
            ranges=OffsetRanges.from_json(tree["offsets"]),
            quarantine=tree["quarantine"],
            job=JobFields.from_json(tree["job"]),
            account=Account.from_json(tree["account"]) if "account" in tree else None,
            ledger=schemas.get("digest", ""),
            schemas=SchemaLedger.from_json(schemas),
            base=decided.get("version"),
            aside=decided.get("account"),
            before=BatchSums.from_json(tree["before"]) if "before" in tree else None,
            log_ends=LogEnds.from_json(tree.get("log_ends", {})),
        )


def _filled(**values: Any) -> dict[str, Any]:
    """Those that say something."""
    return {name: value for name, value in values.items() if value is not None and value != {}}


def _form_2(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A receipt of form 1, which had all fields beside each other, in form 2."""
    same = ("pipeline", "sequence", "run", "cluster", "topics", "offsets", "quarantine")
    of_job = {name: tree[name] for name in ("accepted", "adopted", "remaining", "read_from", "late") if name in tree}
    of_job |= _filled(dropped_topics=tree.get("left"))
    of_account = {name: tree[name] for name in ("counts", "left_out", "lost", "settles", "open") if name in tree}
    has_account = "counts" in tree
    if "gaps" in tree:
        (of_account if has_account else of_job)["gaps"] = tree["gaps"]
    return {
        **{name: tree[name] for name in same},
        "job": {"name": _job_of_form_1(tree), **of_job},
        **({"account": of_account} if has_account else {}),
        "schemas": _filled(digest=tree.get("ledger")) | tree.get("schemas", {}),
        "decided": _filled(version=tree.get("base"), account=tree.get("aside")),
    }


def _job_of_form_1(tree: Mapping[str, Any]) -> str:
    if "adopted" in tree:
        return "adoption"
    return "late" if "late" in tree else tree["pipeline"].partition(":")[2] or "run"
