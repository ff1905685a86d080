"""The embedded stack is real, keeps its data, and touches only its own processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lakeingest.errors import SetupError
from lakeingest.local import Addresses, running
from lakeingest.local.addresses import read, stack_dir
from lakeingest.local.server import free_ports
from lakeingest.local.stack import down, status, up


def s3(addresses: Addresses) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=addresses.s3,
        aws_access_key_id=addresses.s3_access_key,
        aws_secret_access_key=addresses.s3_secret_key,
        region_name="us-east-1",
    )


def kafka(addresses: Addresses) -> AdminClient:
    return AdminClient({"bootstrap.servers": addresses.kafka, "log_level": 0})


def call(addresses: Addresses, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(addresses.registry + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def fill(addresses: Addresses) -> None:
    admin = kafka(addresses)
    admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result()
    producer = Producer({"bootstrap.servers": addresses.kafka, "log_level": 0})
    producer.produce("kept", b"record")
    assert producer.flush(20) == 0
    client = s3(addresses)
    client.put_object(Bucket="lake", Key="kept", Body=b"object")
    client.close()
    call(addresses, "/subjects/kept/versions", {"schema": '{"type": "record", "name": "Kept", "fields": []}'})


def content(addresses: Addresses) -> tuple[bytes | None, bytes, list[str]]:
    settings = {"bootstrap.servers": addresses.kafka, "group.id": "look", "enable.auto.commit": False}
    consumer = Consumer(settings | {"log_level": 0})
    consumer.assign([TopicPartition("kept", 0, 0)])
    message, deadline = None, time.monotonic() + 30
    # A broker that has just started may first answer that it does not know the topic yet.
    while (message is None or message.error()) and time.monotonic() < deadline:
        message = consumer.poll(1)
    consumer.close()
    client = s3(addresses)
    body = client.get_object(Bucket="lake", Key="kept")["Body"].read()
    client.close()
    return message and message.value(), body, call(addresses, "/subjects")


def test_a_misspelt_topic_is_not_created(stack: Addresses) -> None:
    """Reading metadata of an unknown topic brings no topic into being."""
    admin = kafka(stack)
    admin.list_topics("mispelt", timeout=10)
    assert "mispelt" not in admin.list_topics(timeout=10).topics


def test_the_second_conditional_put_is_refused(stack: Addresses) -> None:
    """Two writers of one key with If-None-Match: the second gets 412, as on AWS."""
    client = s3(stack)
    client.put_object(Bucket="lake", Key="once", Body=b"first", IfNoneMatch="*")
    with pytest.raises(ClientError) as refused:
        client.put_object(Bucket="lake", Key="once", Body=b"second", IfNoneMatch="*")
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 412
    assert client.get_object(Bucket="lake", Key="once")["Body"].read() == b"first"
    client.close()


def test_a_wrong_key_is_denied(stack: Addresses) -> None:
    """The object store lets in whoever has the keys, and nobody else."""
    client = s3(Addresses(stack.kafka, stack.s3, stack.s3_access_key, "wrong", stack.registry))
    with pytest.raises(ClientError, match=r"403|SignatureDoesNotMatch"):
        client.list_objects_v2(Bucket="lake")
    client.close()


def test_the_registry_speaks_confluents_api(stack: Addresses) -> None:
    """A schema that is registered comes back by its id."""
    schema = '{"type":"record","name":"Flight","fields":[]}'
    id = call(stack, "/subjects/flights-value/versions", {"schema": schema})["id"]
    assert json.loads(call(stack, f"/schemas/ids/{id}")["schema"]) == json.loads(schema)


@pytest.mark.faults
def test_data_survives_a_kill_and_a_taken_port(tmp_path: Path) -> None:
    """Records, objects and schemas are there after a crash, also where a port had to change; `down` deletes nothing."""
    first = up(tmp_path)
    try:
        fill(first)
        before = content(first)
        assert before == (b"record", b"object", ["kept"])
        kill_all(tmp_path)
        with listening(int(first.kafka.rpartition(":")[2])):
            moved = up(tmp_path)
        assert (moved.kafka != first.kafka, moved.s3, moved.registry) == (True, first.s3, first.registry)
        assert content(moved) == before
        assert down(tmp_path)
        data = stack_dir(tmp_path) / "data"
        assert all(any((data / server).iterdir()) for server in ("kafka", "s3", "registry"))
    finally:
        down(tmp_path, wipe=True)
    assert not stack_dir(tmp_path).exists()


@pytest.mark.faults
def test_a_port_is_taken_while_a_server_starts(tmp_path: Path) -> None:
    """Behind the look whether it is free: the server is started again with other ports."""
    up(tmp_path)
    down(tmp_path)
    before = read(tmp_path)
    assert before is not None
    name, port = next((name, port) for name, port in before.servers["s3"].ports.items() if name != "s3")
    with socket.socket() as taken:
        # Bound alike, it looks free as long as nobody listens.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        steps = list[str]()

        def say(step: str) -> None:
            steps.append(step)
            if step == "s3: starting":
                taken.listen()

        try:
            up(tmp_path, say=say)
            assert steps.count("s3: starting") == 2
            record = read(tmp_path)
            assert record is not None
            assert record.servers["s3"].ports[name] != port
            assert {server.state for server in status(tmp_path)} == {"running"}
        finally:
            down(tmp_path, wipe=True)


@pytest.mark.slow
def test_a_server_that_does_not_come_up_shows_its_log_and_ends_the_others(tmp_path: Path) -> None:
    """Broken data of one server stops `up`, in that server's own words, and nothing is left running."""
    broken = stack_dir(tmp_path) / "data" / "kafka" / "log" / "meta.properties"
    broken.parent.mkdir(parents=True)
    broken.write_text("version=7")
    with pytest.raises(SetupError, match=r"Unknown meta\.properties version number 7"):
        up(tmp_path)
    assert {server.state for server in status(tmp_path)} == {"stopped"}
    assert not down(tmp_path)


def test_up_is_harmless_when_all_runs(stack: Addresses, stack_state: Path) -> None:
    """A second `up` starts nothing and answers with the same addresses."""
    before = status(stack_state)
    assert up(stack_state) == stack == running(stack_state)
    assert status(stack_state) == before


def test_secrets_are_for_the_owner_alone(stack: Addresses, stack_state: Path) -> None:
    """No file that holds the secret key is readable by others, and no repr shows it."""
    holders = [file for file in stack_dir(stack_state).rglob("*.json") if stack.s3_secret_key in file.read_text()]
    assert {(file.name, stat.S_IMODE(file.stat().st_mode)) for file in holders} == {
        ("stack.json", 0o600),
        ("s3.json", 0o600),
    }
    assert stack.s3_secret_key not in repr(stack) + repr(read(stack_state))


def test_a_port_stays_while_it_is_free() -> None:
    """A restart keeps its ports, and steps aside from whoever took one."""
    ports = free_ports(("a", "b"), {}, set())
    assert free_ports(("a", "b"), ports, set()) == ports
    with listening(ports["a"]):
        moved = free_ports(("a", "b"), ports, set())
    assert moved["a"] != ports["a"]
    assert moved["b"] == ports["b"]


def kill_all(state: Path) -> None:
    record = read(state)
    assert record is not None
    for server in record.servers.values():
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
    while any(server.alive() for server in record.servers.values()):
        time.sleep(0.01)


@contextmanager
def listening(port: int) -> Iterator[None]:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        yield
