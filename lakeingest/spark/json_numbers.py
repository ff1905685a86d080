"""Numbers of a JSON text in quotes, so that nothing in Spark changes them: Columns only.

A VARIANT has 1.1 for 1.10, and so has a text that Spark's parser makes of a number.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

NUMBERS = r'(?s)\G((?:[^"\d-]|"(?:[^"\\]++|\\.)*+")*+)(-?\d[\d.eE+-]*+)'
"""All before a number that is in no quotes, and the number. The signs behind each + keep it off Java's stack."""
_MARK = f"number {secrets.token_urlsafe(9)} "
"""Before a number that was put in quotes; nobody who writes records knows it."""


def marked(text: Column) -> Column:
    """A JSON text with each number in quotes, behind a mark; `unmarked` takes both off again."""
    return F.regexp_replace(text, NUMBERS, f'$1"{_MARK}$2"')


def unmarked(text: Column) -> Column:
    """A text, or a JSON text, with its marked numbers as they were written: also those within a text of JSON."""
    return F.regexp_replace(text, rf'(?:\\*")?{_MARK}([-+.\deE]+)(?:\\*")?', "$1")
