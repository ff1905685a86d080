"""A page that is made when somebody asks for it, and kept for a while."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from traceback import format_exc

from lakeingest.errors import LakeingestError, printable

KEPT_S = 60.0
"""Whoever asks again within this time sees the same page: tables are read for the first one alone."""
_WAITS_S = 30.0
_TEXT = "text/plain; charset=utf-8"
_BUSY = "the page is being made, and that takes long: ask again later\n"
_FAULT = "the page could not be made, by a fault of lakeingest: its log says more; the run goes on\n"


class KeptPage:
    """A page in HTML, made by one thread at a time.

    Args:
        make: makes it; called by the thread of whoever asks.
        kept_s: how long it is kept.
        waits_s: how long others wait while it is made.
    """

    def __init__(self, make: Callable[[], str], *, kept_s: float = KEPT_S, waits_s: float = _WAITS_S) -> None:
        self._make, self._kept_s, self._waits_s = make, kept_s, waits_s
        self._making = threading.Lock()
        self._page: str | None = None
        self._until = 0.0

    def answer(self) -> tuple[str, str, str]:
        """Status, type and text of an answer by HTTP: the page, or in a sentence why there is none."""
        if not self._making.acquire(timeout=self._waits_s):
            return "503 Service Unavailable", _TEXT, _BUSY
        try:
            if self._page is None or time.monotonic() > self._until:
                self._page = None
                self._page = self._make()
                self._until = time.monotonic() + self._kept_s
            return "200 OK", "text/html; charset=utf-8", self._page
        except LakeingestError as failed:
            return "503 Service Unavailable", _TEXT, f"{printable(failed.what)}\n{printable(failed.cure)}\n"
        except Exception:
            logging.getLogger("lakeingest").error("/report could not be made, the run goes on: %s", format_exc())
            return "500 Internal Server Error", _TEXT, _FAULT
        finally:
            self._making.release()
