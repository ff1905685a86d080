"""Where a pipeline stands: its frontier and lag, its last commits, its rows and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeingest.delta import quarantine
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.maintenance import optimize
from lakeingest.delta.maintenance.optimize import TableFiles
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.table import Table
from lakeingest.errors import number_of
from lakeingest.ingest import preflight
from lakeingest.kafka.offsets import Topics
from lakeingest.operations.shown import Listing, Shown
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_COMMITS = 10
BACK = 2 * _COMMITS
"""Commits of each table that are read: some may be others', or a table service's."""


@dataclass(frozen=True, repr=False)
class Status(Shown):
    """What `lakeingest status` shows. Its listings: partitions, commits, tables, contract, backfill.

    Attributes:
        partitions: one a topic-partition: topic, partition, frontier, end (offset), lag (offsets).
        commits: the newest ten: sequence, version, time, rows, offsets, refused, dropped, writer.
        tables: table and quarantine: path, rows (of quarantine: the pipeline's own that no replay has moved), files,
            bytes, average_file_bytes.
        contract: one a promise: promise, promised, kept, found, by_s (see `contract.state`); empty without a contract.
        backfill: the newest commit of a backfill, if there is one among the newest of the table: sequence, version,
            time, rows, offsets, remaining (offsets that it had still to take then), writer.
        held: the batch that the gate holds, see `held.of_results`; None if none is, or the pipeline has no gate.
    """

    pipeline: str
    partitions: tuple[dict[str, Any], ...]
    commits: tuple[dict[str, Any], ...]
    tables: dict[str, dict[str, Any]]
    contract: tuple[dict[str, Any], ...] = ()
    backfill: tuple[dict[str, Any], ...] = ()
    held: dict[str, Any] | None = None

    @property
    def lag(self) -> int:
        return sum(p["lag"] for p in self.partitions)

    @property
    def headline(self) -> str:
        rows, refused = (self.tables[name]["rows"] for name in ("table", "quarantine"))
        newest = self.commits[0] if self.commits else None
        last = f"commit {newest['sequence']} at {newest['time']}" if newest else "nothing committed"
        state = f"held since {self.held['since']}, " if self.held else ""
        return (
            f"{self.pipeline}: {state}lag {self.lag:,}, {number_of(rows, 'row')} in the table, {refused:,} in "
            f"quarantine, {last}"
        )

    @property
    def listings(self) -> Mapping[str, Listing]:
        tables = [{"table": name, **found} for name, found in self.tables.items()]
        more = {"contract": self.contract, "backfill": self.backfill}
        return {"partitions": self.partitions, "commits": self.commits, "tables": tables, **more}

    def to_json(self) -> dict[str, Any]:
        return {"pipeline": self.pipeline, "lag": self.lag, **{k: v for k, v in vars(self).items() if k != "pipeline"}}


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
    accounts = {commit.receipt.sequence: commit.receipt for commit in refused.commits}
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
        counts = account.counts if account else None
        became = {
            "refused": counts.refused if counts else 0,
            "dropped": counts.dropped if counts else 0,
            "left_out": dict(account.left_out) if account else {},
        }
        commits.append({**_written(commit), **became, "writer": str(commit.receipt.run)})
    backfill = [
        {**_written(commit), "remaining": commit.receipt.remaining, "writer": str(commit.receipt.run)}
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
