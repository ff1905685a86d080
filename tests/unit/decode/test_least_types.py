"""Which type would have taken what a column refused."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.cloudpickle import register_pickle_by_value

from lakeingest.config import JsonValue
from lakeingest.decode import json_diagnosis, least_types
from lakeingest.decode.json import texts_of
from lakeingest.schema import ddl, json_values, observed_types
from lakeingest.spark.types import struct

TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(14,6)", "DECIMAL(38,0)",
         "DECIMAL(2,2)", "DATE", "TIMESTAMP_NTZ", "TIMESTAMP", "BOOLEAN", "BINARY", "STRING")  # fmt: skip


@pytest.mark.parametrize(
    ("declared", "value", "type"),
    [
        ("DECIMAL(10,2)", "907.15", None),
        ("DECIMAL(10,2)", "907.152", "DECIMAL(11,3)"),
        ("DECIMAL(10,2)", '"0.123456"', "DECIMAL(14,6)"),
        ("DECIMAL(10,2)", "1234567890.5", "DECIMAL(12,2)"),
        ("DECIMAL(10,2)", "1e12", "DECIMAL(15,2)"),
        ("DECIMAL(10,2)", "1e-31", "STRING"),
        ("DECIMAL(10,2)", '"1,50"', "STRING"),
        ("DECIMAL(10,2)", "true", "STRING"),
        ("TINYINT", "200", "SMALLINT"),
        ("INT", "2147483648", "BIGINT"),
        ("INT", "12.5", "DOUBLE"),
        ("INT", "1e3", "DOUBLE"),
        ("INT", '"12"', "STRING"),
        ("BIGINT", "9223372036854775808", "DECIMAL(19,0)"),
        ("BIGINT", "1" * 39, "DOUBLE"),
        ("FLOAT", "1e39", "DOUBLE"),
        ("DOUBLE", "1e400", "STRING"),
        ("DATE", '"2024-01-31T10:00:00Z"', "TIMESTAMP"),
        ("DATE", "20240131", "STRING"),
        ("DATE", '"31.01.2024"', "STRING"),
        ("TIMESTAMP_NTZ", '"2024-01-31T10:00:00Z"', "TIMESTAMP"),
        ("TIMESTAMP", "1.5", "STRING"),
        ("BOOLEAN", "1", "STRING"),
        ("ARRAY<INT>", "1", "STRING"),
        ("STRUCT<a: INT>", "[1]", "STRING"),
    ],
)
def test_the_least_type_that_takes_a_value(declared: str, value: str, type: str | None) -> None:
    """The type takes the value, and all that the declared one takes."""
    record = f'{{"c":{value}}}'.encode()
    schema = struct(f"c {declared}").jsonValue()
    assert least_types.fitting(record, schema) == ({"c": type} if type else {})
    assert least_types.fitting(record, struct(f"c {type or declared}").jsonValue()) == {}


@pytest.mark.parametrize(
    ("options", "declared", "value", "found"),
    [
        ({"decimals": "round"}, "DECIMAL(10,2)", "907.152", {}),
        ({"decimals": "round"}, "DECIMAL(10,2)", "99999999.995", {"c": "DECIMAL(11,2)"}),
        ({"numbers_in_quotes": True}, "INT", '"12"', {}),
        ({"numbers_in_quotes": True}, "INT", '"2147483648"', {"c": "BIGINT"}),
        ({"date_format": "dd.MM.yyyy"}, "DATE", '"31.01.2024"', {}),
        ({"date_format": "dd.MM.yyyy"}, "DATE", '"2024-01-31T10:00:00"', {"c": "STRING"}),
    ],
)
def test_types_are_found_under_the_options_of_the_file(
    options: dict[str, Any], declared: str, value: str, found: dict[str, str]
) -> None:
    """What an option lets in, needs no other type."""
    texts = texts_of(JsonValue.model_validate({"format": "json", **options}))
    assert least_types.fitting(f'{{"c":{value}}}'.encode(), struct(f"c {declared}").jsonValue(), texts) == found


def test_each_place_has_a_type_of_its_own() -> None:
    """All that is in one array or map becomes one type."""
    schema = struct("i INT, arr ARRAY<INT>, m MAP<STRING, DECIMAL(4,1)>, st STRUCT<a: STRUCT<d: DATE>>").jsonValue()
    record = b'{"arr":[1,2147483648,0.5],"m":{"a":1.25,"b":10000},"st":{"a":{"d":"x"}},"i":1}'
    assert least_types.fitting(record, schema) == {"arr[*]": "DOUBLE", "m.*": "DECIMAL(7,2)", "st.a.d": "STRING"}


@pytest.mark.parametrize("record", [b"\xff", b"{", b"[1]", b"5", b'{"i":"x"}', b'{"n":null,"i":"x"}', b"[" * 100_000])
def test_where_no_type_helps(record: bytes) -> None:
    """No JSON object, or a required value that is not there: no column's type is at fault alone."""
    assert least_types.fitting(record, struct("i INT, n INT NOT NULL").jsonValue()) is None


def test_types_join_in_any_order() -> None:
    """However the records are spread and whichever comes first, the columns' types are the same."""
    for one, two, three in product(TYPES, repeat=3):
        assert least_types.join(one, two) == least_types.join(two, one)
        assert least_types.join(least_types.join(one, two), three) == least_types.join(
            one, least_types.join(two, three)
        )
        ddl.parse(f"c {least_types.join(one, two)}")


def test_executors_need_not_have_lakeingest() -> None:
    """The functions go to them by value, with all that they need."""
    for module in (json_values, json_diagnosis, observed_types, least_types):
        register_pickle_by_value(module)
    schema = struct("amount DECIMAL(10,2), d DATE").jsonValue()
    texts = texts_of(JsonValue(format="json", date_format=("d MMM yyyy",)))
    sent = cloudpickle.dumps((json_diagnosis.diagnose, least_types.fitting, schema, texts))
    code = (
        "import pickle, sys; sys.modules['lakeingest'] = None\n"
        "diagnose, fitting, *rest = pickle.load(sys.stdin.buffer)\n"
        """print(diagnose(b'{"d":"1.1.2024"}', *rest)[0], fitting(b'{"amount":1.125,"d":"1 Jan 2024"}', *rest))"""
    )
    ran = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
    assert ran.stdout == b"WRONG_TYPE {'amount': 'DECIMAL(11,3)'}\n"
