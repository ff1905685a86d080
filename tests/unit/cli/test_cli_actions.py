"""What was done about a schema, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakeingest.operations.schema_history import steps
from lakeingest.schema.ledger import Entry, SchemaLedger, Side


def entry(version: int, action: str, side: Side = "value") -> Entry:
    return Entry(side, version, "s", version, None, "f", "OK", action, (), 1, None, "2026-01-01T00:00:00+00:00")


@pytest.mark.parametrize(
    ("then", "meaning"),
    [
        (entry(1, "project"), "projected up to version 2"),
        (entry(3, "project"), "projected down to version 2"),
        (replace(entry(3, "project"), version=None), "projected to what the table has"),
        (entry(3, "write"), "written as it is"),
        (entry(3, "evolve"), "the table follows"),
        (entry(1, "evolve"), "the table gets the columns that this version alone has"),
        (entry(3, "quarantine"), "refused, to quarantine"),
        (entry(1, "evolve", "key"), "the column _key begins with it"),
    ],
)
def test_actions_in_words(then: Entry, meaning: str) -> None:
    """What became of a schema that was met when version 2 was the table's."""
    assert list(steps(SchemaLedger((entry(2, "evolve"), then))))[-1].meaning == meaning
