"""Answers that need no Spark, where tables' files tell them for certain: the same as Spark's, in a second.

Each function raises `Unreadable` where it cannot, and Spark is asked then; so it is of whatever is wrong with a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from lakeingest.config import PipelineConfig, Storage
from lakeingest.delta import commit_log
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.maintenance.optimize import TableFiles
from lakeingest.delta.reader import duck, rows
from lakeingest.delta.reader.log import DataFile, OfflineLog, Unreadable, reading
from lakeingest.gate import results as gate_results
from lakeingest.kafka.offsets import Topics
from lakeingest.operations import completeness, freshness
from lakeingest.operations import status as status_of
from lakeingest.operations.completeness import Complete
from lakeingest.operations.freshness import Worst
from lakeingest.operations.results.status import Status
from lakeingest.schema import ddl

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

_RESULTS = """
    WITH mine AS (SELECT * REPLACE (epoch_us(time) AS time) FROM results WHERE pipeline = $pipeline)
    SELECT * FROM mine
    WHERE time IN (SELECT DISTINCT time FROM mine ORDER BY time DESC LIMIT $batches)
    ORDER BY time DESC, expectation NULLS FIRST
"""


def status(config: PipelineConfig, storage: Storage, topics: Topics) -> Status:
    """See `status.status`."""
    tables = {"table": config.table.identifier, "quarantine": config.quarantine.identifier}
    logs = {name: OfflineLog(identifier, storage) for name, identifier in tables.items()}
    read = {name: _checked(log, commit_log.of_log(log, config.known_as, status_of.BACK)) for name, log in logs.items()}
    if read["table"].newest is None:
        raise Unreadable("the log does not say how far the pipeline has come")
    counts = {
        "table": sum(file.statistics["numRecords"] for file in logs["table"].state.files),
        "quarantine": _here(logs["quarantine"], config.known_as),
    }
    sizes = {}
    for name, log in logs.items():
        files = log.state.files
        standing = TableFiles(len(files), sum(file.size for file in files))
        sizes[name] = status_of.size(log.identifier, counts[name], standing)
    return status_of.of_logs(config.name, read["table"], read["quarantine"], topics, sizes)


def periods(config: PipelineConfig, storage: Storage) -> tuple[Complete, dict[datetime, int]]:
    """What is said of the periods of a pipeline's table, and how many rows it has of each now."""
    of, _ = completeness.followed(config)
    main = OfflineLog(config.table.identifier, storage)
    said = completeness.offline(config, storage, of)
    standing = said.standing(completeness.log_of(main, config.known_as)) if said.rows else said
    return standing, completeness.counts(main, of)


def worst(config: PipelineConfig, storage: Storage) -> Worst | None:
    """See `freshness.worst`: among the newest commits that `status` reads."""
    log = OfflineLog(config.table.identifier, storage)
    entries = log.recent(status_of.BACK)
    found = commit_log.of_history(config.known_as, entries, log)
    return freshness.worst(found, freshness.ages(entries, log), datetime.now(UTC))


def _checked(log: OfflineLog, found: CommitLog) -> CommitLog:
    """What a pipeline committed, where the log tells that for certain."""
    if found.restores:
        raise Unreadable("somebody has restored the table")
    if "delta.setTransactionRetentionDuration" in log.state.properties:
        raise Unreadable("the table forgets which commits were made")
    found = replace(found, properties=log.state.properties)
    if found.newest is None and not found.complete:
        raise Unreadable("the pipeline's commits are further back")
    return found


def _here(log: OfflineLog, pipeline: str) -> int:
    """The pipeline's rows of quarantine that no replay has moved: as its statistics say, or else its rows."""
    # A quarantine of an older version has no replays.
    replayed = "moved" in log.state.columns
    counts = [_counted(file, pipeline, replayed=replayed) for file in log.state.files]
    unclear = [file for file, count in zip(log.state.files, counts, strict=True) if count is None]
    return sum(count or 0 for count in counts) + (_rows_here(log, unclear, pipeline) if unclear else 0)


def _rows_here(log: OfflineLog, files: Sequence[DataFile], pipeline: str) -> int:
    from pyarrow import dataset as ds

    table = rows.dataset(log, files)
    rows.need(table, "pipeline")
    mine = ds.field("pipeline") == pipeline
    if "moved" in table.schema.names:
        mine = mine & ds.field("moved").is_null()
    with reading(log.identifier):
        return int(table.count_rows(filter=mine))


def _counted(file: DataFile, pipeline: str, *, replayed: bool) -> int | None:
    """How many rows of a file are the pipeline's, and not moved; None where its statistics leave that open."""
    known = file.only("pipeline") == pipeline and (not replayed or file.lacks("moved"))
    return int(file.statistics["numRecords"]) if known else None


def results(config: PipelineConfig, storage: Storage, batches: int) -> list[dict[str, Any]]:
    """See `gate.results.newest`."""
    log = OfflineLog(config.results, storage)
    ends = [str(file.statistics.get("maxValues", {}).get("time")) for file in log.state.files]
    if not all(end.endswith("Z") for end in ends):
        raise Unreadable("its statistics have no times in UTC")
    newest = sorted(zip(ends, log.state.files, strict=True), key=itemgetter(0), reverse=True)
    count = 2 * batches
    while True:
        found = _newest(rows.dataset(log, [file for _, file in newest[:count]]), config.known_as, batches)
        times = {row["time"] for row in found}
        behind = [end for end, _ in newest[count : count + 1]]
        # Statistics have whole milliseconds; what they cut off may not decide.
        if not behind or (len(times) == batches and min(times) > _microseconds(behind[0]) + 1000):
            return [{**row, "time": _local(row["time"])} for row in found]
        count *= 4


def _newest(table: Dataset, pipeline: str, batches: int) -> list[dict[str, Any]]:
    """The rows of the newest batches, with their times in microseconds since 1970."""
    names = [column.name for column in ddl.parse(gate_results.COLUMNS)]
    rows.need(table, *names)
    with duck.connected({"results": table}) as connection:
        found = connection.execute(_RESULTS, {"pipeline": pipeline, "batches": batches})
        held = [described[0] for described in found.description]
        return [dict(zip(held, row, strict=True)) for row in found.fetchall()]


def _microseconds(end: str) -> int:
    return int(datetime.fromisoformat(end).timestamp() * 1000) * 1000


def _local(microseconds: int) -> datetime:
    """As Spark gives times to Python: in the zone of this process, without its name."""
    return datetime.fromtimestamp(microseconds // 1_000_000).replace(microsecond=microseconds % 1_000_000)
