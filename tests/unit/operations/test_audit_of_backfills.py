"""What the receipts of a pipeline and of its backfills add up to, held against sets of offsets."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from lakeingest.config import file
from lakeingest.delta import commit_log, sums
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.reader import duck
from lakeingest.delta.receipt import Account, Counts, JobFields, Receipt, Run, of_backfill
from lakeingest.delta.sums import BatchSums, Sums
from lakeingest.operations import audit, batch_sums
from lakeingest.operations.audit import ConsumedRanges
from lakeingest.operations.coordinate_runs import CoordinateRuns
from lakeingest.operations.log_proof import LogProof
from lakeingest.operations.results.audit import Report
from lakeingest.record import OffsetRange, OffsetRanges

RUNS = pa.schema([("_topic", pa.string()), ("_partition", pa.int32()), ("low", pa.int64()), ("high", pa.int64())])
CONFIG = file.from_mapping(
    {
        "name": "p",
        "source": {"topics": ["t"], "bootstrap_servers": "h:1"},
        "table": {"path": "/t"},
        "schema": {"columns": "n INT"},
    }
)


class NoRestores:
    identifier = "/t"

    def restored_to(self, restore: Mapping[str, Any], oldest: int) -> int:
        raise AssertionError


class Restores:
    identifier = "/t"

    def restored_to(self, restore: Mapping[str, Any], oldest: int) -> int:
        return int(restore["operationParameters"]["version"])


class Tables:
    """Two tables' logs and rows; every seventh offset is refused, every eleventh dropped."""

    def __init__(self) -> None:
        self.main, self.accounts = list[dict[str, Any]](), list[dict[str, Any]]()
        self.table, self.refused = Counter[int](), Counter[int]()
        self.consumed = set[int]()
        self.numbers = Counter[str]()
        self.sums = dict[str, BatchSums]()

    def take(self, name: str, start: int, end: int, gap: int = 0, holes: Collection[int] = ()) -> None:
        """Commit a batch; before it lies a gap that was accepted, and some of its offsets are no records."""
        self.numbers[name] += 1
        each = [o for o in range(start, end) if o not in holes]
        refused = [o for o in each if o % 7 == 0 and o not in self.consumed]
        dropped = [o for o in each if o % 11 == 0 and o % 7]
        rows = [o for o in each if o % 7 and o % 11 and o not in self.consumed]
        gaps = OffsetRanges((OffsetRange("t", 0, start - gap, start),) if gap else ())
        ranges = OffsetRanges((OffsetRange("t", 0, start, end),))
        receipt = Receipt(name, self.numbers[name], Run(), "c", {"t": ""}, ranges, "/q", JobFields(gaps=gaps))
        self._commit(self.main, replace(receipt, before=self.sums.get(name)), len(rows))
        of_table, of_refused = (sums.of([("t", 0, o) for o in taken]) for taken in (rows, refused))
        known = len([o for o in each if o in self.consumed])
        self.sums[name] = BatchSums(receipt.sequence, of_table, None if known else of_refused)
        if len(rows) < end - start:
            counts = Counts(len(rows) + len(refused) + len(dropped), len(rows), len(refused), len(dropped))
            account = Account(counts, table=of_table)
            self._commit(self.accounts, replace(receipt, job=JobFields(), account=account), len(refused))
        self.table.update(rows)
        self.refused.update(refused)
        self.consumed |= {*each}

    @staticmethod
    def _commit(log: list[dict[str, Any]], receipt: Receipt, rows: int) -> None:
        metrics = {"numOutputRows": str(rows)}
        entry = {"version": len(log), "timestamp": datetime.now(UTC), "operation": "WRITE", "operationParameters": {}}
        log.insert(0, {**entry, "operationMetrics": metrics, "userMetadata": receipt.to_json()})

    def audit(self) -> Report:
        def runs(consumed: ConsumedRanges) -> CoordinateRuns:
            each = {"in_table": self.table, "in_quarantine": self.refused}
            views = [(kind, runs_of(offsets)) for kind, offsets in each.items()]
            return CoordinateRuns(duck.query, views, consumed.whole, consumed.begins)

        logs = log(self.main), log(self.accounts)
        return audit.of_logs(CONFIG, *logs, runs, lambda: 0, proof=LogProof.none(*logs))


def runs_of(offsets: Counter[int]) -> pa.Table:
    """Each row is a run of its own."""
    rows = [{"_topic": "t", "_partition": 0, "low": offset, "high": offset + 1} for offset in offsets.elements()]
    return pa.Table.from_pylist(rows, RUNS)


def log(history: Sequence[Mapping[str, Any]], pipeline: str = "p", *, restores: bool = False) -> CommitLog:
    return commit_log.of_history(pipeline, history, Restores() if restores else NoRestores())


def _length(entry: Mapping[str, Any]) -> int:
    receipt = Receipt.from_json(entry["userMetadata"])
    return receipt.ranges.offsets if receipt else 0


def offsets(ranges: OffsetRanges) -> set[int]:
    return {o for s in ranges for o in range(s.start, s.end)}


@pytest.mark.parametrize("seed", range(60))
def test_all_is_added_up(seed: int) -> None:
    """A pipeline with gaps begins anywhere, and backfills take what it has not, in any order and beside it."""
    dice, tables = random.Random(seed), Tables()
    begin = frontier = dice.randrange(40)
    for _ in range(dice.randrange(1, 9)):
        gap = dice.choice((0, 0, 6))
        length = dice.randrange(12)
        tables.take("p", frontier + gap, frontier + gap + length, gap)
        frontier += gap + length
        free = [o for o in range(frontier) if o not in tables.consumed]
        if free and dice.random() < 0.7:
            start = dice.choice(free)
            most = min(frontier, start + 5)
            end = next((o for o in range(start, most) if o in tables.consumed), most)
            tables.take(of_backfill("p"), start, end)
    report = tables.audit()
    dropped = {o for o in tables.consumed if o % 11 == 0 and o % 7}
    assert report.conserved, report
    assert (report.consumed, report.dropped, report.gaps) == (len(tables.consumed), len(dropped), 0)
    assert (report.table, report.quarantine) == (tables.table.total(), tables.refused.total())
    assert report.lost == len([o for o in range(begin, frontier) if o not in tables.consumed])
    assert report.commits + report.backfills == len(tables.main)
    assert report.summed >= len(tables.main) - 2 - sum(not end for end in map(_length, tables.main))

    some = dice.choice(sorted(tables.table + tables.refused or [0]))
    rows = tables.table if tables.table[some] else tables.refused
    rows[some] += 1
    assert tables.audit().duplicated == (1 if some in tables.consumed else 0)
    rows[some] -= 2
    assert (tables.audit().missing, tables.audit().conserved) == (int(some in tables.consumed), not tables.consumed)


def test_a_backfill_that_takes_again() -> None:
    """What the pipeline had taken, or another backfill: it is named, whatever the rows say."""
    tables = Tables()
    tables.take("p", 10, 20)
    tables.take(of_backfill("p"), 0, 5)
    assert tables.audit().breaks == ()
    tables.take(of_backfill("p"), 4, 12)
    assert tables.audit().breaks == ("batch 2 of a backfill takes again t-0 offsets 4 to 4, t-0 offsets 10 to 11",)


def test_accounts_that_clean_up_took() -> None:
    """What they would tell is neither missing nor proved, whoever's they were."""
    tables = Tables()
    tables.take("p", 100, 110)
    for start in range(0, 60, 12):
        tables.take(of_backfill("p"), start, start + 12)
    tables.take("p", 110, 130)
    del tables.accounts[1:]
    report = tables.audit()
    dropped = sum(o % 11 == 0 and o % 7 > 0 for o in (*range(60), *range(100, 110)))
    assert (report.conserved, report.missing, report.unproved) == (True, 0, dropped), report


def test_whose_commits_they_are() -> None:
    """A backfill's are neither the pipeline's own nor another pipeline's; another one's are nobody's business."""
    tables = Tables()
    for name, start in (("p", 20), ("q", 0), (of_backfill("p"), 5), (of_backfill("q"), 9), ("p:replay", 0)):
        tables.take(name, start, start + 3)
    found = log(tables.main)
    assert [c.receipt.ranges.ranges[0].start for c in found.commits] == [20]
    assert [c.receipt.ranges.ranges[0].start for c in found.backfills] == [5]
    assert list(found.other_pipelines) == ["q"]
    assert (log(tables.main, of_backfill("p")).last_sequence, found.last_sequence) == (1, 1)


def holey() -> Tables:
    """Two batches of a topic whose offsets are no records where they can be divided by three, and one without holes."""
    tables = Tables()
    for start in (0, 20):
        tables.take("p", start, start + 20, holes=range(0, 40, 3))
    for start in (40, 45):
        tables.take("p", start, start + 5)
    return tables


@pytest.mark.parametrize(
    ("gone", "new", "what"),
    [
        ((), (), ""),
        # In a hole, the coordinates alone cannot tell that one row stands for another.
        ((2,), (3,), "batch 1 (version 0, t-0): 12 rows were committed, and as many others are there"),
        ((2, 4), (6, 9), "batch 1 (version 0, t-0): 12 rows were committed, and as many others are there"),
        ((2,), (), "batch 1 (version 0, t-0): 12 rows were committed, and 11 are there"),
        ((), (3,), "batch 1 (version 0, t-0): 12 rows were committed, and 13 are there"),
        ((), (4,), "batch 1 (version 0, t-0): 12 rows were committed, and 13 are there"),
        ((), (4, 4), "batch 1 (version 0, t-0): 12 rows were committed, and 14 are there"),
        ((2,), (4,), "batch 1 (version 0, t-0): 12 rows were committed, and as many others are there"),
        ((2,), (27,), "batch 2 (version 1, t-0): 12 rows were committed, and 13 are there"),
    ],
)
def test_rows_that_others_changed(gone: tuple[int, ...], new: tuple[int, ...], what: str) -> None:
    """A DELETE, an INSERT of a copy, an UPDATE of an offset: the batch is named, also where offsets have holes."""
    tables = holey()
    tables.table.subtract(gone)
    tables.table.update(new)
    report = tables.audit()
    assert report.conserved is (what == "")
    assert report.summed == 3
    assert (what in report.altered) is (what != "")
    if what:
        assert what in str(report.failure)


def test_what_a_replay_moves_is_no_change() -> None:
    """From quarantine into the table."""
    tables = holey()
    (moved, *_) = sorted(tables.refused)
    tables.refused[moved] -= 1
    tables.table[moved] += 1
    assert tables.audit().conserved


def test_a_batch_that_was_committed_wrong() -> None:
    """Its logs alone say so, whatever the rows are now."""
    tables = Tables()
    tables.take("p", 1, 7)
    right = tables.sums["p"]
    assert right.table is not None
    tables.sums["p"] = replace(right, table=sums.of([("t", 0, o) for o in (1, 2, 3, 4, 5, 5)]))
    tables.take("p", 7, 9)
    report = tables.audit()
    assert (report.missing, report.duplicated, report.unexpected) == (0, 0, 0)
    wrong = "batch 1 (version 0, t-0): 6 rows were committed, and not those of its offsets"
    assert report.altered == (wrong,)
    assert not report.conserved


def test_what_nobody_knows_is_not_held_against_anything() -> None:
    """An older version wrote it, or the sums are null since no file tells them."""
    for before in (None, BatchSums(1), BatchSums(1, Sums(3), None)):
        tables = Tables()
        tables.take("p", 0, 7)
        tables.sums = {"p": before} if before else {}
        tables.take("p", 7, 9)
        report = tables.audit()
        assert (report.conserved, report.altered, report.summed) == (True, (), 0), before


def test_a_batch_that_stands_no_more_says_what_the_one_before_it_took() -> None:
    """A RESTORE took the second batch back, whose receipt has the sums of the first."""
    tables = holey()
    restore = {"version": 4, "timestamp": datetime.now(UTC), "operation": "RESTORE", "operationMetrics": {}}
    tables.main.insert(0, {**restore, "operationParameters": {"version": "0"}, "userMetadata": None})
    (batch,) = batch_sums.with_sums(log(tables.main, restores=True), log(tables.accounts))
    assert batch.name == "batch 1"


def test_batches_that_share_offsets() -> None:
    """Of rows within both nobody knows whose they are."""
    tables = Tables()
    tables.take("p", 10, 20)
    tables.take("p", 20, 30)
    tables.take(of_backfill("p"), 5, 12)
    tables.take(of_backfill("p"), 0, 3)
    tables.take(of_backfill("p"), 3, 5)
    assert {each.name for each in batch_sums.with_sums(log(tables.main), log(tables.accounts))} == {
        "batch of a backfill 2"
    }
