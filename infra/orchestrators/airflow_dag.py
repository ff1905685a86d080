"""DAGs for Airflow 3: run a pipeline until it is caught up; each day prove that nothing is missing, and keep the tables
in shape.

lakeingest is in an environment of its own, for Airflow pins its packages: nothing of it is imported here. The variables
of the pipeline file, secrets too, are those of the worker's process.
"""

from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import Asset, dag, task
from airflow.sdk.exceptions import AirflowFailException

LAKEINGEST = os.environ.get("LAKEINGEST_BIN", "/opt/lakeingest/bin/lakeingest")
FILE = os.environ.get("LAKEINGEST_FILE", "/etc/lakeingest/flights.yaml")
SERVER_FAILED = 4
"""The exit code that is worth another try; see docs/how-to/production.md."""


def lakeingest(*words: str) -> dict[str, Any]:
    """What a command has to say; its log goes to the task's."""
    done = subprocess.run([LAKEINGEST, *words, "--output", "json"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == SERVER_FAILED:
        raise RuntimeError(f"a server failed: {done.stdout}")
    if done.returncode:
        raise AirflowFailException(f"lakeingest {words[0]} ended with exit code {done.returncode}: {done.stdout}")
    return json.loads(done.stdout)


@dag(
    dag_id="lakeingest_flights",
    schedule="*/15 * * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # A second run would be fenced off.
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=2), "execution_timeout": timedelta(hours=6)},
    tags=["lakeingest"],
)
def flights() -> None:
    """The topic flights into the table flights."""

    # DAGs that read the table are scheduled by this asset.
    @task(outlets=[Asset("s3://lake-example/flights")])
    def run() -> dict[str, Any]:
        return lakeingest("run", FILE, "--until-caught-up", "--log-format", "json")

    run()


@dag(
    dag_id="lakeingest_flights_audit",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=2)},
    tags=["lakeingest"],
)
def audit() -> None:
    """Each consumed record is in the table, in quarantine or dropped, once; else the task fails."""

    @task
    def conserved() -> dict[str, Any]:
        return lakeingest("audit", FILE)

    conserved()


@dag(
    dag_id="lakeingest_flights_maintenance",
    schedule="30 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=2), "execution_timeout": timedelta(hours=3)},
    tags=["lakeingest"],
)
def maintenance() -> None:
    """Small files become large ones, and files that nobody needs are deleted, beside the runs."""

    @task
    def maintain() -> dict[str, Any]:
        return lakeingest("maintain", FILE, "--most-time", "1 hour")

    maintain()


flights()
audit()
maintenance()
