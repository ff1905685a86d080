"""Where batches are cut decides nothing: one log of four versions, cut in many ways, makes one table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.oracle.cut_batches import Table, Versions, batch, ingested, pipeline, replayed
from support.records import registered
from support.records.registered import maybe, record
from support.records.schema_versions import COLUMNS, FORMATS, MODES, ORDERS, avro
from support.servers import spark_versions


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


@pytest.mark.slow
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


UNDECLARED = [
    '{"origin": "a", "x": 1.5, "s": "text"}',
    '{"x": 9007199254740993, "y": 1}',
    '{"x": [1, "a"], "w": 1}',
    '{"x": {}, "v": 1}',
    '{"s": 7, "x": null, "y": "of the first that is taken", "w": "w", "v": {"a": [1.5]}}',
    '{"s": {}, "x": 1, "y": "more", "v": {"a": [], "b": {"c": 1}}}',
    '{"x": 2, "v": {"b": {}}}',
]


@pytest.mark.slow
def test_undeclared_fields_cut_in_two(spark: SparkSession) -> None:
    """The earliest time said a field's type, not the first offset; and so did records that are refused."""
    records, config = [text.encode() for text in UNDECLARED], config_of("json", "BACKWARD")
    whole, cut, single = (ingested(spark, config, None, records, way) for way in ([0], [0, 3, 5], range(7)))
    assert whole.rows == cut.rows == single.rows
    assert whole.refused == cut.refused == single.refused
    assert whole.types == cut.types == single.types
    assert sorted(whole.refused) == [1, 2, 3]
    assert whole.types["y"] == whole.types["w"] == "string"


def test_a_time_is_rescued_to_the_microsecond(spark: SparkSession) -> None:
    """What no column takes lost three digits of each time, at any depth."""
    micros, local = ({"type": "long", "logicalType": name} for name in ("timestamp-micros", "local-timestamp-micros"))
    one = record("Event", id="int")
    two = record(
        "Event", id="int", t=maybe(micros), inner=maybe(record("Inner", times={"type": "array", "items": local}))
    )
    value = {"id": 1, "t": 1_709_168_523_456_789, "inner": {"times": [1_709_168_523_000_001]}}
    records = [registered.Avro(one, 1)({"id": 0}), registered.Avro(two, 2)(value)]
    registry = Versions("AVRO", [json.dumps(one), json.dumps(two)])
    table = ingested(spark, config_of("avro", "FORWARD"), registry, records, [0])
    assert json.loads(table.rows[1]["_rescued"]) == {
        "t": "2024-02-29T01:02:03.456789Z",
        "inner": {"times": ["2024-02-29T01:02:03.000001"]},
    }


@pytest.mark.slow
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


def test_steps_of_a_column_that_a_version_widens_cut_in_two(spark: SparkSession) -> None:
    """A record of the narrow version was computed in the wide type where it shared a batch with the wide version."""
    one, two = record("Event", n=maybe("int")), record("Event", n=maybe("long"))
    narrow, wide = registered.Avro(one, 1), registered.Avro(two, 2)
    records = [narrow({"n": 100_000}), wide({"n": 1}), narrow({"n": 2}), wide({"n": 2**40})]
    registry = Versions("AVRO", [json.dumps(one), json.dumps(two)])
    barred, cured = (
        config_of("avro", "BACKWARD", transform=[{"derive": {"sq": f"CAST({n} * {n} AS BIGINT)", "t": f"'' || {n}"}}])
        for n in ("n", "CAST(n AS BIGINT)")
    )
    whole, cut = (ingested(spark, barred, registry, records[:3], way) for way in ([0], range(3)))
    same(whole, cut, "avro")
    assert whole.rows == {2: {"n": 2, "sq": 4, "t": "2", "_offset": 2, "_schema_id": 1}}
    assert {n: reason for n, (reason, _) in whole.refused.items()} == {0: "NOT_COMPUTED", 1: "DIFFERENT_TYPE"}
    assert whole.refused[1][1].endswith("write CAST(n AS BIGINT) in the step, then replay")
    batch(spark, cured, registry, whole, {3: records[3]})
    replayed(spark, cured, registry, whole, records)
    assert whole.refused == {3: ("NOT_COMPUTED", "transform[0].derive.sq cannot be computed of n")}
    assert {n: (row["n"], row["sq"]) for n, row in whole.rows.items()} == {0: (100_000, 10**10), 1: (1, 1), 2: (2, 4)}


def test_a_mask_hides_a_renamed_field_in_what_is_rescued(spark: SparkSession) -> None:
    """Fields are rescued under the names of their columns: under its own name no mask named it."""
    before = record("Event", place=record("Place", zip=maybe("string")))
    after = record("Event", spot=record("Place", code=maybe("string"), more=maybe("int")))
    after["fields"][0]["aliases"], inner = ["place"], after["fields"][0]["type"]
    inner["fields"][0]["aliases"] = ["zip"]
    one, two = registered.Avro(before, 1), registered.Avro(after, 2)
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
