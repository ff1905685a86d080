"""Holds the sums that receipts have of batches' coordinates against their offsets, and against the rows.

A batch that took every offset that it names is proved by the logs alone: its sums are those of its offsets. Where some
offsets are no record, or were dropped, no receipt says which; then the rows of both tables within its offsets have to
have the sums that were committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeingest.delta import range_sums, sums
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.sums import BatchSums, Sums
from lakeingest.record import PARTITION, TOPIC, OffsetRange, in_order

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeingest.operations.coordinate_runs import CoordinateRuns

_NAMED = 5
"""Most topic-partitions that are named of a batch."""


@dataclass(frozen=True)
class Summed:
    """A batch whose sums are known.

    Attributes:
        name: what a report calls it.
        table, quarantine: the sums of what each took of it.
    """

    name: str
    commit: Commit
    table: Sums
    quarantine: Sums

    @property
    def committed(self) -> Sums:
        """Of both together."""
        return self.table + self.quarantine

    @property
    def is_whole(self) -> bool:
        """Whether each of its offsets is a row of one of the tables."""
        return self.committed.rows == self.commit.receipt.ranges.offsets

    def difference(self, other: Sums) -> str | None:
        """What is wrong if the batch has other sums, of its offsets where it is whole, else of the rows that are there;
        None if nothing is.
        """
        if other == self.committed:
            return None
        parts = self.committed.differs_at(other)
        ranges = [s for s in self.commit.receipt.ranges if s.end > s.start]
        places = [f"{s.topic}-{s.partition}" for s in ranges if not parts or s.partition % sums.PARTS in parts]
        where = " or ".join(places[:_NAMED]) + (f" or {len(places) - _NAMED} more" if len(places) > _NAMED else "")
        now = f"{other.rows:,} are there" if other.rows != self.committed.rows else "as many others are there"
        now = "not those of its offsets" if self.is_whole else now
        name = f"{self.name} (version {self.commit.version}, {where})"
        return f"{name}: {self.committed.rows:,} rows were committed, and {now}"


def with_sums(log: CommitLog, refused: CommitLog) -> list[Summed]:
    """The pipeline's batches, and its backfills', whose sums are known; not those that share offsets with others."""
    batches = [
        *_with_sums("batch", log.commits, log.undone_accounts.values(), refused.commits),
        *_with_sums("batch of a backfill", log.backfills, (), refused.backfills),
    ]
    every = [*log.commits, *log.backfills]
    shared = _shared([s for commit in every for s in (*commit.receipt.ranges, *commit.receipt.job.late)])
    return [batch for batch in batches if not any(s in shared for s in batch.commit.receipt.ranges)]


def _with_sums(
    kind: str, commits: Sequence[Commit], undone: Iterable[Any], refused: Sequence[Commit]
) -> Iterator[Summed]:
    accounts = {commit.receipt.batch: commit.receipt.account for commit in refused}
    earlier = [commit.receipt.before for commit in commits] + [receipt.before for receipt in undone]
    by_batch: dict[int, BatchSums] = {each.sequence: each for each in earlier if each is not None}
    for commit in commits:
        receipt = commit.receipt
        each, account = by_batch.get(receipt.sequence), accounts.get(receipt.sequence)
        table = each.table if each else account.table if account else None
        quarantine = each.quarantine if each else None
        if quarantine is None and account is not None and not account.counts.refused:
            quarantine = Sums()
        if table is None or quarantine is None or not receipt.ranges.offsets:
            continue
        # Another account than the one of its time may have found more, or fewer.
        refusals = 0 if account is None else account.counts.refused
        if (table.rows, quarantine.rows) == (commit.rows, refusals):
            yield Summed(f"{kind} {receipt.sequence}", commit, table, quarantine)


def _shared(ranges: Iterable[OffsetRange]) -> set[OffsetRange]:
    """Those ranges that share offsets with another one."""
    shared, widest = set[OffsetRange](), None
    for each in sorted((s for s in ranges if s.end > s.start), key=in_order):
        if widest and (widest.topic, widest.partition) == (each.topic, each.partition) and each.start < widest.end:
            shared |= {widest, each}
            widest = max(widest, each, key=lambda s: s.end)
        else:
            widest = each
    return shared


def differences(runs: CoordinateRuns, batches: Sequence[Summed]) -> Iterator[str]:
    """What is wrong with the batches' sums."""
    whole = [batch for batch in batches if batch.is_whole]
    for batch, of_offsets in zip(whole, range_sums.of([batch.commit.receipt.ranges for batch in whole]), strict=True):
        if difference := batch.difference(of_offsets):
            yield difference
    with_holes = [batch for batch in batches if not batch.is_whole]
    by_rows = runs.sums_of_rows(_view(with_holes)) if with_holes else {}
    for at, batch in enumerate(with_holes):
        if difference := batch.difference(by_rows.get(at, Sums())):
            yield difference


def _view(batches: Sequence[Summed]) -> pa.Table:
    """The ranges of batches, with what their numbers are made of."""
    import pyarrow as pa

    kinds = {"batch": pa.int64(), TOPIC: pa.string(), PARTITION: pa.int32()}
    kinds |= dict.fromkeys(("low", "high", "seed_1", "seed_2", "factor"), pa.int64())
    rows = [
        (at, s.topic, s.partition, s.start, s.end, *sums.seeds(s.topic, s.partition), sums.factor(s.partition))
        for at, batch in enumerate(batches)
        for s in batch.commit.receipt.ranges
        if s.end > s.start
    ]
    return pa.Table.from_pylist([dict(zip(kinds, row, strict=True)) for row in rows], pa.schema(list(kinds.items())))
