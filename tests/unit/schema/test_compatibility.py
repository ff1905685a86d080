"""Confluent's verdicts, rule by rule: every case that its semantics decide, in all four modes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from lakeingest.schema import model
from lakeingest.schema.compatibility import Mode, Verdict, check, explain
from lakeingest.schema.model import NUMBERS, Schema, struct

MODES: tuple[Mode, ...] = get_args(Mode)
INT, LONG, STRING = Schema("int32"), Schema("int64"), Schema("string")


def optional(schema: Schema) -> Schema:
    return replace(schema, optional=True)


def enum(*symbols: str, name: str = "colour") -> Schema:
    return Schema("string", name=name, parameters=((model.SYMBOLS, ",".join(symbols)),))


def decimal(precision: int, scale: int) -> Schema:
    parameters = ((model.PRECISION, str(precision)), (model.SCALE, str(scale)))
    return Schema("bytes", name=model.DECIMAL, parameters=parameters)


def row(version: int | None = 1, **fields: Schema) -> Schema:
    return struct(fields, name="row", version=version)


PLACES: dict[str, tuple[str, Callable[[Schema], Schema]]] = {
    "top level": ("", lambda part: part),
    "field": ("a", lambda part: struct({"a": part})),
    "nested": ("a.b.c", lambda part: struct({"a": struct({"b": struct({"c": part})})})),
    "element": ("a[]", lambda part: struct({"a": Schema("array", value=part)})),
    "map key": ("a{key}", lambda part: struct({"a": Schema("map", key=part, value=INT)})),
    "map value": ("a{}", lambda part: struct({"a": Schema("map", key=STRING, value=part)})),
    "deep": (
        "a[]{}.b",
        lambda part: struct({"a": Schema("array", value=Schema("map", key=STRING, value=struct({"b": part})))}),
    ),
}
"""Where a part may stand: (its path, the schema around it)."""


def at(place: str, part: Schema) -> Schema:
    return replace(PLACES[place][1](part), version=1)


BASE = row(n=INT, s=STRING)
CASES: dict[str, tuple[Schema, Schema, str, str, str, str]] = {
    # case: (record, current, NONE, BACKWARD, FORWARD, FULL)
    "an equal copy": (row(n=INT, s=STRING), BASE, "OK", "OK", "OK", "OK"),
    "record v2, current v1": (replace(BASE, version=2), BASE, "SCHEMA", "VERSION", "OK", "VERSION"),
    "record v2, current v3": (replace(BASE, version=2), replace(BASE, version=3), "SCHEMA", "OK", "VERSION", "OK"),
    "other schema name": (replace(BASE, name="other"), BASE, "SCHEMA", "NAME", "NAME", "NAME"),
    "int to string, older version": (row(1, n=INT), row(2, n=STRING), "SCHEMA", "TYPE", "TYPE", "TYPE"),
    "only a doc string differs": (replace(BASE, doc="a comment"), BASE, "SCHEMA", "OK", "OK", "OK"),
    "required record, optional current": (row(n=INT), row(n=optional(INT)), "SCHEMA", "OK", "OK", "OK"),
    "optional record, required current": (row(n=optional(INT)), row(n=INT), "SCHEMA", *["OPTIONALITY"] * 3),
    "optional record, required current with default": (
        row(n=optional(INT)),
        row(n=replace(INT, default="0")),
        "SCHEMA",
        *["OK"] * 3,
    ),
    "lacks an optional field": (row(n=INT), row(n=INT, s=optional(STRING)), "SCHEMA", "OK", "OK", "OK"),
    "lacks a field with default": (row(n=INT), row(n=INT, s=replace(STRING, default='""')), "SCHEMA", *["OK"] * 3),
    "lacks a required field": (row(n=INT), BASE, "SCHEMA", "MISSING", "MISSING", "MISSING"),
    "has one field more": (row(n=INT, s=STRING, more=INT), BASE, "SCHEMA", "OK", "OK", "OK"),
    "fields in another order": (row(s=STRING, n=INT), BASE, "SCHEMA", "OK", "OK", "OK"),
    "a field renamed": (row(n=INT, t=STRING), BASE, "SCHEMA", "MISSING", "MISSING", "MISSING"),
    "a default differs": (row(n=replace(INT, default="1")), row(n=replace(INT, default="2")), "SCHEMA", *["OK"] * 3),
    "an enum symbol added, nested": (row(e=enum("R", "G", "B")), row(e=enum("R", "G")), "SCHEMA", *["PARAMS"] * 3),
    "an enum symbol removed, nested": (row(e=enum("R")), row(e=enum("R", "G")), "SCHEMA", "OK", "OK", "OK"),
    "enum symbols in another order": (row(e=enum("G", "R")), row(e=enum("R", "G")), "SCHEMA", "OK", "OK", "OK"),
    "another enum": (row(e=enum("R", name="paint")), row(e=enum("R")), "SCHEMA", "NAME", "NAME", "NAME"),
    "a string for an enum": (row(e=STRING), row(e=enum("R")), "SCHEMA", "NAME", "NAME", "NAME"),
    "an enum without symbols": (row(e=replace(STRING, name="colour")), row(e=enum("R")), "SCHEMA", *["PARAMS"] * 3),
    "another scale": (row(d=decimal(9, 2)), row(d=decimal(9, 3)), "SCHEMA", "PARAMS", "PARAMS", "PARAMS"),
    "a date for an int": (row(d=replace(INT, name=model.DATE)), row(d=INT), "SCHEMA", "NAME", "NAME", "NAME"),
    "a struct for an int": (row(d=row(n=INT)), row(d=INT), "SCHEMA", "TYPE", "TYPE", "TYPE"),
    "an array for a map": (
        row(d=Schema("array", value=INT)),
        row(d=Schema("map", key=STRING, value=INT)),
        "SCHEMA",
        *["TYPE"] * 3,
    ),
    "a record for a plain value": (BASE, replace(INT, version=1), "SCHEMA", "TYPE", "TYPE", "TYPE"),
    "newer, and a type differs": (row(2, n=STRING), row(1, n=INT), "SCHEMA", "TYPE", "TYPE", "TYPE"),
    "older, and a field is missing": (row(1, n=INT), row(2, n=INT, s=STRING), "SCHEMA", *["MISSING"] * 3),
}
SHORT = {
    "OK": Verdict.OK,
    "SCHEMA": Verdict.DIFFERENT_SCHEMA,
    "VERSION": Verdict.DIFFERENT_VERSION,
    "TYPE": Verdict.DIFFERENT_TYPE,
    "NAME": Verdict.DIFFERENT_NAME,
    "PARAMS": Verdict.DIFFERENT_PARAMS,
    "OPTIONALITY": Verdict.INCOMPATIBLE_OPTIONALITY,
    "MISSING": Verdict.MISSING_REQUIRED_FIELD,
}


@pytest.mark.parametrize("number", range(4), ids=MODES)
@pytest.mark.parametrize("case", CASES)
def test_the_case_table(case: str, number: int) -> None:
    """Every row of the table of cases, in every mode."""
    record, current, *verdicts = CASES[case]
    assert check(record, current, MODES[number]) == SHORT[verdicts[number]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("schema", [None, BASE, INT, row(None, n=INT)], ids=["absent", "record", "int", "no version"])
def test_the_same_is_compatible(schema: Schema | None, mode: Mode) -> None:
    """Both absent, or the very same, comes before every other rule, unknown versions included."""
    assert check(schema, schema, mode) == Verdict.OK


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("record", "current"), [(None, BASE), (BASE, None)])
def test_with_and_without_a_schema_do_not_mix(record: Schema | None, current: Schema | None, mode: Mode) -> None:
    """One schema absent is refused in every mode, NONE included."""
    found = explain(record, current, mode)
    assert found.verdict == Verdict.SCHEMA_PRESENCE
    assert found.text().startswith("can't mix records with and without a schema: ")


@pytest.mark.parametrize(("record", "current"), [(None, 1), (1, None), (None, None)])
def test_a_version_is_required(record: int | None, current: int | None) -> None:
    """Modes that tell older from newer need both versions, even where the structure fails; NONE needs none."""
    one, other = row(record, n=STRING), row(current, n=INT)
    assert [check(one, other, mode) for mode in MODES] == [Verdict.DIFFERENT_SCHEMA] + [Verdict.VERSION_REQUIRED] * 3


PAIRS = [(Schema(one), Schema(other)) for one, other in product(NUMBERS, NUMBERS)]
PROMOTIONS = [(one, other) for one, other in PAIRS if NUMBERS.index(one.type) <= NUMBERS.index(other.type)]
NARROWINGS = [(one, other) for one, other in PAIRS if NUMBERS.index(one.type) > NUMBERS.index(other.type)]


def test_there_are_21_promotions_and_15_narrowings() -> None:
    """The tables below are whole."""
    assert (len(PROMOTIONS), len(NARROWINGS)) == (21, 15)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("record", "current"), PROMOTIONS, ids=lambda s: s.type)
def test_promotions(record: Schema, current: Schema, place: str) -> None:
    """A number is read as itself or a wider one, wherever it stands."""
    one, other = at(place, record), at(place, current)
    assert {check(one, other, mode) for mode in MODES[1:]} == {Verdict.OK}
    assert check(one, other, "NONE") == (Verdict.OK if record == current else Verdict.DIFFERENT_SCHEMA)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("record", "current"), NARROWINGS, ids=lambda s: s.type)
def test_narrowings(record: Schema, current: Schema, place: str) -> None:
    """A number is not read as a narrower one, and the place is named."""
    found = [explain(at(place, record), at(place, current), mode) for mode in MODES[1:]]
    assert {(f.verdict, f.path) for f in found} == {(Verdict.DIFFERENT_TYPE, PLACES[place][0])}


FAILURES: dict[str, tuple[Schema, Schema, str]] = {
    "type": (STRING, INT, "DIFFERENT_TYPE"),
    "boolean is no number": (Schema("boolean"), INT, "DIFFERENT_TYPE"),
    "bytes are no string": (Schema("bytes"), STRING, "DIFFERENT_TYPE"),
    "name": (replace(INT, name=model.DATE), replace(INT, name=model.TIME), "DIFFERENT_NAME"),
    "symbols": (enum("R", "G"), enum("R"), "DIFFERENT_PARAMS"),
    "precision": (decimal(9, 2), decimal(8, 2), "DIFFERENT_PARAMS"),
    "optionality": (optional(INT), INT, "INCOMPATIBLE_OPTIONALITY"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_found_where_it_is(failure: str, place: str) -> None:
    """The rules hold at every level, and the path leads there."""
    record, current, verdict = FAILURES[failure]
    found = explain(at(place, record), at(place, current), "BACKWARD")
    assert (found.verdict, found.path) == (verdict, PLACES[place][0])


ORDER = [
    # Each fails in what it names and in all behind it.
    (optional(replace(enum("R"), name="x")), INT, "DIFFERENT_TYPE"),
    (optional(enum("R", "G", name="x")), enum("R"), "DIFFERENT_NAME"),
    (optional(enum("R", "G")), enum("R"), "DIFFERENT_PARAMS"),
    (optional(struct({"a": STRING})), struct({"a": INT}), "INCOMPATIBLE_OPTIONALITY"),
    (struct({"a": STRING}), struct({"b": INT, "a": INT}), "DIFFERENT_TYPE"),
    (struct({"a": INT}), struct({"b": INT, "a": INT}), "MISSING_REQUIRED_FIELD"),
]


@pytest.mark.parametrize(("record", "current", "verdict"), ORDER, ids=[f"{n} {v}" for n, (*_, v) in enumerate(ORDER)])
def test_the_first_rule_that_fails_is_the_verdict(record: Schema, current: Schema, verdict: str) -> None:
    """Type, name, parameters, optionality, the parts that both have, then what is missing; the version comes last."""
    newer = [check(replace(record, version=v), replace(current, version=2), "BACKWARD") for v in (1, 2, 3)]
    assert set(newer) == {verdict}


@pytest.mark.parametrize(
    "name",
    ["io.confluent.connect.avro.record.doc", "io.confluent.connect.avro.field.doc.wind", "aliases", "x.enum.namespace"],
)
def test_parameters_that_say_nothing_of_the_data_are_ignored(name: str) -> None:
    """Documentation, aliases and namespaces may differ; any other parameter may not."""
    one, other = (row(n=replace(INT, parameters=((name, text),))) for text in "xy")
    assert check(one, other, "BACKWARD") == Verdict.OK


@pytest.mark.parametrize("name", ["unit", "documents", "aliased", "x.namespaces"])
def test_other_parameters_count(name: str) -> None:
    """A parameter that only resembles an ignored one is part of the type."""
    one, other = (row(n=replace(INT, parameters=((name, text),))) for text in "xy")
    assert check(one, other, "BACKWARD") == Verdict.DIFFERENT_PARAMS


def test_a_version_within_does_not_count() -> None:
    """The version is compared at the top level alone."""
    one, other = (row(1, inner=row(version, n=INT)) for version in (2, 1))
    assert check(one, other, "BACKWARD") == Verdict.OK


TEXTS = [
    (row(a=struct({"zip": STRING})), row(a=struct({"zip": INT})), "a.zip: STRING in the record, INT in the table"),
    (row(n=INT), BASE, "s: STRING is required and without a default in the table, missing in the record"),
    (row(n=optional(INT)), row(n=INT), "n: may be null in the record, is required and without a default in the table"),
    (row(e=enum("R", "G")), row(e=enum("R")), "e: symbols R,G in the record, symbols R in the table"),
    (row(d=decimal(9, 2)), row(d=decimal(8, 2)), "d: precision 9 in the record, precision 8 in the table"),
    (replace(BASE, name="other"), BASE, "named other in the record, row in the table"),
    (row(e=enum("R")), row(e=STRING), "e: named colour in the record, nothing in the table"),
    (row(**{"a.b": INT}), row(**{"a.b": STRING}), "`a.b`: INT in the record, STRING in the table"),
    (row(2, n=INT), row(1, n=INT), "version 2 in the record, 1 in the table"),
    (row(None, n=INT), row(1, n=INT), "a schema version is required: unknown in the record, 1 in the table"),
    (BASE, BASE, ""),
]


@pytest.mark.parametrize(("record", "current", "text"), TEXTS)
def test_the_reason_is_a_sentence(record: Schema, current: Schema, text: str) -> None:
    """It says where, and what either side has there."""
    assert explain(record, current, "BACKWARD").text() == text


def test_two_thousand_fields_are_checked_at_once() -> None:
    """The check costs time in proportion to the fields: some milliseconds, asserted with room for a busy machine."""
    group = struct({f"f{n}": optional(INT) for n in range(50)})
    wide = struct({f"s{n}": group for n in range(40)}, version=1)
    flat = struct({f"f{n}": optional(INT) for n in range(2000)}, version=1)
    started = time.perf_counter()
    assert {check(replace(schema, version=2), schema, "FORWARD") for schema in (wide, flat)} == {Verdict.OK}
    assert time.perf_counter() - started < 0.2
