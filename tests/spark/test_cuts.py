"""Where batches are cut decides nothing: one log of four versions, cut in many ways, makes one table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import registry_kit
import versions as spark_versions
from cuts import Table, Versions, ingested, pipeline, replayed
from pyspark.sql import SparkSession
from registry_kit import header, json_schema, maybe, record

from lakeingest.schema.formats import wire

Payload = Callable[[int, int], bytes]
MODES = ("BACKWARD", "FORWARD", "FULL", "NONE")
COLUMNS = "origin STRING, place STRUCT<lat: DOUBLE>"
"""Of plain JSON."""


def array(items: Any) -> Any:
    return {"type": "array", "items": items}


def avro(mode: str) -> tuple[Any, Payload]:
    """Added: gust, minutes. Dropped: email, lat. Widened: wind. Renamed by aliases, which the last version has
    forgotten: origin, zip, and the record Place.
    """
    wide = "long" if mode in ("BACKWARD", "NONE") else "int"
    place, forgotten = record("Place", lat=maybe("double"), zip=maybe("string")), record("Spot", code=maybe("string"))
    spot = {**record("Spot", lat=maybe("double"), code=maybe("string")), "aliases": ["Place"]}
    spot["fields"][1]["aliases"] = ["zip"]
    stop, longer = record("Stop", name="string"), record("Stop", name="string", minutes=maybe("int"))
    two = record("Event", departure="string", wind=maybe("int"), gust=("double", 7.5), place=spot)
    two["fields"][0]["aliases"] = ["origin"]
    trees = [
        record("Event", origin="string", wind=maybe("int"), email=maybe("string"), place=place),
        two,
        record("Event", departure="string", wind=maybe(wide), place=spot, stops=(array(stop), [])),
        record("Event", departure="string", wind=maybe(wide), place=forgotten, stops=(array(longer), [])),
    ]
    writers = [registry_kit.Avro(tree, n) for n, tree in enumerate(trees, 1)]

    def payload(version: int, n: int) -> bytes:
        first, last = version == 1, version == 4
        value = {"origin" if first else "departure": f"v{version}-{n}", "wind": n, "email": f"e{n}", "gust": n + 0.5}
        place = {"zip" if first else "code": f"zip {n}", **({} if last else {"lat": 40.5})}
        stops = [{"name": "s", **({"minutes": n} if last else {})}]
        return writers[version - 1]({**value, "place": place, "stops": stops})

    return Versions("AVRO", [json.dumps(tree) for tree in trees]), payload


def protobuf(mode: str) -> tuple[Any, Payload]:
    """The same, but that a field under another name has another column, though it keeps its number."""
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

    from lakeingest.schema.formats import protobuf as formats

    wide = "int64" if mode in ("BACKWARD", "NONE") else "int32"
    text = (
        'syntax = "proto3"; package x; message Event {{ message Place {{ {} }} message Stop {{ string name = 1; {} }} '
        "string origin = 1; {} Place place = 4; {} }}"
    )
    lat, zip_, code = "optional double lat = 1;", "optional string zip = 2;", "optional string code = 2;"
    gone, stops = "optional string email = 3;", "repeated Stop stops = 5;"
    texts = [
        text.format(lat + zip_, "", f"int32 wind = 2; {gone}", ""),
        text.format(lat + code, "", "int32 wind = 2;", "double gust = 6;"),
        text.format(lat + code, "", f"{wide} wind = 2;", stops),
        text.format(code, "optional int32 minutes = 2;", f"{wide} wind = 2;", stops),
    ]

    def payload(version: int, n: int) -> bytes:
        files = descriptor_pb2.FileDescriptorSet.FromString(formats.compile(texts[version - 1], ()))
        pool = descriptor_pool.DescriptorPool()
        for each in files.file:
            pool.Add(each)
        place = {"zip" if version == 1 else "code": f"zip {n}", "lat": 40.5}
        value = {"origin": f"v{version}-{n}", "wind": n, "email": f"e{n}", "gust": n + 0.5, "place": place}
        event = message_factory.GetMessageClass(pool.FindMessageTypeByName("x.Event"))()
        json_format.ParseDict({**value, "stops": [{"name": "s", "minutes": n}]}, event, ignore_unknown_fields=True)
        return header(version) + wire.prefix((0,)) + event.SerializeToString()

    return Versions("PROTOBUF", texts), payload


def objects(version: int, n: int) -> dict[str, Any]:
    """Added: gust and stops, minutes. Dropped: email, lat."""
    place = {"zip": f"zip {n}", **({} if version == 4 else {"lat": 40.5})}
    more: dict[str, Any] = {1: {"email": f"e{n}"}, 2: {"gust": n + 0.5}}.get(version, {})
    if version > 2:
        more = {"stops": [{"name": "s", **({"minutes": n} if version == 4 else {})}]}
    return {"origin": f"v{version}-{n}", "place": place, **more}


def of_json_schema(mode: str) -> tuple[Any, Payload]:
    lat, stop = {"lat": "number"}, {"name": "string"}
    # Under FORWARD and FULL a model that is open says that a new field was there before: nothing is required.
    trees = [
        json_schema(origin="string", email="string", place=json_schema(zip="string", **lat)),
        json_schema(origin="string", gust="number", place=json_schema(zip="string", **lat)),
        json_schema(origin="string", stops=array(json_schema(**stop)), place=json_schema(zip="string", **lat)),
        json_schema(
            origin="string", stops=array(json_schema(minutes="integer", **stop)), place=json_schema(zip="string")
        ),
    ]
    return Versions(
        "JSON", [json.dumps(tree) for tree in trees]
    ), lambda v, n: header(v) + json.dumps(objects(v, n)).encode()


def plain_json(mode: str) -> tuple[Any, Payload]:
    return None, lambda v, n: json.dumps(objects(v, n)).encode()


FORMATS: dict[str, Callable[[str], tuple[Any, Payload]]] = {
    "avro": avro, "protobuf": protobuf, "json_schema": of_json_schema, "json": plain_json,
}  # fmt: skip
ORDERS = {
    "rising": (1, 1, 2, 1, 3, 2, 4, 1, 3, 2, 4),
    "falling": (4, 3, 4, 2, 3, 1, 4, 2, 1, 3),
    "mixed": (2, 4, 1, 3, 2, 4, 1, 3, 1),
}


def ways(count: int) -> list[Sequence[int]]:
    """Ten ways to cut a log."""
    regular = [range(count), range(0, count, 2), range(0, count, 3), [0, count // 2], [0, count - 1]]
    return [*regular, [0, 1], [0, 2, 5], [0, 3, 4, 5], [0, 1, 2, 3, 6], [0, 4]]


def same(one: Table, other: Table, format: str) -> None:
    assert other.rows == one.rows
    assert other.refused == one.refused
    if format != "json":
        # What is observed of plain JSON is a version for each batch, and its fields have the order of that batch.
        assert other.types == one.types
        assert other.verdicts == one.verdicts


def config_of(format: str, mode: str, **parts: Any) -> Any:
    schema = {"columns": COLUMNS} if format == "json" else {}
    return pipeline(format, mode, schema=schema, **parts)


@pytest.mark.parametrize("mode", MODES)
def test_avro_cut_in_two(spark: SparkSession, mode: str) -> None:
    """The first version lost its removed field to _rescued where it shared a batch with the second."""
    registry, payload = avro(mode)
    records = [payload(v, n) for n, v in enumerate(ORDERS["rising"])]
    config = config_of("avro", mode)
    whole, cut = (ingested(spark, config, registry, records, way) for way in ([0], [0, 3, 6]))
    same(whole, cut, "avro")
    assert whole.refused == {}
    assert [whole.rows[n].get("email") for n in (0, 3, 7, 8)] == ["e0", "e3", "e7", None]
    assert [whole.rows[n]["origin"] for n in (0, 2, 4, 6)] == ["v1-0", "v2-2", "v3-4", "v4-6"]
    assert [whole.rows[n]["place"]["zip"] for n in (0, 2, 4, 6)] == ["zip 0", "zip 2", "zip 4", "zip 6"]
    gusts = [whole.rows[n].get("gust") for n in range(3)]
    assert gusts == ([None] * 3 if mode == "FORWARD" else [None, None, 2.5])


@pytest.mark.parametrize("mode", ["BACKWARD", "NONE"])
def test_columns_behind_transforms_cut_in_two(spark: SparkSession, mode: str) -> None:
    """A removed field that a step names is null for records that lack it; the step refused their schema."""
    registry, payload = avro(mode)
    records = [payload(v, n) for n, v in enumerate((1, 2, 1, 4))]
    steps = [{"derive": {"who": "upper(email)"}}, {"rename": {"email": "mail"}}, {"drop": ["wind"]}]
    config = config_of("avro", mode, transform=steps)
    whole, cut = (ingested(spark, config, registry, records, way) for way in ([0], range(4)))
    same(whole, cut, "avro")
    assert whole.refused == {}
    assert [(whole.rows[n].get("who"), whole.rows[n].get("mail")) for n in range(4)] == [
        ("E0", "e0"),
        (None, None),
        ("E2", "e2"),
        (None, None),
    ]


def test_a_mask_hides_a_renamed_field_in_what_is_rescued(spark: SparkSession) -> None:
    """Fields are rescued under the names of their columns: under its own name no mask named it."""
    before = record("Event", place=record("Place", zip=maybe("string")))
    after = record("Event", spot=record("Place", code=maybe("string"), more=maybe("int")))
    after["fields"][0]["aliases"], inner = ["place"], after["fields"][0]["type"]
    inner["fields"][0]["aliases"] = ["zip"]
    one, two = registry_kit.Avro(before, 1), registry_kit.Avro(after, 2)
    records = [one({"place": {"zip": "SECRET"}}), two({"spot": {"code": "SECRET", "more": 7}})]
    registry = Versions("AVRO", [json.dumps(before), json.dumps(after)])
    mask = [{"mask": {"place.zip": {"constant": "-"}}}]
    config = config_of("avro", "FORWARD", transform=mask, quarantine={"keep_bytes": "never"})
    table = ingested(spark, config, registry, records, [0])
    assert [table.rows[n]["place"] for n in (0, 1)] == [{"zip": "-"}] * 2
    assert json.loads(table.rows[1]["_rescued"]) == {"place": {"more": 7}}


@pytest.mark.faults
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "format", ["avro", pytest.param("protobuf", marks=spark_versions.protobuf), "json_schema", "json"]
)
def test_a_log_cut_in_ten_ways(spark: SparkSession, format: str, mode: str) -> None:
    """In each order of versions, with a replay between two batches: the tables are equal row by row."""
    registry, payload = FORMATS[format](mode)
    config = config_of(format, mode)
    for number, order in enumerate(ORDERS.values()):
        records = [payload(v, n) for n, v in enumerate(order)]
        whole = ingested(spark, config, registry, records, [0])
        for way in ways(len(records))[number::3]:
            cut = ingested(spark, config, registry, records, way)
            replayed(spark, config, registry, cut, records)
            same(whole, cut, format)
