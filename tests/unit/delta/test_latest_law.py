"""The law of mode upsert in a pure model: the same records make the same table, however they come.

The model does what `ingest.latest_batch` does: of each batch the latest record of a key; the memory of those that
delete; and the MERGE, which compares the whole order, of those that are not older than a remembered delete.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from support.oracle.latest import Change, expected, history, recut

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
            if change.key not in latest or latest[change.key].order < change.order:
                latest[change.key] = change
        for key, change in latest.items():
            if change.deletes and self.remembers:
                self.deletes[key] = max(change.order, self.deletes.get(key, change.order))
            deleted, row = self.deletes.get(key), self.rows.get(key)
            if (deleted and change.order < deleted) or (row and change.order <= row):
                continue
            if not change.deletes:
                self.rows[key] = change.order
            elif row is not None:
                del self.rows[key]


def test_order_cuts_and_repetition_change_nothing() -> None:
    dice = random.Random(47)
    for _ in range(HISTORIES):
        changes, table = history(dice), Table()
        applied = recut(dice, changes)
        for batch in applied:
            table.apply(batch)
        assert table.rows == expected(changes), applied


@pytest.mark.parametrize("seed", range(3))
def test_without_the_memory_of_deletes_a_row_comes_back(seed: int) -> None:
    """The model finds what the memory is for."""
    dice = random.Random(seed)
    for _ in range(1000):
        changes, table = history(dice), Table(remembers=False)
        for batch in recut(dice, changes):
            table.apply(batch)
        if table.rows != expected(changes):
            return
    pytest.fail("no history needs the memory of deletes")
