"""Where batches are cut decides nothing: one log of four versions, cut in many ways, makes one table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import registry_kit
from cuts import Table, Versions, batch, ingested, pipeline
from pyspark.sql import SparkSession
from registry_kit import maybe, record

MODES = ("BACKWARD", "FORWARD", "FULL", "NONE")
PLACE, STOP = record("Place", lat="double", zip=maybe("string")), record("Stop", name="string")
MOVED = {
    **record("Spot", lat="double", code=maybe("string")), "aliases": ["Place"],
}  # fmt: skip
MOVED["fields"][1]["aliases"] = ["zip"]
LONGER = record("Stop", name="string", minutes=maybe("int"))


def versions() -> list[Any]:
    """Added: gust, minutes. Dropped: email, lat. Renamed: origin, zip and the record Place, by aliases that the last
    one has forgotten. Widened: wind, and visib, which comes back as it was.
    """
    one = record("Event", origin="string", wind=maybe("int"), visib=maybe("float"), email=maybe("string"), place=PLACE)
    two = record("Event", departure="string", wind=maybe("int"), gust=("double", 7.5), place=MOVED, visib=("double", 0))
    two["fields"][0]["aliases"] = ["origin"]
    three = record("Event", departure="string", wind=maybe("long"), place=MOVED, stops=(array(STOP), []))
    four = record(
        "Event", departure=maybe("string"), wind=maybe("long"), place=maybe(forgotten()), stops=(array(LONGER), [])
    )
    return [one, two, three, four]


def forgotten() -> Any:
    return record("Spot", code=maybe("string"))


def array(items: Any) -> Any:
    return {"type": "array", "items": items}


def value(version: int, n: int) -> dict[str, Any]:
    place = {"lat": 40.5, ("zip" if version == 1 else "code"): f"zip {n}"}
    origin = {("origin" if version == 1 else "departure"): f"v{version}-{n}"}
    return {
        1: {**origin, "wind": n, "visib": n + 0.5, "email": f"e{n}", "place": place},
        2: {**origin, "wind": n, "visib": n + 0.25, "gust": n + 0.5, "place": place},
        3: {**origin, "wind": 2**40 + n, "place": place, "stops": [{"name": "s"}]},
        4: {**origin, "wind": 2**40 + n, "place": {"code": place.get("code")}, "stops": [{"name": "s", "minutes": n}]},
    }[version]


def avro() -> tuple[Versions, Callable[[int, int], bytes]]:
    writers = [registry_kit.Avro(tree, n) for n, tree in enumerate(versions(), 1)]
    return Versions("AVRO", [json.dumps(each.tree) for each in writers]), lambda v, n: writers[v - 1](value(v, n))


ORDERS = {
    "rising": (1, 1, 2, 1, 2, 3, 1, 2, 4, 3, 1, 2, 4),
    "falling": (4, 3, 4, 2, 3, 1, 4, 2, 1, 3),
    "mixed": (2, 4, 1, 3, 2, 4, 1, 3, 1),
}


def cuts(count: int) -> list[Sequence[int]]:
    """Ten ways to cut a log, all of it in one first."""
    ways = [[0], range(count), range(0, count, 2), range(0, count, 3), [0, count // 2], [0, count - 1]]
    return [*ways, [0, 1], [0, 2, 5], [0, 3, 4, 5], [0, 1, 2, 3, 6]]


def same(one: Table, other: Table) -> None:
    assert other.rows == one.rows
    assert other.refused == one.refused
    assert other.types == one.types
    assert other.verdicts == one.verdicts


@pytest.mark.parametrize("mode", MODES)
def test_avro_cut_in_three_ways(spark: SparkSession, mode: str) -> None:
    """The first version lost its removed field to _rescued where it shared a batch with the second."""
    registry, payload = avro()
    records = [payload(v, n) for n, v in enumerate(ORDERS["rising"])]
    config = pipeline("avro", mode)
    whole = ingested(spark, config, registry, records, [0])
    for way in (cuts(len(records))[3], cuts(len(records))[7]):
        same(whole, ingested(spark, config, registry, records, way))
    assert [whole.rows[n].get("email") for n in (0, 1, 3)] == ["e0", "e1", "e3"]
    print(whole.types, whole.verdicts, whole.rows)
