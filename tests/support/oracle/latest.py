"""Histories of keys, and what a table of mode upsert has to hold behind them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

Each = TypeVar("Each")


class Change(NamedTuple):
    """A record: its key, its place in the order (order_by, partition, offset), and whether it deletes."""

    key: int
    order: tuple[int, int, int]
    deletes: bool


def expected(changes: Iterable[Change]) -> dict[int, tuple[int, int, int]]:
    """Of each key the greatest order, unless that record deletes it."""
    newest: dict[int, Change] = {}
    for change in sorted(changes, key=lambda each: each.order):
        newest[change.key] = change
    return {key: change.order for key, change in newest.items() if not change.deletes}


def history(dice: random.Random) -> list[Change]:
    """A few changes of two or three keys, with ties, deletes and two partitions."""
    ends = [0, 0]
    changes = []
    for _ in range(dice.randint(1, 8)):
        partition = dice.randrange(2)
        order = (dice.randrange(3), partition, ends[partition])
        ends[partition] += 1
        changes.append(Change(dice.randrange(3), order, dice.random() < 0.4))
    return changes


def recut(dice: random.Random, changes: Sequence[Each]) -> list[list[Each]]:
    """The changes in another order, cut anywhere, and some of the batches again: at once, or later."""
    shuffled = dice.sample(changes, len(changes))
    cut: list[list[Each]] = []
    while shuffled:
        size = dice.randint(1, len(shuffled))
        cut.append(shuffled[:size])
        shuffled = shuffled[size:]
    for _ in range(dice.randrange(3)):
        at = dice.randrange(len(cut))
        cut.insert(dice.randint(at + 1, len(cut)), cut[at])
    return cut
