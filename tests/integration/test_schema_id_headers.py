"""A topic whose producers go over to headers that name the schema, record by record, by Confluent's own serializers."""

from __future__ import annotations

import json
import struct
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession
from support.pipelines.schema_world import SchemaWorld
from support.records import Record
from support.records.registered import json_schema, maybe, record, register
from support.servers import spark_versions
from support.servers.guid_registry import GuidRegistry, guid_registry

from lakeingest.config import Registry as Config
from lakeingest.delta.receipt import Counts
from lakeingest.kafka.registry import RegistryClient
from lakeingest.local import Addresses

NAME = "__value_schema_id"
ONE = record("Order", id="long", note="string")
TWO = record("Order", id="long", note="string", amount=maybe("double"))


@pytest.fixture(scope="module")
def guids(stack: Addresses) -> Iterator[tuple[str, GuidRegistry]]:
    with guid_registry(stack.registry) as serving:
        yield serving


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str, guids: tuple[str, GuidRegistry]) -> SchemaWorld:
    return SchemaWorld(stack, spark, named, registry={"url": guids[0]}, decode={"value": {"format": "avro"}})


class Producers:
    """Confluent's serializers for one topic, before and after the change."""

    def __init__(self, url: str, topic: str) -> None:
        self._client, self._topic = SchemaRegistryClient({"url": url}), topic

    def __call__(self, tree: Any, *, by_header: bool, side: str = "value", **fields: Any) -> Record:
        options = {"schema.id.serializer": header_schema_id_serializer} if by_header else {}
        serializer = AvroSerializer(self._client, json.dumps(tree), conf=options)
        field = MessageField.KEY if side == "key" else MessageField.VALUE
        headers: list[tuple[str, bytes]] = []
        payload = serializer(fields, SerializationContext(self._topic, field, headers))
        return Record(payload, headers=tuple(headers))


def test_a_topic_goes_over_to_headers(world: SchemaWorld, guids: tuple[str, GuidRegistry], stack: Addresses) -> None:
    """Both framings and two versions in one batch are one table; an unknown schema is refused, and replayed."""
    make = Producers(guids[0], world.name)
    records = [
        make(ONE, by_header=False, id=0, note="prefix"),
        make(ONE, by_header=True, id=1, note="guid"),
        make(TWO, by_header=True, id=2, note="guid", amount=1.5),
        make(TWO, by_header=False, id=3, note="prefix", amount=None),
    ]
    one, two = (int.from_bytes(records[at].value[1:5], "big") for at in (0, 3))
    bare, guid = records[1].value, uuid.uuid4()
    records += [
        Record(bare, headers=((NAME, struct.pack(">bI", 0, one)),)),
        Record(bare, headers=((NAME, b"\x01" + guid.bytes),)),
        Record(bare, headers=((NAME, b"\x01\x02"),)),
    ]
    world.produce(*records)
    # The stack's own registry knows no GUIDs: that ends no run, and refuses no other record.
    assert world.ingestion(registry={"url": stack.registry}).run(until_caught_up=True) == Counts(7, 3, 4)
    assert world.ingestion().replay("GUIDs").moved == 2
    assert world.columns("_offset", "_schema_id", "id", "note", "amount") == [
        (0, one, 0, "prefix", None),
        (1, one, 1, "guid", None),
        (2, two, 2, "guid", 1.5),
        (3, two, 3, "prefix", None),
        (4, one, 1, "guid", None),
    ]
    refused = {row["_offset"]: (row["reason"], row["message"]) for row in world.refused if row["moved"] is None}
    assert refused[5][0] == "UNKNOWN_SCHEMA_ID"
    assert refused[5][1].startswith(f"no schema of the registry has GUID {guid}")
    assert refused[6][0] == "SCHEMA_ID_IN_HEADER"
    world.produce(*records[:4], Record(b"\xff", headers=records[1].headers))
    assert world.run() == Counts(5, 4, 1)
    assert world.refused[-1]["reason"] == "PAYLOAD_MISMATCH"
    guids[1].ids[str(guid)] = one
    assert world.ingestion().replay("registered by now").moved == 1
    world.checked()
    assert Counter(world.columns("_schema_id")) == {(one,): 6, (two,): 4}


@pytest.mark.parametrize("format", [pytest.param("protobuf", marks=spark_versions.protobuf), "json_schema"])
def test_other_formats(world: SchemaWorld, guids: tuple[str, GuidRegistry], format: str) -> None:
    """The indexes of a Protobuf message lie in the header too; JSON has nothing before it. So it is with a key."""
    subject = f"{world.name}-value"
    if format == "protobuf":
        text = 'syntax = "proto3"; package x; message A { int64 n = 1; } message B { message C { int64 n = 1; } }'
        id, payload, indexes = register(world.stack, subject, text, "PROTOBUF"), b"\x08\x07", [1, 0]
        kind: Any = SchemaId("PROTOBUF", id, str(uuid.uuid4()), indexes)
    else:
        id, payload = register(world.stack, subject, json.dumps(json_schema(n="integer")), "JSON"), b'{"n": 7}'
        kind = SchemaId("JSON", id, str(uuid.uuid4()))
    guids[1].ids[str(kind.guid)] = id
    headers = ((NAME, kind.guid_to_bytes()), ("__key_schema_id", kind.guid_to_bytes()))
    world.produce(
        Record(kind.id_to_bytes() + payload, payload, headers=headers[1:]), Record(payload, payload, headers=headers)
    )
    world.changes = {**world.changes, "decode": {"value": {"format": format}, "key": {"format": format}}}
    assert world.run() == Counts(2, 2)
    assert world.columns("_schema_id", "n", "_key.n") == [(id, 7, 7)] * 2


def test_what_the_registry_is_asked(stack: Addresses, guids: tuple[str, GuidRegistry], named: str) -> None:
    """A GUID's id once, in the context of the URL; a registry that knows no GUIDs has no schema of it."""
    id, guid = register(stack, named, '"long"'), str(uuid.uuid4())
    url, server = guids
    client = RegistryClient(Config.model_validate({}), url)
    assert client.writer(guid) is None
    server.ids[guid] = id
    server.asked.clear()
    schema = client.writer(guid)
    assert (client.writer(guid), client.writer(id)) == (schema, schema)
    assert schema is not None
    assert schema.id == id
    assert [path.partition("?")[0] for path in server.asked] == [f"/schemas/guids/{guid}/ids", f"/schemas/ids/{id}"]
    assert RegistryClient(Config.model_validate({}), stack.registry).writer(guid) is None
