"""Which column a field gets whose own name cannot be one, or should not."""

from __future__ import annotations

import json

import pytest

from lakeingest.schema import field_names
from lakeingest.schema.compatibility import naming
from lakeingest.schema.field_names import Names
from lakeingest.schema.formats import json_schema
from lakeingest.schema.model import Schema, SchemaError, column_type, json_parts, struct
from lakeingest.schema.safe_names import safe

INT = Schema("int64")


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("plain", "plain"),
        ("snake_case_2", "snake_case_2"),
        ("Date Time", "Date_Time"),
        ("a.b", "a_b"),
        ("a;b=c", "a_b_c"),
        ("price (EUR)", "price_EUR"),
        ("1st", "_1st"),
        ("größe", "größe"),
        ("größe in cm", "größe_in_cm"),
        ("  ", "_"),
        ("", "_"),
        ("%", "_"),
        ("_private", "_private"),
        ("日付", "日付"),
        ("a\tb\nc", "a_b_c"),
    ],
)
def test_safe(name: str, column: str) -> None:
    """Readable, of letters, digits and underscores; a plain name stays as it is."""
    assert safe(name) == column


NESTED = struct({
    "Order Id": INT,
    "stops": Schema("array", value=struct({"Stop Name": Schema("string", doc="where"), "n": INT})),
    "by day": Schema("map", key=Schema("string"), value=struct({"the day": INT})),
})  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "columns"),
    [
        (
            "safe",
            "struct<Order_Id:bigint,stops:array<struct<Stop_Name:string,n:bigint>>,by_day:map<string,struct<the_day:bigint>>>",
        ),
        (
            {"Order Id": "id", "stops[].Stop Name": "name", "by day": "days", "by day{}.the day": "day"},
            "struct<id:bigint,stops:array<struct<name:string,n:bigint>>,days:map<string,struct<day:bigint>>>",
        ),
    ],
)
def test_columns(rule: Names, columns: str) -> None:
    """At every level; the field's own name stands in the comment."""
    schema = field_names.renamed(NESTED, rule)
    assert str(column_type(schema)) == columns
    stop = schema.fields[1].schema.value
    assert stop is not None
    assert stop.fields[0].schema.doc == 'where (field "Stop Name")'
    assert schema.fields[0].schema.doc == 'field "Order Id"'


def test_exact_refuses_with_the_cure() -> None:
    with pytest.raises(
        SchemaError, match=r"'Order Id' has a name that no Delta column can have; name it in schema.names"
    ):
        column_type(field_names.renamed(NESTED, "exact"))
    with pytest.raises(SchemaError, match=r"ID: a table has one column for upper and lower case.*schema.names"):
        column_type(struct({"id": INT, "ID": INT}))


@pytest.mark.parametrize(
    ("fields", "rule", "reason"),
    [
        (("a b", "a.b"), "safe", "the fields 'a b' and 'a.b' would both be the column a_b; name one of them, as in"),
        (("id", "ID"), "safe", "the fields 'id' and 'ID' would both be the column ID"),
        (("a b", "c"), {"a b": "C"}, "a b: the column C would have the name of another field"),
        (("a", "b"), {"a": "b", "b": "a"}, "a: the column b would have the name of another field, and a later change"),
        (("c", "a b"), {"a b": "C"}, "the fields 'c' and 'a b' would both be the column C"),
    ],
)
def test_a_collision_is_told(fields: tuple[str, ...], rule: Names, reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        field_names.renamed(struct(dict.fromkeys(fields, INT)), rule)
    assert reason in str(caught.value)


def test_another_mapping_keeps_the_column() -> None:
    """It is a rename: the name that came first stays the column's, whatever the file says later."""
    one = field_names.renamed(struct({"Order Id": INT, "id": INT}), {"Order Id": "order_id"})
    table = naming.columns_of(one)
    later = field_names.renamed(struct({"Order Id": INT, "id": INT}), "safe")
    assert [field.name for field in naming.with_column_names(later, table).fields] == ["order_id", "id"]


def test_two_fields_of_one_name_but_for_case() -> None:
    """One of them is named."""
    schema = field_names.renamed(struct({"id": INT, "ID": INT}), {"ID": "id_upper"})
    assert str(column_type(schema)) == "struct<id:bigint,id_upper:bigint>"
    table = naming.columns_of(schema)
    assert [field.name for field in naming.with_column_names(schema, table).fields] == ["id", "id_upper"]


STORED = {
    "type": "struct",
    "fields": [
        [
            "Date_Time",
            {
                "type": "string",
                "name": "json",
                "optional": True,
                "doc": 'field "Date Time"',
                "parameters": {"reason.doc": "is integer or string"},
            },
            ["Date Time"],
        ]
    ],
}
"""A schema as ledgers in tables have it: a column with JSON text, under another name than its field."""


def test_a_stored_ledger_is_read() -> None:
    """Tables keep this form, whatever the code becomes."""
    field = {"Date Time": {"type": ["integer", "string"]}}
    schema = json_schema.read(json.dumps({"type": "object", "properties": field}), ())
    assert field_names.renamed(schema, "safe") == Schema.from_json(STORED)
    assert list(json_parts(Schema.from_json(STORED))) == [("Date_Time", "is integer or string")]
