"""A contract as a document of the Open Data Contract Standard."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeingest.config import written
from lakeingest.operations.results.showable import Showable


@dataclass(frozen=True, repr=False)
class ContractDocument(Showable):
    """A contract as a document of ODCS.

    Attributes:
        of_table: whether its columns are those of the table; else the pipeline file declares them.
        file: where it is written; None if it is not.
    """

    pipeline: str
    document: dict[str, Any]
    of_table: bool
    file: Path | None = None

    @property
    def headline(self) -> str:
        return f"{self.pipeline}: contract with the columns {self._source}"

    @property
    def yaml(self) -> str:
        """As a file has it."""
        return written.document(self.document)

    @property
    def text(self) -> Iterator[str]:
        if self.file is None:
            yield from self.yaml.rstrip("\n").split("\n")
        else:
            yield f"{self.file} is written, with the columns {self._source}."

    def to_json(self) -> dict[str, Any]:
        return self.document

    @property
    def _source(self) -> str:
        return "of the table as it is" if self.of_table else "that the file declares: there is no table to read yet"
