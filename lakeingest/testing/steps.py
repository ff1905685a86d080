"""The steps of a batch at which a rehearsal may end a process, in the order in which they come.

A step is known by the request that the object store sees. So nothing in lakeingest has to tell that it was reached,
and what is rehearsed is the very program that runs at night.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from enum import StrEnum
from urllib.parse import urlsplit

from aiohttp.web import StreamResponse

from lakeingest.testing.s3 import Exchange, Request, S3Proxy, call_after, call_before, denied

_VERSION = re.compile(r"_delta_log/\d{20}\.json")


class Step(StrEnum):
    """Where a batch is; the tables are made in a run's beginning, all else is of every batch that needs it."""

    MAKING = "while the tables are made"
    WRITING = "before the data is written"
    COMMITTING = "after the files, before the table's commit"
    COMMITTED = "after the table's commit, before quarantine's"
    SETTING_ASIDE = "before quarantine's files"
    ACCOUNTING = "after quarantine's files, before its commit"
    ACCOUNTED = "after both commits"
    KEEPING = "before the ledger of schemas is kept as a property"
    KEPT = "after the ledger was kept"


_AFTER = {Step.COMMITTED, Step.ACCOUNTED, Step.KEPT}
"""Steps that are reached when the store has done what it was asked; the others when it is asked."""


def reached(step: Step, request: Request, table: str, quarantine: str) -> bool:
    """Whether a request is the one that a step is known by.

    Args:
        table, quarantine: where the pipeline's tables lie, as s3a://bucket/path.
    """
    match step:
        case Step.MAKING:
            return _commits(request, table, "CREATE TABLE")
        case Step.WRITING:
            return _writes(request, table)
        case Step.COMMITTING | Step.COMMITTED:
            return _commits(request, table, "WRITE")
        case Step.SETTING_ASIDE:
            return _writes(request, quarantine)
        case Step.ACCOUNTING | Step.ACCOUNTED:
            return _commits(request, quarantine, "WRITE")
        case Step.KEEPING | Step.KEPT:
            return _commits(request, table, "SET TBLPROPERTIES")


def end_at(
    s3: S3Proxy, step: Step, table: str, quarantine: str, end: Callable[[], object], *, batch: int = 1
) -> threading.Event:
    """Call `end`, which is to end the process and wait for it, when it reaches a step of its so-and-so-many-th batch.

    Returns:
        An event that is set when the step is reached.
    """
    there = threading.Event()

    def ending() -> None:
        there.set()
        end()

    act = call_after(ending) if step in _AFTER else call_before(ending)
    s3.fault(lambda request: reached(step, request, table, quarantine), act, times=1, skip=batch - 1)
    return there


def cut_off_at(s3: S3Proxy, step: Step, table: str, quarantine: str, *, batch: int = 1) -> threading.Event:
    """Deny everything from a step on: the store sees what it would see of a crash, and the process lives.

    Cheaper than a process of its own, but a process that lives remembers what one that was killed does not.

    Returns:
        An event that is set when the step is reached.
    """
    if step in _AFTER:
        there = end_at(s3, step, table, quarantine, lambda: None, batch=batch)
    else:
        there = threading.Event()

        async def refuse(exchange: Exchange) -> StreamResponse:
            there.set()
            return await denied()(exchange)

        s3.fault(lambda request: reached(step, request, table, quarantine), refuse, times=1, skip=batch - 1)
    s3.fault(lambda _: there.is_set(), denied())
    return there


def _within(request: Request, path: str) -> str | None:
    """The key of a request below a path, None if it lies elsewhere."""
    place = urlsplit(path)
    prefix = place.path.strip("/") + "/"
    inside = request.bucket == place.netloc and request.key.startswith(prefix)
    return request.key[len(prefix) :] if inside else None


def _writes(request: Request, path: str) -> bool:
    key = _within(request, path)
    if key is None or key.startswith("_delta_log/"):
        return False
    return request.kind in ("PUT", "MULTIPART_CREATE") and key.endswith(".parquet")


def _commits(request: Request, path: str, operation: str) -> bool:
    key = _within(request, path)
    if key is None or request.kind != "PUT" or not _VERSION.fullmatch(key):
        return False
    return f'"operation":"{operation}"' in request.text
