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
from typing import Any

from lakeingest.errors import TableMismatch
from lakeingest.record import OffsetRanges
from lakeingest.schema.ledger import SchemaLedger

FORMAT = 1
"""Version of the receipt's form; a reader refuses what is newer."""
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
        left_out: on quarantine only: name of a condition of transform.where → the dropped records that did not meet it.
        left: topic → topic id of topics that the file no longer names, and whose frontier is still in `spans`.
        ledger: digest of the ledger of schemas, this batch's included; on the table only.
        schemas: that ledger, if this batch changed it; else a table property keeps it (see kept.py).
        gaps: offsets that Kafka had deleted before they were taken, and whose loss was accepted: on the table, before
            `spans`; on quarantine, where a batch was settled too late, those of `spans` that could not be read again.
        lost: how many offsets of these gaps are in neither table; on quarantine only.
        base: the version of the receipt's own table when the batch was decided, if it was known.
        aside: the number of the newest commit to quarantine then, 0 for none; on the table only. None if an older
            version wrote it. Where quarantine has no such commit any more, a RESTORE took it back, or it was made anew.
        settles: the batch that this commit accounts for, where that is not `sequence`; on quarantine only.
        open: where several batches have no account any more: how many are left behind this one; on quarantine only.
        read_from: where the records were not read from Kafka: the table, and the version up to which was looked at what
            came into it below the frontier (see `ingest.bronze`).
        late: of a batch that took such records: offsets that they lie within, all of them below the frontier.
        accepted: who let a held batch through, why, and which expectations it breaks; on the table only.
        remaining: of a backfill: how many offsets it has still to take behind this batch; None for any other.
        adopted: on the table only, of a commit that consumes nothing: the table held rows already which no receipt
            tells of, and the pipeline goes on behind them, at `spans`. The `version` that was looked at; the `rows` it
            had, and how many of them are `without` coordinates; `how` the offsets were told, and by whom (`who`).
    """

    pipeline: str
    sequence: int
    run: Run
    cluster: str
    topics: Mapping[str, str]
    ranges: OffsetRanges
    quarantine: str
    counts: Counts | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)
    ledger: str = ""
    schemas: SchemaLedger = field(default_factory=SchemaLedger)
    gaps: OffsetRanges = field(default_factory=lambda: OffsetRanges(()))
    accepted: Mapping[str, Any] = field(default_factory=dict)
    adopted: Mapping[str, Any] = field(default_factory=dict)
    lost: int = 0
    settles: int = 0
    open: int = 0
    base: int | None = None
    aside: int | None = None
    remaining: int | None = None
    read_from: Mapping[str, Any] = field(default_factory=dict)
    late: OffsetRanges = field(default_factory=lambda: OffsetRanges(()))

    @property
    def batch(self) -> int:
        """The number of the batch that the commit is about."""
        return self.settles or self.sequence

    def whole(self, rows: int) -> bool:
        """Whether so many rows in the table are one for each offset of the batch, so that quarantine has none of it."""
        return not self.late.ranges and rows == self.ranges.offsets

    def to_json(self) -> str:
        data: dict[str, Any] = {
            "lakeingest": FORMAT,
            "pipeline": self.pipeline,
            "sequence": self.sequence,
            "run": vars(self.run),
            "cluster": self.cluster,
            "topics": dict(self.topics),
            "offsets": self.ranges.to_json(),
            "quarantine": self.quarantine,
        }
        rarely = {
            "counts": self.counts and vars(self.counts),
            "left_out": dict(self.left_out),
            "left": dict(self.left),
            "ledger": self.ledger or None,
            "schemas": self.schemas.to_json() if self.schemas.entries else None,
            "gaps": self.gaps.to_json(),
            "accepted": dict(self.accepted),
            "adopted": dict(self.adopted),
            "lost": self.lost or None,
            "settles": self.settles or None,
            "open": self.open or None,
            "base": self.base,
            "aside": self.aside,
            "remaining": self.remaining,
            "read_from": dict(self.read_from),
            "late": self.late.to_json(),
        }
        data |= {name: value for name, value in rarely.items() if value is not None and value != {}}
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
            ranges=OffsetRanges.from_json(data["offsets"]),
            quarantine=data["quarantine"],
            counts=Counts(**data["counts"]) if "counts" in data else None,
            left_out=data.get("left_out", {}),
            left=data.get("left", {}),
            ledger=data.get("ledger", ""),
            schemas=SchemaLedger.from_json(data.get("schemas", {})),
            gaps=OffsetRanges.from_json(data.get("gaps", {})),
            accepted=data.get("accepted", {}),
            adopted=data.get("adopted", {}),
            lost=data.get("lost", 0),
            settles=data.get("settles", 0),
            open=data.get("open", 0),
            base=data.get("base"),
            aside=data.get("aside"),
            remaining=data.get("remaining"),
            read_from=data.get("read_from", {}),
            late=OffsetRanges.from_json(data.get("late", {})),
        )
