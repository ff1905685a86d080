"""Changes of keyed rows, and what they come to."""

from __future__ import annotations

import json
from collections.abc import Sequence

from chispa import assert_df_equality
from pyspark.sql import DataFrame
from support.oracle.latest import Change as KeyChange
from support.oracle.latest import expected as latest_coordinates
from support.pipelines import CHANGES, World

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


def check(world: World, changes: Sequence[Change]) -> None:
    """The table has the latest rows, and nothing else; and the audit agrees."""
    rows: DataFrame = world.spark.read.format("delta").load(world.path())
    expected = world.spark.createDataFrame(latest(changes), CHANGES)
    assert_df_equality(rows.select(expected.columns), expected, ignore_row_order=True, ignore_nullable=True)
    report = world.ingestion().audit()
    assert report.conserved, report
    assert (report.table, report.consumed) == (len(latest(changes)), len(changes) + report.quarantine - unread(changes))
