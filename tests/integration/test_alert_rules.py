"""The alert rules by promtool: they are rules, and each fires when it should, not before; who is told, by amtool."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.servers import prometheus

INFRA = Path(__file__).resolve().parents[2] / "infra" / "prometheus"
ALERTS = runpy.run_path(str(INFRA.parent / "generate.py"))["ALERTS"]
RULES, ALERTMANAGER = INFRA / "alerts.yml", INFRA / "alertmanager.yml"
HERE = 'job="lakeingest", instance="a:1"'
P = 'pipeline="p"'


@dataclass(frozen=True)
class Case:
    """Series by the minute from 0; when the alert fires, and when it does not; what its summary has filled in."""

    series: dict[str, str]
    fires: int
    quiet: tuple[int, ...]
    value: str = ""
    labels: tuple[tuple[str, str], ...] = (("pipeline", "p"),)


PROCESS = (("job", "lakeingest"), ("instance", "a:1"))
CASES = {
    "LakeingestDown": Case({f"up{{{HERE}}}": "1 0x20"}, 6, (5,), labels=PROCESS),
    "LakeingestRestarting": Case(
        {f"process_start_time_seconds{{{HERE}}}": "1 1 2 3 4 5x60"}, 5, (4, 60), labels=PROCESS
    ),
    # The process is gone after one more minute.
    "LakeingestFailed": Case({f'lakeingest_ended{{{P}, outcome="failed"}}': "0 1 stale"}, 1, (0, 30)),
    "LakeingestHeld": Case({f'lakeingest_ended{{{P}, outcome="held"}}': "0 1 stale"}, 1, (0, 30)),
    "LakeingestFenced": Case({f'lakeingest_ended{{{P}, outcome="fenced"}}': "0 1 stale"}, 1, (0, 30)),
    "LakeingestRetrying": Case({f"lakeingest_retrying{{{P}}}": "0 1x8 0x9"}, 6, (5, 12)),
    "LakeingestLagging": Case({f"lakeingest_lag_seconds{{{P}}}": "0 1000x12 0x9"}, 11, (10, 15), "16m 40s"),
    "LakeingestStuck": Case(
        {
            f"lakeingest_running{{{P}}}": "1x40 0x20",
            f"lakeingest_last_look_timestamp_seconds{{{P}}}": "0x60",
            f"lakeingest_trigger_seconds{{{P}}}": "60x60",
        },
        33,
        (32, 42),
        "33m 0s",
    ),
    "LakeingestRefusing": Case(
        {
            f"lakeingest_records_consumed_total{{{P}}}": "0+100x60",
            f'lakeingest_records_refused_total{{{P}, reason="WRONG_TYPE"}}': "0x10 0+10x10 100x40",
        },
        20,
        (10, 40),
        "6%",
    ),
    "LakeingestSchemaRefused": Case(
        {f'lakeingest_schema_changes_total{{{P}, action="quarantine"}}': "0 0 1x60"}, 3, (1, 30)
    ),
    # A series that begins with its first rise.
    "LakeingestExpectationBroken": Case(
        {f'lakeingest_gate_results_total{{{P}, expectation="e", outcome="broken"}}': "_ _ 1x60"}, 3, (1, 30)
    ),
    "LakeingestCatalogBehind": Case({f"lakeingest_catalog_behind{{{P}}}": "1x20 0x9"}, 15, (14, 25)),
}


def test_the_rules_are_rules() -> None:
    said = prometheus.promtool("check", "rules", RULES)
    assert said.returncode == 0, said.stdout + said.stderr
    assert f"{len(ALERTS)} rules found" in said.stdout


def expected(name: str) -> dict[str, Any]:
    (alert,) = (each for each in ALERTS if each.name == name)
    text = alert.summary.replace("{{ $labels.pipeline }}", "p")
    for function in ("humanizeDuration", "humanizePercentage"):
        text = text.replace(f"{{{{ $value | {function} }}}}", CASES[name].value)
    annotations = {"summary": text, "runbook": f"lakeingest explain {name}"}
    return {"exp_labels": {"severity": alert.severity, **dict(CASES[name].labels)}, "exp_annotations": annotations}


@pytest.mark.parametrize("name", [alert.name for alert in ALERTS])
def test_an_alert_fires_when_it_should(name: str, tmp_path: Path) -> None:
    """With the sentence that whoever is called reads; before, and when it is over, it is quiet."""
    case = CASES[name]
    at = {case.fires: [expected(name)], **{minute: [] for minute in case.quiet}}
    test = {
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
        "alert_rule_test": [{"eval_time": f"{m}m", "alertname": name, "exp_alerts": told} for m, told in at.items()],
    }
    file = tmp_path / "test.yml"
    # JSON is YAML too.
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    said = prometheus.promtool("test", "rules", file)
    assert said.returncode == 0, said.stdout + said.stderr


def test_the_example_of_alertmanager_can_be_used() -> None:
    said = prometheus.amtool("check-config", ALERTMANAGER)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "- 3 inhibit rules" in said.stdout


def test_it_names_alerts_that_there_are() -> None:
    """One that was renamed would silently keep none back."""
    named = re.findall(r"Lakeingest(?:\w+|\([\w|]+\))", ALERTMANAGER.read_text().partition("inhibit_rules:")[2])
    every = {f"Lakeingest{one}" for each in named for one in each.removeprefix("Lakeingest").strip("()").split("|")}
    assert len(every) == 8
    assert every <= {alert.name for alert in ALERTS}
