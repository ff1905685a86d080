"""Tables whose receipts have two forms, and what the sums of coordinates say of tables that others changed."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pipelines import World
from support.records import DIRTY, clean_records, mixed_records, transaction
from support.servers import s3_client

from lakeingest.delta import sums
from lakeingest.delta.receipt import Counts
from lakeingest.delta.sums import BatchSums, Sums
from lakeingest.local import Addresses


def form_1(text: str) -> str:
    """A receipt as older versions wrote it: all fields beside each other, and no sums."""
    tree: dict[str, Any] = json.loads(text)
    job, account, decided, schemas = (tree.pop(name, {}) for name in ("job", "account", "decided", "schemas"))
    tree.pop("before", None)
    account.pop("table", None)
    job.pop("name")
    renamed = {"base": decided.get("version"), "aside": decided.get("account"), "ledger": schemas.pop("digest", None)}
    tree |= {name: value for name, value in renamed.items() if value is not None}
    return json.dumps({**tree, **job, **account, **({"schemas": schemas} if schemas else {}), "lakeingest": 1})


def write_form_1(world: World) -> int:
    """Let all receipts of both tables be of form 1; how many they are."""
    count = 0
    with closing(s3_client(world.stack)) as s3:
        for table in ("", "_quarantine"):
            bucket, _, prefix = world.path(table).removeprefix("s3a://").partition("/")
            objects = s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/_delta_log/")["Contents"]
            for key in (each["Key"] for each in objects if each["Key"].endswith(".json")):
                lines = s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode().splitlines()
                actions = [json.loads(line) for line in lines]
                for info in (each["commitInfo"] for each in actions if "commitInfo" in each):
                    if '"lakeingest":2' in info.get("userMetadata", ""):
                        info["userMetadata"] = form_1(info["userMetadata"])
                        count += 1
                s3.put_object(Bucket=bucket, Key=key, Body="\n".join(map(json.dumps, actions)).encode())
    return count


@pytest.mark.faults
def test_a_table_with_both_forms(stack: Addresses, spark: SparkSession, named: str) -> None:
    """An older version wrote batches, a part of a backfill and one that was cut off; today's goes on with them all."""
    world = World(stack, spark, named, source={"start": "latest"})
    world.produce(*mixed_records(12), partitions=2)
    world.run()
    world.produce(*mixed_records(6), partitions=2)
    world.run(trigger={"max_records": 4})
    assert world.ingestion().backfill(max_records=6).counts.consumed == 12
    world.produce(*clean_records(3), DIRTY, partitions=2)
    world.crash()
    # A file that is written anew has another time.
    history = world.ingestion().history().drop("timestamp").collect()
    assert write_form_1(world) > 8
    assert world.ingestion().history().drop("timestamp").collect() == history
    report = world.ingestion().audit()
    # The batch that was cut off has refused one, and has no account.
    assert (report.missing, report.duplicated, report.backfilled, report.summed) == (1, 0, 12, 0)
    assert world.run() == Counts(4, 3, 1)
    assert world.checked().summed == 0
    world.produce(*clean_records(4), DIRTY, partitions=2)
    world.crash()
    assert world.run().consumed == 5
    world.produce(*clean_records(2), partitions=2)
    world.run()
    assert world.ingestion().replay(why="form 2", dry_run=True).moved == 0
    assert world.ingestion().status().commits[0]["rows"] == 2
    versions = [commit.version for commit in world.commit_log().commits]
    report = world.checked()
    # The one that was cut off in form 1, and the one in form 2: their receipts' successors have their sums.
    assert (report.commits, report.summed) == (len(versions), 2 if world.asks_files else 0)
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {versions[2]}")
    assert world.run().consumed == 7
    world.checked()


@pytest.mark.faults
def test_rows_that_others_changed_where_offsets_have_holes(stack: Addresses, spark: SparkSession, named: str) -> None:
    """A transaction's marker is an offset without a record: neither counts nor coordinates tell who took its place."""
    world = World(stack, spark, named)
    world.produce(*clean_records(1))
    transaction(stack, world.name, clean_records(4), commit=True)
    world.run()
    world.produce(*clean_records(3), DIRTY)
    world.run()
    world.produce(*clean_records(1))
    world.run()
    newest, second, first = world.commit_log().commits
    before = [(named, 0, row["_offset"]) for row in world.rows()]
    # Each run was a process of its own: it has read what the files of the one before it say.
    assert second.receipt.before == BatchSums(1, sums.of(before[:5]), Sums())
    refused = sums.of([(named, 0, 9)]) if world.asks_files else None
    assert newest.receipt.before == BatchSums(2, sums.of(before[5:8]), refused)
    report = world.checked()
    assert (report.summed, report.altered) == (2 if refused else 1, ())
    start = world.spark.sql(f"DESCRIBE HISTORY delta.`{world.path()}`").first()["version"]  # type: ignore[index]
    for change in ("_offset = 5 WHERE _offset = 3", "_offset = 3 WHERE _offset = 2"):
        world.sql(f"UPDATE {{table}} SET {change}")
        report = world.ingestion().audit()
        assert not report.conserved
        assert [each.partition(":")[0] for each in report.altered] == [f"batch 1 (version {first.version}, {named}-0)"]
        world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {start}")
    world.checked()
