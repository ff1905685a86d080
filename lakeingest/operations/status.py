"""Where a pipeline stands: its frontier and lag, its last commits, its rows and files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeingest.config import PipelineConfig
from lakeingest.delta import quarantine, table
from lakeingest.delta.maintenance import optimize
from lakeingest.kafka.offsets import Topics
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_COMMITS = 10


@dataclass(frozen=True)
class Status:
    """What `lakeingest status` shows.

    Attributes:
        partitions: one a topic-partition: topic, partition, frontier, end (offset), lag (offsets).
        commits: the newest ten: sequence, version, time, rows, offsets, refused, dropped, writer.
        tables: table and quarantine: path, rows (of quarantine: the pipeline's own that no replay has moved), files,
            bytes, average_file_bytes.
    """

    pipeline: str
    partitions: tuple[dict[str, Any], ...]
    commits: tuple[dict[str, Any], ...]
    tables: dict[str, dict[str, Any]]

    @property
    def lag(self) -> int:
        return sum(p["lag"] for p in self.partitions)

    def to_json(self) -> dict[str, Any]:
        return {"pipeline": self.pipeline, "lag": self.lag, **{k: v for k, v in vars(self).items() if k != "pipeline"}}


def status(spark: SparkSession, config: PipelineConfig, topics: Topics) -> Status:
    """Ask the tables and Kafka.

    Raises:
        StorageUnreachable: a table cannot be read (before the first run there is none).
    """
    ledger, refused = table.ledgers(spark, config, back=2 * _COMMITS)
    accounts = {commit.receipt.sequence: commit.receipt.counts for commit in refused.commits}
    partitions = [
        {
            "topic": topic,
            "partition": partition,
            "frontier": ledger.frontier.get((topic, partition)),
            "end": end,
            "lag": end - ledger.frontier.get((topic, partition), topics.first[topic, partition]),
        }
        for (topic, partition), end in sorted(topics.last.items())
    ]
    commits = []
    for commit in ledger.commits[:_COMMITS]:
        counts = accounts.get(commit.receipt.sequence)
        commits.append(
            {
                "sequence": commit.receipt.sequence,
                "version": commit.version,
                "time": commit.time.isoformat(timespec="seconds"),
                "rows": commit.rows,
                "offsets": commit.receipt.spans.offsets,
                "refused": counts.refused if counts else 0,
                "dropped": counts.dropped if counts else 0,
                "writer": str(commit.receipt.run),
            }
        )
    paths = {"table": config.table.path, "quarantine": config.quarantine.path}
    rows = {name: table.read(spark, path) for name, path in paths.items()}
    rows["quarantine"] = quarantine.here(quarantine.of(rows["quarantine"], config.known_as))
    sizes = {name: _size(spark, path, rows[name]) for name, path in paths.items()}
    return Status(config.name, tuple(partitions), tuple(commits), sizes)


def _size(spark: SparkSession, path: str, rows: DataFrame) -> dict[str, Any]:
    files = optimize.table_files(spark, path)
    with storage_failures(path):
        count = rows.count()
    return {
        "path": path,
        "rows": count,
        "files": files.count,
        "bytes": files.bytes,
        "average_file_bytes": files.bytes // files.count if files.count else 0,
    }
