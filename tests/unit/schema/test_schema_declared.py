"""What a table can become when the pipeline file declares its columns anew, and what not."""

from __future__ import annotations

import pytest

from lakeingest.schema import ddl, model
from lakeingest.schema.compatibility.declared import misfits
from lakeingest.schema.compatibility.verdict import Mode

HELD = "n INT NOT NULL, amount DECIMAL(10,2), at DATE, s STRUCT<a: INT>, l ARRAY<STRUCT<x: INT>>"


def why(declared: str, mode: Mode = "FORWARD") -> str | None:
    """What is wrong with a declaration, for a table of the columns HELD."""
    columns, held = ddl.parse(declared), ddl.parse(HELD)
    found = misfits(columns, held, model.from_columns(columns), model.from_columns(held), mode)
    assert found is None or found.cure
    return found and found.reason


@pytest.mark.parametrize(
    "declared",
    [
        HELD,
        HELD.replace(" NOT NULL", ""),
        HELD.replace("n INT", "n BIGINT"),
        HELD.replace("n INT", "n DOUBLE"),
        HELD.replace("DECIMAL(10,2)", "DECIMAL(14,6)"),
        HELD.replace("a: INT", "a: BIGINT, b: STRING"),
        HELD.replace("x: INT", "x: DOUBLE, y: INT NOT NULL"),
        f"{HELD}, more STRING",
        "amount DECIMAL(10,2)",
        HELD.replace("amount DECIMAL(10,2)", "amount DECIMAL(10,2) NOT NULL"),
    ],
)
def test_what_a_table_can_become(declared: str) -> None:
    """Columns may be new, gone, wider, and may be null now; a field that records must have from now on, too."""
    assert why(declared) is None


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("amount DECIMAL(12,6)", "amount: Delta cannot widen DECIMAL(10,2) to DECIMAL(12,6), but to DECIMAL(14,6)"),
        ("amount DECIMAL(38,36)", "amount: Delta cannot widen DECIMAL(10,2) to DECIMAL(38,36)"),
        ("amount STRING", "amount: Delta cannot widen DECIMAL(10,2) to STRING"),
        ("n SMALLINT", "n: Delta cannot widen INT to SMALLINT"),
        ("at TIMESTAMP", "at: Delta cannot widen DATE to TIMESTAMP"),
        ("N BIGINT, s STRUCT<A: STRING>", "s.A: Delta cannot widen INT to STRING"),
        ("l ARRAY<STRUCT<x: STRING>>", "l[].x: Delta cannot widen INT to STRING"),
        ("more INT NOT NULL", "more: a new column cannot be NOT NULL, since the rows that are there lack it"),
    ],
)
def test_what_a_table_cannot_become(declared: str, said: str) -> None:
    """What Delta has no way to, at any depth, names the column, and the decimal that would do; the cure, `rebuild`."""
    assert why(declared) == said
    columns, held = ddl.parse(declared), ddl.parse(HELD)
    found = misfits(columns, held, model.from_columns(columns), model.from_columns(held), "FORWARD")
    assert found
    assert ("lakeingest rebuild" in found.cure) is ("widen" in said)


@pytest.mark.parametrize("declared", [HELD.replace("n INT", "n BIGINT"), HELD.replace(" NOT NULL", "")])
def test_what_full_asks_more(declared: str) -> None:
    """Under FULL new rows must be readable under the old declaration too."""
    assert "under FULL" in (why(declared, "FULL") or "")
    assert why(declared, "BACKWARD") is None
