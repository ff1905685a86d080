"""Write what follows from the list of metrics (lakeingest/ingest/listeners/metric_list.py) and from the list of alerts
below: Grafana's dashboard, the alert rules of Prometheus, and the tables of docs/how-to/watch.md.

    python infra/generate.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lakeingest.ingest.listeners.metric_list import METRICS, PREFIX, Metric

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "how-to" / "watch.md"
_WIDE, _HIGH, _COLUMNS = 8, 8, 3
_OPTIONS = {
    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
    "tooltip": {"mode": "multi", "sort": "desc"},
}
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_NOT_DRAWN = {
    "last_look_timestamp_seconds",
    "last_commit_timestamp_seconds",
    "trigger_seconds",
    "sequence",
    "table_version",
}
UNITS = {
    **dict.fromkeys(("lag_seconds", "batch_seconds", "stage_seconds", "commit_seconds"), "s"),
    **dict.fromkeys(("records_consumed_total", "records_refused_total", "records_dropped_total"), "reqps"),
    "bytes_consumed_total": "Bps",
    "rows_total": "rowsps",
    "bytes_written_total": "bytes",
    **dict.fromkeys(("commits_total", "files_written_total", "schema_changes_total", "gate_results_total"), "ops"),
    "retries_total": "ops",
}
"""The units of panels' axes, by Grafana's names; short for other metrics."""
JOB = "lakeingest"
"""What the job has to be called in Prometheus' configuration, for the alerts that look at the process."""


def _rate(name: str, *labels: str) -> str:
    chosen = f'{PREFIX}{name}{{pipeline=~"$pipeline"}}'
    return f"sum by (pipeline{''.join(f', {each}' for each in labels)}) (rate({chosen}[$__rate_interval]))"


def panel_query(metric: Metric) -> str:
    """What the dashboard asks of a metric, in PromQL; empty if it is not drawn."""
    if metric.name in _NOT_DRAWN:
        return ""
    if metric.kind == "gauge":
        return f'{metric.full_name}{{pipeline=~"$pipeline"}}'
    if metric.kind == "histogram":
        return f"{_rate(f'{metric.name}_sum', *metric.labels)} / {_rate(f'{metric.name}_count', *metric.labels)}"
    if metric.name == "bytes_written_total":
        return f"{_rate('bytes_written_total')} / {_rate('files_written_total')}"
    labels = ("outcome",) if metric.name == "gate_results_total" else metric.labels
    return _rate(metric.name, *labels)


@dataclass(frozen=True)
class Alert:
    """One alert. The runbook (lakeingest/cli/runbook.md) has an entry of the same name.

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


def rules(limits: Mapping[str, str] = LIMITS) -> str:
    """The alert rules, with other limits for a rehearsal."""
    lines = ["# Written by infra/generate.py: change its list of alerts instead.", "groups:"]
    lines += ["  - name: lakeingest", "    rules:"]
    for alert in ALERTS:
        lines += [f"      - alert: {alert.name}", f"        expr: {json.dumps(alert.expr.format(**limits))}"]
        lines += [f"        for: {limits[alert.wait]}"] if alert.wait else []
        lines += [f"        labels: {{severity: {alert.severity}}}", "        annotations:"]
        lines += [f"          summary: {json.dumps(alert.summary)}"]
        lines += [f"          runbook: lakeingest explain {alert.name}"]
    return "\n".join(lines) + "\n"


def dashboard() -> str:
    """Grafana's dashboard, as JSON."""
    drawn = [metric for metric in METRICS if panel_query(metric)]
    variables = [
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "pipeline",
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": f"label_values({PREFIX}running, pipeline)", "refId": "pipeline"},
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        },
    ]
    made = {
        "uid": "lakeingest",
        "title": "lakeingest",
        "tags": ["lakeingest"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": variables},
        "annotations": {"list": []},
        "panels": [_panel(at, metric) for at, metric in enumerate(drawn)],
    }
    return json.dumps(made, indent=2) + "\n"


def _panel(at: int, metric: Metric) -> dict[str, Any]:
    legend = " ".join(f"{{{{{label}}}}}" for label in ("pipeline", *metric.labels))
    row, column = divmod(at, _COLUMNS)
    return {
        "id": at + 1,
        "title": metric.help.partition(":")[0].rstrip("."),
        "description": metric.help,
        "type": "timeseries",
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDE, "y": row * _HIGH, "w": _WIDE, "h": _HIGH},
        "fieldConfig": {"defaults": {"unit": UNITS.get(metric.name, "short"), "min": 0}, "overrides": []},
        "options": _OPTIONS,
        "targets": [{"refId": "A", "datasource": _SOURCE, "expr": panel_query(metric), "legendFormat": legend}],
    }


def _metric_rows() -> Iterator[str]:
    yield "| metric | kind | labels | what it is |\n|---|---|---|---|"
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in ("pipeline", *metric.labels))
        yield f"| `{metric.full_name}` | {metric.kind} | {labels} | {metric.help} |"


def _alert_rows() -> Iterator[str]:
    yield "| alert | severity | when |\n|---|---|---|"
    for alert in ALERTS:
        wait = f", for {LIMITS[alert.wait]}" if alert.wait else ""
        expr = alert.expr.format(**LIMITS).replace("|", "\\|")
        yield f"| `{alert.name}` | {alert.severity} | `{expr}`{wait} |"


def page(text: str) -> str:
    """The page with today's tables."""
    for name, rows in (("metrics", _metric_rows()), ("alerts", _alert_rows())):
        table = "\n".join(rows)
        mark = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        text, count = re.subn(mark, lambda found: f"{found[1]}\n{table}\n\n{found[2]}", text, flags=re.S)  # noqa: B023
        assert count == 1, name
    return text


def files() -> dict[Path, str]:
    """File → what it should hold."""
    return {
        ROOT / "infra" / "grafana" / "lakeingest.json": dashboard(),
        ROOT / "infra" / "prometheus" / "alerts.yml": rules(),
        PAGE: page(PAGE.read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    for file, text in files().items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
