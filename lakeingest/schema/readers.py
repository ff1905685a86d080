"""What the readers of a Delta table cannot read, as far as lakeingest or other writers may put it there. Pure.

`make test-readers` holds each fact against the reader itself, but for Athena and Databricks, which cannot be had on
one's own machine: Athena's engine is of Trino's family, and its documentation ("Query Linux Foundation Delta Lake
tables") names reader protocol 3, deletion vectors, column mapping and TIMESTAMP_NTZ; Databricks reads all of Delta.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

Reader: TypeAlias = Literal["athena", "chdb", "daft", "databricks", "delta-rs", "duckdb", "polars", "spark", "trino"]
WIDENING = "typeWidening"
_NOT: Mapping[Reader, Collection[str]] = {
    # Widened columns are left out in silence.
    "athena": (WIDENING, "variantType"),
    "trino": (WIDENING, "variantType"),
    # Tables with these are refused, but for the renamed columns of a column mapping: delta-rs reads them as null.
    "delta-rs": (WIDENING, "deletionVectors", "v2Checkpoint", "columnMapping"),
    "polars": (WIDENING, "variantType", "v2Checkpoint", "columnMapping"),
    "chdb": ("variantType",),
    "daft": ("deletionVectors", "columnMapping"),
}
"""Reader → the features of Delta's protocol that shut it out."""


MARKS_ROWS = "delta.enableDeletionVectors"
"""Property of a table: whether its rows are marked in deletion vectors, and no file is rewritten for them."""
_OFF = {
    "deletionVectors": (MARKS_ROWS, "false"),
    "v2Checkpoint": ("delta.checkpointPolicy", "classic"),
}
"""Features that a platform may switch on for new tables by itself (Databricks does) → the property that says no."""


def shut_out(readers: Collection[Reader], features: Collection[str]) -> dict[Reader, tuple[str, ...]]:
    """The readers among these that cannot read a table with these features, each with those that are in its way.

    Args:
        features: as in delta.feature.NAME; a preview's name counts as the feature's.
    """
    names = {feature.removesuffix("-preview") for feature in features}
    unreadable = {reader: tuple(f for f in _NOT.get(reader, ()) if f in names) for reader in readers}
    return {reader: missing for reader, missing in unreadable.items() if missing}


def properties(readers: Collection[Reader], *, rows_change: bool = False) -> dict[str, str]:
    """What a new table is made with, so that no platform switches on by itself what shuts one of these out.

    Args:
        rows_change: whether rows are changed: where these are named, and each of them reads deletion vectors, rows are
            marked there, and no file is rewritten for them.
    """
    off = dict(off for feature, off in _OFF.items() if shut_out(readers, {feature}))
    return {**({MARKS_ROWS: "true"} if rows_change and readers else {}), **off}
