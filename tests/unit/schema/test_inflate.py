"""zlib undone in Python, within a bound."""

from __future__ import annotations

import tracemalloc
import zlib

from lakeingest.schema.formats.compressed import inflated


def test_a_bomb_costs_its_bound() -> None:
    """Of 100 MB in 100 kB so much is made as is asked for."""
    bomb = zlib.compress(bytes(100_000_000), 9)
    tracemalloc.start()
    try:
        assert inflated(bomb, 1000) == bytes(1000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
