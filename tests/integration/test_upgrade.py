"""What an earlier commit of the project left behind is gone on with: tables, an open batch, a state folder.

Each folder of fixtures/ was kept by fixtures/keep.py at the commit that names it.
"""

from __future__ import annotations

import base64
import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
from pyspark.sql import SparkSession
from support.oracle import assert_exactly_once, topic_manifest
from support.records import DIRTY, Record, produce

import lakeingest
from lakeingest.delta.receipt import Counts
from lakeingest.local import Addresses, running
from lakeingest.local.addresses import read, stack_dir
from lakeingest.pipeline import Pipeline

FOLDERS = sorted(file.parent for file in (Path(__file__).parents[1] / "fixtures").glob("*/kept.json"))


@dataclass(frozen=True)
class Kept:
    """One folder of fixtures."""

    folder: Path

    @property
    def name(self) -> str:
        return f"kept_{self.folder.name}"

    @property
    def records(self) -> list[Record]:
        """The topic's records, each partition's in the order of its offsets."""
        lines = map(json.loads, (self.folder / "topic.jsonl").read_text().splitlines())
        ordered = sorted(lines, key=lambda line: (line["partition"], line["offset"]))
        return [Record(_bytes(line["value"]), _bytes(line["key"]), line["partition"]) for line in ordered]

    def objects(self, replaced: dict[str, str]) -> Iterator[tuple[str, bytes]]:
        """The tables' objects by their keys; in the Delta logs, ids are those of today's cluster and topic."""
        with tarfile.open(self.folder / "tables.tar.gz") as tar:
            for member in tar:
                file = tar.extractfile(member)
                assert file is not None
                body = file.read()
                if member.name.endswith(".json"):
                    for old, new in replaced.items():
                        body = body.replace(old.encode(), new.encode())
                yield member.name, body

    def ingestion(self) -> Pipeline:
        """Today's code with the file of then, which names no addresses."""
        return lakeingest.load(self.folder / "pipeline.yaml")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def kept(request: pytest.FixtureRequest, stack: Addresses, spark: SparkSession) -> Kept:
    """The records at their offsets, and the tables at their paths, as the earlier commit left them."""
    kept = Kept(request.param)
    produce(stack, kept.name, kept.records, partitions=2)
    ids = json.loads((kept.folder / "kept.json").read_text())
    topics = kept.ingestion().source.topics()
    replaced = {ids["cluster"]: topics.cluster, ids["topics"][kept.name]: topics.ids[kept.name]}
    keys = {"aws_access_key_id": stack.s3_access_key, "aws_secret_access_key": stack.s3_secret_key}
    with closing(boto3.client("s3", endpoint_url=stack.s3, region_name="us-east-1", **keys)) as s3:
        for key, body in kept.objects(replaced):
            s3.put_object(Bucket="lake", Key=key, Body=body)
    return kept


@pytest.mark.slow
def test_tables_of_an_earlier_commit_are_gone_on_with(kept: Kept, stack: Addresses, spark: SparkSession) -> None:
    """The batch that was left open is settled and counted, new records come in, and every record of both is there once.

    |         | then, whole | then, open | now                                               |
    | ------- | ----------- | ---------- | ------------------------------------------------- |
    | table   | 12          | 2          | 2: a field that was observed then, and a new one  |
    | refused | 2           | 3          | 2: one that does not fit that field, and dirt     |
    | dropped | 1           | 1          |                                                   |
    """
    assert kept.ingestion().audit().missing == 4
    assert kept.ingestion().run(until_caught_up=True) == Counts(6, 2, 3, 1)
    now = [{"n": 20, "gust": 4}, {"n": 21, "pressure": 1013.2}, {"n": 22, "gust": "calm"}]
    at = {"at": "2026-04-01T00:00:00Z"}
    produce(stack, kept.name, [*(json.dumps(value | at).encode() for value in now), DIRTY], partitions=2)
    assert kept.ingestion().run(until_caught_up=True) == Counts(4, 2, 2)
    report = kept.ingestion().audit()
    assert report.conserved, report
    assert (report.table, report.quarantine, report.dropped) == (16, 7, 2)
    assert_exactly_once(spark, kept.ingestion(), topic_manifest(stack, kept.name))
    table = spark.read.format("delta").load(kept.ingestion().config.table.path)
    assert {row["n"]: row["gust"] for row in table.where("gust IS NOT NULL").collect()} == {12: 1, 13: 2, 15: 3, 20: 4}
    assert [row["n"] for row in table.where("pressure = 1013.2").collect()] == [21]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_state_folder_of_an_earlier_commit_is_read(folder: Path, tmp_path: Path) -> None:
    """Its servers' ports and keys are known, so that `stack up` goes on with their data; none of them runs."""
    stack_dir(tmp_path).mkdir()
    shutil.copy(folder / "stack.json", stack_dir(tmp_path))
    record = read(tmp_path)
    assert record is not None
    assert (record.access_key, set(record.servers)) == ("kept", {"kafka", "s3", "registry"})
    assert record.addresses().kafka.startswith("127.0.0.1:")
    assert running(tmp_path) is None


def test_something_is_kept() -> None:
    """Each fixture is small, and there is at least one."""
    sizes = {folder.name: sum(file.stat().st_size for file in folder.iterdir()) for folder in FOLDERS}
    assert sizes
    assert max(sizes.values()) <= 200_000
