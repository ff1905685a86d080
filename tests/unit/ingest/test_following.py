"""Which periods a run calls complete, by any way that its frontier goes, against the plain rule."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeingest.config.parts import TimePartition
from lakeingest.config.periods import Periods
from lakeingest.delta.commit_log import CommitLog
from lakeingest.errors import TableChanged
from lakeingest.ingest.completeness import Following
from lakeingest.kafka.offsets import Reach

HOUR = timedelta(hours=1)
PERIODS = Periods(TimePartition(by="time", every="hour"))
NOW = datetime(2026, 11, 26, 15, 30, tzinfo=UTC)
NEWEST = PERIODS.ended(NOW)
COUNT = 40
STARTS = [NEWEST - number * HOUR for number in reversed(range(COUNT))]
"""The hours that are over."""


class Clock(datetime):
    """It is half past three."""

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
        return NOW


@pytest.fixture(autouse=True, scope="module")
def clock() -> Iterator[None]:
    """No hour ends while the tests run."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lakeingest.ingest.completeness.datetime", Clock)
        yield


@dataclass
class Said:
    """The completeness table, in memory."""

    counts_of: Mapping[datetime, int]
    rows: dict[datetime, int] = field(default_factory=dict)
    looks: int = 0
    periods: Periods = PERIODS
    late: timedelta = timedelta(0)

    def due(self, start: datetime) -> datetime:
        return self.periods.end(start) + self.late

    def newest(self) -> tuple[datetime | None, int]:
        return max(self.rows, default=None), max(self.rows.values(), default=0)

    def take_back(self, sequence: int, *, alone: bool = False) -> None:
        self.rows = {s: n for s, n in self.rows.items() if (n != sequence if alone else n <= sequence)}

    def counts(self, main: object, version: int, only: Collection[datetime] = ()) -> dict[datetime, int]:
        self.looks += 1
        return {start: n for start, n in self.counts_of.items() if not only or start in only}

    def declare(self, starts: Mapping[datetime, int], *, sequence: int, version: int, now: datetime) -> None:
        for start in starts:
            assert start not in self.rows, "said twice"
            self.rows[start] = sequence


@dataclass
class Kafka:
    """What has to be reached for the end of each hour: targets that never fall."""

    targets: list[int]
    asked: list[datetime] = field(default_factory=list)

    def reach(self, moment: datetime) -> Reach:
        assert moment not in self.asked, "asked twice"
        self.asked.append(moment)
        at = STARTS.index((moment - HOUR).replace(tzinfo=None))
        return Reach({("t", 0): self.targets[at], ("t", 1): 0}, {("t", 0): 0, ("t", 1): 0})


def attempt(frontier: int, sequence: int, standing: int | None = None, *, restored: int = 0) -> Any:
    """As far as it is looked at; at which look, if any, somebody has restored the table."""
    looks = count(1)

    def check_unchanged() -> None:
        if next(looks) == restored:
            raise TableChanged("restored", cure="again")

    newest = None if standing is None else SimpleNamespace(receipt=SimpleNamespace(sequence=standing))
    undone = frozenset(range((standing or 0) + 1, sequence + 1))
    log = CommitLog("t", "p", (newest,) if newest else (), sequence, undone_batches=undone)  # type: ignore[arg-type]
    return SimpleNamespace(
        columns=object(),
        frontier={("t", 0): frontier, ("t", 1): 0},
        sequence=sequence,
        last=newest and newest.receipt,
        logs=SimpleNamespace(run=log),
        execution=SimpleNamespace(writer=SimpleNamespace(version=sequence, check_unchanged=check_unchanged)),
    )


def following(said: Said, kafka: Kafka) -> Following:
    return Following(SimpleNamespace(tables=SimpleNamespace(completeness=said, main=None)), kafka)  # type: ignore[arg-type]


@given(
    st.lists(st.integers(0, 60), min_size=COUNT, max_size=COUNT).map(sorted),
    st.lists(st.tuples(st.integers(0, 70), st.booleans()), min_size=1, max_size=8).map(sorted),
    st.sets(st.integers(0, COUNT - 1), max_size=10),
)
def test_the_periods_that_are_reached_are_said_once(
    targets: list[int], way: list[tuple[int, bool]], filled: set[int]
) -> None:
    """Batch after batch, with crashes between: what is said is the plain rule's, and each hour asked for once a run."""
    said = Said({STARTS[at]: 1 for at in filled})
    kafka = Kafka(targets)
    run = following(said, kafka)
    for sequence, (frontier, crashed) in enumerate(way, 1):
        before = max(said.rows, default=None)
        if crashed or sequence == 1:
            kafka.asked.clear()
            run = following(said, kafka)
            run.begin(attempt(frontier, sequence, sequence))
        run.follow(attempt(frontier, sequence))
        reached = [start for start, target in zip(STARTS, targets, strict=True) if target <= frontier]
        first = min((STARTS[at] for at in filled), default=NEWEST)
        wanted = max((start for start in reached if start >= first), default=None)
        assert max(said.rows, default=None) == max(filter(None, (before, wanted)), default=None)
        if before is not None and said.rows:
            assert {s for s in STARTS if before < s <= max(said.rows)} <= {*said.rows}
        assert all(STARTS[at] in said.rows for at in filled if said.rows and STARTS[at] <= max(said.rows))


def test_a_look_that_nothing_comes_of_asks_nobody() -> None:
    """As long as no further hour is over: neither Kafka nor a table."""
    said, kafka = Said({}), Kafka([0] * COUNT)
    run = following(said, kafka)
    run.begin(attempt(5, 1, 1))
    run.follow(attempt(5, 1))
    asked, looks = len(kafka.asked), said.looks
    for sequence in range(2, 20):
        run.follow(attempt(9, sequence))
    assert (len(kafka.asked), said.looks) == (asked, looks)
    assert [*said.rows] == [NEWEST]


def test_many_hours_take_few_questions() -> None:
    """A year's worth of them would take a dozen."""
    said, kafka = Said({STARTS[0]: 1}), Kafka([*range(COUNT)])
    run = following(said, kafka)
    run.begin(attempt(17, 1, 1))
    run.follow(attempt(17, 1))
    assert max(said.rows) == STARTS[17]
    assert len(kafka.asked) <= 9


@pytest.mark.parametrize(("standing", "kept"), [(1, 1), (2, 2), (3, 3), (None, 0)])
def test_what_a_restore_took_back_is_taken_away_first(standing: int | None, kept: int) -> None:
    """Before the next batch: it would have a higher number than what is wrong."""
    said = Said({}, {start: number for number, start in enumerate(STARTS[:3], 1)})
    following(said, Kafka([])).begin(attempt(0, 9, standing))
    assert len(said.rows) == kept


@pytest.mark.parametrize("look", [1, 2])
def test_nothing_is_said_over_a_restore(look: int) -> None:
    """Of a table that somebody restored while the run was looking, or while it said so, the next attempt speaks; what
    another run said since stays.
    """
    said = Said({STARTS[0]: 1}, {STARTS[5]: 9})
    run = following(said, Kafka([0] * COUNT))
    with pytest.raises(TableChanged):
        run.follow(attempt(5, 1, restored=look))
    assert said.rows == {STARTS[5]: 9}


def test_the_batch_that_is_named_is_one_that_stands() -> None:
    """Behind a RESTORE that left nothing to be read again, the last number is that of a batch which was taken back."""
    said = Said({STARTS[0]: 1})
    run = following(said, Kafka([0] * COUNT))
    run.begin(attempt(5, 9, 3))
    run.follow(attempt(5, 9, 3))
    assert {*said.rows.values()} == {3}


def test_without_a_contract_nothing_is_done() -> None:
    """No table is read."""
    run = following(None, Kafka([]))  # type: ignore[arg-type]
    run.begin(attempt(0, 0))
    run.follow(attempt(0, 0))
