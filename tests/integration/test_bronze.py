"""A pipeline whose records come from a bronze table: once each, with Kafka's coordinates, and without Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kit
import pytest
from command import Command
from kit import DIRTY, Record, clean
from world import World

from lakeingest.config import file
from lakeingest.delta.receipt import Counts
from lakeingest.delta.table import Table
from lakeingest.errors import SourceChanged
from lakeingest.pipeline import Pipeline

BYTES: dict[str, Any] = {"decode": {"value": {"format": "bytes"}}, "schema": {}}


class Layers(World):
    """Bronze, which is fed from Kafka, and a silver pipeline that is fed from it; `World` means bronze."""

    def values(self, **changes: Any) -> dict[str, Any]:
        values = super().values(**{"decode": BYTES["decode"], **changes})
        values["schema"] = {}
        return values

    def silver(self, **changes: Any) -> Pipeline:
        """The silver pipeline. It names no Kafka."""
        values = kit.values_of(self.stack, f"{self.name}_silver", **changes)
        values["source"] = {"table": self.path(), **changes.get("source", {})}
        return Pipeline(file.from_mapping(values))

    def fed(self, **changes: Any) -> Counts:
        return self.silver(**changes).run(until_caught_up=True)

    def agreed(self, **changes: Any) -> None:
        """Bronze and silver are conserved, and each record that bronze has is in silver once, or in its quarantine."""
        assert self.ingestion().audit().conserved
        silver = self.silver(**changes)
        report = silver.audit()
        assert report.conserved, report
        assert min(report.missing, report.duplicated, report.gaps) >= 0, report
        held = {(r["_topic"], r["_partition"], r["_offset"]) for r in self.rows()}
        rows = silver.table().select("_topic", "_partition", "_offset")
        found = [
            tuple(r) for r in rows.union(silver.quarantine().where("moved IS NULL").select(*rows.columns)).collect()
        ]
        assert len(found) == len(set(found))
        assert set(found) == held
        assert report.consumed == len(held) + report.dropped


@pytest.fixture
def layers(stack: Any, spark: Any, named: str) -> Layers:
    return Layers(stack, spark, named)


def test_silver_is_fed_from_bronze(layers: Layers) -> None:
    """Records are decoded again with their coordinates, keys, headers and times; refused ones are set aside."""
    layers.produce(Record(b'{"n": 1}', b"k", headers=(("h", b"1"),)), *clean(5, 2), DIRTY, partitions=2)
    layers.run()
    assert layers.fed() == Counts(7, 6, 1)
    bronze = {(r["_partition"], r["_offset"]): r for r in layers.rows()}
    for row in layers.silver().table().collect():
        origin = bronze[row["_partition"], row["_offset"]]
        assert [row[n] for n in ("_topic", "_timestamp", "_key", "_headers")] == [
            origin[n] if n != "_headers" else row["_headers"] for n in ("_topic", "_timestamp", "_key", "_headers")
        ]
    assert layers.silver().quarantine().collect()[0]["value"] == DIRTY
    assert layers.silver().status().lag == 0
    assert layers.fed() == Counts()
    layers.produce(*clean(4, 10), partitions=2)
    layers.run()
    assert layers.silver().status().lag == 4
    assert layers.fed() == Counts(4, 4)
    layers.agreed()


def test_what_comes_into_bronze_late_is_taken(layers: Layers) -> None:
    """A replay of bronze brings records below silver's frontier; silver takes them, and only them, once."""
    layers.produce(*clean(3), None, *clean(3, 3), None)
    layers.run()
    assert layers.fed() == Counts(6, 6)
    changed = {"decode": {"value": {"format": "bytes"}, "on_null": "write"}}
    assert layers.ingestion(**changed).replay("tombstones are wanted").moved == 2
    drops = {"decode": {"value": {"format": "json"}, "on_null": "ignore"}}
    assert layers.fed(**drops) == Counts(2, 0, 0, 2)
    assert layers.fed(**drops) == Counts()
    report = layers.silver(**drops).audit()
    assert report.conserved
    assert (report.consumed, report.dropped) == (8, 2)


def test_a_restored_bronze_is_noticed(layers: Layers) -> None:
    """Bronze that was taken back lacks what silver has: that is said, and silver goes on when bronze has caught up."""
    layers.produce(*clean(3))
    layers.run()
    layers.produce(*clean(3, 3))
    layers.run()
    layers.fed()
    version = layers.commit_log().commits[1].version
    layers.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")
    with pytest.warns(UserWarning, match="RESTORE"), pytest.raises(SourceChanged, match="somebody has restored it"):
        layers.fed()
    layers.run()
    with pytest.warns(UserWarning, match="RESTORE"):
        assert layers.fed() == Counts()
    layers.agreed()


def test_a_table_is_rebuilt_from_bronze_and_goes_on_from_kafka(
    layers: Layers, lakeingest: Command, tmp_path: Path
) -> None:
    """Under other columns and partitions, beside the old table, without Kafka; then the pipeline goes on from Kafka in
    the new one, at its frontier, with every record once.
    """
    layers.produce(*clean(6), DIRTY, partitions=2)
    layers.run()
    name = f"{layers.name}_json"
    values = kit.values_of(layers.stack, name, source={"topics": [layers.name]})
    old = Pipeline(file.from_mapping(values))
    assert old.run(until_caught_up=True) == Counts(7, 6, 1)
    # As today's file has it; and no broker is where it says.
    values |= {"schema": {"columns": "n BIGINT"}, "partition": [{"by": "kafka_partition"}]}
    elsewhere = {**values, "source": {**values["source"], "bootstrap_servers": "127.0.0.1:1"}}
    at = tmp_path / "p.yaml"
    at.write_text(json.dumps(elsewhere))
    to = f"s3a://lake/{name}_2"
    said = lakeingest("rebuild", at, "--from", layers.path(), "--to", to, "--dry-run")
    assert (said.code, "has not 7 offsets" in said.out) == (0, True), said
    assert Table(layers.spark, to).schema() is None
    said = lakeingest("rebuild", at, "--from", layers.path(), "--to", to, "--output", "json")
    told = json.loads(said.out)
    assert (told["consumed"], told["audit"]["conserved"], told["next"]) == (7, True, {"table.path": to})
    assert told["compared"]["table"] == {"before": 6, "rebuilt": 6}
    # Again, there is nothing to do; another pipeline's place, and the old table's, are refused.
    assert (
        json.loads(lakeingest("rebuild", at, "--from", layers.path(), "--to", to, "--output", "json").out)["commits"]
        == 0
    )
    for place, why in ((layers.path(), "the same"), (f"{values['table']['path']}", "the same")):
        refused = lakeingest("rebuild", at, "--from", layers.path(), "--to", place)
        assert (refused.code, why in refused.err) == (2, True), refused
    layers.produce(*clean(4, 20), partitions=2)
    new = Pipeline(file.from_mapping({**values, "table": {"path": to}}))
    assert new.run(until_caught_up=True) == Counts(4, 4)
    report = new.audit()
    assert (report.conserved, report.consumed, report.table) == (True, 11, 10)
    kit.assert_exactly_once(layers.spark, new, layers.produced)
    refused = lakeingest("rebuild", at, "--from", layers.path(), "--to", to)
    assert (refused.code, "fed from Kafka" in refused.err) == (2, True), refused
