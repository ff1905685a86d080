"""Contracts as documents of the Open Data Contract Standard, held against the standard's own JSON schema; and back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command import Command
from deltalake import write_deltalake
from open_data_contract_standard.model import OpenDataContractStandard
from ruamel.yaml import YAML

from lakeingest.config import PipelineConfig, odcs
from lakeingest.config.file import from_mapping
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


def valid(made: Mapping[str, Any]) -> Mapping[str, Any]:
    """By the standard's schema, and by the model that its Python package has."""
    assert [f"{each.json_path}: {each.message}" for each in SCHEMA.iter_errors(made)] == []
    OpenDataContractStandard.model_validate(made)
    return made


def same(one: PipelineConfig, other: PipelineConfig) -> bool:
    """Whatever way the columns are written."""
    aside = {"storage": True, "schema_": {"columns"}}
    assert one.model_dump(exclude=aside) == other.model_dump(exclude=aside)
    return ddl.to_json(one.columns) == ddl.to_json(other.columns)


def test_a_contract_comes_back_as_it_was() -> None:
    """All that a pipeline file says of the table, through a document that is valid; nothing is filled in on the way."""
    config = from_mapping(WHOLE, {"HOME": "/root"})
    made = odcs.read(valid(odcs.document(config, None, [])))
    assert same(from_mapping(made.values, {"HOME": "/root"}), config)
    assert made.left_out == {}


@pytest.mark.parametrize(
    "change",
    [
        {"table": {"path": "/data/flights"}},
        {"table": {"name": "lake.flights"}},
        {"table": {"name": "main.lake.flights"}},
        {"contract": {"freshness": "1 hour"}},
        {"contract": {"completeness": {"late": "0 seconds"}}, "partition": [{"by": "time"}]},
        {"partition": [], "contract": {"owners": ["x"]}},
        {"decode": {"value": {"format": "string"}}, "schema": {}, "partition": [{"by": "time", "every": "month"}]},
    ],
)
def test_other_pipelines_come_back_too(change: dict[str, Any]) -> None:
    """By path and by name, with little or nothing promised."""
    storage = WHOLE["storage"] if "table" not in change else {}
    contract = {**WHOLE["contract"], "compatibility": None} if "decode" in change else WHOLE["contract"]
    config = from_mapping({**WHOLE, "storage": storage, "contract": contract, **change})
    made = odcs.read(valid(odcs.document(config, None, [])))
    assert same(from_mapping(made.values), config)
    assert {name for name in made.left_out if not name.startswith("servers")} == set()


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
    """Of a column, or of the table; and they come back."""
    config = from_mapping(WHOLE)
    kwargs = {"column": "carrier", "value_set": ["AA", None]}
    checks = [
        odcs.Check(
            "expect_column_values_to_be_in_set(carrier)", "expect_column_values_to_be_in_set", kwargs, ["carrier"], True
        ),
        odcs.Check(
            "expect_table_row_count_to_be_between()",
            "expect_table_row_count_to_be_between",
            {"min_value": 1},
            [],
            False,
        ),
    ]
    made = valid(odcs.document(config, None, checks))
    (of_table,) = made["schema"][0]["quality"]
    assert (of_table["severity"], of_table["engine"]) == ("warning", "great-expectations")
    back = odcs.read(made)
    assert {each["type"]: each["kwargs"] for each in back.expectations} == {
        check.type: check.kwargs for check in checks
    }
    assert back.left_out == {}


OTHERS = """
kind: DataContract
apiVersion: v3.0.2
id: 53581432-6c55-4ba2-a65f-72344a91553b
name: My Orders!
version: 1.1.0
status: draft
domain: seller
dataProduct: orders
description: {purpose: All orders, usage: "Ask ${AWS_SECRET_ACCESS_KEY}", limitations: None known}
tags: [sales]
servers:
  - {server: pg, type: postgres, host: localhost, port: 5432, database: shop, schema: public}
  - {server: lake, type: s3, location: "s3://bucket/orders", format: delta, environment: prod}
schema:
  - name: orders
    physicalName: orders_1
    properties:
      - {name: id, logicalType: string, physicalType: UUID, primaryKey: true, required: true, unique: true}
      - {name: total, logicalType: number, physicalType: "NUMERIC(10, 2)", description: "in ${HOME} €"}
      - {name: at, logicalType: timestamp, partitioned: true, partitionKeyPosition: 2, classification: public}
      - {name: country, logicalType: string, partitioned: true, partitionKeyPosition: 1}
      - {name: lines, logicalType: array, items: {logicalType: object, properties: [{name: sku, logicalType: string}]}}
      - {name: hour, logicalType: time}
      - {name: "_topic", logicalType: string}
    quality:
      - {type: library, metric: rowCount, mustBeGreaterThan: 10}
  - {name: customers}
team:
  - {username: ceastwood, role: Data Scientist}
  - {username: mhopper, role: owner, dateIn: "2022-10-01"}
  - {username: left, role: owner, dateOut: "2022-10-01"}
roles: [{role: reader, access: read}]
price: {priceAmount: 9.95, priceCurrency: USD}
slaProperties:
  - {property: latency, value: 4, unit: d, element: orders.at}
  - {property: retention, value: 1, unit: y}
  - {property: availability, value: 99.9, unit: "%"}
  - {property: frequency, value: -1, unit: d}
customProperties:
  - {property: refRulesetName, value: gcsc.ruleset.name}
"""


LEFT_OUT = {
    "id": "53581432-6c55-4ba2-a65f-72344a91553b",
    "version": "1.1.0",
    "status": "draft",
    "domain": "seller",
    "dataProduct": "orders",
    "description.usage": "Ask ${AWS_SECRET_ACCESS_KEY}",
    "description.limitations": "None known",
    "tags[0]": "sales",
    "servers[0] (pg)": "type: postgres, host: localhost, port: 5432, database: shop, schema: public",
    "servers[1] (lake)": "environment: prod",
    "schema[0]": "physicalName: orders_1",
    "schema[0].properties[0] (id)": "physicalType: UUID, primaryKey: True, unique: True",
    "schema[0].properties[2] (at)": "classification: public",
    "schema[0].properties[5] (hour).type": "no type of a column: time",
    "schema[0].quality[0]": "type: library, metric: rowCount, mustBeGreaterThan: 10",
    "schema[1] (customers)": "",
    "team[0] (Data Scientist)": "username: ceastwood",
    "team[1]": "dateIn: 2022-10-01",
    "team[2] (owner)": "username: left, dateOut: 2022-10-01",
    "roles[0] (reader)": "access: read",
    "price.priceAmount": "9.95",
    "price.priceCurrency": "USD",
    "slaProperties[0] (latency)": "element: orders.at",
    "slaProperties[2] (availability)": "value: 99.9, unit: %",
    "slaProperties[3] (frequency)": "value: -1, unit: d",
    "customProperties[0] (refRulesetName)": "value: gcsc.ruleset.name",
}


def test_what_has_no_counterpart_is_named_in_somebody_elses_document() -> None:
    """Each part by its place; what has one is taken."""
    data = YAML(typ="safe").load(OTHERS)
    valid(data)
    made = odcs.read(data)
    assert made.values["name"] == "My_Orders"
    assert made.values["table"] == {"path": "s3a://bucket/orders"}
    assert made.values["partition"] == [
        {"by": "field", "field": "country"},
        {"by": "time", "field": "at", "every": "day"},
    ]
    assert made.values["schema"]["columns"] == (
        "id STRING NOT NULL, total NUMERIC(10, 2) COMMENT 'in \\u0024{HOME} €', at TIMESTAMP, country STRING, "
        "lines ARRAY<STRUCT<sku: STRING>>"
    )
    assert made.values["contract"] == {
        "description": "All orders",
        "owners": ["mhopper"],
        "freshness": "4 days",
        "retention": "365 days",
    }
    assert made.left_out == LEFT_OUT
    assert made.notes["source",]


MARKED = """
kind: DataContract
apiVersion: v3.0.2
version: m-version
id: m-id
name: orders
status: m-status
domain: m-domain
authoritativeDefinitions: [{type: m-type, url: m-url}]
description: {purpose: m-purpose, usage: m-usage, customProperties: [{property: m-said, value: m-value}]}
servers:
  - {server: m-server, type: s3, location: "s3://b/m-place", format: delta, description: m-described}
  - {server: m-kafka, type: kafka, host: m-host, format: json}
schema:
  - name: m-object
    physicalName: m-physical
    physicalType: m-view
    description: m-of-object
    properties:
      - name: a
        logicalType: integer
        physicalType: INT
        physicalName: m-a
        description: m-of-a
        required: m-maybe
        classification: m-class
        examples: [m-example]
        quality:
          - {type: library, rule: m-rule}
          - type: custom
            engine: greatExpectations
            description: m-of-check
            severity: m-severity
            implementation: {type: expect_x, kwargs: {column: m-column}, meta: {x: m-meta}}
      - name: s
        physicalType: "STRUCT<x: INT>"
        logicalType: object
        properties: [{name: x, logicalType: integer, description: m-nested, classification: m-of-nested}]
      - name: l
        logicalType: array
        items:
          logicalType: object
          properties: [{name: y, logicalType: string, description: m-item, quality: [{type: text, rule: m-of-item}]}]
      - {name: o, logicalType: object, properties: [{name: z, logicalType: string, businessName: m-business}, m-none]}
      - {name: w, logicalType: m-unknown}
      - {name: _topic, logicalType: string, description: m-topic}
      - m-text
    quality: [{type: sql, query: m-query}]
  - {name: m-second, properties: [{name: m-of-second}]}
team:
  name: m-team
  members:
    - {username: "u@x.y", name: m-ada, role: owner, dateIn: m-since}
    - {username: m-bob, role: m-role}
roles: [{role: m-group, access: m-access}]
support: [{channel: m-channel, url: m-help}]
slaDefaultElement: m-default
slaProperties:
  - {property: latency, value: 4, unit: d, element: m-element, driver: m-driver}
  - {property: m-agreed, value: m-much}
  - {property: retention, value: 3, unit: m-unit}
customProperties:
  - {property: topics, value: [m-of-kafka]}
  - {property: compatibility, value: FULL, description: m-why}
"""


def test_nothing_of_a_document_vanishes() -> None:
    """What the file does not have is named: ids, versions, nested descriptions and elements of agreements were not."""
    made = odcs.read(YAML(typ="safe").load(MARKED))
    said = json.dumps([made.values, [*made.expectations], [*made.left_out.items()]], default=str)
    marks = set(re.findall(r"\bm-[a-z-]+", MARKED))
    assert [mark for mark in sorted(marks) if not re.search(rf"{mark}(?![a-z-])", said)] == []
    assert "COMMENT 'm-item'" in made.values["schema"]["columns"]


def test_a_check_that_only_warns_does_so_still() -> None:
    """It came back as one that refuses records."""
    config = from_mapping(WHOLE)
    checks = [
        odcs.Check(f"c{strict}", "expect_x", {"column": "carrier"}, ["carrier"], strict) for strict in (True, False)
    ]
    back = odcs.read(odcs.document(config, None, checks))
    assert [each.get("severity") for each in back.expectations] == [None, "warning"]
    assert back.left_out == {}


@pytest.mark.parametrize(
    "data",
    [None, [], "x", {}, {"kind": "DataContract"}, {"kind": "DataContract", "apiVersion": "v2.2.2"}, {"kind": 3}],
)
def test_what_is_no_document_is_refused(data: Any) -> None:
    """Of version 2 too: its parts have other names."""
    with pytest.raises(odcs.NoDocument):
        odcs.read(data)


@pytest.mark.parametrize(
    "part",
    [
        {"schema": 3},
        {"schema": [None]},
        {"schema": [{"properties": [None, {"name": None}, {"name": "a", "logicalType": []}]}]},
        {"schema": [{"name": "t", "properties": [{"name": "a`b; DROP", "logicalType": "string"}]}]},
        {"servers": {"type": "s3"}},
        {"servers": [{"type": "s3", "location": 3}]},
        {"team": "me"},
        {"team": {"members": [3, {"username": None}]}},
        {
            "slaProperties": [
                {"property": "latency", "value": True, "unit": "d"},
                {"property": "latency", "value": 10**30, "unit": "d"},
            ]
        },
        {
            "customProperties": [
                {"property": "partition", "value": [{"by": "nothing"}]},
                {"property": "topics", "value": 3},
            ]
        },
        {"description": "text", "name": {"a": 1}, "id": "\x1b[2J"},
    ],
)
def test_a_hostile_document_breaks_nothing(part: dict[str, Any]) -> None:
    """It is left out, or refused as any pipeline file."""
    made = odcs.read({"kind": "DataContract", "apiVersion": "v3.1.0", "id": "x", **part})
    assert json.dumps(made.left_out)
    assert made.values["name"]


# The command ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline file with a gate, over a local table."""
    rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "carrier"}}
    (tmp_path / "suite.json").write_text(json.dumps({"name": "s", "expectations": [rule]}))
    values = {**WHOLE, "table": {"path": str(tmp_path / "flights")}, "gate": {"suite": "suite.json"}, "storage": {}}
    (tmp_path / "p.yaml").write_text(json.dumps({**values, "source": {"topics": ["f"], "bootstrap_servers": "x:1"}}))
    return tmp_path / "p.yaml"


def test_the_command_writes_both_ways(file: Path, tmp_path: Path, lakeingest: Command) -> None:
    """With the suite beside the file; what is there is not overwritten unasked."""
    document, back = tmp_path / "c.odcs.yaml", tmp_path / "back" / "p.yaml"
    back.parent.mkdir()
    assert lakeingest("contract", file, "--to", document).code == 0
    made = valid(YAML(typ="safe").load(document.read_text()))
    assert json.loads(lakeingest("contract", file, "--output", "json").out) == made
    assert YAML(typ="safe").load(lakeingest("contract", file).out) == made
    done = lakeingest("contract", "--from", document, "--to", back)
    assert (done.code, done.out) == (0, f"{back} is written.\n{back.with_name('p.suite.json')} is written.\n")
    assert lakeingest("check", back).code == 0
    assert json.loads(back.with_name("p.suite.json").read_text())["expectations"][0]["kwargs"] == {"column": "carrier"}
    again = lakeingest("contract", "--from", document, "--to", back)
    assert (again.code, "exists" in again.err) == (2, True)
    assert lakeingest("contract", "--from", document, "--to", back, "--force").code == 0


def test_the_columns_are_those_of_the_table_where_there_is_one(file: Path, tmp_path: Path, lakeingest: Command) -> None:
    """It may have followed another schema than the file's."""
    import pyarrow as pa

    write_deltalake(str(tmp_path / "flights"), pa.table({"only": pa.array([1], pa.int64())}))
    made = valid(json.loads(lakeingest("contract", file, "--output", "json").out))
    assert [each["name"] for each in made["schema"][0]["properties"]] == ["only"]


def test_bad_words_are_refused(file: Path, tmp_path: Path, lakeingest: Command) -> None:
    """Neither, both, a document that is none, one that is not there; a file that is still to be mended ends with 1."""
    (tmp_path / "x.yaml").write_text("a: [")
    for words in ([], [file, "--from", file], ["--from", file], ["--from", tmp_path / "x.yaml"], ["--from", tmp_path]):
        done = lakeingest("contract", *words)
        assert (done.code, "cure:" in done.err) == (2, True), words
    (tmp_path / "o.yaml").write_text(
        OTHERS.replace("name: country, logicalType: string", "name: country, logicalType: number")
    )
    done = lakeingest("contract", "--from", tmp_path / "o.yaml", "--output", "json")
    told = json.loads(done.out)
    assert done.code == 1
    assert any("country" in problem for problem in told["problems"])
    assert told["left_out"]["price.priceAmount"] == "9.95"
    # What is printed is a file, and names what it lacks.
    printed = lakeingest("contract", "--from", tmp_path / "o.yaml").out
    assert YAML(typ="safe").load(printed)["name"] == "My_Orders"
    assert "# Without a counterpart: price.priceAmount: 9.95" in printed
