"""What a JSON field that nobody declared becomes: the type of its first value, and never another number."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from support.oracle import cut_batches
from support.oracle.decoding import judge, kafka, pipeline
from test_decode_numbers import numbers

from lakeingest.decode import inferred
from lakeingest.schema import model
from lakeingest.spark import jvm, session, types


@pytest.fixture(
    scope="module", autouse=True, params=[jvm.FUNCTIONS["json"], "none"], ids=["in one step", "by from_json"]
)
def way(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """How JSON is read: with lakeingest's functions, and in a session that lacks them."""
    with session.setting(spark, {jvm.catalog("json"): request.param}):
        yield


def observed(spark: SparkSession, records: list[str], shape: str = "n INT") -> dict[str, str | None]:
    """The fields of a batch, with their types as people read them."""
    found = inferred.fields(
        kafka(spark, [(None, record.encode()) for record in records]), pipeline("n INT"), types.struct(shape)
    )
    return {name: schema and model.type_text(schema) for name, (schema, _) in found.fields.items()}


FIELDS = {
    "whole": (["1"], "BIGINT"),
    "least": (["-9223372036854775808"], "BIGINT"),
    "wide": (["12345678901234567890"], "DECIMAL(38,0)"),
    "widest": (["9" * 38, "1"], "DECIMAL(38,0)"),
    "wider": (["1" + "0" * 38], None),
    "fraction": (["1.50", "7"], "DOUBLE"),
    "exponent": (["1e5"], "DOUBLE"),
    "of_17_digits": (["0.30000000000000004"], "DOUBLE"),
    "not_the_shortest": (["0.10000000000000001"], None),
    "money": (["1234567890123456.78"], None),
    "small": (["0.1e-400"], None),
    "large": (["1e400"], None),
    "untold_before": (["null", "1234567890123456.78", "1.5"], "DOUBLE"),
    "array": (["[1, 2.5]"], "ARRAY<DOUBLE>"),
    "array_of_longs": (["[9007199254740993, 1]"], "ARRAY<BIGINT>"),
    "array_of_wide": (["[1, 12345678901234567890, null]"], "ARRAY<DECIMAL(38,0)>"),
    "no_array": (["[9007199254740993, 2.5]"], None),
    "of_two_types": (['[1, "a"]'], None),
    "empty": (["[]", "[[1.5]]"], "ARRAY<ARRAY<DOUBLE>>"),
    "object": (
        ['{"b": 1, "a": null, "e": {}}', '{"a": "x", "m": 1234567890123456.78}', '{"m": 12345678901234567.5e300}'],
        "STRUCT<b: BIGINT, a: STRING>",
    ),
    "VOID": (['{"VARIANT": {"DECIMAL": 1.5}, "VOID": 1}'], "STRUCT<VARIANT: STRUCT<DECIMAL: DOUBLE>, VOID: BIGINT>"),
}


def test_a_field_has_the_type_of_its_first_value(spark: SparkSession) -> None:
    """No type where no column would give the value back; an object gets the fields of later ones."""
    records = [
        ", ".join(f'"{name}": {values[i]}' for name, (values, _) in FIELDS.items() if i < len(values)) for i in range(3)
    ]
    assert observed(spark, [f"{{{record}}}" for record in records]) == {
        name: type for name, (_, type) in FIELDS.items()
    }


LOG = [
    '{"x": 1, "o": {"a": 1}, "late": null}',
    '{"x": 1.5, "y": 1}',
    '{"y": "text", "o": {"a": 2, "b": "b"}}',
    '{"o": {"b": 3, "c": 1}, "z": 1}',
    '{"z": 2.5, "X": 7, "late": [1.5]}',
    '{"z": 3, "o": {"c": true}, "late": [2]}',
    '{"late": [9007199254740993], "w": 1}',
    '{"w": "w", "y": "more"}',
]


@pytest.mark.slow
def test_types_do_not_depend_on_where_batches_are_cut(spark: SparkSession) -> None:
    """A record that does not fit what earlier ones made of the table is refused, and adds nothing to it."""
    current = inferred.declared("n INT", None, 1, observes=True)
    for record in LOG:
        shape = inferred.columns(types.struct("n INT"), current)
        found = inferred.fields(kafka(spark, [(None, record.encode())]), pipeline("n INT"), shape)
        current = inferred.with_fields(current, {n: schema for n, (schema, _) in found.fields.items() if schema}, 2)
    types_of = {f.name: model.type_text(f.schema) for f in current.fields if f.name != "n"}
    assert list(observed(spark, LOG).items()) == list(types_of.items())
    assert types_of == {
        **{"o": "STRUCT<a: BIGINT, b: STRING, c: BIGINT>", "x": "BIGINT", "y": "STRING"},
        **{"z": "BIGINT", "late": "ARRAY<BIGINT>", "w": "BIGINT"},
    }


UNTYPED = {
    "two_types": ('[1, "x"]', "1"),
    "large": ("1e400", "1.5"),
    "no_elements": ("[]", "1"),
    "no_fields": ("{}", "1"),
}
"""A value without a type, and the first one with a type that it does not fit."""
TYPED_LATER = {
    "of_null": ("null", "1"),
    "within": ('{"a": null}', '{"a": 1}'),
    "null_beside": ('{"b": 1, "a": null}', '{"a": 1}'),
    "elements": ("[]", "[1]"),
    "of_arrays": ("[[]]", "[[1.5], null]"),
    "fields": ("{}", '{"a": 1}'),
    "fields_of_elements": ("[{}]", '[{"a": 1}]'),
    "elements_within": ('{"a": []}', '{"a": [1.5]}'),
    "others_within": ('{"a": []}', '{"b": 1}'),
    "elements_beside": ('{"b": 1, "a": []}', '{"a": ["x"]}'),
    "text": ("[]", '"x"'),
    "of_declared": ('{"c": 1, "d": []}', '{"c": 2, "d": [true]}'),
}
"""As above, but it fits."""


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [UNTYPED, TYPED_LATER], ids=["misfits", "fits"])
def test_a_value_without_a_type_is_in_rescued_wherever_batches_are_cut(
    spark: SparkSession, pairs: dict[str, tuple[str, str]]
) -> None:
    """Before its field has a type; behind that it is held to it."""

    def record(values: dict[str, str]) -> bytes:
        return f"{{{', '.join(f'{name!r}: {value}' for name, value in values.items())}}}".replace("'", '"').encode()

    first, then = ({name: pair[n] for name, pair in pairs.items()} for n in range(2))
    records = [record(first), record({}), record(then), *(record({name: first[name]}) for name in first)]
    config = cut_batches.pipeline("json", "BACKWARD", schema={"columns": "of_declared STRUCT<c: INT>"})
    whole, *others = (
        cut_batches.ingested(spark, config, None, records, way) for way in ([0], [0, 1], [0, 2], [0, 1, 2, 3, 5])
    )
    for other in others:
        assert other.rows == whole.rows
        assert other.refused == whole.refused
    assert len(whole.refused) == (len(pairs) if pairs is UNTYPED else 0)
    columns = {name: value for name, value in whole.rows[0].items() if not name.startswith("_")}
    typed = {"null_beside": {"b": 1}, "elements_beside": {"b": 1}, "of_declared": {"c": 1}}
    assert columns == ({} if pairs is UNTYPED else typed)
    undeclared = {name: json.loads(value) for name, value in first.items() if name not in ("of_null", "null_beside")}
    assert json.loads(whole.rows[0]["_rescued"]) == undeclared


def test_splits_of_a_batch_are_bounded(spark: SparkSession) -> None:
    """Of more fields than that, those that come later become columns in the next batch."""
    names = [f"f{n:02}" for n in range(18)]
    records = [json.dumps({name: [] for name in names}), *(json.dumps({name: [1]}) for name in names)]
    met = inferred.fields(kafka(spark, [(None, r.encode()) for r in records]), pipeline("n INT"), types.struct("n INT"))
    assert [name for name, (schema, _) in met.fields.items() if schema] == names[:16]
    assert [len(split.fields) for split in met.splits] == list(range(16))


def is_given_back(text: str) -> bool:
    return Decimal(repr(float(text))) == Decimal(text)


@pytest.mark.slow
@pytest.mark.parametrize("quotes", [False, True])
def test_an_observed_double_has_the_number_that_is_written(spark: SparkSession, quotes: bool) -> None:
    """A number that it would change is refused, at any depth, and the diagnosis says so; a declared one is rounded."""
    at = random.Random(5)
    texts = [*numbers(200, at), *(repr(at.random() * 10 ** at.randrange(-20, 20)) for _ in range(200))]
    texts += [str(2**53 + n) for n in range(-2, 5)] + ["0.10000000000000001", "1e-320", "2e-323", "123456789012345e-9"]
    config = pipeline("n INT, d STRUCT<d: DOUBLE>", value={"format": "json", "numbers_in_quotes": quotes})
    shape = "n INT, d STRUCT<d: DOUBLE, x: DOUBLE>, o STRUCT<a: ARRAY<DOUBLE>>"
    nests = ['{{"n":1,"o":{{"a":[1.5,{0}]}}}}', '{{"d":{{"d":{0}}}}}', '{{"d":{{"d":1,"x":{0}}}}}']
    records = [(None, nest.format(text).encode()) for text in texts for nest in nests]
    found = iter(judge(spark, config, records, shape))
    for text in texts:
        number = Decimal(text)
        declared = abs(float(text)) != float("inf") and (number == 0 or float(text) != 0)
        exact = declared and is_given_back(text)
        for fits, path in zip((exact, declared, exact), ("o", "d", "x"), strict=True):
            one = next(found)
            assert one
            assert (text, path, one.reason) == (text, path, None if fits else "WRONG_TYPE")
            if fits and path == "o":
                assert json.loads(one.columns or "")["o"]["a"][1] == float(text)
            if declared and not fits:
                assert "would be another number as DOUBLE: declare the column" in one.message
