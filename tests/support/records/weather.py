"""Weather in five versions of one Avro schema: fields are added, widened, and at last changed beyond any table."""

from __future__ import annotations

from typing import Any

from support.records.registered import maybe, record

AVRO = {"decode": {"value": {"format": "avro"}}}
"""Of a pipeline file."""
STOP = record("Stop", name="string", minutes="int")
WIDE = record("Stop", name="string", minutes="long")
PLACE = record("Place", lat="double", tags={"type": "array", "items": "string"})
FIRST = {"origin": "string", "wind": "int", "temp": "float", "visib": maybe("int")}
SECOND = {**FIRST, "gust": ("double", 7.5), "note": maybe("string")}
THIRD = {**SECOND, "place": maybe(PLACE), "stops": ({"type": "array", "items": STOP}, [])}
FOURTH = {
    **THIRD, "wind": "long", "temp": "double", "visib": maybe("double"),
    "stops": ({"type": "array", "items": WIDE}, []),
}  # fmt: skip
FIFTH = {**FOURTH, "wind": "string"}
VERSIONS = [record("Weather", **fields) for fields in (FIRST, SECOND, THIRD, FOURTH, FIFTH)]
PAST_INT = 2**31 + 7


def weather(version: int, n: int) -> dict[str, Any]:
    """The n-th record of a version; every value tells both."""
    of_all = {"origin": f"v{version}-{n}", "wind": 100 * version + n, "temp": n + 0.25, "visib": n}
    more: dict[str, Any] = {"gust": n + 0.5, "note": f"note {n}"} if version > 1 else {}
    if version > 2:
        more |= {"place": {"lat": 40.5, "tags": ["a", f"b{n}"]}, "stops": [{"name": "s", "minutes": n}]}
    if version > 3:
        more |= {"wind": PAST_INT + n, "visib": n + 0.125, "stops": [{"name": "s", "minutes": PAST_INT}]}
    if version > 4:
        more["wind"] = "strong"
    return {**of_all, **more}


TYPES = {
    "origin": "string", "wind": "bigint", "temp": "double", "visib": "double", "gust": "double", "note": "string",
    "place": "struct<lat:double,tags:array<string>>", "stops": "array<struct<name:string,minutes:bigint>>",
}  # fmt: skip
"""The fourth version's columns."""
NARROW = {
    **TYPES, "wind": "int", "temp": "float", "visib": "int", "stops": "array<struct<name:string,minutes:int>>"
}  # fmt: skip
"""The first version's, where it has the field, and the second's and the third's."""
STRUCTS = ("+ place STRUCT<lat: DOUBLE, tags: ARRAY<STRING>>", "+ stops ARRAY<STRUCT<name: STRING, minutes: INT>>")

ADDED = (
    ("+ origin STRING NOT NULL", "+ wind INT NOT NULL", "+ temp FLOAT NOT NULL", "+ visib INT"),
    ("+ gust DOUBLE NOT NULL DEFAULT 7.5", "+ note STRING"),
    (STRUCTS[0], STRUCTS[1] + " NOT NULL DEFAULT []"),
)
"""The changes of the first three versions, as the ledger tells them."""
