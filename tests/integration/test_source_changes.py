"""Topics come, go, and are made anew; offsets expire; clocks of producers are wrong."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from support.pipelines import World
from support.records import (
    DIRTY,
    Record,
    add_partitions,
    admin_client,
    clean_records,
    create_topic,
    expire_records,
    mixed_records,
    produce,
    raw_headers,
    recreate_topic,
)

from lakeingest.delta import commit
from lakeingest.delta.receipt import Counts
from lakeingest.delta.table import Table
from lakeingest.errors import (
    OffsetsLost,
    SourceChanged,
    TableMismatch,
)
from lakeingest.ingest.events import Committed
from lakeingest.record import OffsetRange, OffsetRanges


def test_new_partitions_are_read_from_their_beginning(world: World) -> None:
    """A partition that a known topic gains begins at its first offset, even under start: latest."""
    world.produce(*clean_records(2))
    world.run(source={"start": "latest", "topics": [world.name], "bootstrap_servers": world.stack.kafka})
    add_partitions(world.stack, world.name, 3)
    world.produce(*(Record(value, partition=p) for p, value in enumerate(clean_records(3))))
    assert world.run(source={"start": "latest"}).accepted == 3
    assert world.commit_log().frontier == {(world.name, 0): 3, (world.name, 1): 1, (world.name, 2): 1}


def test_latest_is_remembered(world: World) -> None:
    """Where "latest" was when the pipeline first ran is committed, so that what comes before the next run is read."""
    world.produce(*clean_records(5))
    assert world.run(source={"start": "latest"}) == Counts()
    assert world.commit_log().frontier == {(world.name, 0): 5}
    world.produce(*clean_records(2, 5))
    assert world.run(source={"start": "latest"}) == Counts(2, 2)
    assert [row["n"] for row in world.rows()] == [5, 6]


def test_topics_come_and_go(world: World) -> None:
    """A topic that the file no longer names must be accepted; named again, it goes on where it stood."""
    other = world.name + "_b"
    world.produce(*mixed_records(5))
    produce(world.stack, other, mixed_records(5))
    both = {"source": {"topics": [world.name, other]}}
    assert world.run(**both) == Counts(10, 8, 2)
    with pytest.raises(SourceChanged, match=other):
        world.run()
    produce(world.stack, other, mixed_records(5))
    world.produce(*mixed_records(5))
    assert world.ingestion().run(until_caught_up=True, accept_dropped_topics=True) == Counts(5, 4, 1)
    assert world.run() == Counts()
    assert world.run(**both) == Counts(5, 4, 1)
    world.checked(world.name, other, **both)


def test_a_topic_made_anew_is_refused(world: World) -> None:
    """Another topic id means other records, although the offsets would fit."""
    world.produce(*clean_records(2))
    world.run()
    recreate_topic(world.stack, world.name)
    world.produce(*clean_records(9))
    with pytest.raises(SourceChanged, match="deleted and made again"):
        world.run()
    assert len(world.rows()) == 2


def test_a_topic_made_anew_while_it_was_not_named_is_refused(world: World) -> None:
    """The id of a topic is remembered as long as its frontier is."""
    other, both = world.name + "_b", {"source": {"topics": [world.name, world.name + "_b"]}}
    world.produce(*clean_records(2))
    produce(world.stack, other, clean_records(2))
    world.run(**both)
    world.produce(*clean_records(2))
    world.ingestion().run(until_caught_up=True, accept_dropped_topics=True)
    recreate_topic(world.stack, other)
    produce(world.stack, other, clean_records(9))
    with pytest.raises(SourceChanged, match="deleted and made again"):
        world.run(**both)


def test_a_topic_made_anew_during_the_first_run_is_refused(world: World) -> None:
    """A run compares topics with those that it began with, also before the table has a commit of its own."""
    world.produce(*clean_records(2))

    def anew(_: Committed) -> None:
        recreate_topic(world.stack, world.name)
        world.produce(*clean_records(5))

    with pytest.raises(SourceChanged, match="deleted and made again"):
        world.ingestion().run(on_progress=anew)


def test_another_cluster_is_refused(world: World) -> None:
    """Where the newest receipt names another cluster, the same offsets are other records."""
    world.produce(*clean_records(2))
    world.run()
    newest = world.commit_log().commits[0].receipt
    foreign = replace(newest, sequence=2, cluster="elsewhere")
    empty = world.spark.read.format("delta").load(f"s3a://lake/{world.name}").limit(0)
    commit.write(Table(world.spark, f"s3a://lake/{world.name}"), empty, foreign, "zstd")
    with pytest.raises(SourceChanged, match="cluster elsewhere"):
        world.run()


@pytest.mark.parametrize("part", ["quarantine", "table"])
def test_another_path_is_refused(world: World, part: str) -> None:
    """A pipeline whose file names another table or quarantine would lose its frontier or its proof."""
    world.produce(*mixed_records(2))
    world.run()
    # The quarantine stays where it was when the table's path is changed, as a careless edit leaves it.
    paths = {"table": f"s3a://lake/{world.name}", "quarantine": f"s3a://lake/{world.name}_quarantine"}
    paths[part] += "_elsewhere"
    with pytest.raises(TableMismatch, match=r"put .* back"):
        world.run(**{name: {"path": path} for name, path in paths.items()})


def test_offsets_that_expired_unread_need_consent(world: World) -> None:
    """Retention that overtook the pipeline stops it; with consent it goes on, and commit and audit name the gap."""
    world.produce(*mixed_records(10))
    world.run()
    world.produce(*mixed_records(10))
    expire_records(world.stack, world.name, 14)
    with pytest.raises(OffsetsLost, match=f"{world.name}-0: offsets 10 to 13") as stopped:
        world.run()
    assert "--accept-gap" in stopped.value.cure
    assert world.ingestion().run(until_caught_up=True, accept_gap=True) == Counts(6, 5, 1)
    assert world.commit_log().commits[0].receipt.job.gaps == OffsetRanges((OffsetRange(world.name, 0, 10, 14),))
    report = world.ingestion().audit()
    assert (report.conserved, report.lost, report.gaps) == (True, 4, 0)
    assert report.named == {"lost": [f"{world.name}-0 offsets 10 to 13"]}
    world.produce(*mixed_records(5))
    assert world.run() == Counts(5, 4, 1)
    assert world.ingestion().audit().conserved


@pytest.mark.faults
def test_a_topic_that_expired_whole_needs_consent_once(world: World) -> None:
    """Where nothing is left to read, an empty commit remembers the consent."""
    world.produce(*clean_records(3))
    world.run()
    world.produce(*clean_records(3))
    expire_records(world.stack, world.name, 6)
    world.ingestion().run(until_caught_up=True, accept_gap=True)
    assert world.run() == Counts()
    assert world.ingestion().audit().lost == 3


@pytest.fixture
def odd_times(world: World) -> World:
    """Records of producers that sent seconds, micro- and nanoseconds for milliseconds: brokers before 4.0 take them."""
    lenient = {"message.timestamp.after.max.ms": str(2**63 - 1), "message.timestamp.before.max.ms": str(2**63 - 1)}
    asked = NewTopic(world.name, 2, -1, config=lenient)
    admin_client(world.stack).create_topics([asked])[world.name].result()
    create_topic(world.stack, world.name, 2)
    producer = Producer({"bootstrap.servers": world.stack.kafka, "log_level": 0})
    now = 1_700_000_000
    for n, millis in enumerate((now * 1000, now, now * 10**6, now * 10**9, 2**63 - 1, 253_402_300_800_000)):
        headers = [("h", b"\xff")] if n % 2 else []
        producer.produce(world.name, clean_records(1, n)[0], str(n), n % 2, timestamp=millis, headers=headers)
    producer.produce(world.name, DIRTY, None, 0, timestamp=now * 10**9)
    producer.produce(world.name, None, b"k", 1, timestamp=now * 1000)
    assert producer.flush(60) == 0
    return world


TIMES = [1_700_000_000, 1_700_000, None, None, None, None]
"""In seconds, what is told of these times: of those beyond the year 9999, nothing."""


@pytest.mark.faults
def test_a_record_time_that_spark_cannot_hold_stops_nothing(odd_times: World) -> None:
    """Nanoseconds overflow in Spark's Kafka reader: one such record ended each run, which was told as the store's."""
    found = odd_times.run()
    assert (found.consumed, found.accepted, found.refused) == (8, 6, 2)
    rows = sorted(odd_times.rows(), key=lambda row: row["n"])
    assert [row["_timestamp"] and int(row["_timestamp"].timestamp()) for row in rows] == TIMES
    assert [(row["_key"], row["_headers"]) for row in rows][:2] == [
        (b"0", None),
        (b"1", [{"key": "h", "value": b"\xff"}]),
    ]
    assert odd_times.refused[0]["_timestamp"] is None
    odd_times.produce(*clean_records(4, 10), partitions=2)
    assert odd_times.run().accepted == 4
    odd_times.checked()


@pytest.mark.faults
def test_a_partition_by_the_records_time_refuses_those_without_one(odd_times: World) -> None:
    """Only what needs the time asks for it; the record is in quarantine, and the others are in the table."""
    odd_times.run(partition=[{"by": "time"}])
    refused = [row["reason"] for row in odd_times.refused]
    assert sorted(refused) == ["NO_PARTITION_TIME"] * 4 + ["NULL_VALUE", "WRONG_TYPE"]
    odd_times.checked(partition=[{"by": "time"}])


@pytest.mark.faults
def test_a_batch_of_odd_times_is_settled_and_planned(odd_times: World) -> None:
    """A crash between the two commits is made good, and a plan is told, by the other reader too."""
    planned = odd_times.ingestion().plan()
    assert planned.counts["accepted"] == 6
    odd_times.crash()
    odd_times.run()
    assert len(odd_times.refused) == 2
    odd_times.checked()


@pytest.mark.faults
def test_header_keys_that_are_no_utf8(odd_times: World) -> None:
    """In a batch that is read by the consumer they stopped the run; they are what Spark's reader makes of them."""
    plain = World(odd_times.stack, odd_times.spark, f"{odd_times.name}_plain")
    create_topic(plain.stack, plain.name)
    keys = (b"\xff\xfe", b"a\xe2\x82", b"\xc0\x80", b"\xf0\x9f\x98z", "ä".encode())
    for n, key in enumerate(keys, 100):
        for world, millis in ((plain, int(time.time() * 1000)), (odd_times, 2**63 - 1)):
            headers = [(b"ok", b"\xff"), (key, b"1"), (b"", None), (key, None)]
            headers = headers[: 3 + (world is odd_times)]
            raw_headers.produce(world.stack.kafka, world.name, clean_records(1, n)[0], headers, timestamp=millis)
    plain.run()
    odd_times.run()
    found = [[row["_headers"] for row in world.rows() if row["n"] >= 100] for world in (plain, odd_times)]
    # Of two such keys of one record confluent-kafka tells the first.
    assert [headers.pop()["key"] for headers in found[1]] == ["\ufffd"] * 4 + ["ä"]
    assert found[0] == found[1]
    assert [each[1]["key"] for each in found[1]] == [key.decode(errors="replace") for key in keys]
    odd_times.checked()


@pytest.mark.faults
def test_a_table_with_odd_times_is_adopted(odd_times: World) -> None:
    """The newest record's time is looked at in Kafka, which Spark's reader cannot hold: adopt never came to its end."""
    odd_times.run()
    copy = World(odd_times.stack, odd_times.spark, f"{odd_times.name}_copy", source={"topics": [odd_times.name]})
    odd_times.sql(f"CREATE TABLE delta.`{copy.path()}` USING delta AS SELECT * FROM {{table}}")
    copy.ingestion().adopt()
    odd_times.produce(*clean_records(4, 10), partitions=2)
    assert copy.run().accepted == 4
