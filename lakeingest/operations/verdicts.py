"""What audits have proved, kept beside the table: one small object each, which bears the hash of the one before.

Its name has its own hash; a signature lies beside it, if there is a key.

Receipts go with the clean-up of the table's log, after 30 days by Delta's default. A verdict stays, whatever is done to
the tables, and says up to which offsets an audit has proved them. So rows that are older than the log's receipts were
proved, if the log goes on where that proof ended, or before, and they are not more than it counted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from lakeingest.config import PipelineConfig, Storage, location
from lakeingest.delta.reader.log import OfflineLog, Unreadable, store
from lakeingest.errors import StorageUnreachable, TableMismatch, UsageError
from lakeingest.operations.results.audit import Report
from lakeingest.operations.signing import SigningKey

FORM = 1
_NAME, _SIGNATURE = re.compile(r"(\d{6,})-([0-9a-f]{64})\.json"), ".sig"
_AT_ONCE = 16
_COUNTS = ("consumed", "table", "quarantine", "dropped", "gaps", "lost", "earlier", "files_by_log", "files_read")


def folder_of(table: str) -> str:
    """Where the verdicts of a table are."""
    return f"{table.rstrip('/')}_proofs"


class Verdicts:
    """The verdicts of a pipeline's table, before an audit and behind it.

    Attributes:
        proved: the versions of commits whose receipts' sums the newest verdict has proved: they are not computed again.

    Args:
        key: signs the new one; one without its signature proves nothing then.
        check_all: whether to check all verdicts, and not the newest alone.

    Raises:
        UsageError: the table has a name alone, or its store can be written to by Spark alone; or there is none yet.
        StorageUnreachable: a verdict cannot be read.
        TableMismatch: a verdict does not follow the one before it: somebody has changed them.
    """

    def __init__(
        self, config: PipelineConfig, storage: Storage, key: SigningKey | None, *, check_all: bool = False
    ) -> None:
        self._table = config.table.identifier
        if not location.is_path(self._table):
            raise UsageError(
                f"{self._table} is a name, and verdicts are kept beside a path",
                cure="name the table by table.path in the file",
            )
        with _failures(self._table):
            state, self._chain = OfflineLog(self._table, storage).state, _Chain.of(self._table, storage, key)
            self._about = {"pipeline": config.name, "table_id": state.metadata["id"]}
            if check_all:
                self._chain.check()
            newest = self._chain.newest()
        self._newest = newest if newest and self._about.items() <= newest.items() else None
        runs = self._newest["batches"] if self._newest else ()
        self.proved = frozenset(chain.from_iterable(range(first, last + 1) for first, last in runs))

    def go_on(self, report: Report) -> Report:
        """The report of an audit, with what the newest verdict proves of it; and a new verdict, if all is conserved.

        Raises:
            StorageUnreachable: it cannot be written.
        """
        if self._newest:
            report = _with_proof(report, self._newest)
        if not report.conserved:
            return report
        with _failures(self._table):
            return replace(report, verdict=self._chain.append({**self._about, **_verdict(report)}))


@contextmanager
def _failures(table: str) -> Iterator[None]:
    """Raises:
    UsageError, StorageUnreachable: what there is to say where verdicts cannot be read or written.
    """
    try:
        yield
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
        "batches": _in_runs(report.batches),
        "counts": {name: getattr(report, name) for name in _COUNTS},
        "proved_by": report.proved_by,
    }


def _in_runs(versions: Sequence[int]) -> list[list[int]]:
    """The first and the last of each run of versions."""
    runs = list[list[int]]()
    for version in versions:
        if runs and version == runs[-1][1] + 1:
            runs[-1][1] = version
        else:
            runs.append([version, version])
    return runs


class _Chain:
    """The verdicts of one table, by what their objects are called: their number, and the hash of what is in them.

    Two audits at once may both follow the same verdict. Then two objects have the same number, and both stay.
    """

    def __init__(self, filesystem: Any, folder: str, names: Sequence[str], key: SigningKey | None) -> None:
        self._filesystem, self._folder, self._key = filesystem, folder, key
        self._hashes = [match.groups() for match in map(_NAME.fullmatch, sorted(names)) if match]
        self._signatures = {name for name in names if name.endswith(_SIGNATURE)}
        for at, (number, _) in enumerate(self._hashes):
            if int(number) > 1 + (int(self._hashes[at - 1][0]) if at else 0):
                raise self._broken(int(number))

    @classmethod
    def of(cls, table: str, storage: Storage, key: SigningKey | None) -> _Chain:
        from pyarrow import fs

        filesystem, folder = store(folder_of(table), storage)
        infos = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return cls(filesystem, folder, [info.base_name for info in infos], key)

    def newest(self) -> dict[str, Any] | None:
        """The youngest of those with the highest number; None where none of these proves anything: there is none, or
        none with a signature, where there is a key.
        """
        number = self._hashes[-1][0] if self._hashes else None
        verdicts = [self._read(*each) for each in self._hashes if each[0] == number]
        return max(filter(None, verdicts), key=lambda each: (each["at"], each["table_id"]), default=None)

    def check(self) -> None:
        """Read them all.

        Raises:
            TableMismatch: one was changed, or does not follow one before it.
        """
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            [*pool.map(lambda each: self._read(*each), self._hashes)]

    def append(self, verdict: dict[str, Any]) -> int:
        """Keep a verdict, and give its number."""
        before_number, before = self._hashes[-1] if self._hashes else (0, "")
        number = int(before_number) + 1
        text = json.dumps({"number": number, "before": before, **verdict}, indent=1).encode()
        if self._filesystem.type_name == "local":
            self._filesystem.create_dir(self._folder)
        name = f"{self._folder}/{number:06}-{_hash(text)}.json"
        # The signature first: a verdict without one would prove nothing.
        objects = {name + _SIGNATURE: self._key.sign(text)} if self._key else {}
        for path, content in {**objects, name: text}.items():
            with self._filesystem.open_output_stream(path) as stream:
                stream.write(content)
        return number

    def _read(self, number: str, digest: str) -> dict[str, Any] | None:
        """A verdict; None where it is not signed, and there is a key."""
        name = f"{number}-{digest}.json"
        text = self._filesystem.open_input_stream(f"{self._folder}/{name}").read()
        verdict: dict[str, Any] = json.loads(text) if _hash(text) == digest else {}
        before = (f"{int(number) - 1:06}", verdict.get("before"))
        if verdict.get("number") != int(number) or before not in (*self._hashes, ("000000", "")):
            raise self._broken(int(number))
        if self._key is None:
            return verdict
        if name + _SIGNATURE not in self._signatures:
            return None
        signature = self._filesystem.open_input_stream(f"{self._folder}/{name}{_SIGNATURE}").read()
        if not self._key.verifies(text, signature):
            raise self._broken(int(number), "has another signature than the key's")
        return verdict

    def _broken(self, number: int, how: str = "does not follow the one before it") -> TableMismatch:
        return TableMismatch(
            f"verdict {number} in {self._folder} {how}: somebody has changed them",
            cure="see the history of these objects; move the folder away, and the next audit begins anew",
        )


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
