"""What is asked of an export."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import get_args

from lakeingest.config import location
from lakeingest.errors import UsageError
from lakeingest.operations.results.export import ExportFormat

FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
COMPRESSIONS = ("none", "gzip")
"""Of texts. Spark writes zstd with a native library of Hadoop's alone, which no wheel of Spark's has."""


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """How rows are exported.

    Attributes:
        place: a folder of its own: s3a://bucket/folder, or a local path from /.
        partition_by: columns that become folders; None for the table's own partition columns.
        compression: of jsonl and csv: "none" or "gzip".

    Raises:
        UsageError: it cannot be meant.
    """

    place: str
    format: ExportFormat = "jsonl"
    partition_by: tuple[str, ...] | None = None
    compression: str = "none"
    tell: Callable[[str], None] = field(default=lambda _: None, compare=False)

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise UsageError(f'--format "{self.format}" is not a format', cure=f"write one of {', '.join(FORMATS)}")
        if self.compression not in COMPRESSIONS:
            text = f'--compression "{self.compression}" is none that Spark writes everywhere'
            raise UsageError(text, cure=f"write one of {', '.join(COMPRESSIONS)}")
        if self.compression != "none" and self.format not in ("jsonl", "csv"):
            raise UsageError(
                f"--compression is of jsonl and csv: {self.format} has its own", cure="leave --compression out"
            )
        location.check_option("--to", self.place)

    @property
    def root(self) -> str:
        """The place as Spark names what lies in it: without // and . and a / at the end."""
        place = location.place(self.place)
        bucket = f"{place.scheme}://{place.bucket}" if place.on_s3 else ""
        return "/".join((bucket, *place.steps))
