"""What a plan says of change events from which values are missing, as a real PostgreSQL and MariaDB sent them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.cdc.recording import load

from lakeingest.config import file
from lakeingest.ingest.evolution import Evolution
from lakeingest.operations import unlogged_values
from lakeingest.schema.ledger import SchemaLedger

_RECORDINGS = Path(__file__).parent.parent / "fixtures" / "debezium"
_KAFKA = (
    "_topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, _raw_key BINARY, _raw_value BINARY, "
    "_headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
_BARE = "without `before`, as by REPLICA IDENTITY DEFAULT: a delete has the values of its key"


def warnings_of(spark: SparkSession, topic: str, form: str, nothing: bool, **table: Any) -> list[str]:
    """Of the events of a recorded table.

    Args:
        form: json-schema or json.
        nothing: whether deletes have nothing of the row.
    """
    database, name = topic.split()
    every = load(_RECORDINGS / f"{database}.{form}.jsonl")
    records = [each for each in every if each["topic"].endswith(f".{name}") and each["value"] is not None]
    rows = []
    for each in records:
        tree = json.loads(each["value"])
        payload = tree.get("payload", tree)
        if nothing and payload["op"] == "d":
            payload["before"] = None
        key = each["key"] and bytearray(each["key"].encode())
        rows.append((name, 0, each["offset"], None, key, bytearray(json.dumps(tree).encode()), []))
    has_schemas = form == "json-schema"
    pipeline = file.from_mapping(
        {
            "name": "events",
            "source": {"topics": [name]},
            "decode": {
                "value": {"format": "connect_json" if has_schemas else "json"},
                "envelope": {"format": "debezium"},
            },
            "table": {"path": "/lake/events", **table},
            **({} if has_schemas else {"schema": {"columns": "id INT, note STRING, word STRING"}}),
        }
    )
    kafka = spark.createDataFrame(rows, _KAFKA)
    evolution = Evolution(pipeline, SchemaLedger(), lambda: pytest.fail("no registry is asked"))
    evolution.discover(kafka, 1, None)
    lacking = spark.createDataFrame([({"note": None},), (None,), ({"note": None},)], "_unavailable MAP<STRING, INT>")
    shape = evolution.shape(None, strict=False)
    return list(unlogged_values.warnings(pipeline, shape, kafka, lacking if name == "large" else kafka))


UPSERT: dict[str, Any] = {"mode": "upsert", "keys": ["id"]}
EXPECTED: list[tuple[str, bool, dict[str, Any], list[str]]] = [
    ("postgres orders", False, UPSERT, []),
    ("postgres orders", False, {"mode": "append"}, [f"7 updates {_BARE} (id); the others are null, or invented"]),
    ("postgres orders", False, {"mode": "upsert", "keys": ["note"]}, [f"7 updates {_BARE} (id), and table.keys asks"]),
    ("postgres orders", True, UPSERT, ["2 deletes without `before`, as by REPLICA IDENTITY NOTHING"]),
    ("postgres whole", False, {"mode": "append"}, []),
    (
        "postgres large",
        False,
        UPSERT,
        ["values that the database did not log: note (2); the column keeps what its row has"],
    ),
    ("postgres keyless", False, {"mode": "append"}, []),
    ("postgres keyless", False, {"mode": "upsert", "keys": ["word"]}, ["4 events of rows without a key"]),
    ("mariadb orders", False, {"mode": "append"}, []),
]


@pytest.mark.parametrize("form", ["json", "json-schema"])
def test_what_a_database_did_not_log(spark: SparkSession, form: str) -> None:
    for topic, nothing, table, expected in EXPECTED:
        said = warnings_of(spark, topic, form, nothing, **table)
        assert len(said) == len(expected), (topic, table, said)
        for text, beginning in zip(said, expected, strict=True):
            assert text.startswith(beginning)
