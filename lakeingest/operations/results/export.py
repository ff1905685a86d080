"""What an export wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from lakeingest.errors import number_of
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import Showable

ExportFormat: TypeAlias = Literal["jsonl", "csv", "avro", "parquet"]


@dataclass(frozen=True)
class ExportedObject:
    """An object of an export.

    Attributes:
        path: within the place.
    """

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, kw_only=True, repr=False)
class Exported(Showable):
    """What an export wrote, or a dry run would write. Its listing: objects.

    Attributes:
        place: where.
        sequence: 1, 2, 3, … for each export into the place; None where there was nothing new, and of a dry run.
        from_version, to_version: of the table; what came behind the first one, or all where it is None, is new.
        rows: how many are new.
        files, bytes: of the table, that may hold new rows.
        objects: what was written.
        removed: folders that were deleted, of exports that were ended early.
    """

    pipeline: str
    place: str
    format: ExportFormat
    sequence: int | None = None
    from_version: int | None
    to_version: int
    rows: int
    files: int
    bytes: int
    objects: tuple[ExportedObject, ...] = ()
    removed: int = 0
    dry_run: bool = False

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {"objects": [asdict(each) for each in self.objects]}

    @property
    def headline(self) -> str:
        begin = "the first version" if self.from_version is None else f"version {self.from_version}"
        new = f"{number_of(self.rows, 'row')} came from {begin} to version {self.to_version}"
        if self.dry_run:
            size = f"{_mib(self.bytes)} of the table's files"
            files = number_of(self.files, "file")
            return f"{self.pipeline}: {new}, in {files} or fewer ({size}) (dry run: nothing was written)"
        if self.sequence is None:
            return f"{self.pipeline}: nothing new up to version {self.to_version}"
        objects, size = number_of(len(self.objects), "object"), _mib(sum(each.bytes for each in self.objects))
        return (
            f"{self.pipeline}: {new}; export {self.sequence}: {objects} of {self.format}, {size}, "
            f"in {self.place}/export={self.sequence:010}-…"
        )


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
