"""Texts against patterns, as Spark's rlike and like have them, but with an end whatever the text is.

Java matches a pattern by trying: a group that is repeated takes a part of the stack for each time, so that a long text
ends the JVM, and some patterns try a text's parts in exponentially many ways. Where a session has lakeingest's jar, a
function of its catalog gives up in time (`PatternFunctions.java`). Elsewhere a text that is too long for a repeated
group is not looked at.
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakeingest.spark import jvm

LONGEST = 1000
"""Characters of a text that a repeated group is held against where nothing can give up: the stack has room for more."""
_BEGINNING = re.compile("\\^([A-Za-z0-9 _/:@#-]+)")
"""A regular expression that says what a text begins with, and no more."""
_REPEATED = re.compile(r"\)[*+?{]")
"""Finds a group that is repeated."""
_SIMPLE_LIKE = re.compile(r"[^%]*%?[^%]*|%[^%_]*%")
"""A pattern of LIKE in which nothing is tried twice."""


def regex(text: Column, pattern: str) -> Column:
    """BOOLEAN: whether a text has a part that matches; null of null, and where that cannot be told."""
    beginning = _BEGINNING.fullmatch(pattern)
    if beginning:
        # Costs less than a pattern.
        return text.startswith(beginning[1])
    if jvm.offered("pattern"):
        return F.call_function(jvm.function("pattern", f"rlike {pattern}"), text)
    return F.when(F.length(text) <= LONGEST, text.rlike(pattern)) if _REPEATED.search(pattern) else text.rlike(pattern)


def like(text: Column, pattern: str, escape: str | None) -> Column:
    """BOOLEAN: whether a text is as the pattern of LIKE says; null of null, and where that cannot be told."""
    if jvm.offered("pattern") and not _SIMPLE_LIKE.fullmatch(pattern):
        return F.call_function(jvm.function("pattern", f"like{escape or chr(92)} {pattern}"), text)
    return text.like(pattern) if escape is None else F.like(text, F.lit(pattern), F.lit(escape))
