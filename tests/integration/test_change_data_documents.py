"""Whole pipelines of the change events of MongoDB's connector, keyed by the records' own keys.

No MongoDB can be had here: the events are written by hand, as the documentation of Debezium 3.6 lists their fields.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pipelines import World
from support.records.documents import SECOND, document, record

from lakeingest.delta.receipt import Counts
from lakeingest.local import Addresses

FIRST, LONG = '{"$oid": "65f0a1b2c3d4e5f601234567"}', "1004"
_OID = {"$oid": "65f0a1b2c3d4e5f601234567"}
EVENTS = (
    (LONG, document("r", {"_id": {"$numberLong": "1004"}, "status": "old", "at": {"$date": 1000}}, 0)),
    (FIRST, document("c", {"_id": _OID, "status": "new", "at": {"$date": 2000}}, 5)),
    (FIRST, document("u", None, 6)),
    (FIRST, document("u", {"_id": _OID, "status": "paid", "at": {"$date": 3000}, "tags": ["a"]}, 7, 12)),
    # Of the same second, and sent again behind it: it is the earlier one.
    (FIRST, document("u", {"_id": _OID, "status": "packed", "at": {"$date": 2500}}, 7, 9)),
    (LONG, document("d", None, 8)),
    (LONG, None),
)
IN_JSON: dict[str, Any] = {
    "decode": {
        "value": {"format": "json"},
        "key": {"format": "json", "columns": "id STRING"},
        "envelope": {"format": "debezium", "connector": "mongodb"},
    },
    "schema": {"columns": "id STRING FROM '_id', status STRING, at TIMESTAMP"},
}
WITH_SCHEMAS: dict[str, Any] = {
    "decode": {
        "value": {"format": "connect_json"},
        "key": {"format": "connect_json"},
        "envelope": {"format": "debezium"},
    }
}


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> World:
    return World(stack, spark, named, schema=None, table={"mode": "upsert", "keys": "key"})


@pytest.mark.slow
@pytest.mark.parametrize("options", [IN_JSON, WITH_SCHEMAS], ids=["json", "schemas"])
def test_a_table_has_the_documents_of_a_collection(world: World, options: dict[str, Any]) -> None:
    """A delete has the key of its record alone; an update without the document goes to quarantine."""
    is_json = options is IN_JSON
    world.produce(*(record(id, payload, schemas=not is_json) for id, payload in EVENTS))
    assert world.run(**options) == Counts(7, 5, 1, 1)
    (row,) = world.rows()
    place = {"commit": SECOND + 7000, "event": 12, "row": 0}
    assert (row["_key"], row["_change"], row["_position"]) == ({"id": FIRST}, "update", place)
    if is_json:
        assert (row["id"], row["status"], row["at"].timestamp()) == (_OID["$oid"], "paid", 3)
        assert row["_rescued"] == '{"tags":["a"]}'
    else:
        assert json.loads(row["document"])["at"] == {"$date": 3000}
    (refused,) = world.refused
    assert "set capture.mode of the connector to change_streams_update_full" in refused["message"]
    report = world.ingestion(**options).audit("source")
    assert (report.conserved, report.keys_compared, report.altered) == (True, 2, ()), report
