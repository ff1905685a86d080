"""What a report shows of a pipeline, read from its tables: without Spark where they can be read so.

Each part is asked alone. What cannot be told is left out, and `unknown` says why: a report is made of what is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from lakeingest.config import PipelineConfig, Storage
from lakeingest.delta import commit_log, table_properties
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.reader.log import NoTable, OfflineLog, Unreadable
from lakeingest.delta.receipt import Counts
from lakeingest.errors import LakeingestError, UsageError
from lakeingest.ingest.source import RecordSource
from lakeingest.kafka.offsets import Topics
from lakeingest.operations import completeness, contract, freshness, schema_history, status
from lakeingest.operations.freshness import Ages, Worst
from lakeingest.operations.readers import PipelineReader, answer
from lakeingest.operations.report import files, refused
from lakeingest.operations.report.verdict import PipelineVerdict, verdict
from lakeingest.operations.results.audit import Report
from lakeingest.operations.results.status import Status
from lakeingest.spark import s3a

COMMITS = 1000
"""Newest commits of a table that are read: each is an object of the store."""
_ASKED_AT_ONCE = 16
_BATCHES = 50
"""Newest batches whose gate's results are read."""


class ReportedPipeline(Protocol):
    """What of a pipeline is asked; `Pipeline` has it."""

    config: PipelineConfig
    storage: Storage

    @property
    def source(self) -> RecordSource:
        """Where its records come from."""

    @property
    def tables(self) -> PipelineTables:
        """Both tables, by Spark."""

    def audit(self) -> Report:
        """See `Pipeline.audit`."""

    def quarantined(self, samples: int) -> Sequence[dict[str, Any]]:
        """See `Pipeline.quarantined`."""

    def results(self, batches: int) -> Sequence[dict[str, Any]]:
        """See `Pipeline.results`."""


@dataclass
class Facts:
    """What is known of a pipeline. What is None, or empty, could not be told if `unknown` has a reason for it.

    Attributes:
        made: when this was read.
        state: as `status` has it; its partitions are empty where Kafka was not reached.
        batches: a dict for each commit, oldest first: sequence, version, time, offsets, rows, refused and dropped
            (None where quarantine's log does not tell any more), newest_s and oldest_s (how old the newest and the
            oldest record were when they were committed, in seconds; None where the table's statistics do not tell).
        earlier: whether the table has commits before these.
        refused: see `refused.summary`.
        schema: compatibility, and steps as `schema history` has them.
        columns: of the table now: name and type, as Delta's log has them.
        gated: whether the pipeline has a gate.
        gate: rows of the results, newest first.
        files: see `files.summary`, of each table.
        audit: what `audit` found.
        contract: one a promise, see `contract.state`; empty without a contract.
        unknown: part → why it is not known.
        verdict: all of it in a sentence.
    """

    pipeline: str
    table: str
    quarantine: str
    topics: tuple[str, ...]
    made: datetime
    exists: bool = False
    lag: int | None = None
    state: Status | None = None
    batches: list[dict[str, Any]] = field(default_factory=list)
    earlier: bool = False
    refused: dict[str, Any] | None = None
    schema: dict[str, Any] | None = None
    columns: list[dict[str, str]] = field(default_factory=list)
    gated: bool = False
    gate: list[dict[str, Any]] | None = None
    files: list[dict[str, Any]] = field(default_factory=list)
    audit: dict[str, Any] | None = None
    contract: tuple[dict[str, Any], ...] = ()
    unknown: dict[str, str] = field(default_factory=dict)
    verdict: PipelineVerdict = field(default_factory=PipelineVerdict)

    def to_json(self) -> dict[str, Any]:
        tree = {**vars(self), "made": utc(self.made), "verdict": vars(self.verdict)}
        state = tree.pop("state")
        return {**tree, "status": state.to_json() if state else None}


def gather(
    pipelines: Sequence[ReportedPipeline], *, samples: int, audited: bool, say: Callable[[str], None] = lambda _: None
) -> list[Facts]:
    """All that a report shows of pipelines.

    Args:
        samples: most refused records to show of each reason, with their values; 0 shows no value.
        audited: whether conservation is proved, which reads the coordinates of every row.
        say: is told each pipeline's name when its tables are read.
    """
    # Brokers that are away are waited for, some seconds: for all of them at once, and while tables are read.
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        topics = [pool.submit(each.source.topics) for each in pipelines]
        facts_of_all = []
        for each, future in zip(pipelines, topics, strict=True):
            say(each.config.name)
            facts_of_all.append(_of_one(each, future.result, samples=samples, audited=audited))
        return facts_of_all


def _of_one(pipeline: ReportedPipeline, topics: Callable[[], Topics], *, samples: int, audited: bool) -> Facts:
    config = pipeline.config
    names = (config.table.identifier, config.quarantine.identifier)
    facts = Facts(config.name, *names, tuple(config.source.topics), datetime.now(UTC), gated=config.gate is not None)
    with _telling(facts, "table"):
        s3a.check_listens(pipeline.storage, config.paths)
        facts.exists = not _missing(facts.table, pipeline.storage)
    if facts.exists:
        _read(pipeline, facts, topics, samples)
        if audited:
            with _telling(facts, "audit"):
                facts.audit = pipeline.audit().to_json()
        else:
            facts.unknown["audit"] = "lakeingest audit proves it, and reads the coordinates of every row"
    facts.verdict = verdict(facts, config.trigger)
    return facts


def _read(pipeline: ReportedPipeline, facts: Facts, ask: Callable[[], Topics], samples: int) -> None:
    config, storage = pipeline.config, pipeline.storage
    quarantine = not _missing(facts.quarantine, storage)
    if not quarantine:
        facts.unknown["refused"] = f"there is no quarantine at {facts.quarantine}: the next run makes it anew"
    topics, worst = Topics("", {}, {}, {}), None
    with _telling(facts, "lag"):
        topics = ask()
    with _telling(facts, "batches"):
        log, accounts, ages = answer(pipeline, partial(_logs, quarantine=quarantine), files_first=True)
        facts.batches = list(_batches(log, accounts, ages))
        worst = freshness.worst(log, ages, facts.made)
        facts.earlier = len(facts.batches) < log.last_sequence
        if topics.last:
            facts.lag = sum(end - log.frontier.get(tp, topics.first[tp]) for tp, end in topics.last.items())
        steps = [step.to_json() for step in schema_history.steps(log.schemas)]
        facts.schema = {"compatibility": str(config.compatibility), "steps": steps}
    if quarantine:
        with _telling(facts, "status"):
            facts.state = answer(pipeline, partial(status.status, topics=topics), files_first=True)
        with _telling(facts, "refused"):
            facts.refused = answer(pipeline, partial(refused.summary, samples=samples), files_first=True)
    if config.gate is not None:
        with _telling(facts, "gate"):
            if _missing(config.results, storage):
                raise UsageError("the gate has no results yet", cure="run the pipeline")
            hidden: dict[str, Any] = {} if samples else {"sample": [], "observed": None}
            facts.gate = [{**row, "time": utc(row["time"]), **hidden} for row in pipeline.results(_BATCHES)]
    if config.contract is not None:
        with _telling(facts, "contract"):
            facts.contract = _contract(pipeline, facts, worst)
    names = {"table": facts.table, "quarantine": facts.quarantine, "results": config.results if config.gate else None}
    with _telling(facts, "columns"):
        facts.columns = list(_columns(OfflineLog(facts.table, storage)))
    with _telling(facts, "files"):
        for name, identifier in names.items():
            if identifier and not _missing(identifier, storage):
                facts.files.append(
                    files.summary(name, OfflineLog(identifier, storage), config.maintenance.compact.target)
                )


def _contract(pipeline: ReportedPipeline, facts: Facts, worst: Worst | None) -> tuple[dict[str, Any], ...]:
    """What of the contract is kept."""
    config = pipeline.config
    if facts.lag is None or facts.state is None:
        raise UsageError("what waits in Kafka is not known", cure="see why the lag is not known")

    periods = partial(answer, pipeline, completeness.periods, files_first=True)
    return contract.promises(config, pipeline.source, facts.state.partitions, periods, lambda: worst)


def _columns(log: OfflineLog) -> Iterator[dict[str, str]]:
    for column in json.loads(log.state.metadata["schemaString"])["fields"]:
        kind = column["type"]
        yield {"name": column["name"], "type": kind if isinstance(kind, str) else kind["type"]}


@contextmanager
def _telling(facts: Facts, part: str) -> Iterator[None]:
    """Note why a part is not known, if it fails within the block."""
    try:
        yield
    except LakeingestError as failed:
        facts.unknown[part] = failed.what
    except Unreadable as failed:
        facts.unknown[part] = f"it cannot be read without Spark: {failed}"


def _missing(identifier: str, storage: Storage) -> bool:
    """Whether there is no table, as far as this is known without Spark."""
    try:
        _ = OfflineLog(identifier, storage).state
    except NoTable:
        return True
    except Unreadable:
        pass
    return False


def _logs(reader: PipelineReader, *, quarantine: bool) -> tuple[CommitLog, CommitLog, Ages]:
    """What the pipeline committed to both tables, and how old the records were."""
    entries, pipeline = reader.main.recent(COMMITS), reader.config.known_as
    if entries is None:
        return *reader.commit_logs(COMMITS), Ages()
    log = commit_log.of_history(pipeline, entries, reader.main)
    if log.newest is None:
        raise Unreadable("the newest commits are not the pipeline's")
    accounts = CommitLog(reader.quarantine.identifier, pipeline)
    if quarantine:
        accounts = commit_log.of_history(pipeline, reader.quarantine.recent(COMMITS) or (), reader.quarantine)
    log = replace(log, property_ledger=table_properties.ledger(reader.main.properties, pipeline))
    log = replace(log, schemas=commit_log.ledger(log, lambda: log.commits))
    return log, accounts, freshness.ages(entries, reader.main)


def _batches(log: CommitLog, accounts: CommitLog, ages: Ages) -> Iterator[dict[str, Any]]:
    became = {c.receipt.batch: c.receipt.account.counts for c in accounts.commits if c.receipt.account}
    for commit in reversed(log.commits):
        receipt = commit.receipt
        counts = Counts() if receipt.whole(commit.rows) else became.get(receipt.sequence)
        newest, oldest = ages.of.get(commit.version, (None, None))
        yield {
            "sequence": receipt.sequence,
            "version": commit.version,
            "time": utc(commit.time),
            "offsets": receipt.ranges.offsets,
            "rows": commit.rows,
            "refused": counts.refused if counts else None,
            "dropped": counts.dropped if counts else None,
            "newest_s": newest,
            "oldest_s": oldest,
        }


def utc(time: datetime) -> str:
    """A time as ISO 8601, in UTC; one without a zone is of this process's zone."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
