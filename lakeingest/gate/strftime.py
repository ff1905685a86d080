"""Python's date formats as regular expressions that Java reads the same way."""

from __future__ import annotations

import re
from functools import cache

_DIRECTIVES = {
    "Y": r"(?!0000)\d{4}",
    "m": r"1[0-2]|0[1-9]|[1-9]",
    "d": r"3[0-1]|[1-2]\d|0[1-9]|[1-9]| [1-9]",
    "H": r"2[0-3]|[0-1]\d|\d",
    "M": r"[0-5]\d|\d",
    "S": r"(?!6[01])(?:[0-5]\d|\d)",
    "f": r"\d{1,6}",
}
"""As `datetime.strptime` takes them: a leading zero may be left out."""


@cache
def pattern(format: str) -> tuple[str, dict[str, int]] | None:
    """The regular expression of a format such as %Y-%m-%d, and the number of each directive's group.

    None for a format that cannot be said so: one with names of days or months, with zones, with a day that is not in a
    year and a month, or with a directive twice.
    """
    regex, places = "", dict[str, int]()
    for directive, text in re.findall(r"%(.)|([^%]+|%$)", format, flags=re.DOTALL):
        if directive == "%":
            regex += "%"
        elif directive:
            if directive not in _DIRECTIVES or directive in places:
                return None
            places[directive] = len(places) + 1
            regex += f"({_DIRECTIVES[directive]})"
        else:
            regex += re.sub(r"(\\?\s)+", lambda _: r"\s+", re.escape(text))
    if not places or ("d" in places and not {"Y", "m"} <= set(places)):
        return None
    return rf"^(?i:{regex})\z", places
