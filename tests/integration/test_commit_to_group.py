"""Offsets that are committed to a consumer group, for tools that show its lag: behind the table, never ahead of it."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer
from support.pipelines import World
from support.records import mixed_records

from lakeingest.errors import UsageError
from lakeingest.fleet import Fleet
from lakeingest.ingest.events import Committed, Event, GroupUpdate
from lakeingest.kafka.broker import Broker
from lakeingest.record import Frontier

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(world: World) -> Broker:
    """Who is asked where the group stands: as any tool asks."""
    world.changes["source"] = {"commit_to_group": world.name}
    world.changes["trigger"] = {"max_records": 20}
    return Broker(world.ingestion().config.source, world.stack.kafka)


def test_the_group_stands_where_the_table_does(world: World, broker: Broker) -> None:
    """After each batch, through a crash that comes between the two, and back behind a RESTORE."""
    world.produce(*mixed_records(30), partitions=2)
    seen: list[tuple[Frontier, Frontier]] = []

    def hear(event: Event) -> None:
        if isinstance(event, Committed):
            seen.append((broker.committed(world.name), event.ranges.frontier))
        assert not isinstance(event, GroupUpdate)

    world.ingestion().run(until_caught_up=True, on_event=hear)
    assert len(seen) == 2
    # When a commit is told, the group is not there yet: it is at what was committed before.
    assert [before for before, _ in seen] == [{}, seen[0][1]]
    assert broker.committed(world.name) == seen[-1][1] == {(world.name, 0): 15, (world.name, 1): 15}
    world.produce(*mixed_records(10), partitions=2)
    world.crash()
    assert broker.committed(world.name) == seen[-1][1]
    world.run()
    assert broker.committed(world.name) == {(world.name, 0): 20, (world.name, 1): 20}
    first = min(commit.version for commit in world.commit_log().commits)
    world.spark.sql(f"RESTORE TABLE delta.`{world.path()}` TO VERSION AS OF {first}")
    seen.clear()
    world.ingestion().run(until_caught_up=True, on_event=hear)
    assert [before for before, _ in seen] == [{(world.name, 0): 10, (world.name, 1): 10}, *(at for _, at in seen[:-1])]
    assert broker.committed(world.name) == {(world.name, 0): 20, (world.name, 1): 20}
    assert world.ingestion().audit().conserved


@pytest.mark.faults
def test_a_group_with_live_members(world: World, broker: Broker) -> None:
    """Kafka lets nobody else commit to it: told once, with the cure, and the run goes on."""
    world.produce(*mixed_records(50), partitions=2)
    told: list[GroupUpdate] = []
    consumer = Consumer({"bootstrap.servers": world.stack.kafka, "group.id": world.name, "log_level": 0})
    consumer.subscribe([world.name])
    try:
        until = time.monotonic() + 30
        while not consumer.assignment():
            assert time.monotonic() < until
            consumer.poll(0.1)
        members, may = broker.group(world.name)
        assert (members, may) == (1, True)
        begun = time.monotonic()

        def hear(event: Event) -> None:
            consumer.poll(0)
            if isinstance(event, GroupUpdate):
                told.append(event)

        assert world.ingestion().run(until_caught_up=True, on_event=hear).consumed == 50
        assert time.monotonic() - begun < 60
    finally:
        consumer.close()
    assert [each.group for each in told] == [world.name]
    assert told[0].failure is not None
    assert "live members" in told[0].failure.what
    assert "a group of this pipeline's own" in told[0].failure.cure
    assert broker.committed(world.name) == {}
    world.run()
    assert broker.committed(world.name) == {(world.name, 0): 25, (world.name, 1): 25}


def test_two_pipelines_of_one_group(world: World, broker: Broker) -> None:
    """One has another lag than the other: the fleet does not begin."""
    other = {"name": f"{world.name}_2", "table": {"path": world.path("_2")}}
    with pytest.raises(UsageError, match="both commit offsets of"):
        Fleet([world.ingestion().config, world.ingestion(**other).config])
