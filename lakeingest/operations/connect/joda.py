"""path.format in Joda's letters, as Connect has it → the format of `by: time`, in Spark's."""

from __future__ import annotations

import re

from lakeingest.config.partition_format import FormatError, parse_format

_NAMES = {"y": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second", "D": "day_of_year"}
_FINEST = "smHdDMy"
_SLASH = re.compile(r"/(?=(?:[^']*'[^']*')*[^']*$)")
_QUOTED = re.compile(r"('[^']*')")
_NAMED = re.compile(r"'[^'=]+'=|'[^'=]+='|\w+=")


def format_of(text: str, locale: str) -> tuple[str, tuple[str, ...]]:
    """The format for `by: time`, and what is different about it, a sentence each.

    Joda's YYYY is the year of era, Spark's a week year: it becomes yyyy. A table's partition has a name, so a segment
    without one gets the name of its finest unit; one without a letter names no time, and is left out.

    Raises:
        FormatError: it has letters that stand for something that Spark does not format, or formats otherwise.
    """
    differences: list[str] = []
    segments: list[str] = []
    named_here: list[str] = []
    for part in _SLASH.split(text.strip().strip("/")):
        match = _NAMED.match(part)
        name, pattern = part[: match.end()] if match else "", part[match.end() :] if match else part
        pieces = _QUOTED.split(pattern)
        if not re.search("[A-Za-z]", "".join(pieces[::2])):
            differences.append(f"{part} names no time, and is left out: it would be the same for every record")
            continue
        spark = "".join(piece if at % 2 else piece.replace("Y", "y") for at, piece in enumerate(pieces))
        if not match:
            finest = next((letter for letter in _FINEST if letter in spark), None)
            if finest is None or len(pieces) > 1:
                raise FormatError((f"{part!r}: a segment without a name; write 'name'=pattern",))
            name = f"'{_NAMES[finest]}'="
            named_here.append(_NAMES[finest])
        segments.append(name + spark)
    if named_here:
        differences.append(f"a table's partitions have names: {', '.join(named_here)}")
    converted = "/".join(segments)
    parse_format(converted, locale)
    return converted, tuple(differences)
