"""Who reads an older version of a pipeline's table, so that a VACUUM keeps its files.

- The next export into a place compares the table with the version that was exported last.
- A replay that was killed before it marked what it moved is settled by what its version added.
- A batch that was committed over a RESTORE is taken back by a RESTORE to the version before it.

Nobody else needs one. Runs, backfills, rebuilds and audits read the version that is the newest when they begin a batch,
or a query, and the seven days by default are longer than these take. A pipeline that reads the table as its source
compares coordinates where a VACUUM was made behind what came late (`ingest.bronze`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakeingest.config import Storage
from lakeingest.delta import commit_log, replay_marks
from lakeingest.delta.export_log import ExportLog
from lakeingest.delta.history import TableHistory
from lakeingest.delta.maintenance.vacuum import Need
from lakeingest.delta.table import Table
from lakeingest.spark import s3a
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from lakeingest.delta.pipeline_tables import PipelineTables


def of_main(tables: PipelineTables, storage: Storage, exports: Sequence[str]) -> Iterator[Need]:
    """Who needs which version of the main table.

    Args:
        exports: places that the table is exported into.

    Raises:
        StorageError: a table cannot be read.
    """
    for place in exports:
        s3a.let_in(tables.spark, storage, [place])
        newest = ExportLog(tables.spark, place.rstrip("/")).newest()
        if newest is not None and newest["pipeline"] == tables.config.name:
            yield from _version(tables.main, newest["to_version"], f"the next export into {place}")
    for replay in replay_marks.unsettled(tables).moved:
        yield Need(_aware(replay.time), f"replay {replay.receipt.sequence}, which the next run settles")
    newest_commit = commit_log.read(tables.main, tables.config.known_as).newest
    if newest_commit is not None and (first := commit_log.over_a_restore(tables.main, newest_commit)) is not None:
        who = f"batch {newest_commit.receipt.sequence}, which the next run takes back"
        yield from _version(tables.main, first - 1, who)


def _version(table: Table, version: int, who: str) -> Iterator[Need]:
    """Nobody can read a version any more whose commit clean-up took from the log."""
    with storage_failures(table.identifier):
        entry = TableHistory(table).entry(version)
    if entry is not None and entry["timestamp"] is not None:
        yield Need(_aware(entry["timestamp"]), who)


def _aware(time: datetime) -> datetime:
    """The log's times are those of this machine's zone; clocks of writers may differ, by an hour at most."""
    return time.astimezone(UTC) - timedelta(hours=1)
