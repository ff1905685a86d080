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

from lakeingest.testing.s3 import Exchange, Request, S3Proxy, call_after, call_instead, denied

_VERSION = re.compile(r"_delta_log/\d{20}\.json")


class Step(StrEnum):
    """A step of a batch; the tables are made in a run's beginning, all else is of every batch that needs it."""

    MAKING = "while the tables are made"
    WRITING = "before the data is written"
    COMMITTING = "after the files, before the table's commit"
    COMMITTED = "after the table's commit, before quarantine's"
    REMEMBERING = "before the commit of what a batch of mode upsert deletes"
    REMEMBERED = "after the commit of what it deletes, before the table's"
    SETTING_ASIDE = "before quarantine's files"
    ACCOUNTING = "after quarantine's files, before its commit"
    ACCOUNTED = "after both commits"
    KEEPING = "before the ledger of schemas is kept as a property"
    KEPT = "after the ledger was kept"
    MARKING = "after a replay's files, before its marks in quarantine"
    MARKED = "after a replay's marks"


OF_REPLAY = (Step.WRITING, Step.COMMITTING, Step.COMMITTED, Step.SETTING_ASIDE, Step.MARKING, Step.MARKED)
"""The steps that `lakeingest quarantine replay` comes by; the last two are its alone."""
OF_UPSERT = (Step.REMEMBERING, Step.REMEMBERED)
"""The steps of table.mode upsert alone."""
_AFTER = {Step.COMMITTED, Step.REMEMBERED, Step.ACCOUNTED, Step.KEPT, Step.MARKED}
"""Steps that are reached when the store has done what it was asked; the others when it is asked."""
_OF_QUARANTINE = {Step.SETTING_ASIDE, Step.ACCOUNTING, Step.ACCOUNTED, Step.MARKING, Step.MARKED}
_OPERATIONS = {
    Step.MAKING: "CREATE TABLE",
    Step.COMMITTING: "WRITE|MERGE",
    Step.COMMITTED: "WRITE|MERGE",
    Step.REMEMBERING: "WRITE",
    Step.REMEMBERED: "WRITE",
    Step.ACCOUNTING: "WRITE",
    Step.ACCOUNTED: "WRITE",
    Step.KEEPING: "SET TBLPROPERTIES",
    Step.KEPT: "SET TBLPROPERTIES",
    Step.MARKING: "MERGE",
    Step.MARKED: "MERGE",
}
"""The operation that Delta's commit names, a pattern; the steps that are not here are known by a data file."""


def reached(step: Step, request: Request, table: str, quarantine: str) -> bool:
    """Whether a request is the one that a step is known by.

    Args:
        table, quarantine: where the pipeline's tables lie, as s3a://bucket/path.
    """
    where = quarantine if step in _OF_QUARANTINE else f"{table}_deletes" if step in OF_UPSERT else table
    operation = _OPERATIONS.get(step)
    return _writes(request, where) if operation is None else _commits(request, where, operation)


def end_at(
    s3: S3Proxy, step: Step, table: str, quarantine: str, end: Callable[[], object], *, batch: int = 1
) -> threading.Event:
    """Call `end`, which is to end the process and wait for it, when it reaches a step of its so-and-so-many-th batch.

    Returns:
        An event that is set when the step is reached.
    """
    at_step = threading.Event()

    def ending() -> None:
        at_step.set()
        end()

    # A JVM that was killed may hold its connections for some moments: what it asked must not come through meanwhile.
    act = call_after(ending) if step in _AFTER else call_instead(ending)
    s3.fault(lambda request: reached(step, request, table, quarantine), act, times=1, skip=batch - 1)
    return at_step


def cut_off_at(s3: S3Proxy, step: Step, table: str, quarantine: str, *, batch: int = 1) -> threading.Event:
    """Deny everything from a step on: the store sees what it would see of a crash, and the process lives.

    Cheaper than a process of its own, but a process that lives remembers what one that was killed does not.

    Returns:
        An event that is set when the step is reached.
    """
    if step in _AFTER:
        at_step = end_at(s3, step, table, quarantine, lambda: None, batch=batch)
    else:
        at_step = threading.Event()

        async def refuse(exchange: Exchange) -> StreamResponse:
            at_step.set()
            return await denied()(exchange)

        s3.fault(lambda request: reached(step, request, table, quarantine), refuse, times=1, skip=batch - 1)
    s3.fault(lambda _: at_step.is_set(), denied())
    return at_step


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
    return re.search(f'"operation":"({operation})"', request.text) is not None
