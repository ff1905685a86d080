"""Records whose schemas AWS Glue Schema Registry has: end to end, and whatever may be wrong with them.

Glue is moto's server; the records are framed by the package aws-glue-schema-registry.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from aws_schema_registry.codec import encode
from pyspark.sql import SparkSession
from support.pipelines.command_line import Command
from support.pipelines.schema_world import SchemaWorld
from support.records import Record, create_topic, glue_schemas
from support.records.glue_schemas import REGISTRY, Producer
from support.records.registered import json_schema, proxied, record
from support.records.weather import AVRO, VERSIONS, weather
from support.servers import glue, spark_versions

from lakeingest import config
from lakeingest.delta.receipt import Counts
from lakeingest.errors import RegistryRefused, RegistryUnreachable, TableMismatch
from lakeingest.kafka.glue_registry import GlueClient
from lakeingest.local import Addresses


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with glue.moto(tmp_path_factory.mktemp("moto")) as url:
        yield url


@pytest.fixture
def server(moto: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of moto, with keys as pipelines find them."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_GLUE", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in glue.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with closing(glue.client(moto)) as client:
        yield client


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str, moto: str) -> SchemaWorld:
    registry = {"url": None, "glue": {"registry": REGISTRY, "endpoint": moto}, "wait": "2 seconds"}
    return SchemaWorld(stack, spark, named, **AVRO, registry=registry)


def asking(endpoint: str, **storage: str) -> GlueClient:
    """A registry as a pipeline has it."""
    given = {"glue": {"registry": REGISTRY, "endpoint": endpoint}, "wait": "500 ms"}
    return GlueClient(config.Registry.model_validate(given), config.Storage.model_validate(storage))


def producer(server: Any, world: SchemaWorld, tree: Any, *, packs: bool = False) -> Producer:
    return Producer(tree, glue_schemas.register(server, world.name, tree), packs)


def test_avro_that_changes(world: SchemaWorld, server: Any) -> None:
    """Three versions, some records compressed, are one table; ledger, history and audit know the versions."""
    first, second = (producer(server, world, tree) for tree in VERSIONS[:2])
    packed = Producer(second.tree, second.id, packs=True)
    world.produce(*(first(weather(1, n)) for n in range(3)), packed(weather(2, 3)), second(weather(2, 4)), partitions=2)
    assert world.run() == Counts(5, 5)
    third = producer(server, world, VERSIONS[2], packs=True)
    world.produce(third(weather(3, 5)), first(weather(1, 6)), third(weather(3, 7))[:-4])
    assert world.run() == Counts(3, 2, 1)
    rows = {(r["origin"], r["gust"], r["_schema_id"]) for r in world.rows()}
    assert rows == {
        *((f"v1-{n}", None, first.id) for n in (0, 1, 2, 6)),
        *((f"v2-{n}", n + 0.5, second.id) for n in (3, 4)),
        ("v3-5", 5.5, third.id),
    }
    assert [(e.id, e.subject, e.version, e.action) for e in world.ledger.entries] == [
        (first.id, f"{REGISTRY}/{world.name}", 1, "evolve"),
        (second.id, f"{REGISTRY}/{world.name}", 2, "evolve"),
        (third.id, f"{REGISTRY}/{world.name}", 3, "evolve"),
    ]
    found = world.ingestion().schemas()
    assert [(w.id, w.rows, w.refused) for w in found.writers] == [(first.id, 4, 0), (second.id, 2, 0), (third.id, 1, 1)]
    world.checked()


def test_records_that_cannot_be_read(world: SchemaWorld, server: Any) -> None:
    """Each is refused alone, with what is wrong with it; a bomb costs no more than decode.max_bytes."""
    good = producer(server, world, VERSIONS[0])
    packed = Producer(good.tree, good.id, packs=True)
    deleted = Producer(VERSIONS[0], glue_schemas.register(server, f"{world.name}_deleted", VERSIONS[1]))
    server.delete_schema(SchemaId={"RegistryName": REGISTRY, "SchemaName": f"{world.name}_deleted"})
    value, nobody = weather(1, 0), str(uuid4())
    head, raw, most = packed(value)[:18], good.payload(value), 1 << 20
    values = [
        good(value),
        Producer(good.tree, nobody)(value),
        deleted(value),
        b"\x03\x07" + good(value)[2:],
        head + raw,
        head + zlib.compress(raw)[:-1],
        head + zlib.compress(raw) + b"!",
        head,
        head + zlib.compress(bytes(most + 1)),
        head + zlib.compress(bytes(200 * most), 9),
        head + zlib.compress(raw + b"\0"),
        head + zlib.compress(bytes(most)),
        good(value)[:17],
        b"\0\0\0\0\x07" + raw,
        packed(value),
    ]
    world.produce(*values)
    decode = {"value": {"format": "avro"}, "max_bytes": most}
    assert world.run(decode=decode) == Counts(15, 2, 13)
    assert [row["_offset"] for row in world.rows()] == [0, 14]
    told = {offset: reason[1:] for (_, offset), reason in world.reasons.items()}
    assert {offset: reason for offset, (reason, _) in told.items()} == {
        **dict.fromkeys((1, 2), "UNKNOWN_SCHEMA_ID"),
        **dict.fromkeys((3, 12, 13), "NO_SCHEMA_ID"),
        **dict.fromkeys((4, 5, 6, 7), "BROKEN_COMPRESSION"),
        **dict.fromkeys((8, 9), "TOO_LARGE"),
        **dict.fromkeys((10, 11), "PAYLOAD_MISMATCH"),
    }
    assert told[1][1] == f"AWS Glue has no schema version {nobody} (or not that message)"
    assert "of a compression 0x07 nothing is known" in told[3][1]
    assert (
        told[9][1] == f"value has {len(values[9])} bytes, and decompressed more than decode.max_bytes, which is {most}"
    )
    assert f"a payload of {len(raw) + 1} bytes" in told[10][1]
    assert "a schema registry's framing (byte 0, schema id 7)" in told[13][1]
    assert [bytes(row["value"]) for row in world.refused] == values[1:-1]
    found = {w.id: (w.rows, w.refused) for w in world.ingestion(decode=decode).schemas().writers}
    assert found == {good.id: (2, 8)}
    world.checked(decode=decode)


def test_json_schema_and_a_key(world: SchemaWorld, server: Any) -> None:
    """JSON has its schema there too, and a key one of its own."""
    tree = json_schema(n="integer", text="string")
    value = producer(server, world, tree, packs=True)
    key = Producer(record("Key", id="int"), glue_schemas.register(server, f"{world.name}_key", record("Key", id="int")))
    world.produce(Record(value({"n": 1, "text": "ü"}), key({"id": 7})), Record(value({"n": "x"}), key({"id": 8})))
    decode = {"value": {"format": "json_schema"}, "key": {"format": "avro"}}
    assert world.run(decode=decode) == Counts(2, 1, 1)
    assert [(r["_key"]["id"], r["n"], r["text"], r["_schema_id"]) for r in world.rows()] == [(7, 1, "ü", value.id)]
    assert world.reasons[0, 1][:2] == ("value", "PAYLOAD_MISMATCH")
    world.checked(decode=decode)


@spark_versions.protobuf
def test_protobuf_of_glue(world: SchemaWorld, server: Any) -> None:
    """A message is found by its place among the names of all, before the payload and compressed with it."""
    text = (
        'syntax = "proto3"; package x; message Trip { message Stop { string name = 1; int32 n = 2; } } message A { %s }'
    )
    ids = [
        glue_schemas.register(server, world.name, text % more) for more in ("int32 n = 1;", "int32 n = 1; int32 m = 2;")
    ]
    a, stop = b"\x00", b"\x02"
    records = [
        (ids[0], stop + b"\x0a\x01a\x10\x05", False),
        (ids[1], stop + b"\x0a\x01b\x10\x06", True),
        (ids[0], stop + b"\x0a\x01c", True),
        (ids[1], a + b"\x08\x07", True),
        (ids[1], a + b"\x08\x07", False),
        (ids[0], b"\x09\x08\x07", True),
        (ids[0], b"\x09\x08\x07", False),
        (ids[0], stop + b"\x0a\x09a", True),
    ]
    values = [encode(payload, UUID(id), compression=packs) for id, payload, packs in records]
    values += [values[2][:-1], values[0][:18]]
    world.produce(*values)
    decode = {"value": {"format": "protobuf"}}
    assert world.run(decode=decode) == Counts(10, 3, 7)
    assert world.columns("_schema_id", "name", "n") == [(ids[0], "a", 5), (ids[1], "b", 6), (ids[0], "c", 0)]
    assert {offset: why[1] for (_, offset), why in world.reasons.items()} == {
        **dict.fromkeys((3, 4), "DIFFERENT_NAME"),
        **dict.fromkeys((5, 6, 9), "UNKNOWN_SCHEMA_ID"),
        7: "PAYLOAD_MISMATCH",
        8: "BROKEN_COMPRESSION",
    }
    world.checked(decode=decode)


@pytest.mark.faults
def test_glue_that_goes_away(world: SchemaWorld, server: Any, moto: str, stack: Addresses) -> None:
    """A run that meets a schema it does not know waits, and ends with nothing lost; known ones need no Glue."""
    first = producer(server, world, VERSIONS[0])
    world.produce(first(weather(1, 0)))
    with proxied(moto) as line:
        registry = {
            **world.changes["registry"],
            "glue": {"registry": REGISTRY, "endpoint": line.url},
            "wait": "1 second",
        }
        assert world.run(registry=registry) == Counts(1, 1)
        line.down()
        second = producer(server, world, VERSIONS[1])
        world.produce(second(weather(2, 1)))
        begun = time.monotonic()
        with pytest.raises(RegistryUnreachable, match=r"AWS Glue at .* did not answer for 1 s"):
            world.run(registry=registry)
        assert time.monotonic() - begun < 30
        line.up()
        assert world.run(registry=registry) == Counts(1, 1)
    other = {"url": stack.registry, "glue": None}
    with pytest.raises(TableMismatch, match="made with _schema_id string, the pipeline file says int"):
        world.run(registry=other)
    world.checked()


def test_what_glue_is_asked(server: Any, named: str, moto: str) -> None:
    """A version by its id, the newest of a schema, its level: and nothing twice of what never changes."""
    ids = [glue_schemas.register(server, named, tree, "FULL_ALL") for tree in VERSIONS[:2]]
    with proxied(moto) as line:
        registry = asking(line.url)
        found = [registry.writer(id) for id in ids]
        assert [(w.id, w.type, w.subject, w.version) for w in found] == [
            (id, "AVRO", f"{REGISTRY}/{named}", n) for n, id in enumerate(ids, 1)
        ]
        assert [json.loads(w.text) for w in found] == VERSIONS[:2]
        assert registry.latest(registry.topic_subject(named, "value")) == (found[1], 2)
        assert (registry.compatibility(named), registry.compatibility("nobodys")) == ("FULL_TRANSITIVE", "")
        assert (registry.writer(str(uuid4())), registry.latest("nobodys")) == (None, None)
        line.down()
        assert registry.writer(ids[0]) == found[0]
        with pytest.raises(RegistryUnreachable, match=r"did not answer for 0\.5 s, asked for schema version"):
            registry.writer(str(uuid4()))


def test_glue_that_cannot_be_asked(server: Any, moto: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without keys or a region, or with keys that it does not take, waiting helps nothing."""
    with pytest.raises(RegistryRefused, match=r"AWS Glue is not to be had, asked for a connection: .*Invalid endpoint"):
        asking("http://a b").latest("x")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(RegistryRefused, match="Unable to locate credentials") as refused:
        asking(moto).latest("x")
    assert "storage.access_key" in refused.value.cure
    assert asking(moto, access_key="k", secret_key="s").latest("x") is None
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(RegistryRefused, match="You must specify a region"):
        asking(moto).latest("x")
    assert asking(moto, access_key="k", secret_key="s", region="eu-west-1").latest("x") is None


def test_check_and_doctor(world: SchemaWorld, server: Any, lakeingest: Command, tmp_path: Path) -> None:
    """`check --online` compares the levels, and `doctor` finds the schema."""
    named, file = world.name, tmp_path / "p.yaml"
    glue_schemas.register(server, named, VERSIONS[0], "NONE")
    create_topic(world.stack, named)
    file.write_text(json.dumps(world.values()))
    said = lakeingest("check", file, "--online")
    assert f"the registry takes NONE for {named}" in " ".join((said.out + said.err).split())
    assert "glue:UpdateSchema" in said.out + said.err
    found = lakeingest("doctor", file, "--no-spark")
    assert f"{named} is at version 1" in found.out
