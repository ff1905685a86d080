"""Logs of four versions of one subject, in each format: fields are added, dropped, widened and renamed by aliases.

Each maker takes a mode of compatibility, and gives the subject's versions (None for plain JSON) and what makes the
payload of a version's record with a number. The id in a payload is the version's number.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from support.oracle.cut_batches import Versions
from support.records import registered
from support.records.registered import header, json_schema, maybe, record

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
    writers = [registered.Avro(tree, n) for n, tree in enumerate(trees, 1)]

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
