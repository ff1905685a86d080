"""One topic of four versions, taken into tables in ten ways: by size of batch, by stops, by a replay at the end and one
between batches, out of bronze, and over a RESTORE. The tables are equal row by row.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame
from support.pipelines import World, values_of
from support.records import produce, registered
from support.records.schema_versions import COLUMNS, FORMATS, ORDERS
from support.servers import spark_versions

from lakeingest.config import file
from lakeingest.operations import rebuild
from lakeingest.pipeline import Pipeline

ORDER = ORDERS["rising"]
CELLS = [
    ("avro", "BACKWARD"),
    ("avro", "FORWARD"),
    pytest.param("protobuf", "NONE", marks=spark_versions.protobuf),
    pytest.param("protobuf", "BACKWARD", marks=spark_versions.protobuf),
    ("json_schema", "FULL"),
    ("json_schema", "FORWARD"),
    ("json", "NONE"),
    ("json", "FULL"),
]
"""Each format and each mode twice; tests/spark/test_batch_cuts.py has each with each."""


class CutTopic:
    """A topic with the records of four versions, and pipelines that take it into tables of their own."""

    def __init__(self, world: World, folder: Path, format: str, mode: str) -> None:
        self.stack, self.spark, self.folder, self.name = world.stack, world.spark, folder, world.name
        self.changes: dict[str, Any] = {
            "source": {"topics": [self.name]},
            "registry": {"url": self.stack.registry},
            "schema": {"compatibility": mode, "columns": COLUMNS if format == "json" else None},
        }
        if format != "json":
            self.changes["decode"] = {"value": {"format": format}}
        registry, payload = FORMATS[format](mode)
        records = [payload(version, n) for n, version in enumerate(ORDER)]
        if registry is not None:
            register = partial(registered.register, self.stack, f"{self.name}-value")
            ids = [register(text, registry.type) for text in registry.texts]
            records = [
                registered.header(ids[version - 1]) + record[5:] for version, record in zip(ORDER, records, strict=True)
            ]
        produce(self.stack, self.name, records)

    def pipeline(self, way: str, max_records: int = 1000, **changes: Any) -> Pipeline:
        parts = {"table": {"path": str(self.folder / way)}, **self.changes, **changes}
        parts["trigger"] = {"max_records": max_records}
        return Pipeline(file.from_mapping(values_of(self.stack, f"{self.name}_{way}", **parts)))

    def run(self, way: str, max_records: int = 1000, **changes: Any) -> None:
        self.pipeline(way, max_records, **changes).run(until_caught_up=True)

    def one_batch(self, way: str, max_records: int, **changes: Any) -> None:
        stop = threading.Event()
        pipeline = self.pipeline(way, max_records, **changes)
        pipeline.run(until_caught_up=True, on_progress=lambda _: stop.set(), stop=stop)

    @property
    def gated(self) -> dict[str, Any]:
        """A gate that refuses all records of versions 1 and 4, by the column that has their origin."""
        rule = {"type": "expect_column_values_to_not_match_regex", "kwargs": {"column": "origin", "regex": "^v[14]"}}
        suite = self.folder / "suite.json"
        suite.write_text(json.dumps({"name": "s", "expectations": [rule]}))
        return {"gate": {"suite": str(suite)}}

    def rows(self, way: str) -> DataFrame:
        """All that the table has but when it was written."""
        return self.spark.read.format("delta").load(str(self.folder / way)).orderBy("_partition", "_offset")

    def refused(self, way: str) -> list[tuple[Any, ...]]:
        """What is in quarantine and was not moved: offset, stage, reason, message."""
        rows = self.pipeline(way).quarantine().where("moved IS NULL").orderBy("_offset")
        return [tuple(row) for row in rows.select("_offset", "stage", "reason", "message").collect()]


def by_size(topic: CutTopic, way: str, *, size: int) -> None:
    topic.run(way, size)


def by_stops(topic: CutTopic, way: str) -> None:
    """Each run ends after a batch, and the next has another size."""
    for size in (3, 1, 4):
        topic.one_batch(way, size)
    topic.run(way)


def replayed_at_the_end(topic: CutTopic, way: str) -> None:
    topic.run(way, 4, **topic.gated)
    assert topic.pipeline(way).replay("the gate is gone").moved > 0


def replayed_between(topic: CutTopic, way: str) -> None:
    for size in (2, 3):
        topic.one_batch(way, size, **topic.gated)
        assert topic.pipeline(way).replay("the gate was wrong").moved > 0
    topic.run(way, 3)


def rebuilt(topic: CutTopic, way: str) -> None:
    bronze = {"decode": {"value": {"format": "bytes"}}, "schema": {"columns": None}}
    topic.run(f"{way}_bronze", 5, **bronze)
    config = topic.pipeline(way, 3, table={"path": str(topic.folder / "old")}).config
    to = str(topic.folder / way)
    Pipeline(rebuild.config_of(config, str(topic.folder / f"{way}_bronze"), to)).run(until_caught_up=True)


def restored(topic: CutTopic, way: str) -> None:
    """Somebody takes the table back to its first batch; the next run reads again."""
    topic.one_batch(way, 3)
    topic.one_batch(way, 2)
    topic.one_batch(way, 4)
    newest = topic.pipeline(way).tables.commit_logs(back=None)[0]
    first = next(commit.version for commit in newest.commits if commit.receipt.sequence == 1)
    topic.spark.sql(f"RESTORE TABLE delta.`{topic.folder / way}` TO VERSION AS OF {first}").collect()
    topic.run(way, 2)


WAYS: dict[str, Callable[[CutTopic, str], None]] = {
    **{f"by_{size}": partial(by_size, size=size) for size in (1, 2, 3, 5)},
    "by_stops": by_stops,
    "replayed_at_the_end": replayed_at_the_end,
    "replayed_between": replayed_between,
    "rebuilt": rebuilt,
    "restored": restored,
}


def compared(topic: CutTopic, way: str, format: str) -> None:
    whole, cut = topic.rows("whole"), topic.rows(way)
    assert set(whole.columns) == set(cut.columns)
    assert topic.refused(way) == topic.refused("whole")
    # What is observed of plain JSON has the order in which its batch had it: the order of columns, and of fields.
    names = sorted(whole.columns)
    if format == "json":
        fields = [f"to_json(`{name}`) AS `{name}`" if name == "stops" else f"`{name}`" for name in names]
    else:
        fields = [f"`{name}`" for name in names]
    assert_df_equality(whole.selectExpr(*fields), cut.selectExpr(*fields), ignore_nullable=True)
    assert topic.pipeline(way).audit().conserved


@pytest.mark.faults
def test_a_topic_taken_in_four_ways(world: World, tmp_path: Path) -> None:
    """What a removed field had was in _rescued or in its column, as the batches were cut."""
    topic = CutTopic(world, tmp_path, "avro", "BACKWARD")
    topic.run("whole")
    for way in ("replayed_between", "rebuilt", "restored"):
        WAYS[way](topic, way)
        compared(topic, way, "avro")


@pytest.mark.faults
@pytest.mark.parametrize(("format", "mode"), CELLS)
def test_a_topic_taken_in_ten_ways(world: World, tmp_path: Path, format: str, mode: str) -> None:
    topic = CutTopic(world, tmp_path, format, mode)
    topic.run("whole")
    assert topic.rows("whole").count() + len(topic.refused("whole")) == len(ORDER)
    for way, take in WAYS.items():
        take(topic, way)
        compared(topic, way, format)
