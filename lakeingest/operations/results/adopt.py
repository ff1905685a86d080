"""What an adoption found, and did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeingest.errors import number_of
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import Showable, TextTable
from lakeingest.operations.results.words import words


@dataclass(frozen=True, repr=False)
class Adopted(Showable):
    """What an adoption found, and did unless it was a dry run. Its listings: partitions, doubts, unknown.

    Attributes:
        version: the table's version that has the receipt; None in a dry run.
        rows: how many the table had.
        partitions: one a topic-partition: topic, partition, rows, first (offset of a row, None where no coordinates
            tell), frontier (where the pipeline goes on), double (rows too many), kafka_first, kafka_end (offsets that
            Kafka has).
        doubts: what speaks against it, each in a sentence: it takes a yes.
        unknown: what lakeingest cannot know, each in a sentence.
    """

    pipeline: str
    table: str
    version: int | None
    how: str
    rows: int
    partitions: tuple[dict[str, Any], ...]
    doubts: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def headline(self) -> str:
        state = "can be adopted" if self.version is None else f"is adopted since version {self.version}"
        return f"{self.pipeline}: {self.table} {state}, with {number_of(self.rows, 'row')}, by {self.how}"

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {
            "partitions": self.partitions,
            "doubts": [{"doubt": each} for each in self.doubts],
            "unknown": [{"unknown": each} for each in self.unknown],
        }

    def to_json(self) -> dict[str, Any]:
        return {"dry_run": self.version is None, **vars(self)}

    @property
    def text(self) -> Iterator[str | TextTable]:
        yield TextTable(
            f"{self.pipeline}: {self.table}, {number_of(self.rows, 'row')}, by {self.how}",
            ("partition", "rows", "first offset", "goes on at", "double", "Kafka has"),
            [
                [
                    f"{each['topic']}-{each['partition']}",
                    *(words(each[name]) for name in ("rows", "first", "frontier", "double")),
                    f"{each['kafka_first']:,} to {each['kafka_end']:,}",
                ]
                for each in self.partitions
            ],
        )
        yield from (f"doubt: {doubt}" for doubt in self.doubts)
        yield from (f"not known: {sentence}" for sentence in self.unknown)
        if self.version is None:
            consent = ", with --yes" if self.doubts else ""
            yield f"it can be adopted{consent} (dry run: nothing was written)"
