"""What is decided about schemas follows from the order of their first records, and not from where batches are cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle.examples import searched

from lakeingest.config import PipelineConfig
from lakeingest.decode import avro
from lakeingest.decode.order import in_order
from lakeingest.decode.readers import Reading
from lakeingest.ingest.schema_decisions import SchemaDecisions
from lakeingest.ingest.writer_schemas import WriterSchema
from lakeingest.schema.compatibility import naming
from lakeingest.schema.ledger import SchemaLedger
from lakeingest.schema.model import NUMBERS, Field, Schema, struct, value_columns
from lakeingest.schema.widened import barring

MODES = ("BACKWARD", "FORWARD", "FULL", "NONE")
NAMES = ("a", "A", "b", "c", "d")
INT, STRING = Schema("int32", optional=True), Schema("string", optional=True)


def config(mode: str, **parts: Any) -> PipelineConfig:
    given = {"name": "p", "source": {"topics": ["p"]}, "table": {"path": "s3a://lake/p"}, **parts}
    schema = {"compatibility": mode, **given.pop("schema", {})}
    return PipelineConfig.model_validate({**given, "decode": {"value": {"format": "avro"}}, "schema": schema})


SCALARS = st.builds(
    Schema,
    type=st.sampled_from([*NUMBERS[2:], "string"]),
    optional=st.booleans(),
    default=st.sampled_from([None, None, "0"]),
)


@st.composite
def structs(draw: st.DrawFn, depth: int = 1) -> Schema:
    """A record with aliases: some of them are names of other fields, or of columns."""
    kinds = SCALARS | structs(depth - 1) if depth else SCALARS
    names = draw(st.lists(st.sampled_from(NAMES), unique_by=str.lower, min_size=1, max_size=4))
    aliases = st.lists(st.sampled_from(NAMES), max_size=2).map(tuple)
    fields = tuple(Field(name, draw(kinds), draw(aliases)) for name in names)
    return Schema("struct", "R", optional=draw(st.booleans()), fields=fields)


NUMERIC = st.builds(
    lambda a, b: struct({"a": a, "b": struct({"a": b}, optional=True)}),
    *[st.sampled_from(NUMBERS).map(lambda name: Schema(name, optional=True))] * 2,
)
"""Records that differ in the widths of numbers alone."""
HISTORIES = st.lists(structs(), min_size=1, max_size=5) | st.lists(NUMERIC, min_size=2, max_size=5)
STEPS = (
    "a + 1 > 0",
    "a > 5",
    "CAST(a AS STRING)",
    "CAST(CAST(a AS DOUBLE) AS STRING)",
    "CAST(xxhash64(b.a) AS BIGINT)",
)
TRANSFORMS: list[dict[str, Any]] = [{"transform": [{"derive": {"made": text}}]} for text in STEPS]
RULES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"schema": {"widening": "refuse"}}, {"partition": [{"by": "field", "field": "a"}]}, *TRANSFORMS]
)
LOGS = st.lists(st.integers(0, 4), min_size=1, max_size=10)


def writer(version: int, schema: Schema) -> WriterSchema:
    reading = Reading(replace(schema, optional=False), avro.AvroReader(""), "R")
    return WriterSchema("value", bytes([version]), version, "p-value", version, f"print {version}", None, reading)


def decided(
    mode: str, history: Sequence[Schema], log: Sequence[int], cuts: Sequence[int], **parts: Any
) -> SchemaLedger:
    """The ledger behind a log of versions, of which each batch is a run of its own."""
    ledger = SchemaLedger()
    for start, end in zip(cuts, [*cuts[1:], len(log)], strict=True):
        decisions = SchemaDecisions(
            config(mode, **parts), SchemaLedger.from_json(json.loads(json.dumps(ledger.to_json())))
        )
        table = ledger.table("value")
        met = dict.fromkeys(log[start:end])
        columns = value_columns(table) if table else None
        decisions.decide([writer(v + 1, history[v % len(history)]) for v in met], 1, columns)
        ledger = decisions.ledger
    return replace(ledger, entries=tuple(replace(entry, time="") for entry in ledger.entries))


@given(st.sampled_from(MODES), RULES, HISTORIES, LOGS, st.data())
@searched(300)
def test_cuts_decide_nothing(
    mode: str, rules: dict[str, Any], history: list[Schema], log: list[int], data: st.DataObject
) -> None:
    """Random versions, with aliases, in random order: verdicts, columns and their other names are the same."""
    cuts = sorted({0, *data.draw(st.sets(st.integers(0, len(log) - 1)))})
    whole = decided(mode, history, log, [0], **rules)
    assert decided(mode, history, log, cuts, **rules) == whole
    assert decided(mode, history, log, range(len(log)), **rules) == whole


@pytest.mark.parametrize(
    "rules", [{"schema": {"widening": "refuse"}}, {"partition": [{"by": "field", "field": "a"}]}], ids=["wide", "moved"]
)
@pytest.mark.parametrize("mode", ["BACKWARD", "NONE"])
def test_a_column_that_the_batch_makes_is_no_freer_than_others(mode: str, rules: dict[str, Any]) -> None:
    """Within one batch a new column could become wider although the file refuses it, or rows are cut by it."""
    history = [struct({"b": INT}), struct({"b": INT, "a": INT}), struct({"b": INT, "a": replace(INT, type="int64")})]
    for log in ([1, 2], [0, 1, 2]):
        whole = decided(mode, history, log, [0], **rules)
        assert whole == decided(mode, history, log, range(len(log)), **rules)
        assert [entry.action for entry in whole.entries][-2:] == ["evolve", "quarantine"]


@given(st.sampled_from(MODES), HISTORIES, LOGS)
@searched(300)
def test_a_field_keeps_its_column(mode: str, history: list[Schema], log: list[int]) -> None:
    """Whatever comes later: another column would split its values. And what the table has is never lost."""
    placed: dict[int, Schema] = {}
    for end in range(1, len(log) + 1):
        ledger = decided(mode, history, log[:end], [0])
        table = ledger.table("value")
        for entry in ledger.entries:
            assert entry.version is not None
            if entry.action == "quarantine":
                continue
            schema = history[(entry.version - 1) % len(history)]
            names = naming.with_column_names(schema, table, rescued=entry.rescued)
            assert placed.setdefault(entry.version, names) == names
            assert table is not None
            assert [*naming.without_column(schema, names, table)] == [*entry.rescued]


@pytest.mark.parametrize("kind", [INT, struct({"A": INT})], ids=["clash", "inner"])
def test_a_rescued_field_stays_without_a_column(kind: Schema) -> None:
    """A later version makes its name another one of a column: records of the older version could not be read any more,
    or what is within the field got the column's names.
    """
    inner = struct({"a": INT}, optional=True)
    first, older = struct({"b": inner}), struct({"d": kind, **({"b": inner} if kind is INT else {})})
    later = replace(first, fields=(Field("d", inner, ("b",)),))
    for log in ([0, 1], [0, 1, 2]):
        ledger = decided("FORWARD", [first, older, later], log, [0])
        entry = ledger.entries[1]
        assert (entry.action, entry.rescued) == ("project", ("d",))
        names = naming.with_column_names(older, ledger.table("value"), rescued=entry.rescued)
        assert [field.name for field in names.fields] == ["", *(["b"] if kind is INT else [])]
        assert names.fields[0].schema == kind
    assert [column.aliases for column in ledger.table("value").fields] == [("d",)]


@given(st.sampled_from(MODES), st.sampled_from(TRANSFORMS), st.lists(NUMERIC, min_size=2, max_size=5), LOGS)
@searched(100)
def test_steps_give_the_same_whatever_comes_later(
    mode: str, rules: dict[str, Any], history: list[Schema], log: list[int]
) -> None:
    """A later version widened the column, and an old record in its batch had another text, or was not computed."""
    tables = [decided(mode, history, log[:end], [0], **rules).table("value") for end in range(1, len(log) + 1)]
    columns = [value_columns(table) for table in tables if table]
    steps = config(mode, **rules).steps
    assert [why for was, now in pairwise(columns) if (why := barring(steps, was, now))] == []


def test_a_refused_widening_says_the_cure() -> None:
    """Verdict and action are those of other schemas that do not fit; with the cure the table follows."""
    history = [struct({"n": INT}), struct({"n": Schema("int64", optional=True)})]
    barred, cured = ([{"derive": {"made": f"CAST({n} * 2 AS BIGINT)"}}] for n in ("n", "CAST(n AS BIGINT)"))
    entry = decided("BACKWARD", history, [0, 1], [0], transform=barred).entries[1]
    assert (entry.verdict, entry.action) == ("DIFFERENT_TYPE", "quarantine")
    assert entry.why == (
        "transform[0].derive.made: n is INT in the table and BIGINT in the record, and the step makes another value of "
        "it: write CAST(n AS BIGINT) in the step, then replay"
    )
    assert [e.action for e in decided("BACKWARD", history, [0, 1], [0], transform=cured).entries] == ["evolve"] * 2


@pytest.mark.parametrize("mode", ["BACKWARD", "NONE"])
def test_a_column_that_the_batch_widens_is_wide_for_all_of_it(mode: str) -> None:
    """The third version was refused where it shared a batch with the second, which widens the column."""
    narrow, wide = struct({"n": INT}), struct({"n": Schema("int64", optional=True)})
    history = [narrow, wide, replace(wide, doc="the same")]
    whole = decided(mode, history, [0, 2, 1], [0])
    assert decided(mode, history, [0, 2, 1], [0, 1]) == whole == decided(mode, history, [0, 2, 1], range(3))
    assert "quarantine" not in [entry.action for entry in whole.entries]


def test_first_records_are_in_the_order_of_each_partition() -> None:
    """Timestamps decide between partitions alone: within one they may run backwards."""
    firsts = {
        ("value", b"1"): {("t", 0): (5, 100)},
        ("value", b"2"): {("t", 0): (3, 900), ("t", 1): (7, 500)},
        ("value", b"3"): {("t", 1): (8, 1)},
    }
    assert in_order(firsts) == {
        ("value", b"2"): (0, ("t", 1, 7)),
        ("value", b"3"): (1, ("t", 1, 8)),
        ("value", b"1"): (2, ("t", 0, 5)),
    }


V1 = Schema("struct", "R", fields=(Field("mail", STRING),))
V2 = Schema("struct", "S", fields=(Field("email", STRING, ("mail",)),), aliases=("R",))
V3 = Schema("struct", "S", fields=(Field("email", STRING),))
V4 = Schema("struct", "S", fields=(Field("e_mail", STRING, ("email",)),))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("log", [(0, 1, 2, 3), (1, 0, 2, 3), (3, 1, 0, 2), (1, 3, 2, 0)])
def test_a_rename_keeps_the_column(mode: str, log: tuple[int, ...]) -> None:
    """In every mode and order, also where a version forgets the alias, or renames once more."""
    ledger = decided(mode, [V1, V2, V3, V4], log, range(4))
    (column,) = ledger.table("value").fields
    first = {0: "mail", 1: "email", 3: "e_mail"}[log[0]]
    assert (column.name, [e.action for e in ledger.entries if e.action == "quarantine"]) == (first, [])
    assert {column.name, *column.aliases} == {"mail", "email", "e_mail"}


def test_the_ledger_tells_a_rename() -> None:
    """By the column, and what it is called now."""
    ledger = decided("BACKWARD", [V1, V2], [0, 1], [0])
    assert ledger.entries[1].changes == ("~ mail is now called email",)
    assert ledger.entries[1].verdict == "DIFFERENT_VERSION"
    assert [e.changes for e in decided("BACKWARD", [V1, V2], [1, 0], [0]).entries][1] == ("~ email was called mail",)


CLASHES = [
    (struct({"mail": STRING}), (Field("email", STRING, ("mail",)), Field("post", STRING, ("mail",)))),
    (V2, (Field("email", STRING), Field("mail", STRING))),
]


@pytest.mark.parametrize(("first", "fields"), CLASHES)
def test_two_fields_for_one_column_are_refused(first: Schema, fields: tuple[Field, ...]) -> None:
    """Which of them would be in the column is a matter of luck."""
    second = Schema("struct", first.name, fields=fields)
    refused = decided("BACKWARD", [replace(first, name=second.name), second], [0, 1], [0]).entries[1]
    assert (refused.verdict, refused.action) == ("DIFFERENT_NAME", "quarantine")
    assert "would both go to the column" in refused.why


def test_a_name_goes_before_an_alias() -> None:
    """The field `mail` is still there: `email` is another one."""
    second = Schema("struct", "R", fields=(Field("mail", STRING), Field("email", STRING, ("mail",))))
    table = decided("BACKWARD", [V1, second], [0, 1], [0]).table("value")
    assert [(f.name, f.aliases) for f in table.fields] == [("mail", ()), ("email", ())]


def test_what_was_refused_is_decided_anew_under_other_rules() -> None:
    """A refusal stands as long as the file says the same of schemas, and is not told twice."""
    wide, narrow = struct({"n": Schema("int64", optional=True)}), struct({"n": INT})
    ledger = decided("BACKWARD", [narrow, wide, replace(wide, doc="d")], [1, 0, 0], [0, 1, 2])
    assert [(e.version, e.action) for e in ledger.entries] == [(2, "evolve"), (1, "project")]
    ledger = decided("FORWARD", [narrow, wide], [0, 1, 1], [0, 1, 2])
    assert [(e.version, e.action) for e in ledger.entries] == [(1, "evolve"), (2, "quarantine")]
    decisions = SchemaDecisions(config("BACKWARD"), ledger)
    decisions.decide([writer(2, wide)], 1, None)
    assert [(e.version, e.action) for e in decisions.ledger.entries][2:] == [(2, "evolve")]


def test_a_replay_asks_again() -> None:
    """A refused version that a later one makes room for: its records may be replayed, into the columns there are."""
    required = Schema("int32")
    one, two = struct({"a": INT}), struct({"a": INT, "new": required, "junk": INT})
    three = struct({"a": INT, "new": INT})
    ledger = decided("BACKWARD", [one, two, three], [0, 1, 2], [0])
    assert [e.action for e in ledger.entries] == ["evolve", "quarantine", "evolve"]
    known = writer(2, two)
    assert SchemaDecisions(config("BACKWARD"), ledger).decision(known, None).action == "quarantine"
    again = SchemaDecisions(config("BACKWARD"), ledger, follows=False).decision(known, None)
    assert (again.action, again.rescued, again.table) == ("project", ("junk",), ledger.table("value"))


def test_a_ledger_of_old_is_read() -> None:
    """It has no aliases, no rules and no columns but those that are current; the table knows of the others."""
    old = SchemaLedger.from_json(
        {
            "seen": [{"side": "value", "id": 1, "fingerprint": "print 1", "name": "R", "verdict": "OK", "version": 1,
                      "action": "evolve", "sequence": 1, "time": "t", "subject": "p-value"}],
            "current": {"value": {"type": "struct", "name": "R", "version": 2,
                                  "fields": [["a", {"type": "int32", "optional": True}]]}},
        }
    )  # fmt: skip
    decisions = SchemaDecisions(config("BACKWARD"), old)
    gone = struct({"a": INT, "gone": STRING}, name="R")
    decisions.decide([writer(1, gone)], 2, value_columns(gone))
    table = decisions.ledger.table("value")
    assert [field.name for field in table.fields] == ["a", "gone"]
    assert SchemaLedger.from_json(decisions.ledger.to_json()) == decisions.ledger


def test_columns_have_the_documentation_of_the_current_schema() -> None:
    """And removed ones their own: the steps of a transform name them still."""
    old = struct({"a": replace(INT, doc="old"), "gone": replace(STRING, doc="gone")})
    ledger = decided("BACKWARD", [old, struct({"a": replace(INT, doc="new")})], [0, 1], [0])
    documented = ledger.documented("value")
    assert [(field.name, field.schema.doc) for field in documented.fields] == [("a", "new"), ("gone", "gone")]


def test_a_column_that_nobody_fills_is_left_alone() -> None:
    """The table's owner made it, with a default perhaps, which a null would take the place of."""
    ledger = decided("BACKWARD", [struct({"a": INT})], [0], [0])
    decisions = SchemaDecisions(config("BACKWARD"), ledger)
    columns = value_columns(struct({"a": INT, "made": STRING, "kept": INT}))
    decisions.decide([writer(2, struct({"a": INT, "kept": INT}))], 2, columns)
    assert [field.name for field in decisions.ledger.table("value").fields] == ["a", "kept"]
