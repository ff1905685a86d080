"""The way to a part of a record, as in `stops[].tags{}.zip`. Executors run it, by value."""

from __future__ import annotations

ELEMENT, KEY, VALUE = "[]", "{key}", "{}"
"""Steps below a field: an array's element, a map's key, a map's value."""


def step(path: str, name: str) -> str:
    """The path of a field of that name below `path`, which is empty for the record itself."""
    name = f"`{name}`" if "." in name else name
    return f"{path}.{name}" if path else name
