"""What a run would do with the records that come next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeingest.errors import number_of
from lakeingest.gate import suite
from lakeingest.operations.results import gate, refusals
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.refusals import LONGEST
from lakeingest.operations.results.showable import Showable, TextTable
from lakeingest.operations.results.words import as_json, became, cut, drops

if TYPE_CHECKING:
    from lakeingest.gate.evaluate import Result
    from lakeingest.operations.forecast import Forecast
    from lakeingest.operations.merge_forecast import MergeForecast
    from lakeingest.record import OffsetRanges
    from lakeingest.schema.ledger import Entry

_OF_SCHEMAS = ("side", "id", "subject", "version", "verdict", "action", "changes")


@dataclass(frozen=True, repr=False)
class Plan(Showable):
    """What a run would do with the sample. Its listings: refusals, corrections, held, results, schemas, columns,
    forecast, warnings.

    Attributes:
        ranges: the offsets of the sample; "spans" in JSON.
        counts: consumed, accepted, refused and dropped records.
        left_out: of the dropped ones, those that did not meet a condition of transform.where, or hold no row: the
            condition's name, or what they are → records.
        columns: the columns that the table would have, those included that only the table has: name, type, new (not
            in the table yet), and was (the type that the table has now, if that is another one; else null).
        schemas: what the table would make of schemas that it has not seen yet.
        refusals: stage, reason, count and samples, as `quarantine list` has them.
        corrections: the columns that records were refused for, each with the least type that would have taken all of
            their values: column, type (DDL), records, and possible (whether the table can become that). Of JSON's
            values only. Where only STRING takes all, a type that takes fewer comes first, if there is one.
        results: what each expectation would find.
        held: why the batch would be kept back.
        constraints: what the table itself demands of its rows: name → condition.
        rewrites: what a run would write anew because a type grows (schema.widening: rewrite): files and bytes; None
            if nothing.
        merge: of mode upsert, the files that a batch like the sample would touch; None where that is not known.
        committed: whether the pipeline is caught up, so that the sample are its newest records, committed before.
        warnings: about times in another unit, what a database did not log, files and partitions, with numbers.
    """

    pipeline: str
    ranges: OffsetRanges
    counts: dict[str, int]
    left_out: dict[str, int]
    columns: tuple[dict[str, Any], ...]
    schemas: tuple[Entry, ...]
    refusals: tuple[dict[str, Any], ...]
    corrections: tuple[dict[str, Any], ...]
    results: tuple[Result, ...]
    held: tuple[str, ...]
    constraints: dict[str, str]
    forecast: Forecast
    rewrites: dict[str, int] | None = None
    merge: MergeForecast | None = None
    committed: bool = False
    warnings: tuple[str, ...] = ()
    suggested: dict[str, Any] | None = None

    @property
    def problems(self) -> int:
        """1 where something would be refused, kept back or fail, 0 else."""
        wrong = self.counts["refused"] or self.held or any(not each.success for each in self.results)
        return int(bool(wrong) or any(entry.action == "quarantine" for entry in self.schemas))

    @property
    def exit_code(self) -> int:
        return self.problems

    @property
    def _became(self) -> str:
        return became(self.counts["accepted"], self.counts["refused"], self.counts["dropped"])

    @property
    def headline(self) -> str:
        held = "; the batch would be held" if self.held else ""
        newest = "; caught up: these are the newest, committed before" if self.committed else ""
        return (
            f"{self.pipeline}: of {number_of(self.counts['consumed'], 'record')} sampled, {self._became}{held}{newest}"
        )

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {
            "refusals": self.refusals,
            "corrections": self.corrections,
            "held": [{"why": why} for why in self.held],
            "results": [each.to_json() for each in self.results],
            "schemas": self._schemas,
            "columns": self.columns,
            "forecast": [{"what": name, "value": value} for name, value in vars(self.forecast).items()],
            "warnings": [{"warning": text} for text in self.warnings],
        }

    @property
    def _schemas(self) -> list[dict[str, Any]]:
        return [{name: getattr(entry, name) for name in _OF_SCHEMAS} for entry in self.schemas]

    def to_json(self) -> dict[str, Any]:
        results = [each.to_json() for each in self.results]
        plain = {name: value for name, value in vars(self).items() if name != "ranges"}
        data = {**plain, "spans": self.ranges.to_json(), "results": results, "forecast": vars(self.forecast)}
        data["merge"] = vars(self.merge) if self.merge else None
        return {**data, "schemas": self._schemas, "problems": self.problems}

    @property
    def text(self) -> Iterator[str | TextTable]:
        yield from self._lead()
        yield from self._refused()
        if self.results:
            yield gate.table("expectations", [each.to_json() for each in self.results])
        yield from self._shape()
        yield self.forecast.sentence
        if self.merge is not None:
            yield self.merge.sentence
        for warning in self.warnings:
            yield f"warning: {warning}"
        if self.suggested is not None:
            yield from as_json(self.suggested).split("\n")

    def _lead(self) -> Iterator[str]:
        """What would happen, in a few lines."""
        yield f"{self.pipeline}: {self._verdict}"
        for name, line in (("records", self._records), ("columns", self._columns), ("gate", self._gate)):
            yield f"  {name:8} {line}"
        for why in self.held:
            yield f"           {cut(suite.brief(why), LONGEST)}"
        if self.committed:
            yield "  caught up: these are the newest records, and they were committed before"
        for each in self.ranges:
            if each.end > each.start:
                yield f"  {each.topic}-{each.partition} offsets {each.start} to {each.end - 1}"

    @property
    def _verdict(self) -> str:
        sample = f"{number_of(self.counts['consumed'], 'record')} sampled"
        if self.held:
            return f"the batch would be kept back, of {sample}"
        if refused := self.counts["refused"]:
            return f"{refused:,} of {sample} would be refused"
        return f"all of {sample} would be committed" + (", and not all is as expected" if self.problems else "")

    @property
    def _records(self) -> str:
        by = f" ({drops(self.counts['dropped'], self.left_out)})" if self.left_out else ""
        return f"{self._became}{by}"

    @property
    def _columns(self) -> str:
        new, other = (sum(bool(each[name]) for each in self.columns) for name in ("new", "was"))
        refused = sum(each.action == "quarantine" for each in self.schemas)
        parts = [
            *([f"{new:,} new"] if 0 < new < len(self.columns) else []),
            *([f"{other:,} of another type"] if other else []),
            *([f"{number_of(refused, 'schema')} refused"] if refused else []),
        ]
        if self.columns and new == len(self.columns):
            parts.insert(0, f"a new table of {new:,}")
        return ", ".join(parts) or f"{len(self.columns):,}, no change"

    @property
    def _gate(self) -> str:
        if not self.results:
            return "the batch would be kept back" if self.held else "none"
        broken = sum(not each.success for each in self.results)
        line = f"{len(self.results) - broken:,} of {number_of(len(self.results), 'expectation')} met"
        return f"{line}; the batch would be kept back" if self.held else line

    def _refused(self) -> Iterator[str | TextTable]:
        if self.refusals:
            yield refusals.forecast("would be refused", self.refusals)
        for each in self.corrections:
            but = "" if each["possible"] else ", which the table that is there cannot become"
            records, column, type_ = each["records"], each["column"], each["type"]
            yield f"{records:,} of them would pass if {column} were declared as {type_}{but}"

    def _shape(self) -> Iterator[str | TextTable]:
        """Schemas and columns."""
        if self.schemas:
            yield TextTable(
                "schemas that the table has not seen",
                _OF_SCHEMAS,
                [
                    [e.side, e.id or "—", e.subject or "—", e.version or "—", e.verdict, e.action, ", ".join(e.changes)]
                    for e in self.schemas
                ],
                spare=("side", "version", "id"),
                longest=LONGEST,
            )
        rows = [[each["name"], each["type"], _change(each)] for each in self.columns]
        yield TextTable("columns", ("name", "type", ""), rows, longest=300)
        if self.rewrites:
            files, mib = number_of(self.rewrites["files"], "file"), self.rewrites["bytes"] / 2**20
            yield f"a type grows, and schema.widening is rewrite: the run would write {files} anew, {mib:,.1f} MiB"
        for name, check in self.constraints.items():
            yield f"the table's own constraint {name}: {check}"


def _change(column: Mapping[str, Any]) -> str:
    return "new" if column["new"] else f"was {column['was']}" if column["was"] else ""
