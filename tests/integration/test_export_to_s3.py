"""`lakeingest export` into the real store: while a pipeline goes on, and where the store fails at a step."""

from __future__ import annotations

import json
import re
from pathlib import Path

import exports
import kit
import pytest
from command import Command
from rehearsal import BUCKET
from world import World

from lakeingest.errors import StorageUnreachable
from lakeingest.testing.s3 import Request, S3Proxy, call_after, denied


def test_the_command(world: World, tmp_path: Path, lakeingest: Command) -> None:
    """What came since the last time, in a bucket that no table of the file is in; refused records are not among it."""
    client = kit.s3(world.stack)
    client.create_bucket(Bucket=f"out-{world.name.replace('_', '-')}")
    client.close()
    place = f"s3a://out-{world.name.replace('_', '-')}/rows"
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(world.values()))
    missing = lakeingest("export", file, "--to", place)
    assert (missing.code, "there is no Delta table" in missing.err) == (2, True)
    world.produce(*kit.mixed(10), partitions=2)
    world.run()
    looked = lakeingest("export", file, "--to", place, "--dry-run")
    assert "8 rows came from the first version to version" in looked.out
    first = lakeingest("export", file, "--to", place, "--partition-by", "_partition", "--output", "json").data
    assert (first["rows"], first["sequence"], len(first["objects"])) == (8, 1, 2)
    assert lakeingest("export", file, "--to", place).out.startswith(f"{world.name}: nothing new up to version")
    columns = ["_topic", "_partition", "_offset", "_timestamp", "n", "text"]
    rows = world.spark.read.format("delta").load(world.path()).select(columns)
    exports.assert_exported(world.spark, place, "jsonl", rows)
    wrong = lakeingest("export", file, "--to", place, "--format", "csv", "--output", "json")
    assert (wrong.code, wrong.data["error"]) == (2, "UsageError")


def test_the_store_fails_at_a_step(world: World, s3: S3Proxy) -> None:
    """Before an object, before the commit, and behind it: the next export has each row once, and nothing is left."""
    place = f"s3a://{BUCKET}/{world.name}_out"
    world.changes = {"table": {"path": f"s3a://{BUCKET}/{world.name}"}}
    world.produce(*kit.clean(8), partitions=2)
    world.run()
    pipeline = world.ingestion()

    def writes(request: Request) -> bool:
        return request.kind == "PUT" and f"{world.name}_out/export=" in request.key

    def commits(request: Request) -> bool:
        return request.kind == "PUT" and bool(re.search(r"_out/_lakeingest_export/_delta_log/\d{20}", request.key))

    for step in (writes, commits):
        s3.fault(step, denied())
        with pytest.raises(StorageUnreachable):
            pipeline.export(place, format="csv")
        s3.clear()
    down: list[object] = []
    s3.fault(commits, call_after(lambda: down.append(s3.fault(lambda _: True, denied()))), times=1)
    with pytest.raises(StorageUnreachable):
        pipeline.export(place, format="csv")
    s3.clear()
    assert down
    assert pipeline.export(place, format="csv").sequence is None
    world.produce(*kit.clean(3, 8))
    world.run()
    done = pipeline.export(place, format="csv")
    assert (done.sequence, done.rows, done.removed) == (2, 3, 1)
    columns = ["_topic", "_partition", "_offset", "_timestamp", "n", "text"]
    rows = world.spark.read.format("delta").load(world.path())
    exports.assert_exported(world.spark, place, "csv", rows.select(columns))
