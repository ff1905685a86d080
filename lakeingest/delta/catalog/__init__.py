"""The names that catalogs have for a table which lies at a path."""

from __future__ import annotations

from lakeingest.errors import TableMismatch


def foreign(name: str, catalog: str, contents: str) -> TableMismatch:
    """That a name is taken by something else, which is never overwritten."""
    return TableMismatch(
        f"{name} is {contents} in {catalog}, and not the table of this pipeline",
        cure="write another table.name; or drop that entry, if nobody needs it, and the next batch makes it anew",
    )
