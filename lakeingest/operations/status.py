"""Where a pipeline stands: its frontier and lag, its last commits, its rows and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from lakeingest.delta.commit_log import Commit
from lakeingest.delta.maintenance.due import CompactionRule, due
from lakeingest.delta.maintenance.inventory import Inventory
from lakeingest.delta.reader.contract import Condition, TableReader
from lakeingest.delta.reader.files import FileTable
from lakeingest.delta.receipt import Counts
from lakeingest.ingest.source import RecordSource
from lakeingest.kafka.offsets import Topics
from lakeingest.operations import (
    completeness,
    contract,
    database_position,
    foreign_writers,
    freshness,
    held,
    partition_lags,
)
from lakeingest.operations.readers import Owner, PipelineReader, answer
from lakeingest.operations.results.status import Status

_COMMITS = 10
BACK = 2 * _COMMITS
"""Commits of each table that are read: some may be others', or a table service's."""


def of_pipeline(owner: Owner, source: RecordSource, *, gated: bool) -> Status:
    """See `Pipeline.status`.

    Args:
        gated: whether the pipeline has a gate, which may hold a batch.
    """
    result = answer(owner, partial(status, topics=source.topics()))
    if gated:
        result = replace(result, held=held.of_results(result.sequence, result.lag, held.newest_results(owner)))
    if owner.config.contract is None:
        return result
    periods = partial(answer, owner, completeness.periods)
    worst = partial(answer, owner, partial(freshness.worst_of, back=BACK), files_first=True)
    return replace(result, contract=contract.promises(owner.config, source, result.partitions, periods, worst))


def status(reader: PipelineReader, topics: Topics) -> Status:
    """Ask the tables, of what Kafka has.

    Raises:
        Unreadable, StorageUnreachable: a table cannot be read (before the first run there is none).
    """
    log, refused = reader.commit_logs(BACK)
    in_quarantine: list[Condition] = [("pipeline", "=", reader.config.known_as), ("moved", "null", None)]
    sizes = {"table": _size(reader.main, []), "quarantine": _size(reader.quarantine, in_quarantine)}
    accounts = {commit.receipt.batch: commit.receipt.account for commit in refused.commits}
    partitions = partition_lags.of(log, topics)
    commits = []
    for commit in log.commits[:_COMMITS]:
        account = accounts.get(commit.receipt.sequence)
        counts = account.counts if account else Counts()
        became = {
            "refused": counts.refused,
            "dropped": counts.dropped,
            "left_out": dict(account.left_out) if account else {},
            "ties": commit.receipt.account.ties if commit.receipt.account else 0,
        }
        commits.append({**_written(commit), **became, "writer": str(commit.receipt.run)})
    backfill = [
        {**_written(commit), "remaining": commit.receipt.job.remaining, "writer": str(commit.receipt.run)}
        for commit in log.backfills[:1]
    ]
    entries = reader.main.history(BACK)
    writers = foreign_writers.of(entries, foreign_writers.engines(entries), of_rows=True)
    is_placed = database_position.is_known(reader.config)
    return Status(
        reader.config.name,
        partitions,
        tuple(commits),
        sizes,
        backfill=tuple(backfill),
        foreign_writers=writers,
        maintenance=_maintenance(reader, entries),
        position=database_position.position(reader, log, partitions) if is_placed else None,
    )


def _maintenance(reader: PipelineReader, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What `Status.maintenance` has, of what was read in any case: the newest entries of the history among it."""
    if not isinstance(reader.main, FileTable):
        return None
    inventory = Inventory.of_log(reader.main)
    partitions = due(inventory.files, CompactionRule.of_main(reader.config, inventory, datetime.now(UTC)))
    newest = {entry["operation"]: entry["timestamp"] for entry in reversed(entries)}
    last = {task: newest.get(operation) for task, operation in (("compact", "OPTIMIZE"), ("vacuum", "VACUUM END"))}
    return {
        "due": len(partitions),
        "due_files": sum(each.removed for each in partitions),
        "due_bytes": sum(each.bytes for each in partitions),
        "last": {task: time and time.isoformat(timespec="seconds") for task, time in last.items()},
        "commits": BACK,
    }


def _written(commit: Commit) -> dict[str, Any]:
    return {
        "sequence": commit.receipt.sequence,
        "version": commit.version,
        "time": commit.time.isoformat(timespec="seconds"),
        "rows": commit.rows,
        "offsets": commit.receipt.ranges.offsets,
    }


def _size(table: TableReader, where: Sequence[Condition]) -> dict[str, Any]:
    """What `Status.tables` has of one table."""
    files, rows = table.size, table.count(where)
    average = files.bytes // files.count if files.count else 0
    return {
        "path": table.identifier,
        "rows": rows,
        "files": files.count,
        "bytes": files.bytes,
        "average_file_bytes": average,
    }
