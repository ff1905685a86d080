"""The metrics that a run has. infra/generate.py makes the dashboard and the table of docs/how-to/watch.md of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "lakeingest_"


@dataclass(frozen=True)
class Metric:
    """One metric. Each has the label `pipeline`.

    Attributes:
        name: without the prefix; a counter's ends with _total.
        help: what it is, with its unit.
        labels: those beside `pipeline`.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        return PREFIX + self.name


METRICS = (
    Metric("lag_records", "gauge", "Offsets in Kafka that are not committed yet."),
    Metric(
        "lag_seconds",
        "gauge",
        "How long ago the newest committed record was produced, or all was committed last; 0 where nothing waits.",
    ),
    Metric("records_consumed_total", "counter", "Records that were taken."),
    Metric("bytes_consumed_total", "counter", "Bytes of their keys and values."),
    Metric("rows_total", "counter", "Rows that went to the table."),
    Metric(
        "row_changes_total",
        "counter",
        "Of table.mode upsert: rows inserted, updated and deleted; superseded are accepted records that changed none.",
        ("change",),
    ),
    Metric("records_refused_total", "counter", "Records that went to quarantine.", ("reason",)),
    Metric("records_dropped_total", "counter", "Declared drops: by a condition, or without a value.", ("reason",)),
    Metric("commits_total", "counter", "Batches that were committed."),
    Metric("batch_seconds", "histogram", "How long a batch took."),
    Metric(
        "stage_seconds",
        "histogram",
        "How long a stage of a batch took: discover, plan, gate, write, quarantine, results.",
        ("stage",),
    ),
    Metric("commit_seconds", "histogram", "How long the commit to the table's log took, behind the last data file."),
    Metric("files_written_total", "counter", "Data files that were written to the table."),
    Metric("bytes_written_total", "counter", "Their bytes."),
    Metric(
        "schema_changes_total",
        "counter",
        "Schemas that were met first: action is write, project, evolve or quarantine.",
        ("action",),
    ),
    Metric(
        "gate_results_total",
        "counter",
        "What expectations found in batches: outcome is met or broken.",
        ("expectation", "outcome"),
    ),
    Metric("retries_total", "counter", "Failures that the run waited for: error is the error's name.", ("error",)),
    Metric("retrying", "gauge", "1 while the run waits for a server that fails."),
    Metric("running", "gauge", "1 while the run goes."),
    Metric("ended", "gauge", "1 for what became of the run: caught up, stopped, held, fenced or failed.", ("outcome",)),
    Metric("catalog_behind", "gauge", "1 while the table's entry in a catalog could not be brought up to date."),
    Metric("last_look_timestamp_seconds", "gauge", "When the run looked for new records last."),
    Metric("last_commit_timestamp_seconds", "gauge", "When it committed last."),
    Metric("trigger_seconds", "gauge", "trigger.every of the pipeline file."),
    Metric("sequence", "gauge", "The number of the last batch."),
    Metric("table_version", "gauge", "The version of the table that holds it."),
)
