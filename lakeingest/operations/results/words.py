"""Values, numbers and errors as people and programs read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from lakeingest.errors import LakeingestError, PipelineFileError, number_of

_WORDS = {None: "—", True: "yes", False: "no"}
_WORST = (1, 3, 4, 2)
"""Exit codes, the worst first: a broken promise, a lost fence, what is outside, usage."""


def words(value: object) -> str:
    """A single value, as people read it."""
    match value:
        case None | bool():
            return _WORDS[value]
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.6g}"
        case _:
            return str(value)


def cut(text: str, longest: int) -> str:
    """The text, or so many characters of it, the last of which is … then."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def duration(seconds: float) -> str:
    """As one says it: 40 s, 12 min, 3 h."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s"


def became(accepted: int, refused: int, dropped: int) -> str:
    """What became of records."""
    return f"{accepted:,} to the table, {refused:,} to quarantine, {dropped:,} dropped"


def drops(dropped: int, left_out: Mapping[str, int]) -> str:
    """Declared drops by their reasons: the names of `left_out`, and records without a value."""
    by_reason = {**left_out, "no value": dropped - sum(left_out.values())}
    return ", ".join(f"{count:,} by {name}" for name, count in by_reason.items() if count)


def ties(count: int) -> str:
    """How often the order of `table.order_by` did not say which record of a key is the latest, and the cure."""
    return (
        f"{number_of(count, 'tie')}: two latest records of a key, of two partitions and with the same order, so that "
        "the partition's number decided; add a field to table.order_by, or let the producer's key be the table's"
    )


def as_json(data: Mapping[str, Any], indent: int | None = 2) -> str:
    """As JSON, of several lines by default, which has no character either that a terminal would act upon."""
    text = json.dumps(data, indent=indent, ensure_ascii=False, default=str)
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    """As JSON has it, in UTF-16."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def error_as_data(error: LakeingestError) -> dict[str, Any]:
    """An error for programs."""
    return {
        "error": type(error).__name__,
        "stage": error.stage,
        "what": error.what,
        "cure": error.cure,
        "problems": error.problems if isinstance(error, PipelineFileError) else (),
        "exit_code": error.exit_code,
    }


def worst(exit_codes: Iterable[int]) -> int:
    """The worst of exit codes; 0 where there is none."""
    codes = {*exit_codes}
    return next((code for code in _WORST if code in codes), 0)


def foreign_writers(versions: Mapping[str, int]) -> str:
    """Who else has committed to a table: engine → the newest version that it made."""
    each = ", ".join(f"{engine} (version {version} the last)" for engine, version in versions.items())
    return f"others than lakeingest have committed to it: {each}"
