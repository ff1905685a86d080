"""The metrics that a run has, and the alerts on them: one list, from which infra/generate.py makes the dashboard, the
alert rules and the tables of docs/how-to/watch.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "lakeingest_"
JOB = "lakeingest"
"""What the job has to be called in Prometheus' configuration, for the alerts that look at the process."""


@dataclass(frozen=True)
class Metric:
    """One metric. Each has the label `pipeline`.

    Attributes:
        name: without the prefix; a counter's ends with _total.
        help: what it is, with its unit.
        labels: those beside `pipeline`.
        panel: what the dashboard asks of it, in PromQL; empty if it is not drawn.
        unit: of the panel's axis, by Grafana's name.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    panel: str = ""
    unit: str = "short"

    @property
    def full_name(self) -> str:
        return PREFIX + self.name


def _rate(name: str, *labels: str) -> str:
    chosen = f'{PREFIX}{name}{{pipeline=~"$pipeline"}}'
    return f"sum by (pipeline{''.join(f', {each}' for each in labels)}) (rate({chosen}[$__rate_interval]))"


def _gauge(name: str) -> str:
    return f'{PREFIX}{name}{{pipeline=~"$pipeline"}}'


def _mean(name: str, *labels: str) -> str:
    return f"{_rate(f'{name}_sum', *labels)} / {_rate(f'{name}_count', *labels)}"


METRICS = (
    Metric("lag_records", "gauge", "Offsets in Kafka that are not committed yet.", panel=_gauge("lag_records")),
    Metric(
        "lag_seconds",
        "gauge",
        "How long ago the newest committed record was produced, or all was committed last; 0 where nothing waits.",
        panel=_gauge("lag_seconds"),
        unit="s",
    ),
    Metric(
        "records_consumed_total",
        "counter",
        "Records that were taken.",
        panel=_rate("records_consumed_total"),
        unit="reqps",
    ),
    Metric(
        "bytes_consumed_total",
        "counter",
        "Bytes of their keys and values.",
        panel=_rate("bytes_consumed_total"),
        unit="Bps",
    ),
    Metric("rows_total", "counter", "Rows that went to the table.", panel=_rate("rows_total"), unit="rowsps"),
    Metric(
        "records_refused_total",
        "counter",
        "Records that went to quarantine.",
        ("reason",),
        panel=_rate("records_refused_total", "reason"),
        unit="reqps",
    ),
    Metric(
        "records_dropped_total",
        "counter",
        "Declared drops: by a condition, or without a value.",
        ("reason",),
        panel=_rate("records_dropped_total", "reason"),
        unit="reqps",
    ),
    Metric("commits_total", "counter", "Batches that were committed.", panel=_rate("commits_total"), unit="ops"),
    Metric("batch_seconds", "histogram", "How long a batch took.", panel=_mean("batch_seconds"), unit="s"),
    Metric(
        "stage_seconds",
        "histogram",
        "How long a stage of a batch took: discover, plan, gate, write, quarantine, results.",
        ("stage",),
        panel=_mean("stage_seconds", "stage"),
        unit="s",
    ),
    Metric(
        "commit_seconds",
        "histogram",
        "How long the commit to the table's log took, behind the last data file.",
        panel=_mean("commit_seconds"),
        unit="s",
    ),
    Metric(
        "files_written_total",
        "counter",
        "Data files that were written to the table.",
        panel=_rate("files_written_total"),
        unit="ops",
    ),
    Metric(
        "bytes_written_total",
        "counter",
        "Their bytes.",
        panel=f"{_rate('bytes_written_total')} / {_rate('files_written_total')}",
        unit="bytes",
    ),
    Metric(
        "schema_changes_total",
        "counter",
        "Schemas that were met first: action is write, project, evolve or quarantine.",
        ("action",),
        panel=_rate("schema_changes_total", "action"),
        unit="ops",
    ),
    Metric(
        "gate_results_total",
        "counter",
        "What expectations found in batches: outcome is met or broken.",
        ("expectation", "outcome"),
        panel=_rate("gate_results_total", "outcome"),
        unit="ops",
    ),
    Metric(
        "retries_total",
        "counter",
        "Failures that the run waited for: error is the error's name.",
        ("error",),
        panel=_rate("retries_total", "error"),
        unit="ops",
    ),
    Metric("retrying", "gauge", "1 while the run waits for a server that fails.", panel=_gauge("retrying")),
    Metric("running", "gauge", "1 while the run goes.", panel=_gauge("running")),
    Metric(
        "ended",
        "gauge",
        "1 for what became of the run: caught up, stopped, held, fenced or failed.",
        ("outcome",),
        panel=_gauge("ended"),
    ),
    Metric(
        "catalog_behind",
        "gauge",
        "1 while the table's entry in a catalog could not be brought up to date.",
        panel=_gauge("catalog_behind"),
    ),
    Metric("last_look_timestamp_seconds", "gauge", "When the run looked for new records last."),
    Metric("last_commit_timestamp_seconds", "gauge", "When it committed last."),
    Metric("trigger_seconds", "gauge", "trigger.every of the pipeline file."),
    Metric("sequence", "gauge", "The number of the last batch."),
    Metric("table_version", "gauge", "The version of the table that holds it."),
)


@dataclass(frozen=True)
class Alert:
    """One alert, and the entry of the runbook of the same name.

    Attributes:
        expr: PromQL; {names} stand for what `LIMITS` has.
        wait: how long it has to be true: one of `LIMITS`; empty for at once.
        summary: what the one who is called reads first.
    """

    name: str
    expr: str
    wait: str
    severity: Literal["critical", "warning"]
    summary: str


LIMITS = {
    "window": "15m",
    "down": "5m",
    "restarts": "3",
    "restart_window": "30m",
    "retry": "5m",
    "lag": "900",
    "lag_wait": "10m",
    "stuck": "1800",
    "refused": "0.05",
    "catalog": "15m",
}
"""What the alerts ask for: change them in a copy of the rules."""


def _risen(selector: str) -> str:
    """That a counter has risen within the window; one that is new has no value before."""
    now = f"sum by (pipeline) ({PREFIX}{selector})"
    new = f"({now} > 0 unless sum by (pipeline) ({PREFIX}{selector} offset {{window}}))"
    return f"sum by (pipeline) (increase({PREFIX}{selector}[{{window}}])) > 0 or {new}"


def _ended(outcome: str) -> str:
    # The process of a single run is gone soon after.
    return f'max by (pipeline) (max_over_time({PREFIX}ended{{{{outcome="{outcome}"}}}}[{{window}}])) == 1'


ALERTS = (
    Alert("LakeingestDown", f'up{{{{job="{JOB}"}}}} == 0', "down", "critical", "A run's metrics cannot be read"),
    Alert(
        "LakeingestRestarting",
        f'changes(process_start_time_seconds{{{{job="{JOB}"}}}}[{{restart_window}}]) > {{restarts}}',
        "",
        "critical",
        "A run is started again and again",
    ),
    Alert("LakeingestFailed", _ended("failed"), "", "critical", "The run of {{ $labels.pipeline }} has failed"),
    Alert("LakeingestHeld", _ended("held"), "", "critical", "The gate holds a batch of {{ $labels.pipeline }}"),
    Alert("LakeingestFenced", _ended("fenced"), "", "warning", "Another run of {{ $labels.pipeline }} took over"),
    Alert(
        "LakeingestRetrying",
        f"{PREFIX}retrying == 1",
        "retry",
        "warning",
        "{{ $labels.pipeline }} waits for a server that fails",
    ),
    Alert(
        "LakeingestLagging",
        f"{PREFIX}lag_seconds > {{lag}}",
        "lag_wait",
        "warning",
        "{{ $labels.pipeline }} is {{ $value | humanizeDuration }} behind Kafka",
    ),
    Alert(
        "LakeingestStuck",
        f"time() - {PREFIX}last_look_timestamp_seconds > {{stuck}} + 2 * {PREFIX}trigger_seconds "
        f"and {PREFIX}running == 1",
        "",
        "critical",
        "{{ $labels.pipeline }} has not looked for new records for {{ $value | humanizeDuration }}",
    ),
    Alert(
        "LakeingestRefusing",
        f"sum by (pipeline) (rate({PREFIX}records_refused_total[{{window}}])) / "
        f"sum by (pipeline) (rate({PREFIX}records_consumed_total[{{window}}])) > {{refused}}",
        "",
        "warning",
        "{{ $value | humanizePercentage }} of the records of {{ $labels.pipeline }} go to quarantine",
    ),
    Alert(
        "LakeingestSchemaRefused",
        _risen('schema_changes_total{{action="quarantine"}}'),
        "",
        "warning",
        "{{ $labels.pipeline }} has met a schema that its table refuses",
    ),
    Alert(
        "LakeingestExpectationBroken",
        _risen('gate_results_total{{outcome="broken"}}'),
        "",
        "warning",
        "A batch of {{ $labels.pipeline }} breaks an expectation",
    ),
    Alert(
        "LakeingestCatalogBehind",
        f"{PREFIX}catalog_behind == 1",
        "catalog",
        "warning",
        "The catalog's entry of {{ $labels.pipeline }} is behind its table",
    ),
)
