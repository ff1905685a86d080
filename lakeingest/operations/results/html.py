"""Results as HTML for a notebook: a headline above tables.

Values come from records. Only printable characters of them are shown (see `errors.printable`), and the HTML is made as
a tree, whose texts are escaped when it is written. It has no script, asks no server for anything, and leaves colours to
the page, which may be dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from lakeingest.errors import printable
from lakeingest.operations.results.words import cut, words

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


def html(headline: str, listings: Mapping[str, Listing]) -> str:
    """A headline above tables; a listing without rows is left out."""
    page = _element(None, "div")
    _element(page, "strong", _line(headline))
    for name, rows in listings.items():
        if rows:
            _table(page, name if len(listings) > 1 else "", rows)
    return ET.tostring(page, encoding="unicode", method="html")


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
            lines = [*map(_line, _lines(row.get(column)))]
            cell = _element(line, "td", "\n".join(lines))
            if all(len(each) <= _WHOLE for each in lines):
                # A time in two lines is hard to read.
                cell.set("style", f"{_CELL};white-space:pre")
    if len(rows) > _ROWS:
        _element(page, "p", f"… and {len(rows) - _ROWS:,} more, which to_pandas() gives too")


def _element(parent: ET.Element | None, tag: str, text: str | None = None) -> ET.Element:
    element = ET.Element(tag) if parent is None else ET.SubElement(parent, tag)
    if tag in _STYLES:
        element.set("style", _STYLES[tag])
    element.text = text
    return element


def _line(text: str) -> str:
    return cut(printable(text), _CHARACTERS)


def _lines(value: object) -> list[str]:
    """A value as the lines of a cell."""
    match value:
        case Mapping():
            return [f"{name}: {' '.join(_lines(each))}" for name, each in value.items()]
        case list() | tuple():
            return [": ".join(_lines([*each.values()] if isinstance(each, Mapping) else each)) for each in value]
        case _:
            return [words(value)]
