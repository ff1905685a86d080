"""What was forgotten, where it is gone, and where it may be still: the certificate of a request."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakeingest.errors import LakeingestError, NotForgotten, number_of
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import Showable, TextTable

if TYPE_CHECKING:
    from lakeingest.operations.erasure.objects import Hit
    from lakeingest.operations.erasure.records import ErasureRequest

_HITS = 20


@dataclass(frozen=True)
class TablePart:
    """One table of a pipeline.

    Attributes:
        table: its path, or name.
        version: its newest version, in which the records are no rows.
        due: when the files of older versions may be deleted (UTC).
        vacuumed: whether a VACUUM deleted them just now.
        files: how many it deleted; None where it did not say.
        object_versions: what the bucket keeps of deleted objects: versioning, versions, locked; empty elsewhere.
    """

    table: str
    version: int
    due: datetime
    vacuumed: bool
    files: int | None
    object_versions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kept_versions(self) -> str:
        """How many older versions of objects the bucket keeps, as a text; empty for none."""
        if self.object_versions.get("versioning") == "unknown":
            return "an unknown number of"
        count = self.object_versions.get("versions", 0)
        return f"{count:,}" if count else ""


@dataclass(frozen=True)
class PipelinePart:
    """What was done in the tables of one pipeline.

    Attributes:
        table, quarantine: records that were taken out of the table, and of its quarantine, by this request, whenever it
            was made; in a dry run, those that would be.
        unreadable: refused records whose bytes were left out, so that nobody can tell whose they are.
        by_coordinates: whether the condition names columns that this table has not, so that only records were taken
            out that another pipeline's table, or source, named.
        beyond: where copies may be that are not reached.
    """

    pipeline: str
    table: int
    quarantine: int
    unreadable: int
    by_coordinates: bool
    tables: tuple[TablePart, ...]
    beyond: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Certificate(Showable):
    """The certificate of a request. Its listings: records, tables, hits, beyond.

    Attributes:
        why, who: the request, and who made it.
        condition: SHA-256 of the condition's text, which may hold a value itself.
        searched: how many texts were searched for in every object.
        hits: the objects that hold one: object, kind (data or log), text (its number).
    """

    why: str
    who: str
    at: datetime
    condition: str
    dry_run: bool
    searched: int
    pipelines: tuple[PipelinePart, ...]
    hits: tuple[Hit, ...]

    @classmethod
    def of(
        cls,
        request: ErasureRequest,
        parts: tuple[PipelinePart, ...],
        hits: tuple[Hit, ...],
        at: datetime,
        *,
        dry_run: bool,
    ) -> Certificate:
        from lakeingest.delta.receipt import somebody

        condition = hashlib.sha256(request.where.encode()).hexdigest()
        return cls(request.why, somebody(), at, condition, dry_run, len(request.search), parts, hits)

    @property
    def records(self) -> int:
        """Records that were taken out, of all tables and quarantines together."""
        return sum(part.table + part.quarantine for part in self.pipelines)

    @property
    def waiting(self) -> tuple[TablePart, ...]:
        """The tables whose older files are still there."""
        return tuple(table for table in self._tables if not table.vacuumed)

    @property
    def headline(self) -> str:
        verb = "would be taken out" if self.dry_run else "is taken out" if self.records == 1 else "are taken out"
        where = number_of(len(self.pipelines), "pipeline")
        return f"{self.why}: {number_of(self.records, 'record')} {verb} of the tables of {where}"

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {
            "records": [
                {"pipeline": part.pipeline, "table": part.table, "quarantine": part.quarantine}
                for part in self.pipelines
            ],
            "tables": [asdict(table) for part in self.pipelines for table in part.tables],
            "hits": [asdict(hit) for hit in self.hits],
            "beyond": [{"pipeline": part.pipeline, "where": text} for part in self.pipelines for text in part.beyond],
        }

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "records": self.records, "complete": self.complete}

    @property
    def complete(self) -> bool:
        """Whether nothing is left to be done: older files are deleted, no object holds a text, and the buckets
        keep no older versions of objects, as far as they say.
        """
        return not (self.dry_run or self.waiting or self.hits or any(table.kept_versions for table in self._tables))

    @property
    def _tables(self) -> Iterator[TablePart]:
        return (table for part in self.pipelines for table in part.tables)

    @property
    def text(self) -> Iterator[str | TextTable]:
        yield self.headline + (" (dry run: nothing was done)" if self.dry_run else "")
        yield f"  by {self.who} at {self.at:%Y-%m-%d %H:%M:%S} UTC; SHA-256 of the condition: {self.condition}"
        rows = [(part.pipeline, f"{part.table:,}", f"{part.quarantine:,}") for part in self.pipelines]
        yield TextTable("records", ("pipeline", "of the table", "of quarantine"), rows)
        for part in self.pipelines:
            if part.by_coordinates:
                yield f"  {part.pipeline}: its table lacks the condition's columns; records were known by coordinates"
            if part.unreadable:
                count = number_of(part.unreadable, "refused record")
                yield f"  {part.pipeline}: {count} without bytes: nobody can tell whose they are"
        if not self.dry_run:
            yield from self._files()
        for part in self.pipelines:
            yield from (f"  not reached: {text}" for text in part.beyond)

    def _files(self) -> Iterator[str]:
        for table in self._tables:
            if table.vacuumed:
                files = "" if table.files is None else f": {number_of(table.files, 'file')} deleted"
                yield f"  {table.table}: version {table.version}, older files are gone{files}"
            else:
                yield f"  {table.table}: version {table.version}, older files stay until {table.due:%Y-%m-%d %H:%M} UTC"
            if table.kept_versions:
                lock = ", and Object Lock is on" if table.object_versions.get("locked") else ""
                yield (
                    f"  {table.table}: its bucket keeps {table.kept_versions} older versions of objects{lock}; "
                    "a lifecycle rule ends them (NoncurrentVersionExpiration)"
                )
        if self.waiting:
            yield "  to finish: the same command again, when that is over"
        if self.searched:
            texts = number_of(self.searched, "text")
            yield f"  every object was searched for {texts}: {number_of(len(self.hits), 'hit')}"
            yield from (f"    text {hit.text}: {hit.object} ({hit.kind})" for hit in self.hits[:_HITS])
            if len(self.hits) > _HITS:
                yield f"    and {len(self.hits) - _HITS:,} more: --output json has them"
            if any(hit.kind == "log" for hit in self.hits):
                yield (
                    "    a log's old commits have statistics of old files; Delta deletes them "
                    "(delta.logRetentionDuration, 30 days) when it writes its next checkpoint"
                )

    @property
    def failure(self) -> LakeingestError | None:
        """Objects that hold a text although nothing is left to wait for."""
        of_data = [hit.object for hit in self.hits if hit.kind == "data"]
        if self.waiting or not of_data:
            return None
        return NotForgotten(
            f"what is searched for is still in {number_of(len(of_data), 'data file')}: {', '.join(of_data[:5])}",
            cure="the condition left these records out, or others' files lie there: look at them with "
            "`lakeingest read`, widen --where, and forget once more",
        )
