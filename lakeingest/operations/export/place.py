"""The place that is exported into: whether it may be, how far it has come, and what counts no more in it."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cached_property
from typing import Any

from lakeingest.config import Storage, location
from lakeingest.delta import apart
from lakeingest.delta.export_log import ExportLog
from lakeingest.delta.history import TableHistory
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.reader.log import Unreadable, reading, store
from lakeingest.delta.table import Table
from lakeingest.errors import UsageError
from lakeingest.operations.export.request import ExportRequest

_EXPORT_FOLDER = re.compile(r"export=(\d{10})-[0-9a-f]{8}")


class ExportPlace:
    """The place of a request, which holds the exports of one table.

    Attributes:
        root: see `ExportRequest.root`.
        log: what was exported into it.
    """

    def __init__(self, tables: PipelineTables, request: ExportRequest) -> None:
        self.table, self.request, self.root = tables.main, request, request.root
        self._pipeline, self._paths = tables.config.name, tables.config.paths
        self.log = ExportLog(tables.spark, self.root)

    def newest(self, history: TableHistory) -> dict[str, Any] | None:
        """The place's newest export.

        Raises:
            UsageError: the place is another's, or holds something else; or exported rows were taken back.
        """
        self._check_apart()
        last = self.log.newest()
        if last is None:
            self._check_empty()
            return None
        for name, value, cure in (
            ("pipeline", self._pipeline, "export each pipeline into a place of its own"),
            ("table_id", self.detail["id"], "the table was made anew: export it into a new place"),
            ("format", self.request.format, "export each format into a place of its own"),
        ):
            if last[name] != value:
                text = f"{self.root} holds exports of {name.replace('_', ' ')} {last[name]}, and this is {value}"
                raise UsageError(f"{text}: nothing was written", cure=cure)
        self._check_readable(int(last["to_version"]))
        self._check_not_restored(history, int(last["to_version"]))
        return dict(last)

    @cached_property
    def detail(self) -> dict[str, Any]:
        """What Delta says of the table: its id, numFiles, sizeInBytes."""
        return self.table.measured()

    def _check_apart(self) -> None:
        for other in {self.table.location, *self._paths}:
            if location.is_path(other) and location.one_place(self.root, other):
                raise UsageError(
                    f"--to {self.root} meets the table at {other}", cure="write a folder that lies in no table"
                )

    def _check_empty(self) -> None:
        """Raises: UsageError: the place lies within another one, or holds something else than what an export that was
        ended early leaves.
        """
        spark = self.table.spark
        if (above := apart.above(spark, self.root)) is not None:
            raise UsageError(
                f"--to {self.root} would lie within {above}",
                cure="write a folder that lies in no table, and in no exports",
            )
        strange = apart.below(spark, self.root, _EXPORT_FOLDER)
        if strange is None and Table(spark, self.root).schema() is not None:
            strange = "a Delta table"
        if strange is not None:
            raise UsageError(
                f"{self.root} holds something else than exports: {strange}; nothing was written",
                cure="write a folder that is empty, or that is not there yet",
            )

    def _check_readable(self, since: int) -> None:
        try:
            self.table.existing(since)
        except UsageError as gone:
            raise UsageError(
                f"version {since} of {self.table}, up to which was exported into {self.root}, is no longer in its log",
                cure="export into a new place, which begins with all rows, and from then on more often than the log is "
                "cleaned up (after 30 days)",
            ) from gone

    def _check_not_restored(self, history: TableHistory, since: int) -> None:
        back: int | None = None
        for entry in history.since(since):
            # What a RESTORE took back, an earlier RESTORE among it, is as if it had never been.
            if entry["operation"] != "RESTORE" or (back is not None and entry["version"] > back):
                continue
            back = history.restored_to(entry, since)
            if back < since:
                raise UsageError(
                    f"{self.table} was restored (version {entry['version']}) to what it was before version {since}, up "
                    f"to which it was exported into {self.root}: rows that come again would be exported twice",
                    cure="export into a new place, which begins with all rows; or undo it: "
                    f"RESTORE TABLE {self.table.sql} TO VERSION AS OF {since}",
                )

    def clean(self, storage: Storage) -> int:
        """Delete the folders of exports that can count no more; how many, 0 also where the store does not let us.

        Only those of a number that was committed: another export of the next number may be writing.
        """
        newest = self.log.newest()
        if newest is None:
            return 0
        exported, removed = self.log.folders(), 0
        with suppress(Unreadable), reading(self.root):
            from pyarrow import fs

            files, root = store(self.root, storage)
            for info in files.get_file_info(fs.FileSelector(root)):
                match = _EXPORT_FOLDER.fullmatch(info.base_name)
                if match and int(match[1]) <= newest["sequence"] and info.base_name not in exported:
                    # Another export may have deleted it first.
                    with suppress(FileNotFoundError):
                        files.delete_dir(info.path)
                        removed += 1
        return removed
