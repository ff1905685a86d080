"""Brokers that fall over, lines that are cut, and topics that change or forget."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from support.faults import Cell, records, ride_out
from support.faults.wire import Wire
from support.oracle import topic_manifest
from support.records import Record, add_partitions, clean_records, expire_records, produce, recreate_topic, transaction
from support.servers.brokers import Cluster

from lakeingest.errors import OffsetsLost, SourceChanged


def moved_to(cells: dict[str, Cell], cluster: Cluster) -> dict[str, Cell]:
    """The cells, their topics on other brokers; the tests' own clients bypass what hurts these."""
    for cell in cells.values():
        cell.stack = replace(cell.stack, kafka=cluster.direct)
        cell.changes = {"source": {"bootstrap_servers": cluster.bootstrap}}
    return cells


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers."""
    with Cluster(tmp_path_factory.mktemp("three"), brokers=3) as cluster:
        yield cluster


@pytest.mark.faults
def test_a_broker_is_restarted(cells: dict[str, Cell], three: Cluster) -> None:
    """One broker of three is away for twenty seconds, and with it the leaders of some partitions."""
    ride_out(moved_to(cells, three), "broker restarted", lambda: three.stop(1), lambda: three.start(1), 20)


@pytest.mark.faults
def test_leaders_move(cells: dict[str, Cell], three: Cluster) -> None:
    """The leader of each topic's first partition falls over, and another one takes its place."""

    def move() -> None:
        for leader in {three.leader(cell.name) for cell in cells.values()}:
            three.kill(leader)
            three.start(leader)

    ride_out(moved_to(cells, three), "partition leaders moved", move, lambda: None, 5)


@pytest.mark.faults
def test_a_broker_is_killed(cells: dict[str, Cell], three: Cluster) -> None:
    """One of three is killed, stays away for twenty seconds, and says goodbye to nobody."""
    ride_out(moved_to(cells, three), "one of three brokers killed", lambda: three.kill(2), lambda: three.start(2), 20)


@pytest.mark.faults
def test_brokers_are_restarted_in_turn(cells: dict[str, Cell], three: Cluster) -> None:
    """As for a new version: each of the three in turn, while records come."""

    def roll() -> None:
        for node in three.nodes:
            three.restart(node)

    ride_out(moved_to(cells, three), "three brokers restarted in turn", roll, lambda: None, 5)


@pytest.mark.faults
def test_leadership_is_moved_on_purpose(cells: dict[str, Cell], three: Cluster) -> None:
    """An operator stops a broker, and lets the preferred leaders be elected again when it is back; meanwhile the topics
    gain partitions.
    """
    admin = AdminClient({"bootstrap.servers": three.direct, "log_level": 0})

    def move() -> None:
        three.stop(3)
        three.start(3)

    def elect() -> None:
        for cell in cells.values():
            add_partitions(cell.stack, cell.name, 4)
            cell.partitions = 4
        places = [TopicPartition(cell.name, p) for cell in cells.values() for p in range(4)]
        until = time.monotonic() + 60
        while True:
            # A replica that is not in sync yet is not elected.
            done = admin.elect_leaders(ElectionType.PREFERRED, places).result(30)
            failed = [error for error in done.values() if error and error.code() != KafkaError.ELECTION_NOT_NEEDED]
            if not failed:
                return
            assert time.monotonic() < until, failed
            time.sleep(1)

    ride_out(moved_to(cells, three), "leaders elected anew, partitions added", move, elect, 5)


@pytest.mark.faults
def test_a_quota(cells: dict[str, Cell], three: Cluster) -> None:
    """The broker lets every client fetch 20 kB a second while records come: the run is late, and loses nothing."""
    quota = {"consumer_byte_rate": 20_000.0}
    ride_out(
        moved_to(cells, three),
        "fetch quota of 20 kB/s",
        lambda: three.limit(quota),
        lambda: three.limit(dict.fromkeys(quota)),
        20,
    )


@pytest.mark.faults
def test_the_only_broker_is_away(cells: dict[str, Cell], tmp_path: Path) -> None:
    """There is no broker at all for thirty seconds; what is produced comes behind it."""
    with Cluster(tmp_path / "one") as one:
        for cell in moved_to(cells, one).values():
            cell.changes["retry"] = {"wait": "10 minutes"}
            cell.produce(200)
            cell.folder.mkdir()
        begun = time.monotonic()
        processes = {
            kind: cell.process("--until-caught-up", trigger={"max_records": 40}) for kind, cell in cells.items()
        }
        try:
            for process in processes.values():
                process.commits(1)
            one.kill(1)
            time.sleep(30)
            one.start(1)
            begun = time.monotonic()
            assert [process.wait(300) for process in processes.values()] == [0] * len(cells)
            assert not any(" ERROR " in process.err for process in processes.values())
        finally:
            for process in processes.values():
                process.kill()
        for kind, cell in cells.items():
            retries = processes[kind].err.count("trying again")
            cell.check("no broker for 30 s", f"went on by itself, told of {retries} retries", time.monotonic() - begun)


@pytest.mark.faults
@pytest.mark.parametrize("how", ["cut", "hangs", "slow"])
def test_the_line_to_kafka(cells: dict[str, Cell], tmp_path: Path, how: str) -> None:
    """The line to the broker is cut or hangs for twenty seconds, or is slow: 50 ms late and 200 kB/s."""
    with Wire("127.0.0.1", 1) as placeholder:
        port = placeholder.port
    with Cluster(tmp_path / "wired", advertised=f"127.0.0.1:{port}") as one:
        host, _, behind = one.behind.rpartition(":")
        with Wire(host, int(behind), listen_port=port) as wire:
            hurt = {"cut": wire.cut, "hangs": wire.hang, "slow": lambda: wire.slow(0.05, 200_000)}[how]
            ride_out(moved_to(cells, one), f"line to Kafka: {how}", hurt, wire.mend, 20)


@pytest.mark.faults
def test_partitions_are_added(cell: Cell) -> None:
    """A topic gains partitions while the pipeline runs: they are read from their beginning."""
    cell.produce(100)
    grown = []

    def grow(_: object) -> None:
        if not grown:
            grown.append(True)
            add_partitions(cell.stack, cell.name, 5)
            cell.partitions = 5
            cell.produce(100)

    cell.ingestion().run(until_caught_up=True, on_progress=grow)
    cell.recover("partitions added", "read from their beginning")


@pytest.mark.faults
def test_a_topic_is_made_anew(cell: Cell) -> None:
    """Deleted and made again: the run stops before it writes, and says what can be chosen."""
    cell.produce(100)
    cell.run()
    recreate_topic(cell.stack, cell.name)
    produce(cell.stack, cell.name, records(cell.kind, 300))
    with pytest.raises(SourceChanged, match="deleted and made again") as stopped:
        cell.run()
    assert "new name and table" in stopped.value.cure
    cell.check("topic deleted and made anew", "stopped, exit 1: a new name and table", 0.0)


@pytest.mark.faults
def test_offsets_expire(cell: Cell) -> None:
    """Retention overtakes the pipeline: it stops and names the gap; with consent it goes on behind it."""
    cell.produce(100)
    cell.run()
    cell.produce(100)
    expire_records(cell.stack, cell.name, 70, partition=1)
    expired = {place for place in cell.manifest if place[1] == 1 and 50 <= place[2] < 70}
    with pytest.raises(OffsetsLost, match="offsets 50 to 69"):
        cell.run()
    begun = time.monotonic()
    cell.ingestion().run(until_caught_up=True, accept_gap=True)
    for place in expired:
        del cell.manifest[place]
    assert cell.ingestion().audit().lost == len(expired) == 20
    cell.check("20 offsets expired unread", "stopped, exit 1; went on with --accept-gap", time.monotonic() - begun)


@pytest.mark.faults
def test_transactions(cell: Cell) -> None:
    """Aborted records are nowhere, committed ones are there; both leave markers."""
    cell.partitions = 1
    for commit in (True, False, True):
        made = records(cell.kind, 100, len(cell.manifest))
        transaction(cell.stack, cell.name, made, commit=commit)
        if commit:
            cell.manifest = dict(topic_manifest(cell.stack, cell.name))
    cell.recover("transactions, one of three aborted", "aborted records are nowhere")


@pytest.mark.faults
def test_a_compacted_topic(cell: Cell, tmp_path: Path) -> None:
    """Compaction leaves holes: what is left is read once, and the holes are counted as gaps."""
    quick = {
        "log.cleanup.policy": "compact",
        "log.cleaner.backoff.ms": "200",
        "log.cleaner.min.cleanable.ratio": "0.01",
    }
    properties = {
        **quick,
        "log.roll.ms": "500",
        "log.segment.bytes": "1048576",
        "log.cleaner.delete.retention.ms": "60000",
    }
    with Cluster(tmp_path / "compacting", properties=properties) as one:
        moved_to({cell.kind: cell}, one)
        for start in range(0, 400, 100):
            keyed = (replace(record, key=b"%d" % (n % 30)) for n, record in enumerate(records(cell.kind, 100, start)))
            produce(cell.stack, cell.name, keyed)
            time.sleep(0.6)
        produce(cell.stack, cell.name, [Record(clean_records(1)[0], b"last")])
        deadline = time.monotonic() + 90
        while len(topic_manifest(cell.stack, cell.name)) > 200:
            assert time.monotonic() < deadline, "nothing was compacted"
            time.sleep(1)
        # Compaction may go on until the run has read; what it read is in the tables, more than what is left.
        time.sleep(3)
        cell.manifest = dict(topic_manifest(cell.stack, cell.name))
        cell.recover("compacted topic", "holes are gaps")
        assert cell.ingestion().audit().gaps > 100
