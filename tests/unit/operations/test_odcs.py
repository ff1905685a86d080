"""Contracts as documents of the Open Data Contract Standard, checked by the standard's own JSON schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from deltalake import write_deltalake
from open_data_contract_standard.model import OpenDataContractStandard
from ruamel.yaml import YAML
from support.pipelines.command_line import Command

from lakeingest.config.file import from_mapping
from lakeingest.gate.suite import Rule
from lakeingest.operations import odcs
from lakeingest.schema import ddl

SCHEMA = jsonschema.Draft201909Validator(
    json.loads(files("open_data_contract_standard").joinpath("schema.json").read_text())
)
KINDS = "n TINYINT, s SMALLINT, b BIGINT, f FLOAT, d DOUBLE, c DECIMAL(9,2), x BINARY, e BOOLEAN, born DATE"
NESTED = "m MAP<STRING, INT>, t STRUCT<a: INT, l: ARRAY<STRUCT<x: DATE>>>, z TIMESTAMP_NTZ"
WHOLE: dict[str, Any] = {
    "name": "flights",
    "source": {"topics": ["flights", "more"]},
    "schema": {
        "columns": f"flight INT NOT NULL COMMENT 'it\\'s, a number', carrier STRING, at TIMESTAMP, {KINDS}, {NESTED}"
    },
    "partition": [
        {"by": "time", "field": "at", "every": "15 minutes", "format": "'date'=yyyy-MM-dd/'clock'=HH-mm"},
        {"by": "field", "field": "carrier"},
        {"by": "field", "field": "t.a", "name": "ta"},
        {"by": "kafka_partition"},
    ],
    "table": {"path": "s3a://lake/flights"},
    "readers": ["duckdb", "trino"],
    "contract": {
        "owners": ["Flights <data@example.com>", "team-x", "ada@example.com"],
        "description": "Departures: from $${HOME}, or New York",
        "freshness": "5 minutes",
        "completeness": {"late": "90 seconds", "table": "s3a://lake/complete"},
        "retention": "2 weeks",
        "compatibility": "FORWARD",
        "may_replay": ["ada"],
        "may_accept": [],
    },
    "trigger": {"every": "500 ms"},
    "storage": {"endpoint": "http://localhost:9000", "path_style": True},
}
COLUMN_TYPES = {
    "flight": ("integer", "INT"),
    "carrier": ("string", "STRING"),
    "at": ("timestamp", "TIMESTAMP"),
    "n": ("integer", "TINYINT"),
    "s": ("integer", "SMALLINT"),
    "b": ("integer", "BIGINT"),
    "f": ("number", "FLOAT"),
    "d": ("number", "DOUBLE"),
    "c": ("number", "DECIMAL(9,2)"),
    "x": ("string", "BINARY"),
    "e": ("boolean", "BOOLEAN"),
    "born": ("date", "DATE"),
    "m": ("object", "MAP<STRING, INT>"),
    "t": ("object", "STRUCT<a: INT, l: ARRAY<STRUCT<x: DATE>>>"),
    "z": ("timestamp", "TIMESTAMP_NTZ"),
    "_topic": ("string", "STRING"),
    "_partition": ("integer", "INT"),
    "_offset": ("integer", "BIGINT"),
    "_timestamp": ("timestamp", "TIMESTAMP"),
    "date": ("string", "STRING"),
    "clock": ("string", "STRING"),
    "ta": ("integer", "INT"),
    "kafka_partition": ("integer", "INT"),
}


def valid(made: Mapping[str, Any]) -> Mapping[str, Any]:
    """By the standard's schema, and by the model that its Python package has."""
    assert [f"{each.json_path}: {each.message}" for each in SCHEMA.iter_errors(made)] == []
    OpenDataContractStandard.model_validate(made)
    return made


def test_a_document_says_all_that_the_file_says_of_the_table() -> None:
    """Texts of the file stay as they are; keys and partitions are marked; the rest is a custom property."""
    made = valid(odcs.document(from_mapping(WHOLE, {"HOME": "/root"}), None, []))
    (table,) = made.pop("schema")
    columns = {each["name"]: each for each in table.pop("properties")}
    assert [*columns] == [
        *("flight", "carrier", "at", "n", "s", "b", "f", "d", "c", "x", "e", "born", "m", "t", "z"),
        *("_topic", "_partition", "_offset", "_timestamp", "date", "clock", "ta", "kafka_partition"),
    ]
    assert {name: (each["logicalType"], each["physicalType"]) for name, each in columns.items()} == COLUMN_TYPES
    assert columns["flight"]["description"] == "it's, a number"
    assert [name for name, each in columns.items() if each.get("required")] == [
        *("flight", "_topic", "_partition", "_offset")
    ]
    assert [name for name, each in columns.items() if each.get("primaryKey")] == ["_topic", "_partition", "_offset"]
    places = {name: each["partitionKeyPosition"] for name, each in columns.items() if each.get("partitioned")}
    assert places == {"date": 1, "clock": 2, "carrier": 3, "ta": 4, "kafka_partition": 5}
    assert [each["name"] for each in columns["t"]["properties"]] == ["a", "l"]
    (inner,) = columns["t"]["properties"][1]["items"]["properties"]
    assert inner == {"name": "x", "logicalType": "date", "physicalType": "DATE"}
    assert table == {
        "name": "flights",
        "physicalName": "s3a://lake/flights",
        "physicalType": "table",
        "logicalType": "object",
        "description": "Departures: from ${HOME}, or New York",
    }
    sla = {each["property"]: (each["value"], each["unit"], each["element"]) for each in made.pop("slaProperties")}
    assert sla == {
        "frequency": (500, "ms", "flights"),
        "latency": (5, "m", "flights._timestamp"),
        "retention": (14, "d", "flights"),
        "completeness": (90, "s", "flights.date, flights.clock"),
    }
    assert {each["property"]: each["value"] for each in made.pop("customProperties")} == {
        "topics": ["flights", "more"],
        "valueFormat": "json",
        "partition": WHOLE["partition"],
        "readers": ["duckdb", "trino"],
        "compatibility": "FORWARD",
        "mayReplay": ["ada"],
        "mayAccept": [],
        "completenessTable": "s3a://lake/complete",
    }
    assert made == {
        "kind": "DataContract",
        "apiVersion": "v3.1.0",
        "id": "flights",
        "name": "flights",
        "version": "1.0.0",
        "status": "active",
        "description": {"purpose": "Departures: from ${HOME}, or New York"},
        "servers": [
            {
                "server": "table",
                "format": "delta",
                "type": "s3",
                "location": "s3://lake/flights",
                "endpointUrl": "http://localhost:9000",
            }
        ],
        "team": {
            "members": [
                {"username": "data@example.com", "name": "Flights", "role": "owner"},
                {"username": "team-x", "role": "owner"},
                {"username": "ada@example.com", "role": "owner"},
            ]
        },
    }


@pytest.mark.parametrize(
    ("change", "server", "promises"),
    [
        ({"table": {"path": "/data/flights"}}, {"type": "local", "path": "/data/flights"}, 4),
        ({"table": {"name": "lake.flights"}}, {"type": "custom", "schema": "lake"}, 4),
        ({"table": {"name": "main.lake.flights"}}, {"type": "custom", "catalog": "main", "schema": "lake"}, 4),
        ({"contract": {"freshness": "1 hour"}}, None, 2),
        ({"contract": {"completeness": {"late": "0 seconds"}}, "partition": [{"by": "time"}]}, None, 2),
        ({"partition": [], "contract": {"owners": ["x"]}}, None, 1),
        ({"decode": {"value": {"format": "string"}}, "schema": {}, "partition": [{"by": "time"}]}, None, 4),
    ],
)
def test_other_pipelines_have_valid_documents_too(
    change: dict[str, Any], server: dict[str, str] | None, promises: int
) -> None:
    """By path and by name, with little or nothing promised."""
    storage = WHOLE["storage"] if "table" not in change else {}
    contract = {**WHOLE["contract"], "compatibility": None} if "decode" in change else WHOLE["contract"]
    made = valid(odcs.document(from_mapping({**WHOLE, "storage": storage, "contract": contract, **change}), None, []))
    if server:
        assert made["servers"] == [{"server": "table", "format": "delta", **server}]
    assert len(made["slaProperties"]) == promises


def test_the_tables_own_columns_go_before_the_declared_ones() -> None:
    """A table has followed schemas: its keys, partitions and comments are told."""
    config = from_mapping(WHOLE)
    columns = json.loads(ddl.to_json(ddl.parse("flight BIGINT COMMENT 'wider', _topic STRING, date STRING, v BINARY")))
    made = valid(odcs.document(config, columns["fields"], []))
    flight, topic, day, _ = made["schema"][0]["properties"]
    assert (flight["physicalType"], flight["description"]) == ("BIGINT", "wider")
    assert (topic["primaryKey"], topic["primaryKeyPosition"]) == (True, 1)
    assert (day["partitioned"], day["partitionKeyPosition"]) == (True, 1)


def test_the_gates_expectations_are_quality_checks() -> None:
    """Of a column, or of the table; one that only warns has another severity."""
    config = from_mapping(WHOLE)
    of_column, of_table = "expect_column_values_to_be_in_set", "expect_table_row_count_to_be_between"
    kwargs = {"column": "carrier", "value_set": ["AA", None]}
    checks = [
        Rule("in_set", of_column, kwargs, {}, compiled=True, action="quarantine"),
        Rule("count", of_table, {"min_value": 1}, {}, compiled=False, action="warn"),
    ]
    (table,) = valid(odcs.document(config, None, checks))["schema"]
    (carrier,) = [each for each in table["properties"] if "quality" in each]
    common = {"type": "custom", "engine": "great-expectations"}
    assert (carrier["name"], carrier["quality"]) == (
        "carrier",
        [
            {
                **common,
                "name": "in_set",
                "implementation": {"type": of_column, "kwargs": kwargs},
                "severity": "error",
            }
        ],
    )
    assert table["quality"] == [
        {
            **common,
            "name": "count",
            "implementation": {"type": of_table, "kwargs": {"min_value": 1}},
            "severity": "warning",
        }
    ]


# The command ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline file with a gate, over a local table."""
    rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "carrier"}}
    (tmp_path / "suite.json").write_text(json.dumps({"name": "s", "expectations": [rule]}))
    values = {**WHOLE, "table": {"path": str(tmp_path / "flights")}, "gate": {"suite": "suite.json"}, "storage": {}}
    (tmp_path / "p.yaml").write_text(json.dumps({**values, "source": {"topics": ["f"], "bootstrap_servers": "x:1"}}))
    return tmp_path / "p.yaml"


def test_the_command_prints_or_writes_the_document(file: Path, tmp_path: Path, lakeingest: Command) -> None:
    """A file that exists is not overwritten without --force."""
    document = tmp_path / "c.odcs.yaml"
    done = lakeingest("contract", file, "--to", document)
    assert (done.code, done.out.startswith(f"{document} is written")) == (0, True)
    made = valid(YAML(typ="safe").load(document.read_text()))
    assert made["schema"][0]["properties"][1]["quality"][0]["implementation"]["kwargs"] == {"column": "carrier"}
    assert json.loads(lakeingest("contract", file, "--output", "json").out) == made
    assert YAML(typ="safe").load(lakeingest("contract", file).out) == made
    again = lakeingest("contract", file, "--to", document)
    assert (again.code, "exists" in again.err) == (2, True)
    assert lakeingest("contract", file, "--to", document, "--force").code == 0
    nowhere = lakeingest("contract", file, "--to", tmp_path / "no" / "c.yaml")
    assert (nowhere.code, "cannot be written" in nowhere.err) == (2, True)


def test_the_columns_are_those_of_the_table_where_there_is_one(file: Path, tmp_path: Path, lakeingest: Command) -> None:
    """It may have followed another schema than the file's."""
    import pyarrow as pa

    write_deltalake(str(tmp_path / "flights"), pa.table({"only": pa.array([1], pa.int64())}))
    made = valid(json.loads(lakeingest("contract", file, "--output", "json").out))
    assert [each["name"] for each in made["schema"][0]["properties"]] == ["only"]
