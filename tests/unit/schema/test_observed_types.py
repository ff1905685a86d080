"""The type of one JSON value: none where a column would have another number."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeingest.decode.json_diagnosis import diagnose
from lakeingest.schema import json_values, observed_types


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("null", "VOID"),
        ("true", "BOOLEAN"),
        ('"1.5"', "STRING"),
        ("9223372036854775807", "LONG"),
        ("9223372036854775808", "DECIMAL(38,0)"),
        ("-" + "9" * 38, "DECIMAL(38,0)"),
        ("1" + "0" * 38, "VARIANT"),
        ("1e3", "DOUBLE"),
        ("1.10", "DOUBLE"),
        ("0.30000000000000004", "DOUBLE"),
        ("0.30000000000000003", "VARIANT"),
        ("1e-400", "VARIANT"),
        ("1e400", "VARIANT"),
        ("[]", "ARRAY<VOID>"),
        ("[null, 1, 2.5]", "ARRAY<DOUBLE>"),
        ("[9007199254740993, 2.5]", "ARRAY<VARIANT>"),
        ("[9007199254740993, 1, 9223372036854775808]", "ARRAY<DECIMAL(38,0)>"),
        ("[9223372036854775808, 0.5]", "ARRAY<VARIANT>"),
        ('[{"a": 1}, {"b": [1.5], "a": null}, null]', "ARRAY<OBJECT<`a`: BIGINT, `b`: ARRAY<DOUBLE>>>"),
        ('[{"a": 1}, [1]]', "ARRAY<VARIANT>"),
        ('{"a`b": {}}', "OBJECT<`a``b`: OBJECT<>>"),
    ],
)
def test_the_type_of_a_value(text: str, type: str) -> None:
    """In the words of Spark's schema_of_variant; LONG is a BIGINT that a DOUBLE would change."""
    assert observed_types.of_fields(f'{{"x": {text}}}') == [("x", type)]


def test_what_is_not_looked_into() -> None:
    """Python gives up where it is nested deeper than Python goes."""
    assert observed_types.of_fields(None) is None
    assert observed_types.of_fields('{"x": ' + "[" * 2000 + "]" * 2000 + "}") is None


@given(st.decimals(allow_nan=False, allow_infinity=False, places=None).filter(lambda d: abs(d.adjusted()) < 9000))
def test_a_double_is_what_is_written(number: Decimal) -> None:
    """Whatever is called DOUBLE, a DOUBLE gives back."""
    text = str(number).replace("E", "e")
    if observed_types.of_fields(f'{{"x": {text}}}') == [("x", "DOUBLE")]:
        assert Decimal(repr(float(text))) == number


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (r'{"a": "\ud800"}', "a ="),
        (r'{"a": ["x", {"b": "\udc00\ud800"}]}', "a[1].b ="),
        (r'{"a": {"\ud800": 1}}', "a name in a ="),
        (r'{"a": "\ud83d", "a": "x"}', "a ="),
        (r'{"a": "\ud83d\ude00\\ud800"}', None),
    ],
)
def test_half_of_a_character_is_named(text: str, place: str | None) -> None:
    """Wherever it stands, also in a field that stands twice; a pair is whole."""
    schema = {"fields": [{"name": "a", "type": "string", "nullable": True, "metadata": {}}]}
    reason, message = diagnose(text.encode(), schema)
    assert (reason == "INVALID_UTF8" and message.startswith(place)) if place else reason == "UNREADABLE"
    assert (json_values.lone_surrogate(json_values.read(text.encode())) is None) == (place is None)
    json.dumps(message).encode()
