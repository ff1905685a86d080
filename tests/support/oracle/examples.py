"""How many examples a property is tried on: the same few in each `make test`, many others by `make test-properties`.

What a search finds by chance stops whoever looks for it, and nobody else's change.
"""

from __future__ import annotations

import os

from hypothesis import settings

_TIMES = int(os.environ.get("LAKEINGEST_TEST_EXAMPLES", "1"))


def searched(examples: int) -> settings:
    """A property's settings: so many examples; times LAKEINGEST_TEST_EXAMPLES if that is set, and then at random."""
    return settings(max_examples=examples * _TIMES, derandomize=_TIMES == 1, deadline=None)
