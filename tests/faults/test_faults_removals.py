"""A forgetting, or an expiry, is killed between any two steps while a run goes on; the next call finishes it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.faults import BUCKET, commits, killed_at
from support.pipelines import World
from support.records import Record

from lakeingest.local import Addresses
from lakeingest.operations.erasure import job
from lakeingest.operations.erasure.records import ErasureRequest
from lakeingest.testing.s3 import S3Proxy

WHERE = "name = 'Anna Karenina'"
STEPS = {
    "before it is listed": ("WRITE", "_removed", False),
    "after it is listed": ("WRITE", "_removed", True),
    "before the rows go": ("MERGE", "table", False),
    "after the rows went": ("MERGE", "table", True),
    "after the refused records went": ("MERGE", "table_quarantine", True),
    "before the VACUUM": ("VACUUM START", "table", False),
    "within the VACUUM": ("VACUUM START", "table", True),
    "before the end of the VACUUM": ("VACUUM END", "table_quarantine", False),
}
"""Step → the commit that it is known by, how that table's path ends, and whether the store has done it."""


def people(count: int, hours: float = 0) -> list[Record]:
    """Every fifth is Anna; the first of hers is refused for her age."""
    at = datetime.now(UTC) - timedelta(hours=hours)
    values = [
        {"id": n, "name": "Anna Karenina" if n % 5 == 0 else f"Person {n}", "age": "young" if n == 0 else n}
        for n in range(count)
    ]
    return [Record(json.dumps(value).encode(), at=at) for value in values]


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str, s3: S3Proxy) -> World:
    """A batch, in a bucket that `s3` stands before."""
    world = World(
        stack,
        spark,
        named,
        table={"path": f"s3a://{BUCKET}/{named}/table"},
        schema={"columns": "id INT NOT NULL, name STRING, age INT"},
        retry={"wait": "1 minute"},
    )
    world.produce(*people(20, hours=6))
    world.run()
    return world


def killed_before_a_run(
    world: World, s3: S3Proxy, folder: Path, step: tuple[str, str, bool], command: str, *options: str
) -> None:
    """A command is killed at a step, and the run behind it takes three new records and misses none."""
    at = folder / "p.yaml"
    at.write_text(json.dumps(world.values(storage={"endpoint": s3.endpoint})))
    operation, table, is_done = step
    killed_at(s3, commits(operation, table), (command,), at, *options, is_done=is_done)
    world.produce(*people(4)[1:])
    world.run()
    assert world.ingestion().audit().missing == 0


@pytest.mark.faults
@pytest.mark.parametrize("step", STEPS)
def test_a_forgetting_is_killed(world: World, s3: S3Proxy, tmp_path: Path, step: str) -> None:
    """SIGKILL; a run takes new records, and the same words finish it."""
    words = ("--where", WHERE, "--why", "request 1", "--search", "Anna Karenina", "--now", "--i-know")
    killed_before_a_run(world, s3, tmp_path, STEPS[step], "forget", *words)
    request = ErasureRequest(WHERE, "request 1", ("Anna Karenina",))
    certificate = job.forget([world.ingestion().context], request, now=True)
    assert (certificate.records, certificate.failure) == (4, None)
    report = world.ingestion().audit()
    assert (report.conserved, report.removed["forgotten"], report.table, report.quarantine) == (True, 4, 16 + 3, 0)
    assert not [row for row in world.rows() if row["name"] == "Anna Karenina"]


EXPIRY = {
    "before they are listed": ("WRITE", "_removed", False),
    "after they are listed": ("WRITE", "_removed", True),
    "before they go": ("MERGE", "table", False),
    "after they went": ("MERGE", "table", True),
}


@pytest.mark.faults
@pytest.mark.parametrize("step", EXPIRY)
def test_an_expiry_is_killed(world: World, s3: S3Proxy, tmp_path: Path, step: str) -> None:
    """SIGKILL; a run takes new records, and the next maintenance finishes it."""
    world.changes["retention"] = {"table": "3 hours"}
    killed_before_a_run(world, s3, tmp_path, EXPIRY[step], "maintain", "--only", "expire")
    assert world.ingestion().maintain("expire").failure is None
    report = world.ingestion().audit()
    assert (report.conserved, report.removed["expired"], report.table, report.quarantine) == (True, 19, 3, 1)
