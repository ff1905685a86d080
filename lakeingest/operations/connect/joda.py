"""path.format in Joda's letters, as Connect has it → the format of `by: time`, in Spark's."""

from __future__ import annotations

from lakeingest.config.partition_format import FormatError, parse_format, written_segments
from lakeingest.schema import time_patterns

_NAMES = {"y": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second", "D": "day_of_year"}
_FINEST = "smHdDMy"


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
    for part in written_segments(text.strip().strip("/")):
        name, spark = part["name"], time_patterns.from_joda(part["pattern"])
        if not any(run.isalpha() for run in time_patterns.runs(spark)):
            differences.append(f"{part[0]} names no time, and is left out: it would be the same for every record")
            continue
        if not name:
            finest = next((letter for letter in _FINEST if letter in spark), None)
            if finest is None or spark.count("'") > 1:
                raise FormatError((f"{part[0]!r}: a segment without a name; write 'name'=pattern",))
            name = f"'{_NAMES[finest]}'="
            named_here.append(_NAMES[finest])
        segments.append(name + spark)
    if named_here:
        differences.append(f"a table's partitions have names: {', '.join(named_here)}")
    converted = "/".join(segments)
    parse_format(converted, locale)
    return converted, tuple(differences)
