"""Changes of keyed rows, and what they come to."""

from __future__ import annotations

import json
from collections.abc import Sequence

from support.oracle.latest import Change as KeyChange
from support.oracle.latest import expected as latest_coordinates

Change = tuple[int | None, int | None, str, str]
"""Key, order, status, operation."""


def encoded(change: Change) -> bytes:
    return json.dumps(dict(zip(("id", "at", "status", "op"), change, strict=True))).encode()


def latest(changes: Sequence[Change]) -> list[Change]:
    """What the table has to hold, of changes in the order of their coordinates."""
    decided = [
        KeyChange(key, (at, 0, offset), op == "D")
        for offset, (key, at, _, op) in enumerate(changes)
        if key is not None and at is not None
    ]
    return [changes[offset] for _, _, offset in latest_coordinates(decided).values()]


def unread(changes: Sequence[Change]) -> int:
    """How many of the changes are refused."""
    return sum(None in change[:2] for change in changes)
