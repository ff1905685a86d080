"""MongoDB's Extended JSON as plain JSON: `{"$oid": "65…"}` is "65…", `{"$numberLong": "7"}` is 7.

In a JSON text `{"$` is always the beginning of an object: within a string the quotation mark has a backslash before it,
and behind a string comes no $. So the text alone tells what is to be replaced. Objects of other types (`$timestamp`,
`$regularExpression`), and numbers that JSON cannot write (NaN), stay as they are.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_NUMBER = r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?"
_TEXT = r'"[^"\\]*"'
_SHAPES = (
    rf'\{{\s*"\$number(?:Int|Long|Double|Decimal)"\s*:\s*"({_NUMBER})"\s*\}}',
    # Behind the numbers, as a date may be one of them.
    rf'\{{\s*"\$(?:oid|date)"\s*:\s*({_TEXT}|{_NUMBER})\s*\}}',
    rf'\{{\s*"\$binary"\s*:\s*({_TEXT})\s*,\s*"\$type"\s*:\s*{_TEXT}\s*\}}',
    rf'\{{\s*"\$binary"\s*:\s*\{{\s*"base64"\s*:\s*({_TEXT})\s*,\s*"subType"\s*:\s*{_TEXT}\s*\}}\s*\}}',
)
"""Regular expressions of values, whose first group is what is left of each: in the order in which they are replaced."""


def plain(text: Column) -> Column:
    """STRING, a JSON text → the same without the objects that only say a value's type."""
    for shape in _SHAPES:
        text = F.regexp_replace(text, shape, "$1")
    return text
