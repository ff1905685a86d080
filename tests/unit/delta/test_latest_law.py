"""The law of mode upsert in a pure model: the same records make the same table, however they come.

The model does what `delta.upsert` does: of each batch the latest record of a key, but for those that are older than a
remembered delete; then the MERGE, which compares the whole order; then the memory of deletes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from support.oracle.latest import Change, batches, expected, history

HISTORIES = 100_000


@dataclass
class Table:
    """Rows and remembered deletes: key → order.

    Attributes:
        remembers: False takes the memory of deletes out.
    """

    rows: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    deletes: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    remembers: bool = True

    def apply(self, batch: Sequence[Change]) -> None:
        latest: dict[int, Change] = {}
        for change in batch:
            deleted = self.deletes.get(change.key)
            if deleted is not None and change.order < deleted:
                continue
            if change.key not in latest or latest[change.key].order < change.order:
                latest[change.key] = change
        for key, change in latest.items():
            row = self.rows.get(key)
            if row is not None and not change.order > row:
                continue
            if not change.deletes:
                self.rows[key] = change.order
            elif row is not None:
                del self.rows[key]
        if self.remembers:
            for change in batch:
                if change.deletes:
                    self.deletes[change.key] = max(change.order, self.deletes.get(change.key, change.order))


def test_order_cuts_and_repetition_change_nothing() -> None:
    dice = random.Random(47)
    for _ in range(HISTORIES):
        changes, table = history(dice), Table()
        applied = batches(dice, changes)
        for batch in applied:
            table.apply(batch)
        assert table.rows == expected(changes), applied


@pytest.mark.parametrize("seed", range(3))
def test_without_the_memory_of_deletes_a_row_comes_back(seed: int) -> None:
    """The model finds what the memory is for."""
    dice = random.Random(seed)
    for _ in range(1000):
        changes, table = history(dice), Table(remembers=False)
        for batch in batches(dice, changes):
            table.apply(batch)
        if table.rows != expected(changes):
            return
    pytest.fail("no history needs the memory of deletes")
