"""Who else has committed to a table, as its log names them. Two log stores do not see each other's commits coming."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lakeingest.delta.history import adds_rows
from lakeingest.delta.receipt import Receipt, removal_reason


def engines(entries: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """What lakeingest has committed with, among commits as `TableHistory.history` has them."""
    return frozenset(_engine(entry) for entry in entries if _is_own(entry))


def of(entries: Sequence[Mapping[str, Any]], own_engines: Collection[str], *, of_rows: bool) -> dict[str, int]:
    """Who else committed: engine → the newest version of the table that it made.

    Args:
        entries: commits as `TableHistory.history` has them, the newest first.
        own_engines: the engines that lakeingest commits with.
        of_rows: whether a commit of rows without a receipt is another's, too, whatever engine made it.
    """
    versions: dict[str, int] = {}
    for entry in entries:
        changes_rows = of_rows and (adds_rows(entry) or entry["operation"] in ("DELETE", "UPDATE"))
        if not _is_own(entry) and (_engine(entry) not in own_engines or changes_rows):
            versions.setdefault(_engine(entry), entry["version"])
    return versions


def _engine(entry: Mapping[str, Any]) -> str:
    return str(entry["engineInfo"] or "an engine without a name")


def _is_own(entry: Mapping[str, Any]) -> bool:
    metadata = entry["userMetadata"] or ""
    is_removal = removal_reason(metadata) is not None
    return is_removal or metadata.startswith("lakeingest: ") or Receipt.from_json(metadata) is not None
