"""The log of a run, through Python's `logging`: one event a line, as text or as JSON, with times in UTC and levels.

It holds no value of a record, and no secret: an error shows none.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from lakeingest.errors import LakeingestError, number_of, printable
from lakeingest.ingest.events import (
    CatalogUpdate,
    Committed,
    Ended,
    Event,
    GroupUpdate,
    Looked,
    Maintained,
    Matched,
    Retrying,
    Started,
)

FORMATS = ("text", "json")
_LOGGERS = ("lakeingest", "py.warnings")
"""Ours, and the one of Python's warnings."""


class Log:
    """A listener (see `extend.Listener`) that logs what it hears, from its making until it is closed.

    Args:
        format: one of `FORMATS`.
        write: takes each line.
    """

    def __init__(self, format: str, write: Callable[[str], object]) -> None:
        self._handler = _LogWriter(write)
        self._handler.setFormatter(_Json() if format == "json" else _Text())
        self._looked = set[str]()
        self._log = logging.getLogger(_LOGGERS[0])
        self._before = self._log.level, self._log.propagate
        self._log.setLevel(logging.INFO)
        self._log.propagate = False
        logging.captureWarnings(True)
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self._handler)

    def close(self) -> None:
        """Leave Python's logging as it was."""
        logging.captureWarnings(False)
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(self._handler)
        self._log.level, self._log.propagate = self._before

    def says(self, text: str) -> None:
        """Show the step before and between events."""
        self._log.info(text.removesuffix(" …"))

    def heard(self, pipeline: str, event: Event) -> None:
        level = _level(event)
        if isinstance(event, Looked):
            # One that finds nothing comes with each trigger.
            level = logging.DEBUG if pipeline in self._looked else level
            self._looked.add(pipeline)
        fields = {"pipeline": pipeline, "event": type(event).__name__, "at": event.at, "data": as_data(event)}
        self._log.log(level, sentence(event), extra={"fields": fields})


def _level(event: Event) -> int:
    match event:
        case Ended(failure=Exception()):
            return logging.ERROR
        case Retrying() | CatalogUpdate(failure=LakeingestError()) | GroupUpdate(failure=LakeingestError()):
            return logging.WARNING
        case Committed() if any(not each.success for each in event.gate):
            return logging.WARNING
    return logging.INFO


def sentence(event: Event) -> str:
    """An event in one line."""
    text = type(event).__name__
    match event:
        case Started():
            text = f"run {event.run.id} begins: {', '.join(event.topics)} to {event.table}"
        case Matched():
            text = f"topics match: {', '.join(event.pipelines) or 'none'}"
        case Looked(lag=0):
            text = f"no new records · lag 0 · {_last(event)}"
        case Looked():
            text = f"{event.lag:,} new records · {_last(event)}"
        case Committed():
            text = _committed(event)
        case Retrying():
            text = f"{event.failure.what}; trying again in {event.pause_s:.0f} s, for {event.left_s:.0f} s more"
        case CatalogUpdate(failure=None):
            text = f"the catalog has {event.name} as it is now"
        case CatalogUpdate():
            text = f"the catalog is behind: {event.failure and event.failure.what}; the next batch tries again"
        case GroupUpdate(failure=None):
            text = f"the consumer group {event.group} stands where the table does again"
        case GroupUpdate():
            text = f"{event.failure and event.failure.what}; the next batch tries again"
        case Maintained():
            text = _maintained(event)
        case Ended():
            reason = f": {_message(event.failure)}" if event.failure else ""
            text = (
                f"{event.outcome}{reason} · {number_of(event.counts.consumed, 'record')} in "
                f"{number_of(event.commits, 'commit')}"
            )
    return text


def _last(looked: Looked) -> str:
    return f"last commit {looked.sequence}" if looked.sequence else "nothing committed yet"


def _committed(event: Committed) -> str:
    counts, rate = event.counts, event.counts.consumed / event.seconds if event.seconds else 0.0
    parts = [f"{number_of(counts.consumed, 'record')} · {rate:,.0f}/s · lag {event.lag:,}"]
    changes = {name: count for name, count in event.row_changes.items() if count}
    parts += [_listed(changes)] if changes else []
    parts += [f"refused {_listed(event.refused) or counts.refused}"] if counts.refused else []
    parts += [f"dropped {_listed(event.dropped)}"] if counts.dropped else []
    parts += [f"schema {each.version or each.fingerprint[:8]}: {each.action}" for each in event.schemas]
    broken = [each.rule.name for each in event.gate if not each.success]
    parts += [f"gate: {', '.join(broken)} not met"] if broken else []
    return " · ".join([*parts, f"commit {event.sequence}"])


def _maintained(event: Maintained) -> str:
    files = event.files
    parts = [f"{number_of(files.removed, 'file')} became {files.added:,}"] if files.removed else []
    parts = parts or [f"nothing to compact in {number_of(files.before.count, 'file')}"]
    remaining = sum(files.remaining.values())
    parts += [f"{number_of(remaining, 'partition')} left"] if remaining else []
    parts += [f"{number_of(files.expiry.rows, 'row')} expired"] if files.expiry and files.expiry.rows else []
    parts += [f"{number_of(files.vacuum.files, 'old file')} deleted"] if files.vacuum and files.vacuum.files else []
    parts += [f"failed: {files.failure.what}"] if files.failure else []
    return f"{files.table}: {', '.join(parts)}, in {event.seconds:.1f} s"


def _listed(counts: Any) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _message(failure: Exception) -> str:
    return failure.what if isinstance(failure, LakeingestError) else repr(failure)


def as_data(event: Event) -> dict[str, Any]:
    """What an event holds, for programs."""
    data: dict[str, Any] = {}
    match event:
        case Started():
            where = {"topics": list(event.topics), "table": event.table, "quarantine": event.quarantine}
            data = {"run": event.run.id, "host": event.run.host, "pid": event.run.pid, **where}
        case Matched():
            data = {"pipelines": list(event.pipelines)}
        case Looked():
            data = {"sequence": event.sequence, "partitions": event.partitions, "lag": event.lag}
        case Committed():
            data = _commit_data(event)
        case Retrying():
            data = {**_error(event.failure), "pause_s": round(event.pause_s, 3), "left_s": round(event.left_s, 3)}
        case CatalogUpdate():
            data = {"name": event.name, **(_error(event.failure) if event.failure else {})}
        case GroupUpdate():
            data = {"group": event.group, **(_error(event.failure) if event.failure else {})}
        case Maintained():
            data = {**event.files.to_json(), "seconds": round(event.seconds, 3)}
        case Ended():
            fields = {"outcome": event.outcome, "commits": event.commits, **vars(event.counts), "lag": event.lag}
            data = {**fields, **(_error(event.failure) if event.failure else {})}
    return data


def _commit_data(event: Committed) -> dict[str, Any]:
    written = event.written
    return {
        "sequence": event.sequence,
        "version": event.version,
        **vars(event.counts),
        "reasons": dict(event.refused),
        "drops": event.dropped,
        "lag": event.lag,
        "seconds": round(event.seconds, 3),
        "stages": {name: round(seconds, 3) for name, seconds in event.stages.items()},
        "commit_s": round(written.commit_s, 3),
        "bytes": event.bytes,
        "newest": event.newest and event.newest.isoformat(timespec="milliseconds"),
        "files": written.files,
        "bytes_written": written.bytes,
        **({"row_changes": event.row_changes} if event.row_changes else {}),
        "offsets": event.ranges.to_json(),
        "schemas": [
            {"side": s.side, "id": s.id, "subject": s.subject, "version": s.version, "action": s.action}
            for s in event.schemas
        ],
        "gate": [
            {"expectation": r.rule.name, "met": r.success, "action": r.rule.action, "unexpected": r.unexpected}
            for r in event.gate
        ],
        "accepted_held": event.accepted_held,
    }


def _error(failure: Exception) -> dict[str, Any]:
    if isinstance(failure, LakeingestError):
        fields = {"stage": failure.stage, "what": failure.what, "cure": failure.cure, "exit_code": failure.exit_code}
        return {"error": type(failure).__name__, **fields}
    return {"error": type(failure).__name__, "what": repr(failure), "traceback": traceback.format_exception(failure)}


class _LogWriter(logging.Handler):
    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(self.format(record) + "\n")
        except Exception:
            self.handleError(record)


def _time(record: logging.LogRecord) -> str:
    at = getattr(record, "fields", {}).get("at") or datetime.fromtimestamp(record.created, UTC)
    return str(at.isoformat(timespec="milliseconds")).replace("+00:00", "Z")


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        name = getattr(record, "fields", {}).get("pipeline")
        text = printable(f"{name}: {record.getMessage()}" if name else record.getMessage().strip())
        return f"{_time(record)} {record.levelname} {text}"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", {})
        line = {"time": _time(record), "level": record.levelname, "message": record.getMessage().strip()}
        if fields:
            line |= {"pipeline": fields["pipeline"], "event": fields["event"], **fields["data"]}
        # Escaped, so that a log that is looked at in a terminal can do nothing to it.
        return json.dumps(line, default=str)
