"""The conservation proof: every consumed offset is in the table, in quarantine, or a declared drop, exactly once.

It needs nothing but the two tables, and the list of what was taken out of them. The log says which offsets were
consumed, commit by commit; a commit that has a row for each of its offsets proves itself, any other is accounted for by
quarantine's commit of the same sequence number, which counts what was consumed, refused and dropped. The rows'
coordinates say what is really there, as far as the log does not say so itself (see `log_proof`); and where not all
offsets are records, the sums that were committed say which rows of a batch have to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lakeingest.config import PipelineConfig
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.reader.contract import Condition, TableReader, View
from lakeingest.delta.receipt import Counts
from lakeingest.delta.unsettled import Unsettled
from lakeingest.errors import number_of
from lakeingest.ingest import preflight
from lakeingest.operations import batch_sums, latest_audit, log_proof
from lakeingest.operations.coordinate_runs import REMOVED, CoordinateRuns, Kind
from lakeingest.operations.log_proof import LogProof
from lakeingest.operations.readers import PipelineReader
from lakeingest.operations.results.audit import Report
from lakeingest.record import COORDINATES, TOPIC, Frontier, OffsetRange, OffsetRanges

if TYPE_CHECKING:
    from lakeingest.delta.reader.log import DataFile

NAMED = 20
"""Most coordinates that a report names of each kind."""


def audit(reader: PipelineReader, *, deep: bool = False, proved: Collection[int] = frozenset()) -> Report:
    """Prove the pipeline's conservation, or say what is missing or double.

    Args:
        deep: whether to read the coordinates of every row, of files too whose rows the log tells (see `log_proof`).
        proved: versions of commits whose receipts' sums need not be computed again.

    Raises:
        StorageUnreachable: a table cannot be read.
        TableMismatch: which records its rows are is not known: it has to be adopted.
    """
    log, refused = reader.commit_logs(back=None)
    preflight.check_still_adopted(reader.config, log)
    unsettled, upserts = reader.unsettled(), reader.config.table.upserts
    prove = LogProof.none if deep or upserts else partial(log_proof.of, reader, proved=proved)
    proof = prove(log.since_adoption, refused)
    report = of_logs(
        reader.config,
        log,
        refused,
        lambda consumed: _runs(reader, consumed, unsettled, proof),
        lambda: _without(reader.main, proof.rest),
        proof=proof,
    )
    if upserts:
        consumed = ConsumedRanges.of(log.since_adoption).whole
        return latest_audit.of(report, reader, log, _accepted(log, refused), consumed)
    return report


def _accepted(log: CommitLog, refused: CommitLog) -> int:
    """How many records the batches accepted."""
    return (_Accounts.of_run(log, refused) + _Accounts.of_backfills(log, refused)).counts.accepted


@dataclass(frozen=True)
class ConsumedRanges:
    """What the log says was consumed.

    Attributes:
        whole: from the first offset that the log knows of to the frontier, and what backfills took; merged.
        begins: (topic, partition) → that first offset. What lies before it, and no backfill took, was consumed before
            the oldest commit that the log remembers, or never.
    """

    whole: OffsetRanges
    begins: Frontier

    @classmethod
    def of(cls, log: CommitLog) -> ConsumedRanges:
        of_batches = _whole(log)
        backfilled = (s for commit in log.backfills for s in commit.receipt.ranges)
        whole = OffsetRanges((*of_batches.ranges, *backfilled)).merged
        return cls(whole, {(s.topic, s.partition): s.start for s in of_batches})


def of_logs(
    config: PipelineConfig,
    log: CommitLog,
    refused: CommitLog,
    runs_of: Callable[[ConsumedRanges], CoordinateRuns],
    without_coordinates: Callable[[], int],
    *,
    proof: LogProof,
) -> Report:
    """The audit, of what was read.

    Args:
        log, refused: all that the pipeline, and its backfills, committed to the table and to quarantine.
        runs_of: gives the rows' coordinates, where the log says what was consumed.
        without_coordinates: counts the table's rows that have none.
        proof: what the log alone tells of the table's rows.
    """
    adopted, log = dict(log.adopted), log.since_adoption
    topics = {*config.source.topics, *(s.topic for commit in log.commits for s in commit.receipt.ranges)}
    by_backfill, accounts = _Accounts.of_backfills(log, refused), _Accounts.of_run(log, refused)
    from_log, accounts = ConsumedRanges.of(log), accounts + by_backfill
    runs = runs_of(from_log)
    counts = runs.counts(accounts.unknown, accounts.accepted)
    unproved_batches = [batch for batch in proof.summed if batch.commit.version not in proof.batches]
    # What was not read again since Kafka had deleted it may be there all the same, from before a RESTORE.
    consumed = accounts.counts.consumed + counts["skipped"]
    lost = accounts.accepted.offsets + accounts.lost - counts["skipped"]
    missing = consumed - accounts.counts.dropped - counts["distinct_offsets"]
    # What the clean-up of quarantine's log leaves open is neither missing nor proved to be no record.
    unproved = min(max(missing, 0), accounts.unknown.offsets - counts["unknown"])
    # Who writes rows without coordinates to a table that was adopted is the job that wrote it before.
    without = without_coordinates() if adopted else 0
    strange = max(0, without - adopted.get("without", 0))
    removed: dict[str, int] = {kind: counts[kind] for kind in REMOVED}
    duplicated = counts["in_table"] + counts["in_quarantine"] + sum(removed.values()) - counts["distinct_offsets"]
    places = _places(runs, missing=missing - unproved, doubtful=duplicated + counts["unexpected"])
    if strange:
        places.setdefault("unexpected", []).append(
            f"{number_of(strange, 'row')} without coordinates, added since the adoption"
        )
    every = (commit.receipt.account for commit in (*refused.commits, *refused.backfills))
    settled = (s for account in every if account for s in account.gaps)
    if accepted := [*accounts.accepted, *settled]:
        places["lost"] = [_hole(s.topic, s.partition, s.start, s.end) for s in sorted(accepted)]
    return Report(
        pipeline=config.name,
        consumed=consumed - unproved,
        table=counts["in_table"],
        quarantine=counts["in_quarantine"],
        dropped=accounts.counts.dropped,
        left_out=dict(accounts.left_out),
        missing=missing - unproved,
        duplicated=duplicated,
        unexpected=counts["unexpected"] + strange,
        gaps=from_log.whole.offsets - lost - consumed,
        lost=lost,
        unproved=unproved,
        earlier=counts["earlier"] + without - strange,
        commits=len(log.commits),
        backfills=len(log.backfills),
        backfilled=by_backfill.counts.consumed,
        others={name: receipt.sequence for name, receipt in log.others_of(topics).items()},
        adopted=adopted,
        breaks=tuple(_breaks(log)),
        named=places,
        removed=removed,
        returned=counts["returned"],
        deleted=_deletes(log, refused) if missing - unproved > 0 else (),
        summed=len(proof.summed),
        altered=(*proof.replaced, *batch_sums.differences(runs, unproved_batches)),
        files_by_log=proof.files,
        files_read=None if proof.rest is None else len(proof.rest),
        frontier=_by_name(log.frontier),
        begins=_by_name(from_log.begins),
        batches=tuple(sorted(proof.batches)),
    )


def _deletes(*logs: CommitLog) -> tuple[str, ...]:
    return tuple(f"{log.path}: {deletion}" for log in logs for deletion in log.deletes)


@dataclass(frozen=True)
class _Accounts:
    """What the table's commits consumed, all together.

    Attributes:
        took: their offsets.
        accepted: those whose loss was accepted before a batch.
        lost: how many of a batch's own offsets were lost.
        unknown: the offsets of commits whose account is no longer in quarantine's log.
    """

    counts: Counts
    left_out: Counter[str]
    took: OffsetRanges
    accepted: OffsetRanges
    lost: int
    unknown: OffsetRanges

    @classmethod
    def of_run(cls, log: CommitLog, refused: CommitLog) -> _Accounts:
        """Of the pipeline's own commits."""
        return cls.of(log.commits, refused.commits, refused.last_sequence, complete=refused.complete)

    @classmethod
    def of_backfills(cls, log: CommitLog, refused: CommitLog) -> _Accounts:
        """Of its backfills'. Quarantine's log tells the pipeline's last number also where clean-up took receipts, and
        not theirs.
        """
        last = max((commit.receipt.sequence for commit in log.backfills), default=0)
        return cls.of(log.backfills, refused.backfills, last, complete=refused.complete)

    @classmethod
    def of(cls, commits: Sequence[Commit], accounts: Sequence[Commit], last: int, *, complete: bool) -> _Accounts:
        """`accounts`: quarantine's commits; `last`: the newest number that it had; `complete`: whether all are left."""
        by_batch = {commit.receipt.batch: commit.receipt.account for commit in accounts}
        oldest = min(by_batch, default=last + 1)
        counts, left_out, unknown, lost = Counts(), Counter[str](), list[OffsetRange](), 0
        for commit in commits:
            receipt = commit.receipt
            account = None if receipt.whole(commit.rows) else by_batch.get(receipt.sequence)
            if account is not None:
                counts += account.counts
                left_out.update(account.left_out)
                lost += account.lost
                continue
            # Without an account nothing but whole offsets can be vouched for: what is not there shows as missing.
            counts += Counts(receipt.ranges.offsets or commit.rows, commit.rows)
            if not (receipt.whole(commit.rows) or complete) and receipt.sequence < oldest:
                unknown += receipt.ranges
        took = OffsetRanges(tuple(s for commit in commits for s in commit.receipt.ranges))
        accepted = OffsetRanges(tuple(s for commit in commits for s in commit.receipt.job.gaps))
        return cls(counts, left_out, took, accepted, lost, OffsetRanges(tuple(unknown)))

    def __add__(self, other: _Accounts) -> _Accounts:
        """Both, where the other one's took what this one's had accepted as lost."""
        return _Accounts(
            self.counts + other.counts,
            self.left_out + other.left_out,
            OffsetRanges((*self.took, *other.took)),
            self.accepted.without(other.took),
            self.lost + other.lost,
            OffsetRanges((*self.unknown, *other.unknown)),
        )


def _whole(log: CommitLog) -> OffsetRanges:
    """From the first offset that the log knows of to the frontier, for each topic-partition.

    What came late into the table that this one is fed from may lie before it; where the log is not whole, rows that it
    has forgotten would be taken for such ones.
    """
    ends = log.frontier
    starts: dict[tuple[str, int], int] = {}
    for commit in log.commits:
        # A gap before the oldest commit that is left is counted as lost.
        late = commit.receipt.job.late if log.complete else ()
        for s in (*commit.receipt.job.gaps, *commit.receipt.ranges, *late):
            starts[s.topic, s.partition] = min(s.start, starts.get((s.topic, s.partition), s.start))
    return OffsetRanges(tuple(OffsetRange(*tp, start, ends.get(tp, start)) for tp, start in sorted(starts.items())))


def _breaks(log: CommitLog) -> Iterator[str]:
    """Each commit must begin where the one before it ended, in the table that it was decided for."""
    reached: dict[tuple[str, int], int] = {}
    for commit in sorted(log.commits, key=_sequence):
        if commit.begins_anew:
            yield f"before commit {commit.receipt.sequence} the table was deleted, with all that it held"
        for s in (*commit.receipt.job.gaps, *commit.receipt.ranges):
            if s.end < s.start:
                yield f"commit {commit.receipt.sequence} goes back: {s.topic}-{s.partition} from {s.start} to {s.end}"
            end = reached.get((s.topic, s.partition), s.start)
            if s.start != end:
                verb = "jumps over" if s.start > end else "takes again"
                low, high = sorted((s.start, end))
                yield f"commit {commit.receipt.sequence} {verb} {s.topic}-{s.partition} offsets {low} to {high - 1}"
            reached[s.topic, s.partition] = s.end
    consumed = OffsetRanges(tuple(s for commit in log.commits for s in commit.receipt.ranges))
    for commit in sorted(log.backfills, key=_sequence):
        again = commit.receipt.ranges.shared(consumed)
        if again.ranges:
            yield f"batch {commit.receipt.sequence} of a backfill takes again {again}"
        consumed = OffsetRanges((*consumed, *commit.receipt.ranges)).merged


def _sequence(commit: Commit) -> int:
    return commit.receipt.sequence


def _runs(reader: PipelineReader, consumed: ConsumedRanges, unsettled: Unsettled, proof: LogProof) -> CoordinateRuns:
    """The coordinates of the pipeline's rows in both tables."""
    config = reader.config
    topics = sorted(
        {*(topic for topic, _ in consumed.begins), *(s.topic for s in consumed.whole)} or config.source.topics
    )
    of_topics: Condition = (TOPIC, "in", topics)
    refused: list[Condition] = [of_topics, ("pipeline", "=", config.known_as)]
    runs: list[tuple[Kind, View]] = [
        *(("in_table", view) for view in _of_table(reader.main, of_topics, proof)),
        ("in_quarantine", reader.quarantine.runs([*refused, ("moved", "null", None)])),
        *(("moved", reader.replayed(replay, [of_topics])) for replay in unsettled.moved),
    ]
    if unsettled.standing is not None:
        # What a RESTORE took out of the table is in quarantine again, once the next run or replay has begun.
        runs.append(("restored", reader.quarantine.runs([*refused, ("moved.replay", ">", unsettled.standing)])))
    removed = removed_runs(reader, topics)
    return CoordinateRuns(reader.main.query, runs, consumed.whole, consumed.begins, removed)


def removed_runs(reader: PipelineReader, topics: Sequence[str]) -> View | None:
    """What was taken out of the pipeline's tables: `_topic, _partition, low, high, reason`; None for nothing."""
    if not reader.removals.exists:
        return None
    return reader.removals.rows([("pipeline", "=", reader.config.known_as), (TOPIC, "in", topics)])


def _of_table(table: TableReader, of_topics: Condition, proof: LogProof) -> Iterator[View]:
    if proof.files:
        yield proof.runs
    if proof.rest or not proof.files:
        yield table.runs([of_topics], files=proof.rest)


def _without(table: TableReader, files: Sequence[DataFile] | None) -> int:
    """How many rows of a table, or of these of its files, have no coordinates."""
    nulls = " OR ".join(f"{name} IS NULL" for name in COORDINATES)
    return int(table.scan(f"SELECT count(*) AS rows FROM {{rows}} WHERE {nulls}", files=files)[0]["rows"])


def _places(runs: CoordinateRuns, *, missing: int, doubtful: int) -> dict[str, list[str]]:
    """The first coordinates of each kind, looked for only where there are some."""
    places = {}
    if doubtful:
        places = {
            "duplicated": [_place(*each) for each in runs.double(NAMED)],
            "unexpected": [_place(*each) for each in runs.stray(NAMED)],
        }
    if missing:
        places["missing"] = [_hole(*each) for each in runs.holes(NAMED)]
    return {kind: names for kind, names in places.items() if names}


def _by_name(offsets: Frontier) -> dict[str, int]:
    return {f"{topic}-{partition}": offset for (topic, partition), offset in sorted(offsets.items())}


def _place(topic: str, partition: int, offset: int) -> str:
    """A coordinate, as a report names it."""
    return f"{topic}-{partition} offset {offset}"


def _hole(topic: str, partition: int, start: int, end: int) -> str:
    """Offsets from `start` to before `end`, as a report names them."""
    return f"{topic}-{partition} offsets {start} to {end - 1}"
