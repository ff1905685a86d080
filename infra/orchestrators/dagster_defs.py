"""Definitions for Dagster: the table as an asset, materialized by a run until it is caught up, and checked by an audit.

    dagster dev -f infra/orchestrators/dagster_defs.py

lakeingest is in an environment of its own: nothing of it is imported here. The variables of the pipeline file, secrets
too, are those of the process.
"""

# Dagster looks at the types of its functions, so no `from __future__ import annotations`.
import json
import os
import subprocess
from typing import Any

import dagster

LAKEINGEST = os.environ.get("LAKEINGEST_BIN", "/opt/lakeingest/bin/lakeingest")
FILE = os.environ.get("LAKEINGEST_FILE", "/etc/lakeingest/flights.yaml")
SERVER_FAILED = 4
"""The exit code that is worth another try; see docs/how-to/production.md."""


def lakeingest(*words: str) -> dict[str, Any]:
    """What a command has to say; its log goes to the step's."""
    done = subprocess.run([LAKEINGEST, *words, "--output", "json"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise dagster.Failure(
            f"lakeingest {words[0]} ended with exit code {done.returncode}",
            metadata={"output": done.stdout},
            allow_retries=done.returncode == SERVER_FAILED,
        )
    return json.loads(done.stdout)


@dagster.asset(
    description="The topic flights as a Delta table",
    kinds={"kafka", "deltalake"},
    retry_policy=dagster.RetryPolicy(max_retries=3, delay=120),
    # A second run would be fenced off.
    pool="lakeingest_flights",
)
def flights() -> dagster.MaterializeResult:
    """A run until it is caught up."""
    counts = lakeingest("run", FILE, "--until-caught-up", "--log-format", "json")
    shown = ("commits", "consumed", "accepted", "refused", "dropped")
    return dagster.MaterializeResult(metadata={name: counts[name] for name in shown})


@dagster.asset_check(asset=flights, description="Each consumed record is in the table, in quarantine or dropped, once")
def conserved() -> dagster.AssetCheckResult:
    """An audit."""
    done = subprocess.run([LAKEINGEST, "audit", FILE], capture_output=True, text=True, check=False)
    return dagster.AssetCheckResult(passed=done.returncode == 0, metadata={"output": done.stdout + done.stderr})


runs = dagster.define_asset_job(
    "flights_until_caught_up",
    selection=dagster.AssetSelection.assets(flights).without_checks(),
)
audits = dagster.define_asset_job("flights_audit", selection=dagster.AssetSelection.checks_for_assets(flights))

defs = dagster.Definitions(
    assets=[flights],
    asset_checks=[conserved],
    jobs=[runs, audits],
    schedules=[
        dagster.ScheduleDefinition(job=runs, cron_schedule="*/15 * * * *"),
        dagster.ScheduleDefinition(job=audits, cron_schedule="@daily"),
    ],
)
