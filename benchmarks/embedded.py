"""The stack of one benchmark: brought up for it, and gone with all its data when it ends."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakeingest.local import Addresses
from lakeingest.local.stack import down, up


@contextmanager
def embedded() -> Iterator[tuple[Addresses, Path]]:
    """Where the servers listen, and a folder for whatever the benchmark writes."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "stack"
        try:
            yield up(state), Path(folder)
        finally:
            down(state, wipe=True)
