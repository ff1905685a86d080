"""The history of a Delta table's log: who did what, which version a RESTORE went back to, and what it was made over."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

from lakeingest.spark import jvm
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeingest.delta.table import Table

RECENT = 20
"""Commits that are read where the newest one does not tell enough: it may be another's, or a table service's."""
_FILE = "STRUCT<path: STRING, deletionVector: STRUCT<pathOrInlineDv: STRING, offset: INT>>"
_SERVICES = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES"})
"""Operations that change no row."""
_ADDING = ("WRITE", "STREAMING UPDATE", "MERGE", "COPY INTO", "SELECT", "CLONE")
_ADDED = ("numTargetRowsInserted", "numOutputRows", "num_added_rows", "numCopiedFiles")
"""What Spark, and delta-rs, count of them; of a MERGE the first, as its output has the rows too that it keeps."""
_FIELDS = ("operation", "operationParameters", "operationMetrics", "userMetadata", "userName", "engineInfo")
"""Fields of a commitInfo."""


def entry_of(version: int, time: datetime | None, info: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of a history: see `TableHistory.history`.

    Args:
        info: the commitInfo, as the log's file has it.
    """
    return {"version": version, "timestamp": time, **{name: info.get(name) for name in _FIELDS}}


def increasing(times: Iterable[datetime]) -> Iterator[datetime]:
    """As Delta makes them where clocks disagree: each later than the one before, by a millisecond at least."""
    before = None
    for time in times:
        before = time if before is None or time > before else before + timedelta(milliseconds=1)
        yield before


def adds_rows(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of a history may have added rows: other tools count them otherwise, or not at all."""
    metrics = entry["operationMetrics"] or {}
    counted = next((metrics[name] for name in _ADDED if name in metrics), None)
    return any(word in str(entry["operation"]).upper() for word in _ADDING) and str(counted) != "0"


class Restores(Protocol):
    """Who knows which versions of a table its RESTOREs went back to."""

    @property
    def identifier(self) -> str:
        """What the table is known by."""

    def restored_to(self, restore: Mapping[str, Any], oldest: int) -> int:
        """See `TableHistory.restored_to`."""


class History(Restores, Protocol):
    """Who knows the commits of a table, too."""

    def history(self, limit: int | None) -> Sequence[Mapping[str, Any]]:
        """See `TableHistory.history`."""


@dataclass(frozen=True)
class TableHistory:
    """What DESCRIBE HISTORY and the log's files tell of a table.

    Raises:
        StorageUnreachable: from every method, when it cannot be read.
    """

    table: Table

    @property
    def identifier(self) -> str:
        return self.table.identifier

    def history(self, limit: int | None) -> Sequence[Mapping[str, Any]]:
        """The newest commits, each an object of the store, or all: version, timestamp, operation, operationParameters,
        operationMetrics and userMetadata, the newest first.
        """
        newest = "" if limit is None else f" LIMIT {limit}"
        with storage_failures(self.table.identifier):
            if limit is not None and (entries := self._of_files(limit)) is not None:
                return entries
            frame = self.table.spark.sql(f"DESCRIBE HISTORY {self.table.sql}{newest}")
            return [row.asDict() for row in frame.select("version", "timestamp", *_FIELDS).collect()]

    def _of_files(self, limit: int) -> Sequence[Mapping[str, Any]] | None:
        """The newest commits as the log's files tell them, for which Spark runs no job; None where they do not."""
        if not (self.table.by_path and jvm.offered("log")):
            return None
        text = jvm.of_log(self.table.spark, f"history {limit}", self.table.identifier)
        commits = [] if text is None else json.loads(text)
        times = [*increasing(datetime.fromtimestamp(millis / 1000) for _, millis, _ in reversed(commits))][::-1]
        infos = (json.loads(line).get("commitInfo", {}) for _, _, line in commits)
        # Of a table that is not there Delta says why.
        return [entry_of(each[0], time, info) for each, time, info in zip(commits, times, infos, strict=True)] or None

    def entry(self, version: int) -> Mapping[str, Any] | None:
        """The same of one version, as the log's file of it says (see "Commit Provenance Information" in Delta's
        protocol); None where there is no such file.

        Raises:
            PySparkException, Py4JJavaError: it cannot be read.
        """
        path = f"{self.table.location}/_delta_log/{version:020}.json"
        info = _commit_info(self.table.spark, path)
        if info is None:
            return None
        time = datetime.fromtimestamp(info["timestamp"] / 1000) if "timestamp" in info else None
        return entry_of(version, time, info)

    def newest(self, version: int | None = None) -> int:
        """The table's newest version.

        Args:
            version: one that is known, so that each newer one, and that there is none, is a look at one object.
        """
        from pyspark.errors import AnalysisException

        with storage_failures(self.table.identifier), suppress(AnalysisException):
            # See `since`.
            if version is not None:
                while self.entry(version + 1) is not None:
                    version += 1
                return version
        return int(self.history(1)[0]["version"])

    def since(self, version: int) -> Sequence[Mapping[str, Any]]:
        """The history of the versions behind this one; to find that there is none is a look at one object."""
        from pyspark.errors import AnalysisException

        with storage_failures(self.table.identifier), suppress(AnalysisException):
            # Who may read a table of a catalog's may not read its files: then the history tells.
            if self.entry(version + 1) is None:
                return ()
        history: Sequence[Mapping[str, Any]] = ()
        for limit in (RECENT, None):
            history = self.history(limit)
            if history[-1]["version"] <= version:
                break
        return [entry for entry in history if entry["version"] > version]

    def restored(self, version: int) -> bool:
        """Whether somebody has restored the table since this version."""
        return any(entry["operation"] == "RESTORE" for entry in self.since(version))

    def adding(self, version: int) -> list[Mapping[str, Any]]:
        """The commits behind this version that have added rows, the newest first, but for those that a RESTORE took
        back.
        """
        return [entry for entry in self.standing(version) if adds_rows(entry)]

    def standing(self, version: int) -> Iterator[Mapping[str, Any]]:
        """The history of the versions behind this one, the newest first, without those that a RESTORE took back."""
        restored_to, entries = None, self.since(version)
        for entry in entries:
            if restored_to is not None and entry["version"] > restored_to:
                continue
            if entry["operation"] == "RESTORE":
                restored_to = self.restored_to(entry, entries[-1]["version"])
            yield entry

    def take_back(self, version: int, is_own: Callable[[Mapping[str, Any]], bool]) -> bool:
        """Restore the table to what it was before this version; whether that is possible.

        It is not where others have changed rows since: that would be taken back too.

        Args:
            is_own: whether an entry of the history may be.
        """
        if not all(entry["operation"] in _SERVICES or is_own(entry) for entry in self.since(version)):
            return False
        with storage_failures(self.table.identifier):
            self.table.spark.sql(f"RESTORE TABLE {self.table.sql} TO VERSION AS OF {version - 1}").collect()
        return True

    def restored_to(self, restore: Mapping[str, Any], oldest: int) -> int:
        """The version that a RESTORE went back to; -1 if none since `oldest` can be it.

        Args:
            restore: its entry of the history.
        """
        version = named_version(restore)
        return self._same_files(restore["version"], oldest) if version is None else version

    def _same_files(self, restore: int, oldest: int) -> int:
        """The newest version before a RESTORE that has the files which the RESTORE left.

        A RESTORE to a time names the time as text, in whatever zone that session had. Its files leave no doubt: going
        back from it, they are the same where what each commit adds and removes adds up to nothing. Versions that
        differ in no file hold the same rows, and those that have no rows of theirs are in quarantine.
        """
        from pyspark.sql import functions as F

        names = [f"{self.table.location}/_delta_log/{version:020}.json" for version in range(oldest, restore + 1)]
        with storage_failures(self.table.identifier):
            actions = self.table.spark.read.schema(f"add {_FILE}, remove {_FILE}").json(names)
            version = F.substring("_metadata.file_name", 1, 20).cast("bigint").alias("version")
            file = F.coalesce("add", "remove")
            rows = actions.where(file.isNotNull()).select(version, F.col("add").isNotNull().alias("added"), file)
            changes = sorted((tuple(row) for row in rows.collect()), key=lambda row: -row[0])
        if not any(version == restore for version, _, _ in changes):
            return restore - 1
        standing: Counter[Any] = Counter()
        for version, files in groupby(changes, key=itemgetter(0)):
            standing.update({file: 1 if added else -1 for _, added, file in files})
            if not any(standing.values()):
                return int(version) - 1
        return -1


def _commit_info(spark: SparkSession, path: str) -> Mapping[str, Any] | None:
    """The commitInfo of a log's file; empty if it has none, None if there is no file."""
    from pyspark.errors import AnalysisException

    if jvm.offered("log"):
        line = jvm.of_log(spark, "commit", path)
        return None if line is None else json.loads(line).get("commitInfo", {})
    try:
        lines = spark.read.text(path).where("""value LIKE '%"commitInfo"%'""").collect()
    except AnalysisException as failed:
        if failed.getCondition() != "PATH_NOT_FOUND":
            raise
        return None
    return next((info for (line,) in lines if (info := json.loads(line).get("commitInfo"))), {})


def named_version(restore: Mapping[str, Any]) -> int | None:
    """The version that a RESTORE names, as its entry of the history has it; None if it names a time."""
    version = (restore["operationParameters"] or {}).get("version")
    return None if version in (None, "null") else int(version)
