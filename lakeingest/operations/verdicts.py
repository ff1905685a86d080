"""What audits have proved, kept beside the table: one small object each, which bears the hash of the one before.

Receipts go with the clean-up of the table's log, after 30 days by Delta's default. A verdict stays, whatever is done to
the tables, and says up to which offsets an audit has proved them. So rows that are older than the log's receipts were
proved, if the log goes on where that proof ended, or before, and they are not more than it counted.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lakeingest.config import Storage, location
from lakeingest.delta.reader.log import OfflineLog, Unreadable, store
from lakeingest.errors import StorageUnreachable, TableMismatch, UsageError
from lakeingest.operations.results.audit import Report

FORM = 1
_COUNTS = ("consumed", "table", "quarantine", "dropped", "gaps", "lost", "earlier", "files_by_log", "files_read")


def folder_of(table: str) -> str:
    """Where the verdicts of a table are."""
    return f"{table.rstrip('/')}_proofs"


def go_on(report: Report, table: str, storage: Storage) -> Report:
    """The report, with what the newest verdict proves of it; and a new verdict, if all is conserved.

    Args:
        report: of an audit just now.
        table: the table's path.

    Raises:
        UsageError: the table has a name alone, or its store can be written to by Spark alone.
        StorageUnreachable: a verdict cannot be read or written.
        TableMismatch: a verdict does not follow the one before it: somebody has changed them.
    """
    if not location.is_path(table):
        raise UsageError(
            f"{table} is a name, and verdicts are kept beside a path", cure="name the table by table.path in the file"
        )
    try:
        state, chain = OfflineLog(table, storage).state, _Chain.of(table, storage)
        about = {"pipeline": report.pipeline, "table_id": state.metadata["id"]}
        if chain.newest and about.items() <= chain.newest.items():
            report = _with_proof(report, chain.newest)
        verdict = {**about, "version": state.version, **_verdict(report)}
        return replace(report, verdict=chain.append(verdict)) if report.conserved else report
    except Unreadable as why:
        raise UsageError(f"verdicts cannot be kept beside {table}: {why}", cure="audit without --since") from why
    except OSError as failed:
        raise StorageUnreachable(
            f"the verdicts in {folder_of(table)} cannot be read or written: {failed}",
            cure="allow to list, read and write objects there",
        ) from failed


def _with_proof(report: Report, newest: dict[str, Any]) -> Report:
    """The report, with the verdict that proves its earlier rows, if that one does."""
    frontier, rows = newest["frontier"], sum(newest["counts"][name] for name in ("table", "quarantine", "earlier"))
    reaches = all(begin <= frontier.get(partition, 0) for partition, begin in report.begins.items())
    if not reaches or report.adopted or not 0 < report.earlier <= rows:
        return report
    return replace(report, proved_by={"verdict": newest["number"], "at": newest["at"], "rows": rows})


def _verdict(report: Report) -> dict[str, Any]:
    """What is kept of a report."""
    return {
        "lakeingest_verdict": FORM,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "frontier": report.frontier,
        "counts": {name: getattr(report, name) for name in _COUNTS},
        "proved_by": report.proved_by,
    }


class _Chain:
    """The verdicts of one table, the oldest first."""

    def __init__(self, filesystem: Any, folder: str, texts: list[bytes]) -> None:
        self._filesystem, self._folder, self._texts = filesystem, folder, texts
        before = ""
        for number, text in enumerate(texts, 1):
            verdict = json.loads(text)
            if (verdict["number"], verdict["before"]) != (number, before):
                raise TableMismatch(
                    f"verdict {number} in {folder} does not follow the one before it: somebody has changed them",
                    cure="see the history of these objects; move the folder away, and the next audit begins anew",
                )
            before = hashlib.sha256(text).hexdigest()
        self._hash = before

    @classmethod
    def of(cls, table: str, storage: Storage) -> _Chain:
        from pyarrow import fs

        filesystem, folder = store(folder_of(table), storage)
        infos = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        paths = sorted(info.path for info in infos if info.path.endswith(".json"))
        return cls(filesystem, folder, [filesystem.open_input_stream(path).read() for path in paths])

    @property
    def newest(self) -> dict[str, Any] | None:
        """None where there is none yet."""
        return json.loads(self._texts[-1]) if self._texts else None

    def append(self, verdict: dict[str, Any]) -> int:
        """Keep a verdict, and give its number."""
        number = len(self._texts) + 1
        text = json.dumps({"number": number, "before": self._hash, **verdict}, indent=1).encode()
        if self._filesystem.type_name == "local":
            self._filesystem.create_dir(self._folder)
        with self._filesystem.open_output_stream(f"{self._folder}/{number:06}.json") as stream:
            stream.write(text)
        return number
