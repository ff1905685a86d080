"""Records that hold no row, as the heartbeats of Debezium do: they are dropped, and counted by what they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakeingest.schema import debezium

KIND = "_value_rowless"
"""What a record is that holds no row: STRING; null for one that does."""


@dataclass(frozen=True)
class RowlessSchema:
    """A schema whose records hold no row.

    Attributes:
        header: see `writers.SchemaBranch`.
        kind: what they are.
    """

    header: bytes
    kind: str


def tests(which: Column, branches: Sequence[Any], parsed: Mapping[int, Any]) -> dict[str, Column]:
    """What records may be that hold no row → whether one is that: BOOLEAN.

    Args:
        which: INT, the position of the record's writer.
        branches: the writers, see `writers.SchemaBranches`.
        parsed: by their positions, what the readers of those that have one take.
    """
    either: dict[str, Column] = {}
    for at, branch in enumerate(branches):
        of_branch = {branch.kind: F.lit(True)} if isinstance(branch, RowlessSchema) else {}
        if at in parsed:
            of_branch = branch.reader.rowless(parsed[at])
        for kind, test in of_branch.items():
            either[kind] = either.get(kind, F.lit(False)) | ((which == at) & test)
    return either


def kind(tests: Mapping[str, Column]) -> Column:
    """The column KIND."""
    case = F.lit(None).cast("string")
    for each, test in tests.items():
        case = F.when(test, each).otherwise(case)
    return case


def kind_of(text: Column, kinds: Mapping[str, Collection[str]]) -> Column:
    """STRING: what a record of JSON is by the names of its fields; null for none of them.

    Args:
        kinds: what there is → the fields by which it is known (see `debezium.ROWLESS`).
    """
    names, case = F.json_object_keys(text.cast("string")), F.lit(None).cast("string")
    for each, known_by in kinds.items():
        fields = F.array(*map(F.lit, sorted(known_by)))
        is_known = names == fields if each == debezium.HEARTBEAT else F.size(F.array_except(fields, names)) == 0
        case = F.when(is_known, each).otherwise(case)
    return case
