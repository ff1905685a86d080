"""The tables of the matrix: written by lakeingest from Kafka, and some then changed by somebody with Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from support.pipelines import World
from support.pipelines.schema_world import SchemaWorld
from support.records import DIRTY, Record, clean_records

from lakeingest.record import OFFSET, PARTITION, TOPIC

COORDINATES = [TOPIC, PARTITION, OFFSET]
TYPES = (
    "flag BOOLEAN, tiny TINYINT, small SMALLINT, n INT, big BIGINT, real FLOAT, number DOUBLE, price DECIMAL(9,2), "
    "huge DECIMAL(38,10), text STRING, raw BINARY, day DATE, at TIMESTAMP, clock TIMESTAMP_NTZ, "
    "nested STRUCT<n: INT, at: TIMESTAMP, deeper: STRUCT<text: STRING>>, list ARRAY<INT>, "
    "structs ARRAY<STRUCT<n: INT, day: DATE>>, tags MAP<STRING, DOUBLE>, lists MAP<STRING, ARRAY<BIGINT>>"
)
FULL = {
    "flag": True,
    "tiny": -128,
    "small": 32767,
    "n": -(2**31),
    "big": 2**63 - 1,
    "real": 1.1,
    "number": 0.1,
    "price": 1234567.89,
    "huge": "HUGE",
    "text": "naïve 東京 🛫 \u0000 end",
    "raw": "AP8Q",
    "day": "2026-11-25",
    "at": "2026-11-25T10:11:12.123456Z",
    "clock": "2026-11-25T10:11:12.123456",
    "nested": {"n": 1, "at": "2026-11-25T10:11:12.000001Z", "deeper": {"text": ""}},
    "list": [1, None, 3],
    "structs": [{"n": 1, "day": "1969-12-31"}, None, {"n": None, "day": None}],
    "tags": {"a": 0.5, "b": None},
    "lists": {"": [], "x": [2**53 + 1, None]},
}
OLD = {
    "text": "",
    "raw": "",
    "day": "1500-02-28",
    "at": "1500-02-28T00:00:00.000001Z",
    "clock": "1500-02-28T00:00:00.000001",
    "price": 0,
    "real": -0.0,
    "nested": {"n": None, "at": "1969-12-31T23:59:59.999999Z", "deeper": None},
    "list": [],
    "structs": [],
    "tags": {},
    "lists": {},
}
YOUNG = {"day": "1970-01-01", "at": "1970-01-01T00:00:00Z", "clock": "1969-12-31T23:59:59.999999", "big": -(2**63)}
LATE = {"day": "9999-12-31", "at": "9999-12-31T23:59:59Z", "clock": "9999-12-31T23:59:59.999999"}
FIELDS = {
    "f": "float",
    "d": "double",
    "b": "bytes",
    "fixed": {"type": "fixed", "name": "four", "size": 4},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "clock": {"type": "long", "logicalType": "local-timestamp-micros"},
    "kind": {"type": "enum", "name": "kind", "symbols": ["A", "B"]},
}
AVRO = {
    "type": "record",
    "name": "r",
    "fields": [{"name": n, "type": ["null", t], "default": None} for n, t in FIELDS.items()],
}
NARROW = (
    "n INT, number INT, real FLOAT, tiny TINYINT, small SMALLINT, day DATE, price DECIMAL(9,2), "
    "nested STRUCT<n: INT, text: STRING>"
)
WIDE = (
    "n BIGINT, number DOUBLE, real DOUBLE, tiny SMALLINT, small INT, day TIMESTAMP_NTZ, price DECIMAL(12,3), "
    "nested STRUCT<n: BIGINT, text: STRING>"
)


def narrow(number: int) -> dict[str, Any]:
    nested = {"n": number, "text": f"text {number}"}
    return {
        "n": number,
        "number": number,
        "real": 1.1,
        "tiny": number,
        "small": number,
        "day": f"2026-11-0{number}",
        "price": 12.34,
        "nested": nested,
    }


def wide(number: int) -> dict[str, Any]:
    large = {"n": 2**40, "number": 0.1, "real": 0.1, "tiny": 1000, "small": 70000, "day": "2026-11-25T10:11:12.123456"}
    return {**narrow(number), **large, "price": 123456789.123, "nested": {"n": 2**40, "text": "large"}}


def records(*values: dict[str, Any]) -> list[bytes]:
    return [json.dumps(value, ensure_ascii=False).encode() for value in values]


def all_types(world: World, _: Path) -> None:
    headers = (("trace", b"\x00\xff"), ("empty", b""))
    world.changes = {"schema": {"columns": TYPES}}
    full, *others = records(FULL, OLD, YOUNG, LATE, {})
    full = full.replace(b'"HUGE"', b"1234567890123456789012345678.0123456789")
    world.produce(Record(full, b"key", headers=headers), *others)
    assert world.run().refused == 0


def from_avro(world: World, _: Path) -> None:
    schemas = SchemaWorld(world.stack, world.spark, world.name)
    schemas.changes = world.changes = {"decode": {"value": {"format": "avro"}}}
    avro = schemas.avro(AVRO)
    long_ago = datetime(1500, 2, 28, tzinfo=UTC)
    schemas.produce(
        avro(f=float("nan"), d=float("nan"), b=b"\x00\xff", fixed=b"\x00\x01\xfe\xff", price=Decimal("12.345")),
        avro(f=float("inf"), d=float("-inf"), b=b"", price=Decimal("-12345678901234567.890"), kind="B"),
        avro(day=date(1500, 2, 28), at=long_ago, clock=long_ago.replace(tzinfo=None), f=-0.0, d=5e-324),
        avro(),
    )
    assert schemas.run().refused == 0


def _partitioned(world: World, every: str, carriers: list[str | None]) -> None:
    world.changes = {
        "schema": {"columns": "n INT, carrier STRING, at TIMESTAMP, flag BOOLEAN, gate BIGINT"},
        "partition": [
            {"by": "time", "field": "at", "every": every},
            {"by": "field", "field": "carrier"},
            {"by": "field", "field": "flag"},
            {"by": "field", "field": "gate"},
            {"by": "kafka_partition"},
        ],
    }
    times = ["2026-11-25T10:11:12.123Z", "1500-02-28T01:00:00Z", "1970-01-01T00:00:00Z"]
    values = [
        {"n": n, "carrier": c, "at": times[n % 3], "flag": (True, False, None)[n % 3], "gate": (-1, 2**40, None)[n % 3]}
        for n, c in enumerate(carriers)
    ]
    world.produce(*records(*values), partitions=2)
    assert world.run().refused == 0


def partitioned(world: World, _: Path) -> None:
    _partitioned(world, "day", ["AA", "a/b/../c=d%20:", "", None, "..", "'\"\\{[]#?&+*"])


def hourly(world: World, _: Path) -> None:
    _partitioned(world, "hour", ["AA", "UA", "DL"])


def blanks(world: World, _: Path) -> None:
    _partitioned(world, "day", ["a b", "é", "東京", "}"])


def evolved(world: World, _: Path) -> None:
    world.produce(*clean_records(3))
    world.run()
    world.changes = {
        "schema": {"columns": "n INT NOT NULL, text STRING, later STRUCT<a: INT, b: DATE>, more ARRAY<INT>"}
    }
    world.produce(*records({"n": 3, "later": {"a": 1, "b": "2026-11-25"}, "more": [1]}))
    world.run()
    columns = "n INT NOT NULL, text STRING, later STRUCT<a: INT, b: DATE, c: STRING>, more ARRAY<INT>"
    world.changes = {"schema": {"columns": columns}}
    world.produce(*records({"n": 4, "later": {"a": 1, "c": "within"}}))
    assert world.run().refused == 0


def _widened(world: World, how: str) -> None:
    world.changes = {"schema": {"columns": NARROW}}
    world.produce(*records(narrow(1), narrow(2)))
    world.run()
    world.changes = {"schema": {"columns": WIDE, "widening": how}}
    world.produce(*records(wide(3)))
    assert world.run().refused == 0


def widened(world: World, _: Path) -> None:
    _widened(world, "metadata")


def rewritten(world: World, _: Path) -> None:
    _widened(world, "rewrite")


def widened_then_rewritten(world: World, _: Path) -> None:
    world.changes = {"schema": {"columns": "n INT, m INT"}}
    world.produce(*records({"n": 1, "m": 1}))
    world.run()
    for columns, how in (("n BIGINT, m INT", "metadata"), ("n BIGINT, m BIGINT", "rewrite")):
        world.changes = {"schema": {"columns": columns, "widening": how}}
        world.produce(*records({"n": 2**40, "m": 2**40 if "m BIGINT" in columns else 2}))
        assert world.run().refused == 0


def feature_dropped(world: World, _: Path) -> None:
    _widened(world, "metadata")
    world.sql("ALTER TABLE {table} DROP FEATURE typeWidening")
    world.produce(*records(wide(4)))
    assert world.run(schema={"columns": WIDE, "widening": "refuse"}).refused == 0


def rescued(world: World, _: Path) -> None:
    world.produce(*records({"n": 1, "extra": {"a": [1, None, "x"]}, "other": 0.1}, {"n": 2}))
    assert world.run().refused == 0


def compacted(world: World, _: Path) -> None:
    for start in (0, 3, 6):
        world.produce(*clean_records(3, start), partitions=2)
        world.run()
    world.ingestion().maintain("compact").check()


def checkpointed(world: World, folder: Path) -> None:
    evolved(world, folder)
    world.sql("ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    world.produce(*clean_records(1, 9))
    world.run()


def deletion_vectors(world: World, _: Path) -> None:
    world.produce(*clean_records(9))
    world.run()
    world.sql("ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    world.sql("DELETE FROM {table} WHERE n = 4")


def variant(world: World, _: Path) -> None:
    world.produce(*clean_records(2))
    world.run()
    world.sql("ALTER TABLE {table} ADD COLUMNS (theirs VARIANT)")
    world.sql("""UPDATE {table} SET theirs = parse_json('{{"a": [1, "x"]}}') WHERE n = 1""")


def v2_checkpoint(world: World, _: Path) -> None:
    world.produce(*clean_records(2))
    world.run()
    policy = "('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '1')"
    world.sql(f"ALTER TABLE {{table}} SET TBLPROPERTIES {policy}")
    world.produce(*clean_records(2, 2))
    world.run()


def column_mapping(world: World, _: Path) -> None:
    world.produce(*clean_records(2))
    world.run()
    world.sql("ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    world.sql("ALTER TABLE {table} RENAME COLUMN text TO label")


def quarantine(world: World, folder: Path) -> None:
    """Quarantine and the gate's results are of one run."""
    suite = folder / "suite.json"
    small = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "max_value": 3}}
    mean = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "n", "max_value": 100}}
    suite.write_text(json.dumps({"name": "s", "expectations": [small, mean]}))
    world.changes = {"gate": {"suite": str(suite)}}
    world.produce(Record(DIRTY, b"k", headers=(("h", b"\xff"),)), *clean_records(6), b"{", b"\xff\xfe", None)
    assert world.run().refused == 6


TABLES: dict[str, tuple[Callable[[World, Path], None], str, list[str]]] = {
    "every type": (all_types, "", COORDINATES),
    "every type of Avro": (from_avro, "", COORDINATES),
    "partitions": (partitioned, "", COORDINATES),
    "partitions by hour": (hourly, "", COORDINATES),
    "partitions with blanks and accents": (blanks, "", COORDINATES),
    "columns added": (evolved, "", COORDINATES),
    "columns added and a checkpoint": (checkpointed, "", COORDINATES),
    "fields rescued": (rescued, "", COORDINATES),
    "compacted": (compacted, "", COORDINATES),
    "widened by metadata": (widened, "", COORDINATES),
    "widened by rewriting": (rewritten, "", COORDINATES),
    "widened by metadata and then rewritten": (widened_then_rewritten, "", COORDINATES),
    "widened by metadata and the feature dropped": (feature_dropped, "", COORDINATES),
    "quarantine": (quarantine, "_quarantine", COORDINATES),
    "results of the gate": (quarantine, "_expectations", ["sequence", "expectation"]),
    "theirs: deletion vectors": (deletion_vectors, "", COORDINATES),
    "theirs: a VARIANT column": (variant, "", COORDINATES),
    "theirs: v2 checkpoint": (v2_checkpoint, "", COORDINATES),
    "theirs: column mapping": (column_mapping, "", COORDINATES),
}
"""Table → what makes it, the end of its path, and the columns that tell its rows apart."""
