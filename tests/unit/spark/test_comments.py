"""Which comments a table is to get, and where they come from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeingest.config import PipelineConfig, file
from lakeingest.ingest import shape
from lakeingest.schema import ddl
from lakeingest.schema.formats import avro
from lakeingest.schema.model import value_columns
from lakeingest.spark import types
from lakeingest.spark.types import struct

HAS = "a INT COMMENT 'old', B STRUCT<c: INT, l: ARRAY<STRUCT<e: INT>>, m: MAP<STRING, STRUCT<`v.w`: INT>>>"


@pytest.mark.parametrize(
    ("wanted", "new"),
    [
        ("a INT", {}),
        ("a INT COMMENT 'old'", {}),
        ("A INT COMMENT 'new', gone INT COMMENT 'x'", {"`a`": "new"}),
        ("a INT COMMENT ''", {"`a`": ""}),
        ("b STRUCT<C: INT COMMENT 'x'> COMMENT 'y'", {"`B`": "y", "`B`.`c`": "x"}),
        ("b STRUCT<l: ARRAY<STRUCT<e: INT COMMENT 'x'>>>", {"`B`.`l`.element.`e`": "x"}),
        ("b STRUCT<m: MAP<STRING, STRUCT<`v.w`: INT COMMENT 'x'>>>", {"`B`.`m`.value.`v.w`": "x"}),
    ],
)
def test_the_comments_that_differ(wanted: str, new: dict[str, str]) -> None:
    """As ALTER COLUMN takes their paths; a column without a comment asks for none."""
    assert types.new_comments(struct(HAS), struct(wanted)) == new


def config(**parts: Any) -> PipelineConfig:
    values = {"name": "p", "source": {"topics": ["t"]}, "table": {"path": "/t"}}
    return file.from_mapping({**values, **parts})


TREE = {
    "type": "record",
    "name": "r",
    "doc": "whole",
    "fields": [
        {"name": "n", "type": "int", "doc": "a number"},
        {"name": "s", "type": {"type": "record", "name": "q", "fields": [{"name": "t", "type": "int", "doc": "deep"}]}},
        {"name": "x", "type": "int", "doc": "y" * 3000},
        {"name": "z", "type": "int"},
    ],
}


def test_the_documentation_of_avro() -> None:
    """The doc of a field is its column's comment, cut where it is long; of nested fields too."""
    current = avro.read(json.dumps(TREE))
    found = shape.described(config(decode={"value": {"format": "avro"}}), current)
    comments = {path: text for path, text in types.comments(found) if text is not None}
    assert comments == {"`n`": "a number", "`s`.`t`": "deep", "`x`": "y" * 2000 + "…"}
    assert list(shape.described(config(decode={"value": {"format": "avro"}}), None)) == []


def test_the_comments_of_declared_columns() -> None:
    """Those of the file, whatever the ledger has of its columns."""
    found = shape.described(config(schema={"columns": "a INT COMMENT 'x', b INT"}), avro.read(json.dumps(TREE)))
    assert dict(types.comments(found)) == {"`a`": "x", "`b`": None}


def test_documentation_makes_no_other_schema() -> None:
    """Neither columns nor the text that a schema file is known by differ, and a default is left as it is."""
    bare = json.loads(json.dumps(TREE), object_hook=lambda tree: {k: v for k, v in tree.items() if k != "doc"})
    assert avro.without_docs(json.dumps(TREE)) == avro.without_docs(json.dumps(bare, indent=2)) == json.dumps(bare)
    assert value_columns(avro.read(json.dumps(TREE))) == value_columns(avro.read(json.dumps(bare)))
    with_default = {"type": "map", "values": "int", "default": {"doc": 1, "type": 2}}
    assert json.loads(avro.without_docs(json.dumps(with_default))) == with_default


def test_a_text_in_sql_is_no_setting() -> None:
    """Spark would put the environment in the place of ${env:…}, which anybody's schema may hold."""
    assert ddl.text("it's ${env:HOME} $x") == r"'it\'s \u0024{env:HOME} $x'"
