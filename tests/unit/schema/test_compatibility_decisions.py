"""What a Delta table does with a record's schema, the differences of two schemas, and their union."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle.examples import searched

from lakeingest.schema import ddl, model
from lakeingest.schema.compatibility import (
    Decision,
    Mode,
    NotAdditive,
    Verdict,
    changes,
    check,
    decide,
    merge,
    structural,
)
from lakeingest.schema.compatibility.widening import delta_widens, misfit
from lakeingest.schema.model import NUMBERS, Schema, SchemaError, struct, value_columns

MODES: tuple[Mode, ...] = get_args(Mode)
SHORT, INT, LONG, FLOAT, DOUBLE = (Schema(kind, optional=True) for kind in NUMBERS[1:])
STRING = Schema("string", optional=True)
DATE = replace(INT, name=model.DATE)
TIMESTAMP = replace(LONG, name=model.TIMESTAMP)


def required(schema: Schema, default: str | None = None) -> Schema:
    return replace(schema, optional=False, default=default)


def enum(*symbols: str, name: str = "colour") -> Schema:
    return replace(STRING, name=name, parameters=((model.SYMBOLS, ",".join(symbols)),))


def decimal(precision: int, scale: int) -> Schema:
    parameters = ((model.PRECISION, str(precision)), (model.SCALE, str(scale)))
    return Schema("bytes", name=model.DECIMAL, parameters=parameters, optional=True)


def row(version: int | None, **fields: Schema) -> Schema:
    return struct(fields, name="row", version=version)


V1 = row(1, n=INT)
DECISIONS: list[tuple[str, Mode, Schema, Schema | None, str, str]] = [
    # (case, mode, record, current, verdict, action)
    *[("first of all", mode, V1, None, "OK", "evolve") for mode in MODES],
    *[("first of all, version unknown", mode, row(None, n=INT), None, "OK", "evolve") for mode in MODES],
    *[("equal", mode, row(1, n=INT), V1, "OK", "write") for mode in MODES],
    *[("no version", mode, row(None, n=INT), V1, "VERSION_REQUIRED", "quarantine") for mode in MODES[1:]],
    ("no version", "NONE", row(None, n=INT), V1, "DIFFERENT_SCHEMA", "write"),
    # NONE
    ("a field more", "NONE", row(2, n=INT, m=INT), V1, "DIFFERENT_SCHEMA", "evolve"),
    ("a field less", "NONE", row(2, m=INT), row(1, n=INT, m=INT), "DIFFERENT_SCHEMA", "write"),
    ("wider", "NONE", row(2, n=LONG), V1, "DIFFERENT_SCHEMA", "evolve"),
    ("narrower", "NONE", row(1, n=INT), row(2, n=LONG), "DIFFERENT_SCHEMA", "write"),
    ("only the version", "NONE", row(2, n=INT), V1, "DIFFERENT_SCHEMA", "write"),
    ("only the name", "NONE", replace(V1, name="other"), V1, "DIFFERENT_SCHEMA", "write"),
    ("another type", "NONE", row(2, n=STRING), V1, "DIFFERENT_TYPE", "quarantine"),
    ("beyond Delta", "NONE", row(2, n=DOUBLE), row(1, n=LONG), "DIFFERENT_TYPE", "quarantine"),
    ("beyond Delta, narrower", "NONE", row(2, n=LONG), row(1, n=DOUBLE), "DIFFERENT_TYPE", "quarantine"),
    ("a symbol more", "NONE", row(2, e=enum("R", "G")), row(1, e=enum("R")), "DIFFERENT_SCHEMA", "write"),
    # BACKWARD, newer: the table follows
    ("newer, the same", "BACKWARD", row(2, n=INT), V1, "DIFFERENT_VERSION", "evolve"),
    ("newer, a field more", "BACKWARD", row(2, n=INT, m=INT), V1, "DIFFERENT_VERSION", "evolve"),
    ("newer, with default", "BACKWARD", row(2, n=INT, m=required(INT, "0")), V1, "DIFFERENT_VERSION", "evolve"),
    ("newer, required", "BACKWARD", row(2, n=INT, m=required(INT)), V1, "MISSING_REQUIRED_FIELD", "quarantine"),
    ("newer, wider", "BACKWARD", row(2, n=LONG), V1, "DIFFERENT_TYPE", "evolve"),
    ("newer, int to double", "BACKWARD", row(2, n=DOUBLE), V1, "DIFFERENT_TYPE", "evolve"),
    ("newer, narrower", "BACKWARD", row(2, n=INT), row(1, n=LONG), "DIFFERENT_TYPE", "quarantine"),
    ("newer, another type", "BACKWARD", row(2, n=STRING), V1, "DIFFERENT_TYPE", "quarantine"),
    ("newer, a field less", "BACKWARD", row(2, n=INT), row(1, n=INT, m=INT), "DIFFERENT_VERSION", "evolve"),
    (
        "newer, a required field less",
        "BACKWARD",
        row(2, n=INT),
        row(1, n=INT, m=required(INT)),
        "MISSING_REQUIRED_FIELD",
        "evolve",
    ),
    ("newer, loosened", "BACKWARD", row(2, n=INT), row(1, n=required(INT)), "INCOMPATIBLE_OPTIONALITY", "evolve"),
    ("newer, tightened", "BACKWARD", row(2, n=required(INT)), V1, "INCOMPATIBLE_OPTIONALITY", "quarantine"),
    ("newer, a symbol more", "BACKWARD", row(2, e=enum("R", "G")), row(1, e=enum("R")), "DIFFERENT_PARAMS", "evolve"),
    (
        "newer, a symbol less",
        "BACKWARD",
        row(2, e=enum("R")),
        row(1, e=enum("R", "G")),
        "DIFFERENT_PARAMS",
        "quarantine",
    ),
    ("newer, other name", "BACKWARD", replace(V1, name="x", version=2), V1, "DIFFERENT_NAME", "quarantine"),
    ("newer, long to double", "BACKWARD", row(2, n=DOUBLE), row(1, n=LONG), "DIFFERENT_TYPE", "quarantine"),
    ("newer, int to float", "BACKWARD", row(2, n=FLOAT), V1, "DIFFERENT_TYPE", "quarantine"),
    (
        "newer, a longer decimal",
        "BACKWARD",
        row(2, d=decimal(9, 2)),
        row(1, d=decimal(8, 2)),
        "DIFFERENT_PARAMS",
        "quarantine",
    ),
    # BACKWARD, not newer: the table's version stays, and what it lacks is added
    ("older, a field less", "BACKWARD", V1, row(2, n=INT, m=INT), "OK", "project"),
    ("older, a field more", "BACKWARD", row(1, n=INT, m=INT), row(2, n=INT), "OK", "evolve"),
    ("older, same columns", "BACKWARD", V1, row(2, n=INT), "OK", "write"),
    ("older, null stays null", "BACKWARD", V1, row(2, n=required(INT, "0")), "OK", "write"),
    ("older, long for a double", "BACKWARD", row(1, n=LONG), row(2, n=DOUBLE), "OK", "project"),
    ("older, wider", "BACKWARD", row(1, n=LONG), row(2, n=INT), "DIFFERENT_TYPE", "quarantine"),
    ("same version, a field more", "BACKWARD", row(1, n=INT, m=INT), V1, "OK", "evolve"),
    ("same version, wider", "BACKWARD", row(1, n=LONG), V1, "DIFFERENT_TYPE", "quarantine"),
    # FORWARD, not older: projected down
    ("newer, a field more", "FORWARD", row(2, n=INT, m=required(INT)), V1, "OK", "project"),
    ("newer, same columns", "FORWARD", row(2, n=INT), V1, "OK", "write"),
    ("newer, a field less", "FORWARD", row(2, m=INT), row(1, n=INT, m=INT), "OK", "project"),
    (
        "newer, a required field less",
        "FORWARD",
        row(2, m=INT),
        row(1, n=required(INT)),
        "MISSING_REQUIRED_FIELD",
        "quarantine",
    ),
    ("newer, wider", "FORWARD", row(2, n=LONG), V1, "DIFFERENT_TYPE", "quarantine"),
    ("newer, narrower", "FORWARD", row(2, n=INT), row(1, n=LONG), "OK", "project"),
    # FORWARD, older: the oldest becomes the table's
    ("older, a field less", "FORWARD", V1, row(2, n=INT, m=INT), "DIFFERENT_VERSION", "evolve"),
    (
        "older, a required field more",
        "FORWARD",
        row(1, n=INT, m=required(INT)),
        row(2, n=INT),
        "MISSING_REQUIRED_FIELD",
        "quarantine",
    ),
    ("older, wider", "FORWARD", row(1, n=LONG), row(2, n=INT), "DIFFERENT_TYPE", "evolve"),
    ("older, double for a long", "FORWARD", row(1, n=DOUBLE), row(2, n=LONG), "DIFFERENT_TYPE", "quarantine"),
    ("older, narrower", "FORWARD", row(1, n=INT), row(2, n=LONG), "DIFFERENT_TYPE", "quarantine"),
    # FULL: BACKWARD's actions, where both directions pass
    ("newer, a field more", "FULL", row(2, n=INT, m=INT), V1, "DIFFERENT_VERSION", "evolve"),
    ("newer, a field less", "FULL", row(2, n=INT), row(1, n=INT, m=INT), "DIFFERENT_VERSION", "evolve"),
    ("newer, wider", "FULL", row(2, n=LONG), V1, "DIFFERENT_TYPE", "quarantine"),
    ("newer, narrower", "FULL", row(2, n=INT), row(1, n=LONG), "DIFFERENT_TYPE", "quarantine"),
    ("newer, required", "FULL", row(2, n=INT, m=required(INT)), V1, "MISSING_REQUIRED_FIELD", "quarantine"),
    (
        "newer, a required field less",
        "FULL",
        row(2, n=INT),
        row(1, n=INT, m=required(INT)),
        "MISSING_REQUIRED_FIELD",
        "quarantine",
    ),
    ("newer, a symbol more", "FULL", row(2, e=enum("R", "G")), row(1, e=enum("R")), "DIFFERENT_PARAMS", "quarantine"),
    ("older, a field less", "FULL", V1, row(2, n=INT, m=INT), "OK", "project"),
    ("older, narrower", "FULL", V1, row(2, n=LONG), "DIFFERENT_TYPE", "quarantine"),
]


@pytest.mark.parametrize(
    ("mode", "record", "current", "verdict", "action"),
    [d[1:] for d in DECISIONS],
    ids=[f"{d[1]} {d[0]}" for d in DECISIONS],
)
def test_decisions(mode: Mode, record: Schema, current: Schema | None, verdict: str, action: str) -> None:
    """Each mode's action, and the verdict that goes with it; a refusal says why and leaves the table as it is."""
    decision = decide(record, current, mode)
    assert (decision.verdict, decision.action) == (verdict, action)
    if action == "quarantine":
        assert decision.why
    if action != "evolve":
        assert decision.current == current
    elif mode != "NONE":
        assert decision.current == (current if verdict == "OK" and current else record)


@pytest.mark.parametrize("mode", MODES)
def test_records_without_a_schema(mode: Mode) -> None:
    """They go to a table without a schema, and are refused by one that has one."""
    assert decide(None, None, mode) == Decision(Verdict.OK, "write")
    refused = decide(None, V1, mode)
    assert (refused.verdict, refused.action, refused.current) == (Verdict.SCHEMA_PRESENCE, "quarantine", V1)


WHYS: list[tuple[Mode, Schema, Schema, str]] = [
    ("BACKWARD", row(2, n=DOUBLE), row(1, n=LONG), "n: Delta cannot widen BIGINT to DOUBLE"),
    ("NONE", row(2, n=DOUBLE), row(1, n=LONG), "n: Delta can widen neither BIGINT to DOUBLE nor the other way"),
    ("BACKWARD", row(2, n=STRING), V1, "n: INT in the table, STRING in the record"),
    (
        "BACKWARD",
        row(2, n=INT, m=required(INT)),
        V1,
        "m: INT is required and without a default in the record, missing in the table",
    ),
    ("FORWARD", row(2, n=LONG), V1, "n: BIGINT in the record, INT in the table"),
    ("FULL", row(1, n=INT), row(2, n=LONG), "n: BIGINT in the table, INT in the record"),
    (
        "BACKWARD",
        row(2, n=INT, m=struct({"a": INT, "A": INT}, optional=True)),
        V1,
        "A: a table has one column for upper and lower case, this schema two; name it in schema.names",
    ),
    ("NONE", row(2, s=Schema("struct", optional=True)), V1, "a record has no fields, and a table cannot hold it"),
]


@pytest.mark.parametrize(("mode", "record", "current", "why"), WHYS)
def test_a_refusal_says_why(mode: Mode, record: Schema, current: Schema, why: str) -> None:
    """Where, and which side has what; Delta's own limits are called that."""
    decision = decide(record, current, mode)
    assert (decision.action, decision.why) == ("quarantine", why)


def test_the_union_of_none_becomes_current() -> None:
    """Under NONE the table has what any record had, each optional where one lacks it, and the latest version."""
    decision = decide(row(2, n=LONG, new=required(INT)), row(1, n=INT, old=required(STRING)), "NONE")
    assert decision.current == row(2, n=LONG, old=STRING, new=INT)
    assert [change.text for change in decision.changes] == ["~ n INT → BIGINT", "~ old NOT NULL → NULL", "+ new INT"]


def test_a_column_that_a_removed_field_left_behind_is_in_the_way() -> None:
    """Delta drops no column: a field that comes back with another type is refused where the columns are known."""
    columns = ddl.parse("n INT, m STRING, gone BIGINT")
    record, current = row(3, n=INT, m=INT, gone=INT), row(2, n=INT)
    assert decide(record, current, "BACKWARD").action == "evolve"
    refused = decide(record, current, "BACKWARD", columns)
    assert (refused.verdict, refused.why) == (Verdict.DIFFERENT_TYPE, "m: Delta cannot widen STRING to INT")
    # A narrower one is only cast.
    assert decide(row(3, n=INT, gone=INT), current, "BACKWARD", columns).action == "evolve"


def test_a_rolling_deploy_moves_the_table_once() -> None:
    """Two versions at once: the newer evolves the table, and from then on neither changes it."""
    v2 = row(2, n=LONG, m=INT)
    moved = decide(v2, V1, "BACKWARD").current
    assert [decide(schema, moved, "BACKWARD").action for schema in (V1, v2, V1)] == ["project", "write", "project"]


def test_the_json_of_a_decision() -> None:
    """What a program reads: verdict, action, changes, why."""
    assert decide(row(2, n=INT, gust=DOUBLE), V1, "BACKWARD").to_json() == {
        "verdict": "DIFFERENT_VERSION",
        "action": "evolve",
        "changes": [{"path": "gust", "kind": "added", "text": "+ gust DOUBLE"}],
        "why": "version 2 in the record, 1 in the table",
    }


DIFFERENCES: list[tuple[Schema, Schema, list[tuple[str, str, str]]]] = [
    (row(1, n=INT), row(2, n=INT), []),
    (row(1), row(1, gust=DOUBLE), [("gust", "added", "+ gust DOUBLE")]),
    (row(1), row(1, n=required(INT)), [("n", "added", "+ n INT NOT NULL")]),
    (row(1), row(1, n=required(INT, "0")), [("n", "added", "+ n INT NOT NULL DEFAULT 0")]),
    (
        row(1),
        row(1, a=replace(struct({"s": STRING, "t": Schema("array", value=decimal(9, 2))}), optional=True)),
        [("a", "added", "+ a STRUCT<s: STRING, t: ARRAY<DECIMAL(9,2)>>")],
    ),
    (row(1, old=STRING), row(1), [("old", "removed", "- old STRING")]),
    (row(1, wind=INT), row(1, wind=LONG), [("wind", "widened", "~ wind INT → BIGINT")]),
    (row(1, n=LONG), row(1, n=DOUBLE), [("n", "widened", "~ n BIGINT → DOUBLE")]),
    (row(1, n=LONG), row(1, n=INT), [("n", "changed", "~ n BIGINT → INT")]),
    (row(1, n=INT), row(1, n=STRING), [("n", "changed", "~ n INT → STRING")]),
    (row(1, n=LONG), row(1, n=TIMESTAMP), [("n", "changed", "~ n BIGINT → TIMESTAMP")]),
    (
        row(1, n=INT),
        row(1, n=row(1, m=INT)),
        [("n", "changed", "~ n INT → STRUCT<m: INT>"), ("n", "tightened", "~ n NULL → NOT NULL")],
    ),
    (row(1, d=decimal(8, 2)), row(1, d=decimal(9, 2)), [("d", "widened", "~ d DECIMAL(8,2) → DECIMAL(9,2)")]),
    (row(1, d=decimal(9, 2)), row(1, d=decimal(9, 3)), [("d", "changed", "~ d DECIMAL(9,2) → DECIMAL(9,3)")]),
    (row(1, n=required(INT)), row(1, n=INT), [("n", "loosened", "~ n NOT NULL → NULL")]),
    (row(1, n=INT), row(1, n=required(INT)), [("n", "tightened", "~ n NULL → NOT NULL")]),
    (row(1, n=INT), row(1, n=replace(INT, default="1")), [("n", "default", "~ n DEFAULT none → 1")]),
    (row(1, e=enum("R", "G")), row(1, e=enum("R", "B")), [("e", "symbols", "~ e + B - G")]),
    (row(1, e=enum("R")), row(1, e=enum("R", name="paint")), [("e", "renamed", "~ e named colour → paint")]),
    (row(1, e=enum("R")), row(1, e=STRING), [("e", "renamed", "~ e named colour → nothing")]),
    (row(1, n=INT), row(1, n=replace(INT, doc="x")), [("n", "doc", "~ n documentation")]),
    (row(1, n=INT), replace(row(1, n=INT), name="x"), [("", "renamed", "~ (record) named row → x")]),
    (INT, LONG, [("", "widened", "~ (record) INT → BIGINT")]),
    (
        row(1, a=Schema("array", value=Schema("map", key=INT, value=row(1, zip=INT)))),
        row(1, a=Schema("array", value=Schema("map", key=LONG, value=row(1, zip=STRING, b=INT)))),
        [
            ("a[]{key}", "widened", "~ a[]{key} INT → BIGINT"),
            ("a[]{}.zip", "changed", "~ a[]{}.zip INT → STRING"),
            ("a[]{}.b", "added", "+ a[]{}.b INT"),
        ],
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), DIFFERENCES)
def test_changes(old: Schema, new: Schema, expected: list[tuple[str, str, str]]) -> None:
    """Path, kind and text of each difference, as JSON gives them too."""
    assert [tuple(change.to_json().values()) for change in changes(old, new)] == expected


def test_without_an_old_schema_all_is_added() -> None:
    """The first schema of a table, as a record and as a plain value."""
    assert [c.text for c in changes(None, row(1, n=INT, s=STRING))] == ["+ n INT", "+ s STRING"]
    assert [c.text for c in changes(None, STRING)] == ["+ (record) STRING"]


MERGED: list[tuple[Schema, Schema, Schema]] = [
    (INT, LONG, LONG),
    (LONG, INT, LONG),
    (SHORT, DOUBLE, DOUBLE),
    (FLOAT, DOUBLE, DOUBLE),
    (required(INT), INT, INT),
    (decimal(8, 2), decimal(9, 3), decimal(9, 3)),
    (decimal(9, 1), decimal(6, 4), decimal(12, 4)),
    (DATE, replace(LONG, name=model.LOCAL_TIMESTAMP_MICROS), replace(LONG, name=model.LOCAL_TIMESTAMP_MICROS)),
    (TIMESTAMP, replace(LONG, name=model.TIMESTAMP_MICROS), TIMESTAMP),
    (enum("R", "G"), enum("G", "B"), enum("R", "G", "B")),
    (enum("R"), STRING, STRING),
    (enum("R"), enum("R", name="paint"), STRING),
    (replace(INT, default="1"), replace(INT, default="2"), INT),
    (row(1, n=required(INT)), row(1, m=required(INT)), row(1, n=INT, m=INT)),
    (row(1, a=row(1, x=INT)), row(1, a=row(1, y=INT)), row(1, a=row(1, x=INT, y=INT))),
    (row(1, id=INT), row(1, ID=LONG), row(1, id=LONG)),
    (Schema("array", value=INT), Schema("array", value=LONG), Schema("array", value=LONG)),
    (Schema("map", key=INT, value=INT), Schema("map", key=LONG, value=INT), Schema("map", key=LONG, value=INT)),
]


@pytest.mark.parametrize(("a", "b", "union"), MERGED)
def test_merge(a: Schema, b: Schema, union: Schema) -> None:
    """The narrowest schema that a table can be widened to for both."""
    assert merge(a, b) == union


APART: list[tuple[Schema, Schema, str]] = [
    (LONG, DOUBLE, "Delta can widen neither BIGINT to DOUBLE nor the other way"),
    (row(1, a=row(1, n=INT)), row(1, a=row(1, n=FLOAT)), "a.n: Delta can widen neither INT to FLOAT nor the other way"),
    (row(1, n=INT), row(1, n=STRING), "n: Delta can widen neither INT to STRING nor the other way"),
    (row(1, n=INT), row(1, n=row(1, m=INT)), "n: Delta can widen neither INT to STRUCT<m: INT> nor the other way"),
    (LONG, TIMESTAMP, "Delta can widen neither BIGINT to TIMESTAMP nor the other way"),
    (decimal(38, 0), decimal(38, 9), "Delta can widen neither DECIMAL(38,0) to DECIMAL(38,9) nor the other way"),
    (
        row(1, t=replace(INT, name=model.TIME)),
        row(1, t=replace(LONG, name=model.TIME_MICROS)),
        f"t: a time of day ({model.TIME}) and another unit (time-micros)",
    ),
    (
        row(1, t=replace(INT, name=model.TIME)),
        row(1, t=LONG),
        f"t: a time of day ({model.TIME}) and another unit (bigint)",
    ),
]


@pytest.mark.parametrize(("a", "b", "why"), APART)
def test_what_is_not_additive(a: Schema, b: Schema, why: str) -> None:
    """No type holds both: the place is named."""
    with pytest.raises(NotAdditive) as caught:
        merge(a, b)
    assert str(caught.value) == why


WIDENINGS = {
    "tinyint": "tinyint smallint int bigint double",
    "smallint": "smallint int bigint double",
    "int": "int bigint double",
    "bigint": "bigint",
    "float": "float double",
    "double": "double",
    "date": "date timestamp_ntz",
    "decimal(8,2)": "decimal(8,2) decimal(9,2) decimal(9,3)",
    "string": "string",
}
TYPES = [*WIDENINGS, "timestamp_ntz", "timestamp", "decimal(9,2)", "decimal(9,3)", "decimal(8,3)", "decimal(10,5)"]


@pytest.mark.parametrize("old", WIDENINGS)
def test_what_delta_widens(old: str) -> None:
    """Delta's table of widenings, whole."""
    assert {new for new in TYPES if delta_widens(old, new)} == set(WIDENINGS[old].split())


def test_misfits_are_found_within() -> None:
    """Structs, arrays and maps are looked into; columns of one side alone are no hindrance."""
    held = ddl.parse("A INT, b ARRAY<STRUCT<x: BIGINT>>, c MAP<STRING, DATE>, gone INT")
    assert misfit(held, ddl.parse("a BIGINT, new STRING")) is None
    assert misfit(held, ddl.parse("b ARRAY<STRUCT<x: FLOAT>>")) == "b[].x: Delta cannot widen BIGINT to FLOAT"
    assert misfit(held, ddl.parse("c MAP<STRING, TIMESTAMP>")) == "c{}: Delta cannot widen DATE to TIMESTAMP"


LEAVES = [
    *(Schema(kind) for kind in model.KINDS[:9]),
    *(replace(s, optional=False) for s in (DATE, TIMESTAMP, enum("R"), enum("R", "G"), decimal(8, 2), decimal(9, 3))),
    Schema("int64", name=model.LOCAL_TIMESTAMP_MILLIS),
    Schema("int32", name=model.TIME),
    Schema("int64", name=model.TIME_MICROS),
    Schema("string", name=model.UUID),
]


def parts(leaves: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    """Any schema: its optionality and default are drawn at every level."""
    plain = st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(struct, st.dictionaries(st.sampled_from("abcA"), adorned(inner), max_size=3)),
            st.builds(lambda value: Schema("array", value=value), adorned(inner)),
            st.builds(lambda key, value: Schema("map", key=key, value=value), leaves, adorned(inner)),
        ),
        max_leaves=6,
    )
    return adorned(plain)


def adorned(schemas: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    def adorn(schema: Schema, **more: Any) -> Schema:
        return replace(schema, **more)

    return st.builds(
        adorn,
        schemas,
        optional=st.booleans(),
        default=st.sampled_from([None, None, "0"]),
        doc=st.sampled_from([None, "x"]),
    )


def of(*schemas: Schema) -> st.SearchStrategy[Schema]:
    return adorned(st.sampled_from(schemas))


def rows(**fields: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.builds(struct, st.fixed_dictionaries({}, optional=fields))


NUMBER = of(SHORT, INT, LONG)
RELATIVES = rows(
    a=NUMBER,
    b=adorned(st.builds(lambda value: Schema("array", value=value), NUMBER)),
    c=of(enum("R"), enum("R", "G"), enum("B", name="paint"), STRING),
    d=of(decimal(8, 2), decimal(9, 3), decimal(6, 4)),
    e=adorned(rows(x=NUMBER, y=of(FLOAT, DOUBLE), z=of(DATE, replace(LONG, name=model.LOCAL_TIMESTAMP_MILLIS)))),
)
"""Records that are close enough to have a union."""


def versioned(schemas: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.builds(lambda schema, version: replace(schema, version=version), schemas, st.sampled_from([None, 1, 2]))


VERSIONED = versioned(parts(st.sampled_from(LEAVES)))
PAIRS = st.one_of(st.tuples(VERSIONED, VERSIONED), st.tuples(versioned(RELATIVES), versioned(RELATIVES)))
SOME_MODE = st.sampled_from(MODES)


@pytest.mark.parametrize("mode", MODES)
def test_a_part_without_fields_is_refused(mode: Mode) -> None:
    """Before the table has the record's other fields, and behind that."""
    record, current = row(1, e=struct({}), new=INT), row(1, e=struct({"x": INT}))
    for each in (record, row(1, e=struct({}))):
        decision = decide(each, current, mode)
        assert (decision.action, decision.current) == ("quarantine", current)
        assert decision.why


@given(VERSIONED, SOME_MODE)
@searched(100)
def test_any_schema_is_compatible_with_itself(schema: Schema, mode: Mode) -> None:
    """Reflexive in every mode, and without a difference."""
    assert check(schema, schema, mode) == Verdict.OK
    assert structural(schema, replace(schema, version=7)) is None
    assert changes(schema, schema) == ()


@given(PAIRS, SOME_MODE)
@searched(400)
def test_any_two_schemas_are_decided(pair: tuple[Schema, Schema], mode: Mode) -> None:
    """No pair raises; a refusal says why; after a change of the table the same record changes it no more."""
    record, current = pair
    decision = decide(record, current, mode)
    json.dumps(decision.to_json())
    if decision.action == "quarantine":
        assert decision.why
        assert decision.current == current
    if decision.action == "evolve":
        assert decide(record, decision.current, mode, table=decision.table).action in ("write", "project")
        # Under BACKWARD an older version, too, brings columns that the table lacks: it is read as the table's.
        older = mode == "BACKWARD" and (record.version or 0) <= (current.version or 0)
        source, target = (record, current) if older else (current, record)
        assert mode == "NONE" or structural(source, target) is None


@given(versioned(RELATIVES), versioned(RELATIVES))
@searched(300)
def test_a_union_covers_both(a: Schema, b: Schema) -> None:
    """Merging is idempotent, and a table that holds the union takes either without a change."""
    union = merge(a, b)
    assert merge(a, a) == a
    assert merge(union, union) == union
    try:
        columns = value_columns(union)
    except SchemaError:
        return  # A struct without fields.
    assert {value_columns(merge(union, one)) for one in (a, b)} == {columns}
    assert misfit(_held(a), columns) is None


def _held(schema: Schema) -> tuple[ddl.Column, ...]:
    """The columns of a table of that schema, as far as a table can hold it."""
    try:
        return value_columns(schema)
    except SchemaError:
        return ()


@pytest.mark.parametrize("mode", ["BACKWARD", "FORWARD", "FULL"])
def test_a_second_type_of_record_is_refused_with_the_way_out(mode: Mode) -> None:
    """It shares the topic with the first one; a part of another name is no other type."""
    other = decide(replace(V1, name="x"), V1, mode)
    assert "named x in the record" in other.why or "in the record, x in the table" in other.why
    assert "schema.compatibility NONE gives one table the columns of all" in other.why
    part = decide(row(1, e=enum("R", name="x")), row(1, e=enum("R")), mode)
    assert (part.action, "the table takes one type" in part.why) == ("quarantine", False)


def with_default(schema: Schema, symbol: str) -> Schema:
    return replace(schema, parameters=((model.SYMBOL_DEFAULT, symbol), *schema.parameters))


@pytest.mark.parametrize(
    ("mode", "default", "action", "columns"),
    [
        ("BACKWARD", None, "evolve", "R,G,B"),
        ("FORWARD", None, "quarantine", None),
        ("FULL", None, "quarantine", None),
        ("NONE", None, "write", "R,G"),
        ("FORWARD", "R", "write", "R,G"),
        ("FULL", "R", "evolve", "R,G,B"),
    ],
)
def test_a_new_symbol(mode: Mode, default: str | None, action: str, columns: str | None) -> None:
    """FORWARD and FULL take it where the table's enum has a default; its column stays a STRING, which keeps it."""
    table = enum("R", "G") if default is None else with_default(enum("R", "G"), default)
    decision = decide(row(2, c=enum("R", "G", "B")), row(1, c=table), mode)
    assert decision.action == action
    if columns:
        assert decision.current is not None
        assert decision.current.fields[0].schema.parameter(model.SYMBOLS) == columns
        assert [str(column.type) for column in value_columns(decision.current)] == ["string"]


def test_a_changed_default_of_symbols_is_no_other_type() -> None:
    """A table whose ledger was written before defaults of symbols were kept goes on."""
    old, new = row(1, c=enum("R", "G")), row(1, c=with_default(enum("R", "G"), "R"))
    for mode in MODES:
        assert decide(new, old, mode).action in ("write", "project")
