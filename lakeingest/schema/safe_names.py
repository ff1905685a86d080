"""Plain names of columns for fields of any name. Executors run it, by value."""

from __future__ import annotations

import re

_NO_WORD = re.compile(r"\W+")


def safe(name: str) -> str:
    """A name of letters, digits and underscores that no digit begins; a name that is so already stays."""
    word = _NO_WORD.sub("_", name).strip("_") if _NO_WORD.search(name) else name
    return f"_{word}" if not word or word[0].isdigit() else word
