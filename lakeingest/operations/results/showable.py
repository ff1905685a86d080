"""What every result can do: one line where it is printed, text for a terminal, JSON, HTML for a notebook, frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lakeingest.errors import LakeingestError, SetupError, UsageError, printable
from lakeingest.operations.results.html import Listing, html

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


Entry = TypeVar("Entry")


@dataclass(frozen=True)
class TextTable:
    """A table of a terminal's text: headings, and cells by the line; a cell of several lines is a list of them.

    Attributes:
        spare: columns that are left out where the terminal is too narrow, in this order.
        longest: characters of a cell's line that are shown; all of them by default.
    """

    title: str
    columns: Sequence[str]
    rows: Iterable[Sequence[object]]
    spare: Sequence[str] = ()
    longest: int | None = None


class Showable(ABC):
    """A result that prints as one line, that a notebook shows as tables, and that gives them as frames."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """What it comes to, in one line."""

    @property
    def listings(self) -> Mapping[str, Listing]:
        """Its tables by their names, the most important one first."""
        return {}

    @property
    def text(self) -> Iterator[str | TextTable]:
        """What a terminal shows: lines and tables, in their order."""
        yield self.headline

    def to_json(self) -> dict[str, Any]:
        """The same for programs; of a dataclass its fields, where it says nothing else."""
        return asdict(cast("Any", self))

    @property
    def failure(self) -> LakeingestError | None:
        """What is wrong with that which it is about, as the command says behind it."""
        return None

    def check(self) -> None:
        """Raise the failure, if there is one."""
        if (failure := self.failure) is not None:
            raise failure

    @property
    def exit_code(self) -> int:
        """The exit code of the command where there is no failure."""
        return 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {printable(self.headline)}>"

    def _repr_html_(self) -> str:
        return html(self.headline, self.listings)

    def to_pandas(self, listing: str | None = None) -> pd.DataFrame:
        """One of its listings as a pandas frame: a row for each entry.

        Args:
            listing: the name of a listing, as `listings` has it; the first by default.

        Raises:
            UsageError: there is no such listing.
            SetupError: pandas is not installed.
        """
        rows = self._listing(listing)
        with _needed("pandas"):
            import pandas as pd
        return pd.DataFrame.from_records([dict(row) for row in rows])

    def to_arrow(self, listing: str | None = None) -> pa.Table:
        """The same as an Arrow table.

        Args:
            listing: the name of a listing, as `listings` has it; the first by default.

        Raises:
            UsageError: there is no such listing.
            SetupError: pyarrow is not installed.
        """
        rows = self._listing(listing)
        with _needed("pyarrow"):
            import pyarrow as pa
        return pa.Table.from_pylist([dict(row) for row in rows])

    def _listing(self, name: str | None) -> Listing:
        listings = self.listings
        if name is None:
            return next(iter(listings.values()), ())
        if name not in listings:
            raise UsageError(
                f"{type(self).__name__} has no listing {name!r}", cure=f"name one of {', '.join(map(repr, listings))}"
            )
        return listings[name]


class ShowableList(list[Entry], Showable):
    """A list, which prints as lists do."""

    def __repr__(self) -> str:
        return list.__repr__(self)


class Rows(ShowableList[dict[str, Any]]):
    """A list of rows that a notebook shows as a table.

    Args:
        pipeline: its name.
        title: what they are, in one line.
        rows: each with the same names.
    """

    json_name = "rows"
    html_columns: Sequence[str] = ()
    """Which of the names HTML has; all of them by default."""

    def __init__(self, pipeline: str, title: str, rows: Iterable[dict[str, Any]]) -> None:
        super().__init__(rows)
        self.pipeline, self.title = pipeline, title

    @property
    def headline(self) -> str:
        return f"{self.pipeline}: {self.title}"

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {"rows": self}

    def to_json(self) -> dict[str, Any]:
        return {"pipeline": self.pipeline, self.json_name: self}

    def _repr_html_(self) -> str:
        rows = [{name: row[name] for name in self.html_columns or row} for row in self]
        return html(self.headline, {"rows": rows})


@contextmanager
def _needed(package: str) -> Iterator[None]:
    """Say how a package is installed that is imported within the block, if it is missing."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise SetupError(f"{package} is not installed", cure="pip install 'lakeingest[notebook]'") from missing
