"""Sizes in bytes as users write them: 128 MiB, 50 GiB, 200 MB."""

from __future__ import annotations

import re
from typing import Any

_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE = re.compile(r"\s*(\d{1,15})\s*([KMGT]?)(i?)B\s*", re.ASCII | re.IGNORECASE)
_LARGEST = 2**50


def size(value: Any) -> Any:
    """A number of bytes out of its text.

    Raises:
        ValueError: it is none, or more than 1,024 TiB.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        match = _SIZE.fullmatch(str(value))
        number = int(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2].lower()] if match else 0
    if not 0 < number <= _LARGEST:
        raise ValueError(
            "not a size; write a positive whole number and a unit, as in '128 MiB', '50 GiB' or '200 MB', of 1,024 TiB "
            "at most"
        )
    return number


def size_text(value: int) -> str:
    """A number of bytes as one writes it in a file: 128 MiB."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if value >= 1024**power and value % 1024**power == 0:
            return f"{value // 1024**power} {unit}"
    return f"{value} B"
