"""Write what follows from the list of metrics (lakeingest/ingest/listeners/metric_list.py): Grafana's dashboard, the
alert rules of Prometheus, and the tables of docs/how-to/watch.md.

    python infra/generate.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lakeingest.ingest.listeners.metric_list import ALERTS, LIMITS, METRICS, PREFIX, Metric

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "how-to" / "watch.md"
_WIDE, _HIGH, _COLUMNS = 8, 8, 3
_OPTIONS = {
    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
    "tooltip": {"mode": "multi", "sort": "desc"},
}
_SOURCE = {"type": "prometheus", "uid": "${source}"}


def rules(limits: Mapping[str, str] = LIMITS) -> str:
    """The alert rules, with other limits for a rehearsal."""
    lines = ["# Written by infra/generate.py: change lakeingest/ingest/listeners/metric_list.py instead.", "groups:"]
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
    drawn = [metric for metric in METRICS if metric.panel]
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
        "fieldConfig": {"defaults": {"unit": metric.unit, "min": 0}, "overrides": []},
        "options": _OPTIONS,
        "targets": [{"refId": "A", "datasource": _SOURCE, "expr": metric.panel, "legendFormat": legend}],
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
