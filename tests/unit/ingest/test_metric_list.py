"""One list of metrics: the committed files are generated from it, and alerts and dashboard ask for nothing else."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from lakeingest.ingest.events import Committed, Ended
from lakeingest.ingest.listeners import metrics
from lakeingest.ingest.listeners.metric_list import METRICS

ROOT = Path(__file__).resolve().parents[3]
GENERATOR = runpy.run_path(str(ROOT / "infra" / "generate.py"))
ALERTS, JOB, LIMITS = (GENERATOR[name] for name in ("ALERTS", "JOB", "LIMITS"))
SUFFIX = {"histogram": ("_sum", "_count", "_bucket"), "counter": ("",), "gauge": ("",)}
SAMPLED = {f"{m.full_name}{suffix}" for m in METRICS for suffix in SUFFIX[m.kind]}


@pytest.mark.parametrize("file", GENERATOR["files"](), ids=lambda file: file.name)
def test_the_committed_files_are_what_the_generator_writes(file: Path) -> None:
    """Run `python infra/generate.py`."""
    assert file.read_text(encoding="utf-8") == GENERATOR["files"]()[file]


def asked() -> list[str]:
    return [GENERATOR["panel_query"](metric) for metric in METRICS] + [alert.expr.format(**LIMITS) for alert in ALERTS]


@pytest.mark.parametrize("expr", list(filter(None, asked())))
def test_only_metrics_of_the_list_are_asked_for(expr: str) -> None:
    """A metric that was renamed would leave a panel empty, and an alert silent for ever."""
    named = re.findall(r"lakeingest_\w+", expr)
    assert set(named) <= SAMPLED
    assert named or JOB in expr


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
def test_a_metric_keeps_to_the_conventions(metric: object) -> None:
    """Of Prometheus: a counter ends with _total, nothing else does; the help is a sentence."""
    kind, name, text = (getattr(metric, each) for each in ("kind", "name", "help"))
    assert (kind == "counter") == name.endswith("_total")
    assert text.endswith(".")
    assert "|" not in text


def test_the_outcomes_and_stages_that_the_help_names() -> None:
    """The words are those of the events."""
    helps = {metric.name: metric.help for metric in METRICS}
    assert all(outcome in helps["ended"] for outcome in Ended.OUTCOMES)
    assert all(stage in helps["stage_seconds"] for stage in Committed.STAGES)
    assert all(action in helps["schema_changes_total"] for action in metrics._ACTIONS)


def test_the_dashboard_can_be_imported() -> None:
    """As far as its JSON tells: panels within the grid, none over another, each with a query and a known variable."""
    board = json.loads((ROOT / "infra" / "grafana" / "lakeingest.json").read_text())
    names = {each["name"] for each in board["templating"]["list"]}
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]]
    assert len(set(places)) == len(places)
    assert all(p["gridPos"]["x"] + p["gridPos"]["w"] <= 24 for p in board["panels"])
    assert len({p["id"] for p in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        (target,) = panel["targets"]
        assert set(re.findall(r"\$\{?(\w+)", target["expr"])) - {"__rate_interval"} <= names
