"""What batches like the sample would rewrite of a table whose rows they change: the files that may have their keys."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeingest.config import PipelineConfig
from lakeingest.delta.latest import LatestRows
from lakeingest.delta.reader.log import DataFile, OfflineLog, Unreadable
from lakeingest.errors import number_of
from lakeingest.ingest import endpoints
from lakeingest.operations.latest_view import path_names
from lakeingest.schema.readers import MARKS_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FEW = 4
"""So many files tell nothing of how keys are spread."""


@dataclass(frozen=True)
class MergeForecast:
    """What a batch like the sample does to the table's files.

    Attributes:
        files: the table's.
        touched: those whose least and greatest keys are around one of the sample's, at most; a file whose log does not
            say them is among these.
        bytes: of the touched ones.
        marks: whether rows are marked in deletion vectors, and no file is rewritten for them.
    """

    files: int
    touched: int
    bytes: int
    marks: bool

    @property
    def sentence(self) -> str:
        """As a terminal shows it."""
        does = "marks rows in" if self.marks else "rewrites"
        files = number_of(self.touched, "file")
        return f"merge: a batch like this {does} at most {files} of {self.files:,} ({self.bytes / 2**20:,.1f} MiB)"

    def warnings(self, config: PipelineConfig) -> Iterator[str]:
        """About keys that are spread over most files."""
        if self.marks or self.files <= _FEW or self.touched <= self.files / 2:
            return
        keys = ", ".join(config.table.key_paths)
        yield (
            f"spread keys: those of the sample ({keys}) lie in {self.touched:,} of {self.files:,} files, which each "
            "batch would rewrite; partition by what changes together, name readers that all read deletion vectors, or "
            "take table.mode changelog"
        )


def of_sample(config: PipelineConfig, latest: LatestRows, accepted: DataFrame) -> MergeForecast | None:
    """The forecast; None where the table's log cannot be read without Spark, or no record has a key.

    Args:
        accepted: the sample's.
    """
    key = latest.keys[0]
    try:
        state = OfflineLog(config.table.identifier, endpoints.storage(config)).state
    except Unreadable:
        return None
    # An event that empties the table has no key.
    of_records = accepted.where(f"{key.sql} IS NOT NULL").selectExpr(key.sql).distinct()
    keys = sorted(_plain(row[0]) for row in of_records.collect())
    if not keys or not state.files:
        return None
    steps = path_names(config.columns, key.path)
    touched = [file for file in state.files if _may_have(file, steps, keys)]
    marks = state.properties.get(MARKS_ROWS) == "true"
    return MergeForecast(len(state.files), len(touched), sum(file.size for file in touched), marks)


def _may_have(file: DataFile, steps: Sequence[str], keys: Sequence[Any]) -> bool:
    """Whether a file may have one of these keys, which are in order."""
    statistics = json.loads(file.stats or "{}")
    least, greatest = (_at(statistics, (end, *steps)) for end in ("minValues", "maxValues"))
    try:
        at = bisect_left(keys, least)
        return least is None or greatest is None or (at < len(keys) and keys[at] <= greatest)
    except TypeError:
        # The log has another form of such values than Spark.
        return True


def _at(values: Mapping[str, Any], steps: Sequence[str]) -> Any:
    value: Any = values
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _plain(value: Any) -> Any:
    """A value in the form that the log has it in."""
    return value if isinstance(value, int | str) else str(value)
