"""The audit names what is missing, doubled or unexpected."""

from __future__ import annotations

import pytest
from support.pipelines import World
from support.records import mixed_records


@pytest.mark.slow
def test_the_audit_names_a_deleted_row(world: World) -> None:
    """A row that somebody deleted is missing, by its coordinates."""
    world.produce(*mixed_records(10))
    world.run()
    world.spark.sql(f"DELETE FROM delta.`s3a://lake/{world.name}` WHERE _offset = 7")
    report = world.ingestion().audit()
    assert (report.conserved, report.missing) == (False, 1)
    assert report.named == {"missing": [f"{world.name}-0 offsets 7 to 7"]}


@pytest.mark.faults
def test_the_audit_names_rows_too_many(world: World) -> None:
    """A copied row is duplicated, one of an offset that was never consumed is unexpected."""
    world.produce(*mixed_records(10))
    world.run()
    table = world.spark.read.format("delta").load(world.path())
    strange = table.where("_offset = 7").selectExpr("* EXCEPT (_offset)", "explode(array(7L, 107L)) AS _offset")
    strange.select(*table.columns).write.format("delta").mode("append").save(world.path())
    report = world.ingestion().audit()
    assert (report.conserved, report.duplicated, report.unexpected, report.missing) == (False, 1, 1, 0)
    assert report.named["duplicated"] == [f"{world.name}-0 offset 7"]
    assert report.named["unexpected"] == [f"{world.name}-0 offset 107"]
