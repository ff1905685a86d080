"""How many refused records a batch may have."""

from __future__ import annotations

import pytest

from lakeingest.config import Quarantine


@pytest.mark.parametrize(
    ("most", "refused", "consumed", "allowed"),
    [
        (None, 9, 9, True),
        (3, 3, 3, True),
        (3, 4, 1000, False),
        ("1%", 1, 3, True),
        ("1%", 2, 3, False),
        ("1%", 10, 1000, True),
        ("0.5%", 6, 1000, False),
        ("0%", 1, 10, False),
    ],
)
def test_what_a_budget_allows(most: int | str | None, refused: int, consumed: int, allowed: bool) -> None:
    """A share of a small batch is one of a hundred records."""
    assert Quarantine(path="s3a://lake/q", max_refused=most).allows(refused, consumed) is allowed
