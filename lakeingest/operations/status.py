"""Where a pipeline stands: its frontier and lag, its last commits, its rows and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeingest.delta import quarantine
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.maintenance import optimize
from lakeingest.delta.maintenance.optimize import TableFiles
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Counts
from lakeingest.delta.table import Table
from lakeingest.ingest import preflight
from lakeingest.kafka.offsets import Topics
from lakeingest.operations.results.status import Status
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_COMMITS = 10
BACK = 2 * _COMMITS
"""Commits of each table that are read: some may be others', or a table service's."""


def status(tables: PipelineTables, topics: Topics) -> Status:
    """Ask the tables and Kafka.

    Raises:
        StorageUnreachable: a table cannot be read (before the first run there is none).
    """
    preflight.check_exists(tables)
    log, refused = tables.commit_logs(back=BACK)
    rows = {
        "table": (tables.main, tables.main.read()),
        "quarantine": (tables.quarantine, quarantine.here(tables.refused())),
    }
    sizes = {name: _size(table, of_pipeline) for name, (table, of_pipeline) in rows.items()}
    return of_logs(tables.config.name, log, refused, topics, sizes)


def of_logs(
    pipeline: str, log: CommitLog, refused: CommitLog, topics: Topics, sizes: dict[str, dict[str, Any]]
) -> Status:
    """The status, of what was read.

    Args:
        log, refused: what the pipeline committed to the table and to quarantine; `BACK` commits of each, or more.
        sizes: table and quarantine, see `size`.
    """
    accounts = {commit.receipt.sequence: commit.receipt.account for commit in refused.commits}
    partitions = [
        {
            "topic": topic,
            "partition": partition,
            "frontier": log.frontier.get((topic, partition)),
            "end": end,
            "lag": end - log.frontier.get((topic, partition), topics.first[topic, partition]),
        }
        for (topic, partition), end in sorted(topics.last.items())
    ]
    commits = []
    for commit in log.commits[:_COMMITS]:
        account = accounts.get(commit.receipt.sequence)
        counts = account.counts if account else Counts()
        became = {
            "refused": counts.refused,
            "dropped": counts.dropped,
            "left_out": dict(account.left_out) if account else {},
        }
        commits.append({**_written(commit), **became, "writer": str(commit.receipt.run)})
    backfill = [
        {**_written(commit), "remaining": commit.receipt.job.remaining, "writer": str(commit.receipt.run)}
        for commit in log.backfills[:1]
    ]
    return Status(pipeline, tuple(partitions), tuple(commits), sizes, backfill=tuple(backfill))


def _written(commit: Commit) -> dict[str, Any]:
    return {
        "sequence": commit.receipt.sequence,
        "version": commit.version,
        "time": commit.time.isoformat(timespec="seconds"),
        "rows": commit.rows,
        "offsets": commit.receipt.ranges.offsets,
    }


def _size(table: Table, rows: DataFrame) -> dict[str, Any]:
    files = optimize.table_files(table)
    with storage_failures(table.identifier):
        count = rows.count()
    return size(table.identifier, count, files)


def size(table: str, rows: int, files: TableFiles) -> dict[str, Any]:
    """What `Status.tables` has of one table."""
    average = files.bytes // files.count if files.count else 0
    return {"path": table, "rows": rows, "files": files.count, "bytes": files.bytes, "average_file_bytes": average}
