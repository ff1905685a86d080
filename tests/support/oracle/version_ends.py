"""Versions of keys, and until when each is valid: a model that knows nothing of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Version(NamedTuple):
    """A record: its key, None where it deletes all rows; its place in the order; and from when on it is valid."""

    key: int | None
    order: tuple[int, ...]
    begins: int
    deletes: bool


def ends(versions: Sequence[Version]) -> list[int | None]:
    """Of each version until when it is valid; None for ever."""
    result: list[int | None] = []
    for each in versions:
        later = [one.begins for one in versions if one.order > each.order and one.key in (each.key, None)]
        end = max(each.begins, min(later)) if later else None
        result.append(each.begins if each.deletes else end)
    return result


def valid_at(versions: Sequence[Version], moment: int) -> set[Version]:
    """The table as of a moment: of the versions that begin by then the latest one of each key, unless it deletes."""
    begun = sorted((each for each in versions if each.begins <= moment), key=lambda each: each.order)
    rows: dict[int, Version] = {}
    for each in begun:
        if each.key is None:
            rows.clear()
        else:
            rows[each.key] = each
    return {each for each in rows.values() if not each.deletes}
