"""The JSON text of parts of a record that no typed column can hold. Plain Python: it runs on executors, by value.

`JsonFunctions.java` does the same where a session has lakeingest's jar, to the same letters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakeingest.schema.json_text import Members, read, written


def texts(kind: dict[str, Any]) -> Callable[[bytes | None], dict[str, Any] | None]:
    """A record's bytes → the JSON texts in it; None where it is no JSON object.

    Args:
        kind: a struct that has nothing but such texts, as Spark's schema JSON read into a dict. A map is an array of
            its values.
    """

    def of_record(raw: bytes | None) -> dict[str, Any] | None:
        if raw is None:
            return None
        try:
            tree = read(bytes(raw).decode("utf-8"))
            return _part(tree, kind) if isinstance(tree, Members) else None
        except (ValueError, RecursionError):
            return None

    return of_record


def _part(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if kind == "string":
        return written(value)
    if kind["type"] == "struct" and isinstance(value, Members):
        members = dict(value)
        return {f["name"]: _part(members.get(f["name"]), f["type"]) for f in kind["fields"]}
    if kind["type"] == "array" and isinstance(value, list):
        parts = [each for _, each in value] if isinstance(value, Members) else value
        return [_part(each, kind["elementType"]) for each in parts]
    # The record does not fit its columns, and is refused for it.
    return None
