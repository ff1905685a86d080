"""What tests share: the one embedded stack of the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeingest.local import Addresses
from lakeingest.local.stack import down, up


@pytest.fixture(scope="session")
def stack_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of the stack of the run."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="session")
def stack(stack_state: Path) -> Iterator[Addresses]:
    """The embedded stack: real servers, started once, wiped at the end. Name topics and keys after the test."""
    try:
        yield up(stack_state)
    finally:
        down(stack_state, wipe=True)
