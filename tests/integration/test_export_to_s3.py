"""`lakeingest export` into the real store, in a bucket of its own, which fails at a step."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.faults import BUCKET
from support.oracle import exports
from support.pipelines import World
from support.pipelines.command_line import Command
from support.records import clean_records, mixed_records

from lakeingest.errors import StorageUnreachable
from lakeingest.testing.s3 import Request, S3Proxy, call_after, denied

COLUMNS = ["_topic", "_partition", "_offset", "_timestamp", "n", "text"]


@pytest.mark.faults
def test_the_store_fails_at_a_step(world: World, tmp_path: Path, s3: S3Proxy, lakeingest: Command) -> None:
    """Before the commit, and behind it: the next export has each row once, and nothing is left of the first."""
    place = f"s3a://{BUCKET}/{world.name}_out"
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(world.values()))
    missing = lakeingest("export", file, "--to", place)
    assert (missing.code, "there is no Delta table" in missing.err) == (2, True)
    world.produce(*mixed_records(10), partitions=2)
    world.run()
    pipeline = world.ingestion()

    def commits(request: Request) -> bool:
        return request.kind == "PUT" and bool(re.search(r"_out/_lakeingest_export/_delta_log/\d{20}", request.key))

    s3.fault(commits, denied())
    with pytest.raises(StorageUnreachable):
        pipeline.export(place, format="csv")
    s3.clear()
    down: list[object] = []
    s3.fault(commits, call_after(lambda: down.append(s3.fault(lambda _: True, denied()))), times=1)
    with pytest.raises(StorageUnreachable):
        pipeline.export(place, format="csv")
    s3.clear()
    assert down
    words = ("export", file, "--to", place, "--format", "csv")
    assert lakeingest(*words).out.startswith(f"{world.name}: nothing new up to version")
    world.produce(*clean_records(3, 10), partitions=2)
    world.run()
    looked = lakeingest(*words, "--dry-run")
    assert "3 rows came from version" in looked.out, looked
    done = lakeingest(*words, "--output", "json").data
    assert (done["sequence"], done["rows"], done["removed"]) == (2, 3, 1)
    rows = world.spark.read.format("delta").load(world.path())
    exports.assert_exported(world.spark, place, "csv", rows.select(COLUMNS))
    wrong = lakeingest("export", file, "--to", place, "--output", "json")
    assert (wrong.code, wrong.data["error"]) == (2, "UsageError")
