"""A maintenance that is killed between any two of its steps, denied by the store, or begun twice: nothing is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.faults import BUCKET, commits, killed_at
from support.pipelines import World
from support.records import DIRTY, clean_records

from lakeingest.delta.maintenance import vacuum
from lakeingest.delta.maintenance.vacuum import Vacuumed
from lakeingest.errors import StorageError
from lakeingest.local import Addresses
from lakeingest.testing.s3 import Request, S3Proxy, denied

Rule = Callable[[Request], bool]


def writes(request: Request) -> bool:
    """A data file of a compaction."""
    return request.kind in ("PUT", "MULTIPART_CREATE") and bool(re.search(r"/part-[^/]*\.parquet$", request.key))


def deletes(request: Request) -> bool:
    """A data file, or many."""
    return request.kind in ("DELETE", "DELETE_MANY")


STEPS: dict[str, tuple[Rule, bool]] = {
    "before the first file": (writes, False),
    "before a commit": (commits("OPTIMIZE"), False),
    "after a commit": (commits("OPTIMIZE"), True),
    "before the VACUUM": (commits("VACUUM START"), False),
    "within the VACUUM": (commits("VACUUM START"), True),
    "before the end of the VACUUM": (commits("VACUUM END"), False),
}
"""Step → the request that it is known by, and whether the store has done that."""


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str, s3: S3Proxy) -> World:
    """Three commits to table and quarantine, which `s3` has made the bucket for."""
    world = World(stack, spark, named, table={"path": f"s3a://{BUCKET}/{named}"}, retry={"wait": "1 minute"})
    for start in range(3):
        world.produce(*clean_records(10, start * 10), DIRTY)
        world.run()
    return world


def check(world: World) -> None:
    """Maintained, and as before."""
    results = world.ingestion().maintain()
    assert [(each.after.count, each.remaining, each.failure) for each in results] == [(1, {}, None)] * 2
    world.produce(*clean_records(10, 30), DIRTY)
    world.run()
    world.checked()


@pytest.mark.faults
@pytest.mark.parametrize("step", STEPS)
def test_a_maintenance_is_killed(world: World, s3: S3Proxy, tmp_path: Path, step: str) -> None:
    """SIGKILL at a step; the next call does the rest."""
    at = tmp_path / "p.yaml"
    at.write_text(json.dumps(world.values(storage={"endpoint": s3.endpoint})))
    rule, is_done = STEPS[step]
    killed_at(s3, rule, ("maintain",), at, is_done=is_done)
    check(world)


@pytest.mark.faults
def test_two_maintenances_at_once(world: World) -> None:
    """Whoever comes second to a table finds nothing to do, or leaves it."""
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(world.ingestion().maintain) for _ in range(2)]
    for each in both:
        assert [table.failure for table in each.result()] == [None, None]
    assert [table.after.count for table in world.ingestion().maintain()] == [1, 1]
    world.checked()


@pytest.mark.slow
def test_a_store_that_denies_deletes(world: World, s3: S3Proxy) -> None:
    """The VACUUM says so, with a cure; the compaction is done, and no row is gone."""
    tables = world.ingestion().tables
    assert world.ingestion().maintain("compact")[0].partitions == 1
    fault = s3.fault(deletes, denied())
    now = Vacuumed(datetime.now(UTC) + timedelta(seconds=1))
    with pytest.raises(StorageError) as refused:
        vacuum.vacuum(tables.main, now, {}, checked=False)
    assert fault.hits
    assert "s3:DeleteObject" in refused.value.cure
    s3.clear()
    assert vacuum.vacuum(tables.main, now, {}, checked=False).files == 3
    world.checked()
