"""Declared columns: read from DDL, named as Spark prints them, and refused with a cure."""

from __future__ import annotations

import json

import pytest
from support.records.ddl_texts import TEXTS

from lakeingest.schema import ddl


@pytest.mark.parametrize("text", TEXTS)
def test_spark_reads_the_schema_json(text: str) -> None:
    """What to_json writes is, to the letter, what Spark writes again after reading it."""
    from pyspark.sql.types import StructType

    written = ddl.to_json(ddl.parse(text))
    schema = StructType.fromJson(json.loads(written))
    assert schema.json() == written
    assert schema.simpleString() == str(ddl.Struct(ddl.parse(text)))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("INTEGER", "int"),
        ("long", "bigint"),
        ("Short", "smallint"),
        ("BYTE", "tinyint"),
        ("REAL", "float"),
        ("NUMERIC(4,2)", "decimal(4,2)"),
        ("DEC", "decimal(10,0)"),
        ("TIMESTAMP_LTZ", "timestamp"),
        ("ARRAY<MAP<STRING,LONG>>", "array<map<string,bigint>>"),
    ],
)
def test_types_bear_the_names_that_spark_prints(text: str, name: str) -> None:
    """Synonyms end in one name."""
    (column,) = ddl.parse(f"a {text}")
    assert str(column.type) == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("flight INTT", "flight: 'INTT': not a type; did you mean INT?"),
        ("a STRUCT<b INTT>", "a.b: 'INTT': not a type"),
        ("a VARIANT", "a: 'VARIANT': not a type; allowed: STRING"),
        ("a INTERVAL DAY", "a: 'INTERVAL': not a type"),
        ("a CHAR(3)", "a: 'CHAR': not a type"),
        ("a INT DEFAULT 3", "a: 'DEFAULT': not understood here"),
        ("a STRING COLLATE UTF8_LCASE", "a: 'COLLATE': not understood here"),
        ("a", "a: the end: not a type"),
        ("a INT,", "the end: a column begins with its name"),
        ("a INT NOT", "a: the end: after NOT comes NULL"),
        ("a DECIMAL(40)", "a: DECIMAL(40,0) does not exist"),
        ("a DECIMAL(2,3)", "a: DECIMAL(2,3) does not exist"),
        ("a ARRAY<INT", "a: the end: the < of ARRAY is closed by >"),
        ("a STRUCT<>", "a: '<>': its parts are missing"),
        ("a MAP<INT>", "a: '>': a map has two types"),
        ("a INT, A STRING", "A: declared twice"),
        ("a INT FROM 'x', b INT FROM 'x'", "b: the field 'x' fills another column already"),
        ("a INT FROM 'b', b INT", "b: the field 'b' fills another column already"),
        ("a INT FROM x", "a: 'x': after FROM comes a text in quotes"),
        ("a INT COMMENT 'x' FROM 'y'", "only NOT NULL, FROM 'field' and COMMENT 'text' may follow, in this order"),
        ("s STRUCT<a INT, a INT>", "s.a: declared twice"),
        ("`a b` INT", "'a b' is no name for a Delta column"),
        ("a 'x", "a quote or a comment is opened and never closed"),
        ("", "declares no column"),
    ],
)
def test_a_mistake_names_column_text_and_cure(text: str, said: str) -> None:
    """Each way to get it wrong is answered with the column and the offending text."""
    with pytest.raises(ddl.DdlError) as caught:
        ddl.parse(text)
    assert said in str(caught.value)


def test_every_column_is_diagnosed() -> None:
    """Two typos make two problems."""
    with pytest.raises(ddl.DdlError) as caught:
        ddl.parse("a INTT, b STRING, c FOO")
    assert [problem[0] for problem in caught.value.problems] == ["a", "c"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a", "int"),
        ("s.b", "string"),
        ("m.any", "double"),
        ("n.k.x", "date"),
        ("s.z", None),
        ("z", None),
        ("a.b", None),
    ],
)
def test_find_walks_structs_and_maps(path: str, kind: str | None) -> None:
    """A dotted path leads to the field's type, or to nothing."""
    columns = ddl.parse("a INT, s STRUCT<b: STRING>, m MAP<STRING, DOUBLE>, n MAP<STRING, STRUCT<x: DATE>>")
    found = ddl.find(columns, path)
    assert (str(found.type) if found else None) == kind


def test_a_column_names_its_field() -> None:
    """Also within structs; it makes no other column."""
    columns = ddl.parse(
        "at TIMESTAMP NOT NULL FROM 'Date Time' COMMENT 'when', s ARRAY<STRUCT<b: INT FROM 'b b', c: INT>>"
    )
    assert [column.field_name for column in columns] == ["Date Time", "s"]
    assert list(ddl.sources(columns)) == ["at", "s.b"]
    assert columns == ddl.parse("at TIMESTAMP NOT NULL, s ARRAY<STRUCT<b: INT, c: INT>>")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a INT, b STRING", "a INT, b STRING"),
        ("a INT COMMENT 'x', b STRING", "a INT, b STRING"),
        ("a INT  NOT NULL COMMENT 'x' 'y'", "a INT  NOT NULL"),
        (
            "s STRUCT<b: INT COMMENT \"it's\", comment: DATE COMMENT 'COMMENT'>, c INT",
            "s STRUCT<b: INT, comment: DATE>, c INT",
        ),
        ("comment STRING, `a'COMMENT'x` INT", "comment STRING, `a'COMMENT'x` INT"),
        ("a INT FROM 'x y', b STRING", "a INT FROM 'x y', b STRING"),
        (
            "a INT NOT NULL FROM 'x' 'y' COMMENT 'z' 'z', s STRUCT<b: INT FROM 'c'>",
            "a INT NOT NULL FROM 'x' 'y', s STRUCT<b: INT FROM 'c'>",
        ),
    ],
)
def test_a_comment_makes_no_other_column(text: str, plain: str) -> None:
    """Columns are the same with and without comments, and the text without them is what it was before."""
    assert ddl.without_comments(text) == plain
    assert ddl.parse(text) == ddl.parse(plain)
