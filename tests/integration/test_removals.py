"""Rows that others delete: declared once, they are counted as deleted, and nothing brings them back."""

from __future__ import annotations

import pytest
from support.pipelines import CHANGES, UPSERT, World
from support.pipelines.changes import encoded
from support.records import mixed_records

from lakeingest.errors import NotConserved, UsageError

WHY = "ticket 4711"


def delete(world: World, where: str, of: str = "") -> None:
    world.spark.sql(f"DELETE FROM delta.`s3a://lake/{world.name}{of}` WHERE {where}")


@pytest.mark.slow
def test_a_delete_is_declared_once(world: World) -> None:
    """It is told with who and when, counted as deleted once it is accepted, and no second time."""
    world.produce(*mixed_records(20))
    world.run()
    delete(world, "_offset IN (6, 7)")
    before = world.ingestion().audit()
    assert (before.conserved, before.missing) == (False, 2)
    (deletion,) = before.deleted
    assert f"s3a://lake/{world.name}: version " in deletion
    assert "is a DELETE by Apache-Spark" in deletion
    assert "(rows: 2)" in deletion
    assert isinstance(before.failure, NotConserved)
    assert "--accept-deletes WHY" in str(before.failure.cure)
    after = world.ingestion().audit(accept_deletes=WHY)
    assert (after.conserved, after.removed) == (True, {"forgotten": 0, "expired": 0, "deleted": 2})
    assert [*after.accepted.values()] == [2]
    assert after.consumed == after.table + after.quarantine + after.dropped + 2
    with pytest.raises(UsageError, match="no delete of anybody else that was not accepted before"):
        world.ingestion().audit(accept_deletes=WHY)
    delete(world, "_offset = 9")
    assert world.ingestion().audit().missing == 1, "another delete was not accepted"
    rows = world.spark.read.format("delta").load(f"s3a://lake/{world.name}_removed").drop("at", "who")
    assert [tuple(row) for row in rows.collect()] == [
        (world.name, world.name, 0, 6, 8, "deleted", "table", rows.first()["version"], WHY)
    ]


@pytest.mark.slow
def test_a_delete_hides_no_loss(world: World) -> None:
    """A record that is missing beside an accepted delete is missing still; one of quarantine is accepted, too."""
    world.produce(*mixed_records(20))
    world.run()
    refused = world.ingestion().quarantine().select("_offset").first()[0]
    delete(world, f"_offset = {refused}", "_quarantine")
    delete(world, "_offset = 7")
    report = world.ingestion().audit(accept_deletes=WHY)
    assert (report.conserved, report.removed["deleted"], len(report.accepted)) == (True, 2, 2)
    world.spark.sql(f"UPDATE delta.`s3a://lake/{world.name}` SET _offset = 1000 WHERE _offset = 9")
    report = world.ingestion().audit()
    assert (report.conserved, report.missing, report.unexpected) == (False, 1, 1)
    assert report.named["missing"] == [f"{world.name}-0 offsets 9 to 9"]


@pytest.mark.slow
def test_what_was_deleted_is_not_read_again(world: World) -> None:
    """Kafka is read from its beginning into new tables beside the list: what it names stays out, and is counted."""
    world.produce(*mixed_records(20))
    world.run()
    delete(world, "_offset IN (6, 7)")
    world.ingestion().audit(accept_deletes=WHY)
    for of in ("", "_quarantine"):
        world.remove_table(of)
    world.run()
    report = world.ingestion().audit()
    assert (report.conserved, report.removed["deleted"], report.missing) == (True, 2, 0)
    rows = world.spark.read.format("delta").load(f"s3a://lake/{world.name}")
    assert rows.where("_offset IN (6, 7)").isEmpty()


@pytest.mark.slow
def test_what_was_deleted_is_not_settled(world: World) -> None:
    """A batch is cut off before its account, and rows of it are deleted: the next run brings none of them back."""
    world.produce(*mixed_records(20))
    world.crash()
    delete(world, "_offset IN (6, 7)")
    world.ingestion().audit(accept_deletes=WHY)
    world.produce(*mixed_records(20))
    world.run()
    report = world.ingestion().audit()
    assert (report.conserved, report.removed["deleted"]) == (True, 2)
    assert world.ingestion().quarantine().where("stage = 'settle'").isEmpty()


@pytest.mark.slow
def test_a_delete_from_an_upsert_table_is_declared(world: World) -> None:
    """There rows are counted: what was accepted is no difference any more."""
    world.changes = {"schema": {"columns": CHANGES}, "table": UPSERT}
    world.produce(*(encoded((n % 5, n, "new", "U")) for n in range(20)))
    world.run()
    delete(world, "id = 3")
    before = world.ingestion().audit()
    assert not before.conserved
    assert "is a DELETE" in before.altered[0]
    after = world.ingestion().audit(accept_deletes=WHY)
    assert (after.conserved, after.table, after.removed["deleted"], after.superseded) == (True, 4, 1, 15)
