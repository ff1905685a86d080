"""Who may compute now, where several pipelines share a process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """Lets so many compute at once, in the order in which they asked: who has much to do does not keep others waiting.

    Args:
        at_once: how many may.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, and have it for the block."""
        granted = threading.Event()
        with self._lock:
            if self._free:
                self._free -= 1
                granted.set()
            else:
                self._waiting.append(granted)
        granted.wait()
        try:
            yield
        finally:
            with self._lock:
                # Handed over, so that nobody who asks now comes before those who wait.
                if self._waiting:
                    self._waiting.popleft().set()
                else:
                    self._free += 1
