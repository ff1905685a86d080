"""How results are shown: a line where they are printed, tables of HTML in a notebook, frames for whoever goes on.

What is shown may come from records. Only printable characters are (see `errors.printable`), and the HTML is made as a
tree, whose texts are escaped when it is written. It has no script, asks no server for anything, and leaves the colours
of text and background to the page, which may be dark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from lakeingest.config import PipelineConfig
from lakeingest.errors import SetupError, UsageError, number_of, printable

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Listing = Sequence[Mapping[str, Any]]
"""Rows with the same names."""

_ROWS, _CHARACTERS = 50, 300
"""Most rows of a table, and characters of a line, that HTML has: all of them are in the frames."""
_WHOLE = 32
"""Characters of a line that is not broken."""
_CELL = "text-align:left;vertical-align:top;padding:1px 10px 1px 0;white-space:pre-wrap"
_STYLES = {
    "div": "font-size:90%;overflow-x:auto",
    "table": "border-collapse:collapse;margin:4px 0 10px",
    "caption": "text-align:left;caption-side:top;opacity:.7;padding:0",
    "th": f"{_CELL};font-weight:600;border-bottom:1px solid rgba(128,128,128,.5)",
    "td": _CELL,
    "p": "margin:2px 0",
}


_WORDS = {None: "—", True: "yes", False: "no"}


class Shown(ABC):
    """A result that prints as one line, that a notebook shows as tables, and that gives them as frames."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """What it comes to, in one line."""

    @property
    @abstractmethod
    def listings(self) -> Mapping[str, Listing]:
        """Its tables by their names, the most important one first."""

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
            return next(iter(listings.values()))
        if name not in listings:
            raise UsageError(
                f"{type(self).__name__} has no listing {name!r}", cure=f"name one of {', '.join(map(repr, listings))}"
            )
        return listings[name]


class Rows(list[dict[str, Any]], Shown):
    """A list of rows that a notebook shows as a table.

    Args:
        rows: each with the same names.
        title: what they are, in one line.
        columns: which of the names HTML has; all of them by default.
    """

    def __init__(self, rows: Iterable[dict[str, Any]], title: str, columns: Sequence[str] = ()) -> None:
        super().__init__(rows)
        self.title, self._columns = title, columns

    @property
    def headline(self) -> str:
        return self.title

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {"rows": self}

    def __repr__(self) -> str:
        return list.__repr__(self)

    def _repr_html_(self) -> str:
        rows = [{name: row[name] for name in self._columns or row} for row in self]
        return html(self.title, {"rows": rows})


def html(headline: str, listings: Mapping[str, Listing]) -> str:
    """A headline above tables; a listing without rows is left out."""
    page = _element(None, "div")
    _element(page, "strong", _line(headline))
    for name, rows in listings.items():
        if rows:
            _table(page, name if len(listings) > 1 else "", rows)
    return ET.tostring(page, encoding="unicode", method="html")


def of_file(config: PipelineConfig) -> str:
    """A pipeline file in one line."""
    return f"{config.name}: {config.source.told} → {config.table.identifier}"


def file_as_html(config: PipelineConfig, address: str) -> str:
    """A pipeline file in a few lines of HTML; none of its secrets.

    Args:
        address: where its records are, which the file need not say.
    """
    cut = ["Kafka partition" if each.by == "kafka_partition" else each.field or "time" for each in config.partition]
    told = {
        "table" if config.source.table else "brokers": address,
        "value": config.decode.value.format,
        "compatibility": config.compatibility,
        "gate": config.gate and config.gate.suite,
        "partitions": ", ".join(cut) or None,
        "trigger": f"{config.trigger.every}, {number_of(config.trigger.max_records, 'record')} at most",
        "table": config.table.identifier,
        "quarantine": config.quarantine.identifier,
    }
    return html(of_file(config), {"file": [{"option": name, "value": value} for name, value in told.items()]})


def _table(page: ET.Element, name: str, rows: Listing) -> None:
    table = _element(page, "table")
    if name:
        _element(table, "caption", name)
    columns = list(dict.fromkeys(column for row in rows[:_ROWS] for column in row))
    heading = _element(_element(table, "thead"), "tr")
    for column in columns:
        _element(heading, "th", _line(column))
    body = _element(table, "tbody")
    for row in rows[:_ROWS]:
        line = _element(body, "tr")
        for column in columns:
            told = [*map(_line, _lines(row.get(column)))]
            cell = _element(line, "td", "\n".join(told))
            if all(len(each) <= _WHOLE for each in told):
                # A time in two lines is hard to read.
                cell.set("style", f"{_CELL};white-space:pre")
    if len(rows) > _ROWS:
        _element(page, "p", f"… and {len(rows) - _ROWS:,} more, which to_pandas() gives too")


def _element(parent: ET.Element | None, tag: str, text: str | None = None) -> ET.Element:
    made = ET.Element(tag) if parent is None else ET.SubElement(parent, tag)
    if tag in _STYLES:
        made.set("style", _STYLES[tag])
    made.text = text
    return made


def _line(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _CHARACTERS else f"{shown[: _CHARACTERS - 1]}…"


def _lines(value: object) -> list[str]:
    """A value as the lines of a cell."""
    match value:
        case None | bool():
            return [_WORDS[value]]
        case int():
            return [f"{value:,}"]
        case float():
            return [f"{value:,.6g}"]
        case Mapping():
            return [f"{name}: {' '.join(_lines(each))}" for name, each in value.items()]
        case list() | tuple():
            return [": ".join(_lines([*each.values()] if isinstance(each, Mapping) else each)) for each in value]
        case _:
            return [str(value)]


@contextmanager
def _needed(package: str) -> Iterator[None]:
    """Say how a package is installed that is imported within the block, if it is missing."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise SetupError(f"{package} is not installed", cure="pip install 'lakeingest[notebook]'") from missing
