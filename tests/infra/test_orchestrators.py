"""The examples for Airflow and Dagster, loaded and called by their libraries, over a command that ends as told."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from support.servers import infra_tools

from lakeingest.delta.receipt import Counts

pytestmark = pytest.mark.infra
FOLDER = infra_tools.INFRA / "orchestrators"
SAID = {"commits": 1, "consumed": 3, "accepted": 2, "refused": 1, "dropped": 0}
OF_AIRFLOW = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException

bag = DagBag(dag_folder=sys.argv[1])
told = {"errors": list(bag.import_errors.values()), "dags": {}}
for name, dag in bag.dags.items():
    (task,) = dag.tasks
    try:
        outcome = task.python_callable()
    except AirflowFailException as failed:
        outcome = f"for good: {failed}"
    except Exception as failed:
        outcome = f"again: {failed}"
    told["dags"][name] = [dag.max_active_runs, task.retries, [each.uri for each in task.outlets], outcome]
print("TOLD" + json.dumps(told))
"""
OF_DAGSTER = """
import json, runpy, sys
import dagster

module = runpy.run_path(sys.argv[1])
defs = module["defs"]
dagster.Definitions.validate_loadable(defs)
result = dagster.materialize([module["flights"], module["conserved"]], raise_on_error=False)
failures = [event.step_failure_data.user_failure_data for event in result.all_events if event.is_step_failure]
retries = [event for event in result.all_events if event.is_step_up_for_retry]
shown = [event.materialization.metadata for event in result.get_asset_materialization_events()]
told = {
    "jobs": sorted(job.name for job in defs.resolve_all_job_defs() if not job.name.startswith("__")),
    "counts": [{name: value.value for name, value in each.items()} for each in shown],
    "checks": [each.passed for each in result.get_asset_check_evaluations()],
    "failed": [each.label if each else "" for each in failures],
    "retries": len(retries),
}
print("TOLD" + json.dumps(told))
"""


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A lakeingest that says what a run says, and ends as $CODE."""
    path = tmp_path / "lakeingest"
    path.write_text(f"#!/bin/sh\necho '{json.dumps(SAID)}'\nexit ${{CODE:-0}}\n")
    path.chmod(0o755)
    return path


def told(name: str, program: str, file: str, command: Path, code: int) -> dict[str, object]:
    home = command.parent / "home"
    environment = {
        "LAKEINGEST_BIN": str(command),
        "CODE": str(code),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "DAGSTER_HOME": "",
        "PYTHONPATH": "",
        "PYTHONWARNINGS": "",
    }
    done = infra_tools.run(name, "python", "-c", program, FOLDER / file, env=environment)
    lines = [line.removeprefix("TOLD") for line in done.stdout.splitlines() if line.startswith("TOLD")]
    assert lines, done.stdout + done.stderr
    found: dict[str, object] = json.loads(lines[0])
    return found


@pytest.mark.parametrize(
    ("code", "outcome"), [(0, "done"), (1, "for good"), (2, "for good"), (3, "for good"), (4, "again")]
)
def test_airflow(code: int, outcome: str, command: Path) -> None:
    """All DAGs load; what a run says is handed on; only a server that failed is worth another try."""
    found = told("airflow", OF_AIRFLOW, "airflow_dag.py", command, code)
    assert found["errors"] == []
    dags = found["dags"]
    assert isinstance(dags, dict)
    assert dags.keys() == {"lakeingest_flights", "lakeingest_flights_audit", "lakeingest_flights_maintenance"}
    at_once, retries, outlets, said = dags["lakeingest_flights"]
    assert (at_once, retries, outlets) == (1, 3, ["s3://lake-example/flights"])
    assert said == SAID if outcome == "done" else said.startswith(outcome)


@pytest.mark.parametrize("code", [0, 1])
def test_dagster(code: int, command: Path) -> None:
    """The definitions load; the asset has the counts of its run, and its check is the audit's."""
    found = told("dagster", OF_DAGSTER, "dagster_defs.py", command, code)
    assert found["jobs"] == ["flights_audit", "flights_until_caught_up"]
    if code:
        assert (found["counts"], found["retries"], len(found["failed"])) == ([], 0, 1)  # type: ignore[arg-type]
    else:
        assert (found["counts"], found["checks"]) == ([SAID], [True])


def test_a_run_says_these_numbers() -> None:
    """What the examples read is what `run --output json` prints."""
    assert SAID.keys() - {"commits"} <= {field.name for field in fields(Counts)}
