"""The bundle for Databricks by the models of databricks-bundles; spoilt ones are refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from support.servers import infra_tools

pytestmark = pytest.mark.infra
BUNDLE = infra_tools.INFRA / "databricks" / "databricks.yml"
PROGRAM = """
import json, sys
from databricks.bundles.core import Bundle, Variable
from databricks.bundles.jobs import Job
told = []
for each in json.load(sys.stdin if len(sys.argv) == 1 else open(sys.argv[1])):
    try:
        Job.from_dict(each)
        told.append("")
    except Exception as error:
        told.append(str(error))
print(json.dumps(told))
"""
TOP = {"bundle", "variables", "sync", "resources", "targets"}
"""Mappings that a databricks.yml may have, of those that this one has."""


def bundle() -> Any:
    return YAML(typ="safe").load(BUNDLE)


def job() -> Any:
    return bundle()["resources"]["jobs"]["flights"]


def refusals(jobs: list[Any], folder: Path) -> list[str]:
    (folder / "jobs.json").write_text(json.dumps(jobs))
    done = infra_tools.run("checks", "python", "-c", PROGRAM, folder / "jobs.json")
    assert done.returncode == 0, done.stderr
    told: list[str] = json.loads(done.stdout)
    return told


def test_the_job_is_accepted(tmp_path: Path) -> None:
    """Each field is one that Databricks knows, of its type."""
    assert refusals([job()], tmp_path) == [""]


def test_a_spoilt_job_is_refused(tmp_path: Path) -> None:
    """A wrong field, value, level or type; and what is missing."""
    made: list[Any] = []
    for spoil in (
        {"task": []},
        {"schedule": {"quartz_cron_expression": "0 0/15 * * * ?", "timezone_id": "UTC", "pause_status": "ON"}},
        {"max_concurrent_runs": "one"},
        {"tasks": [{**job()["tasks"][0], "python_wheel": {}}]},
        {"tasks": [{key: value for key, value in job()["tasks"][0].items() if key != "task_key"}]},
        {"job_clusters": [{"job_cluster_key": "spark", "new_cluster": {"spark_versoin": "x"}}]},
    ):
        made.append({**job(), **spoil})
    assert [bool(told) for told in refusals(made, tmp_path)] == [True] * len(made)


def test_the_file_around_it() -> None:
    """Variables that are used are declared; the folder of the wheel is where the comment has it built."""
    text, found = BUNDLE.read_text(), bundle()
    assert found.keys() == TOP
    used = set(re.findall(r"\$\{var\.(\w+)\}", text))
    assert used == found["variables"].keys()
    assert "--outdir infra/databricks/dist" in text
    assert job()["tasks"][0]["libraries"] == [{"whl": "./dist/*.whl"}]
    assert [target for target, each in found["targets"].items() if each.get("default")] == ["dev"]
