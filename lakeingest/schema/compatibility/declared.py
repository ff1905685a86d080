"""May the pipeline file declare a table's columns anew? Pure.

A changed declaration is one more version of the schema, made by whoever edits the file. What a Delta table can become
without writing its rows anew is taken on: columns that are new, gone, wider, or may be null now. The mode decides about
records; of a declaration only FULL asks more, because the rows that come must be readable under the old one too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeingest.schema import ddl
from lakeingest.schema.compatibility.changes import changes
from lakeingest.schema.compatibility.verdict import Mode
from lakeingest.schema.compatibility.widening import misfit
from lakeingest.schema.model import Schema


@dataclass(frozen=True)
class Misfit:
    """The reason why a table cannot become what the file declares, and what could be declared instead."""

    reason: str
    cure: str


def misfits(
    declared: Sequence[ddl.Column],
    table_columns: Sequence[ddl.Column],
    schema: Schema,
    before: Schema | None,
    mode: Mode,
) -> Misfit | None:
    """The first misfit of a declaration with the table; None if the table can become what it says.

    Args:
        declared, schema: the file's columns, and the same as a schema.
        table_columns: the table's columns.
        before: the schema that was declared until now; None where nobody knows.
    """
    if why := misfit(table_columns, declared, narrower=False):
        cure = "declare the column as it was, or as a type that Delta can widen it to; or make the table anew with"
        return Misfit(why, f"{cure} `lakeingest rebuild`")
    names = {column.name.lower() for column in table_columns}
    for column in declared:
        if column.name.lower() not in names and not column.nullable:
            why = f"{column.name}: a new column cannot be NOT NULL, since the rows that are there lack it"
            return Misfit(why, f"declare {column.name} without NOT NULL")
    if mode == "FULL" and before is not None:
        loose = [change.text for change in changes(before, schema) if change.kind in ("widened", "loosened")]
        if loose:
            why = f"{loose[0].removeprefix('~ ')}: under FULL, new rows must be readable as the old schema says"
            return Misfit(why, "declare the column as it was, or set schema.compatibility to BACKWARD or FORWARD")
    return None
