"""Tables of 80 columns and less: nothing is wider, and what is left out or cut is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len

from lakeingest.cli import explain, pipeline_file, stack
from lakeingest.cli.output import Output
from lakeingest.delta.maintenance.inventory import TableFiles
from lakeingest.delta.maintenance.outcome import TableMaintenance
from lakeingest.delta.receipt import Counts
from lakeingest.errors import StorageUnreachable
from lakeingest.gate.evaluate import Result
from lakeingest.gate.suite import Rule, brief
from lakeingest.local import Addresses
from lakeingest.local.stack import ServerStatus
from lakeingest.operations.forecast import Forecast
from lakeingest.operations.results.backfill import Backfilled
from lakeingest.operations.results.fleet import Outcome, Outcomes
from lakeingest.operations.results.gate import GateResults
from lakeingest.operations.results.maintenance import MaintenanceResult
from lakeingest.operations.results.plan import Plan
from lakeingest.operations.results.refusals import Reasons
from lakeingest.operations.results.replay import Replayed
from lakeingest.operations.results.schema_history import SchemaHistory, WriterSummary
from lakeingest.operations.results.showable import Showable
from lakeingest.operations.results.status import Status
from lakeingest.record import OffsetRange, OffsetRanges
from lakeingest.schema.ledger import Entry

LONG = "a_topic_of_a_company_whose_names_have_" + "many_" * 20 + "parts"
PATH = f"s3a://lake/{LONG}"
KWARGS = {"column": LONG, "regex": r"^(?:[A-Z)]{2}\"|" + "x" * 300 + ")$", "mostly": None}
RULE = Rule(
    f"expect_column_values_to_match_regex({LONG})", "expect_column_values_to_match_regex", KWARGS, {}, True, "hold"
)
MESSAGE = f"{LONG} is 値{'Z' * 300}: {RULE.text}"
REFUSALS = [
    {
        "stage": "gate",
        "reason": RULE.name,
        "count": 1_234_567_890,
        "samples": [{"coordinates": f"{LONG}-0:{n}", "message": MESSAGE} for n in range(3)],
    }
]
RESULT = Result(RULE, False, 1_234_567_890, 1_234_567, '{"' + "q" * 300 + '": 1}', ("s" * 200,))
ENTRY = Entry(
    *("value", 12345, f"{LONG}-value", 3, LONG, "f" * 64, "DIFFERENT_TYPE_OF_SCHEMA", "quarantine"),
    *((f"+ {LONG} STRING",) * 9, 7, (LONG, 0, 1), "2026-11-26T04:00:00+00:00"),
)
PLAN = Plan(
    pipeline=LONG[:60],
    ranges=OffsetRanges((OffsetRange(LONG[:60], 0, 0, 10),)),
    counts={"consumed": 10, "accepted": 9, "refused": 1, "dropped": 0},
    left_out={},
    columns=({"name": LONG, "type": f"struct<{LONG}:string>" * 9, "new": True, "was": None},),
    schemas=(ENTRY,),
    refusals=tuple(REFUSALS),
    corrections=(),
    results=(RESULT,),
    held=(f"hold: {RESULT}",),
    constraints={},
    forecast=Forecast(None, 1440, 6, 8640, None, 93_600),
)
STATUS = Status(
    "p",
    ({"topic": LONG, "partition": 10, "frontier": None, "end": 10**15, "lag": 10**15},),
    (
        {
            **{"sequence": 123456, "version": 1234567, "time": "2026-11-26T04:00:00+00:00", "rows": 500_000},
            **{"offsets": 500_000, "refused": 12345, "dropped": 12345, "left_out": {LONG: 1}, "ties": 3},
            "writer": f"4f0c on {LONG} since 2026",
        },
    ),
    {"table": {"path": PATH, "rows": 10**12, "files": 10**6, "bytes": 10**13, "average_file_bytes": 10**7}},
    backfill=({"sequence": 7, "time": "2026-11-26T04:00:00+00:00", "remaining": 10**9},),
)
RANGE: dict[str, Any] = {"topic": LONG, "partition": 10, "start": 10**14, "end": 10**15, "offsets": 9 * 10**14}
HISTORY = SchemaHistory(
    "p", "BACKWARD", (), (WriterSummary("value", 12345, LONG, 3, LONG, 10**9, 10**6, (LONG, 0, 1), (LONG, 0, 9)),), {}
)
ROWS = [{**RESULT.to_json(), "sequence": 7, "time": datetime(2026, 11, 26, 4), "outcome": "held"}]


CONFIG: Any = SimpleNamespace(name="p", quarantine=SimpleNamespace(identifier=PATH), results=PATH)
REASONS = Reasons(CONFIG, REFUSALS)
RESULTS: dict[str, Showable] = {
    "plan": PLAN,
    "status": STATUS,
    "quarantine list": REASONS,
    "quarantine replay": Replayed("p", True, 10, 9, tuple(REFUSALS)),
    "backfill": Backfilled("p", (RANGE,), 10**9, Counts(), 0, RANGE["offsets"], dry_run=True, rate=1.5),
    "gate history": GateResults(CONFIG, [*ROWS, {**ROWS[0], "sequence": 6}]),
    "schema history": HISTORY,
    "maintain": MaintenanceResult(
        "p", [TableMaintenance(PATH, TableFiles(10**6, 10**13), TableFiles(10**5, 10**13), 10**4)], dry_run=False
    ),
    "run of many": Outcomes(
        [
            Outcome(
                StorageUnreachable("down", cure="c"),
                **{"pipeline": LONG, "commits": 10**6, "counts": Counts(10**9, 10**9, 10**6), "lag": 10**12},
            )
        ]
    ),
}


def servers() -> None:
    state = ServerStatus("registry", "running", 29805, 1234567, "Apicurio 3.0.9", Path("/" + LONG))
    stack._show(Output(), Addresses(f"{LONG}:1", "http://h:1", "k", "s", f"http://{LONG}"), [state])


LISTINGS: dict[str, Callable[[], None]] = {
    **{name: partial(Output().text, result) for name, result in RESULTS.items()},
    "stack status": servers,
    "explain": lambda: explain.explain(None),
    "describe": lambda: pipeline_file.describe("", output="text"),
}


def tables(said: str) -> Iterator[list[str]]:
    """The lines of each table: from its headings to the line that is empty."""
    table: list[str] = []
    for line in said.splitlines():
        if line.strip(" ─") == "" and "─" in line:
            table = [line]
        elif table and not line.strip():
            yield table
            table = []
        elif table:
            table.append(line)
    if table:
        yield table


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("listing", LISTINGS)
def test_no_table_is_wider_than_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, listing: str, width: int
) -> None:
    """Names of records and tables are as long as somebody else likes."""
    monkeypatch.setenv("COLUMNS", str(width))
    LISTINGS[listing]()
    said = capsys.readouterr().out
    found = list(tables(said))
    assert found, said
    assert [line for table in found for line in table if cell_len(line) > width] == []
    assert max(map(len, found)) < (240 if listing in ("describe", "explain") else 40), said
    # A number or a time is not broken where something could be left out instead.
    if width == 80:
        assert not [line for table in found for line in table if listing == "status" and "…" in line]


def test_what_is_left_out_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """And where it is to be had; with room enough nothing is."""
    monkeypatch.setenv("COLUMNS", "80")
    Output().text(STATUS)
    assert "left out at this width, and in --output json: writer" in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "200")
    Output().text(STATUS)
    said = capsys.readouterr().out
    assert "left out" not in said
    assert "writer" in said


def test_messages_of_the_gate_are_short(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The expectation stands as the reason: its arguments filled the screen, once for each sample."""
    monkeypatch.setenv("COLUMNS", "400")
    Output().text(REASONS)
    said = capsys.readouterr().out
    assert "xxx" not in said
    assert "what ends with … is longer: --output json has it whole" in said
    assert said.count(RULE.type) == 1


RULES = [
    Rule("r(a)", "expect_x", {"column": "a", "regex": 'a"), b="c'}, {}, True, "warn"),
    Rule("r(a, b)", "expect_pair", {"column_A": "a", "column_B": "b", "nested": {"x": [1, ")"]}}, {}, True, "warn"),
    Rule("r()", "expect_table_row_count_to_equal", {"value": 3}, {}, False, "hold"),
]


@pytest.mark.parametrize(
    ("message", "short"),
    [
        (f"a is x: {RULES[0].text}", "a is x: expect_x(a)"),
        (
            f"a is x: {RULES[0].text}; a is x, b is y: {RULES[1].text}",
            "a is x: expect_x(a); a is x, b is y: expect_pair(a, b)",
        ),
        (f"hold: {RULES[2].text}: observed 4", "hold: expect_table_row_count_to_equal(): observed 4"),
        ("flight = expect_ is no INT", "flight = expect_ is no INT"),
        ('a is expect_x(column="a: b', 'a is expect_x(column="a: b'),
        (f"a is expect_x(1: {RULES[0].text}", "a is expect_x(1: expect_x(a)"),
        ("expect_x(a=" + "[" * 100_000, "expect_x(a=" + "[" * 100_000),
        ("expect_x()", "expect_x()"),
    ],
)
def test_an_expectation_is_shortened_to_its_columns(message: str, short: str) -> None:
    """Whatever its arguments hold, and whatever a record's value looks like."""
    assert brief(message) == short


GOOD = replace(
    PLAN, counts={"consumed": 10, "accepted": 9, "refused": 0, "dropped": 1}, held=(), results=(), schemas=()
)
COLUMN = {"name": "n", "type": "int", "new": False, "was": None}


@pytest.mark.parametrize(
    ("made", "lead"),
    [
        (
            GOOD,
            (
                "all of 10 records sampled would be committed",
                *("9 to the table, 0 to quarantine, 1 dropped", "a new table of 1", "none"),
            ),
        ),
        (
            replace(PLAN, held=(), columns=(COLUMN, {**COLUMN, "was": "int"}, {**COLUMN, "new": True})),
            (
                "1 of 10 records sampled would be refused",
                "9 to the table, 1 to quarantine, 0 dropped",
                *("1 new, 1 of another type, 1 schema refused", "0 of 1 expectation met"),
            ),
        ),
        (
            replace(GOOD, schemas=(ENTRY,), columns=(COLUMN,)),
            (
                "all of 10 records sampled would be committed, and not all is as expected",
                *("9 to the table, 0 to quarantine, 1 dropped", "1 schema refused", "none"),
            ),
        ),
        (
            replace(GOOD, columns=(COLUMN,), held=("3 of 10 records are refused",), left_out={"flown": 1}),
            (
                "the batch would be kept back, of 10 records sampled",
                *("9 to the table, 0 to quarantine, 1 dropped (1 by flown)", "1, no change"),
                "the batch would be kept back",
            ),
        ),
    ],
)
def test_a_plan_leads_with_what_would_happen(
    capsys: pytest.CaptureFixture[str], made: Plan, lead: tuple[str, ...]
) -> None:
    """Before any table: in four lines, records, columns and gate."""
    Output().text(made)
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"{made.pipeline}: {lead[0]}"
    wanted = zip(("records", "columns", "gate"), lead[1:], strict=True)
    assert lines[:3] == [f"  {name:8} {what}" for name, what in wanted]
