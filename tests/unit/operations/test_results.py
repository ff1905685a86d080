"""Results as they are shown: one line, HTML that does nothing but show, frames."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

import lakeingest
from lakeingest.cli.output import Output
from lakeingest.config import file
from lakeingest.config.options import Option
from lakeingest.delta.maintenance.inventory import TableFiles
from lakeingest.delta.maintenance.outcome import TableMaintenance
from lakeingest.delta.receipt import Counts
from lakeingest.errors import CatalogUnreachable, LakeingestError, UsageError
from lakeingest.gate.convert import Converted
from lakeingest.gate.evaluate import Result
from lakeingest.gate.suite import Rule
from lakeingest.operations import results
from lakeingest.operations.connect import ConnectorOption, Imported
from lakeingest.operations.erasure.objects import Hit
from lakeingest.operations.forecast import Forecast
from lakeingest.operations.results.adopt import Adopted
from lakeingest.operations.results.audit import Report
from lakeingest.operations.results.backfill import Backfilled
from lakeingest.operations.results.compare import Comparison, Window
from lakeingest.operations.results.connector import ConnectorImport
from lakeingest.operations.results.contract_document import ContractDocument
from lakeingest.operations.results.database import DatabaseComparison, DifferentKey
from lakeingest.operations.results.doctor import Diagnosis, Finding
from lakeingest.operations.results.erasure import Certificate, PipelinePart, TablePart
from lakeingest.operations.results.export import Exported, ExportedObject
from lakeingest.operations.results.fleet import Outcome, Outcomes
from lakeingest.operations.results.gate import GateResults
from lakeingest.operations.results.gate_conversion import GateConversion
from lakeingest.operations.results.html import html
from lakeingest.operations.results.log_position import LogPosition
from lakeingest.operations.results.maintenance import MaintenanceResult
from lakeingest.operations.results.openers import Opener, Openers
from lakeingest.operations.results.pipeline_file import FileCheck, OptionHelp
from lakeingest.operations.results.plan import Plan
from lakeingest.operations.results.policy import Policy
from lakeingest.operations.results.rebuild import Compared, Rebuild, RebuildPlan
from lakeingest.operations.results.refusals import Reasons
from lakeingest.operations.results.replay import Replayed
from lakeingest.operations.results.run import RunSummary
from lakeingest.operations.results.schema_check import SchemaCheck
from lakeingest.operations.results.schema_history import LedgerStep, SchemaHistory, WriterSummary
from lakeingest.operations.results.showable import Rows, Showable, ShowableList
from lakeingest.operations.results.status import Status
from lakeingest.operations.results.wait import Completion, PositionWait
from lakeingest.record import OffsetRanges
from lakeingest.schema.compatibility import Decision
from lakeingest.schema.ledger import Entry

HOSTILE = "<script>alert(1)</script><img src=http://evil onerror='x'>&\"\x1b[2J\x00\n\u202e"
CONNECTOR_OPTION = ConnectorOption(HOSTILE, HOSTILE, "unknown", HOSTILE, HOSTILE)
BALANCE = {"consumed": 3001, "table": 2998, "quarantine": 3, "dropped": 0, "commits": 4, "missing": 0, "duplicated": 0}
NOTHING = {"left_out": {}, "unexpected": 0, "gaps": 0, "lost": 0, "unproved": 0, "earlier": 0}
REFUSED = {
    "stage": "value",
    "reason": HOSTILE,
    "count": 1234,
    "samples": [{"coordinates": "t-0:5", "message": HOSTILE}],
}
ENTRY = Entry("value", 7, HOSTILE, 2, "W", "f0", "OK", "evolve", (HOSTILE, "+ b INT"), 3, ("t", 0, 1), "2026-11-26")
COMMIT = {
    "sequence": 4,
    "version": 5,
    "time": "2026-11-26T04:00:00+00:00",
    "rows": 2998,
    "offsets": 3001,
    "refused": 3,
    "dropped": 0,
    "ties": 0,
    "left_out": {HOSTILE: 2},
    "writer": HOSTILE,
}
SIZE = {"path": "s3a://lake/t", "rows": 2998, "files": 1, "bytes": 10_000, "average_file_bytes": 10_000}
PARTITION = {"topic": "t", "partition": 0, "frontier": None, "end": 10, "lag": 10}


def report(**changes: Any) -> Report:
    return Report(**{"pipeline": "p", **BALANCE, **NOTHING, **changes})


PLAN = Plan(
    pipeline="p",
    ranges=OffsetRanges(()),
    counts={"consumed": 1000, "accepted": 997, "refused": 3, "dropped": 0},
    left_out={},
    columns=({"name": HOSTILE, "type": "int", "new": True, "was": None},),
    schemas=(ENTRY,),
    refusals=(REFUSED,),
    corrections=({"column": HOSTILE, "type": "STRING", "records": 3, "possible": False},),
    results=(),
    held=(HOSTILE,),
    constraints={},
    forecast=Forecast(None, 1440, 1, 1440, None, 57_600),
    warnings=(HOSTILE,),
)
NOW = datetime(2026, 11, 26, 4, tzinfo=UTC)
CONFIG: Any = SimpleNamespace(name="p", quarantine=SimpleNamespace(identifier="/q"), results="/r")
FOUND = Result(Rule("e(a)", "e", {"column": "a"}, {}, True, "hold"), False, 9, 1, None, (HOSTILE,))
ADOPTED = {"topic": HOSTILE, "partition": 0, "rows": 5, "first": None, "frontier": 5, "double": 0}
ADOPTED |= {"kafka_first": 0, "kafka_end": 9}
WINDOW = Window(HOSTILE, 0, 5, 9, 1, HOSTILE, 4, 3)
RUN = RunSummary(
    "p",
    2,
    Counts(9, 6, 2, 1),
    7,
    {HOSTILE: CatalogUnreachable(f"a\n{HOSTILE}", cure="c")},
    stopped=False,
    seconds=29,
    start_seconds=9,
)
OPENER = Opener(HOSTILE, "sql", None, "w", HOSTILE)
COMPARED = Compared(OffsetRanges(()), (1000, 1001), (5, 3))
RESULTS: dict[str, Showable] = {
    "gate_conversion": GateConversion(Path(HOSTILE), Converted({"name": HOSTILE, "expectations": [{"x": HOSTILE}]})),
    "report": report(named={"missing": [HOSTILE]}, missing=2, left_out={HOSTILE: 1}, others={HOSTILE: 4}),
    "status": Status("p", (PARTITION,), (COMMIT,), {"table": SIZE, "quarantine": {**SIZE, "rows": 3}}),
    "plan": PLAN,
    "schemas": SchemaHistory(
        "p",
        "BACKWARD",
        (LedgerStep(ENTRY, HOSTILE, current=True),),
        (WriterSummary("value", 7, HOSTILE, 2, "W", 5, 0, ("t", 0, 1), None),),
        {"value": ((HOSTILE, "INT"),)},
    ),
    "backfilled": Backfilled(
        "p", ({"topic": HOSTILE, "partition": 0, "start": 0, "end": 5, "offsets": 5},), 1, Counts(3, 2, 1), 1, 2
    ),
    "certificate": Certificate(
        *("request 1", HOSTILE, NOW, "0f" * 32),
        dry_run=False,
        searched=1,
        pipelines=(
            PipelinePart("p", 2, 1, 1, True, (TablePart(HOSTILE, 3, NOW, False, None, {"versions": 2}),), (HOSTILE,)),
        ),
        hits=(Hit(HOSTILE, "data", 1), Hit(HOSTILE, "log", 1)),
    ),
    "replayed": Replayed("p", dry_run=False, looked=5, moved=2, refused=(REFUSED,)),
    "rows": Rows("p", HOSTILE, [REFUSED]),
    "reasons": Reasons(CONFIG, [REFUSED]),
    "gate results": GateResults(CONFIG, [{**FOUND.to_json(), "sequence": 1, "time": NOW, "outcome": HOSTILE}]),
    "adopted": Adopted("p", HOSTILE, 3, "h", 5, (ADOPTED,), (HOSTILE,), (HOSTILE,)),
    "maintenance": MaintenanceResult(
        "p", [TableMaintenance(HOSTILE, TableFiles(9, 100), TableFiles(1, 90))], dry_run=False
    ),
    "exported": Exported(
        **{"pipeline": "p", "place": HOSTILE, "format": "csv", "from_version": 3, "to_version": 5, "rows": 1},
        **{"files": 2, "bytes": 100, "sequence": 1, "objects": (ExportedObject(HOSTILE, 1, 90),)},
    ),
    "database": DatabaseComparison(
        pipeline="p",
        database_table=HOSTILE,
        at=HOSTILE,
        position=HOSTILE,
        keys=3,
        same=2,
        changed_since=1,
        unsure=HOSTILE,
        counts={"missing": 0, "extra": 0, "different": 21},
        different=(DifferentKey(HOSTILE, "different", (HOSTILE,)),) * 21,
        columns=(HOSTILE,),
        left_out={HOSTILE: HOSTILE},
    ),
    "comparison": Comparison(pipeline="p", prefix=HOSTILE, objects=2, strange=1, windows=(WINDOW,), outside=()),
    "completion": Completion(
        **{"pipeline": "p", "period": "2026", "timezone": "UTC", "period_start": "a", "period_end": "b"},
        **{"waited_s": 1.2, "waits_for": HOSTILE, "missing": ({"topic": HOSTILE, "partition": 0},)},
    ),
    "position wait": PositionWait(pipeline="p", target=HOSTILE, waited_s=1.2, waits_for=HOSTILE),
    "position": PositionWait(pipeline="p", target=HOSTILE, waited_s=1.2, position=LogPosition((2**32, 7, 0), NOW)),
    "run": RUN,
    "openers": Openers(
        "p", "/t", Path("f.yaml"), {HOSTILE: "/t"}, {"A": "b"}, (Opener(HOSTILE, "sql", None, "w", HOSTILE),)
    ),
    "connector": ConnectorImport(
        Imported(
            {"f": HOSTILE},
            (ConnectorOption(HOSTILE, HOSTILE, "unknown", HOSTILE, HOSTILE),),
            {},
            (HOSTILE,),
            {},
            "g",
            (),
        ),
        *({Path("f.yaml"): HOSTILE}, True),
    ),
    "schema check": SchemaCheck(Path("a.avsc"), Decision("DIFFERENT_TYPE_OF_SCHEMA", "quarantine", why=HOSTILE)),
    "diagnosis": Diagnosis([Finding(HOSTILE, "bad", HOSTILE, HOSTILE), Finding("a", "good", "b")]),
    "file check": FileCheck(
        ({"file": HOSTILE, "ok": False, "problems": (HOSTILE,), "notices": (HOSTILE,)},), (HOSTILE,)
    ),
    "option": OptionHelp(Option(HOSTILE, HOSTILE, HOSTILE, HOSTILE, options=(Option("a", "b.a", "t", "m"),))),
    "policy": Policy(HOSTILE, "reader", {"Statement": [HOSTILE]}, None, (HOSTILE,)),
    "contract": ContractDocument(HOSTILE, {"name": HOSTILE}, of_table=True),
    "outcomes": Outcomes([Outcome(CatalogUnreachable(HOSTILE, cure=HOSTILE), pipeline=HOSTILE, commits=2, lag=3)]),
    "rebuild plan": RebuildPlan(HOSTILE, "/new", 5, PLAN),
    "rebuild": Rebuild(
        "f.yaml",
        HOSTILE,
        "/new",
        RUN,
        report(left_out={HOSTILE: 1}),
        COMPARED,
        {"table.path": HOSTILE, "table.name": None},
    ),
}


class Page(HTMLParser):
    """The elements of some HTML, and the texts of its cells."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts = set[str](), set[str](), list[str]()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page(shown: Any) -> Page:
    return Page(shown._repr_html_())


@pytest.mark.parametrize("name", RESULTS)
def test_hostile_values_are_only_shown(name: str) -> None:
    """No element, attribute or character comes from a record, and no colour is set that a dark page hides."""
    text = RESULTS[name]._repr_html_()
    assert Page(text).tags <= {"div", "strong", "table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
    assert Page(text).attributes == {"style"}
    assert all(c.isprintable() or c == "\n" for c in text)
    assert text.encode()
    assert not re.search(r"(?<!-)color:|background:(?!none)|url\(|http://(?!evil)", text)
    if RESULTS[name].listings:
        assert any("<script>alert(1)</script>" in shown for shown in Page(text).texts)


def test_every_result_is_shown_here() -> None:
    """So that what holds for all is asked of each."""
    for module in pkgutil.iter_modules(results.__path__):
        importlib.import_module(f"{results.__name__}.{module.name}")
    assert {type(result) for result in RESULTS.values()} == {*subclasses(Showable)} - {ShowableList}


def subclasses(parent: type) -> Iterator[type]:
    for child in parent.__subclasses__():
        # A test may have one of its own.
        if child.__module__.startswith(results.__name__):
            yield from (child, *subclasses(child))


@pytest.mark.parametrize("width", ["60", "200"])
@pytest.mark.parametrize("name", RESULTS)
def test_a_terminal_shows_hostile_values_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, width: str
) -> None:
    """No character of a record acts upon it; and a program gets JSON."""
    monkeypatch.setenv("COLUMNS", width)
    Output().text(RESULTS[name])
    assert all(c.isprintable() or c == "\n" for c in capsys.readouterr().out)
    with suppress(LakeingestError, typer.Exit):
        Output(is_json=True).show(RESULTS[name])
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        (
            replace(RUN, catalog_behind={"e": CatalogUnreachable("a\nb", cure="c")}),
            [
                "caught up: 9 records in 2 commits, 6 to the table, 2 to quarantine, 1 dropped",
                "in 29 s, of which 9 s passed before the first batch",
                *("the catalog is behind the table: a", "b", "  cure: c"),
            ],
        ),
        (RunSummary("p", 0, Counts(), 0, {}, True, 1, 0), ["stopped; nothing was committed"]),
        (RunSummary("p", 0, Counts(), 0, {}, False, 1, 0), ["caught up; there was nothing new to commit"]),
        (RebuildPlan("/b", "/new", 1, PLAN), ["/new has not 1 offset of /b yet", PLAN.headline, "nothing was written"]),
        (Rebuild("f", "/b", "/new", replace(RUN, stopped=True)), ["the same command goes on from there"]),
        (
            replace(RESULTS["rebuild"], compared=None, steps={"table.path": "/new", "table.name": None}),
            [
                report().headline,
                "to go on in the new table, stop the pipeline, and change f.yaml:",
                *("  table.path: /new", "  leave out table.name", "then: lakeingest run f.yaml"),
            ],
        ),
        (replace(RESULTS["completion"], complete_since=NOW), ["p 2026: complete since 2026-11-26 04:00:00 UTC"]),
    ],
)
def test_a_text_of_lines(result: Showable, lines: list[str]) -> None:
    """In this order."""
    assert [*result.text] == lines


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_one_line_where_it_is_printed(name: str) -> None:
    """Whatever is in it: a log has a line for it."""
    line = repr(RESULTS[name])
    assert "\n" not in line
    assert "\x1b" not in line


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (
            report(),
            "<Report p: conserved, 3,001 consumed = 2,998 in the table + 3 in quarantine + 0 dropped>",
        ),
        (
            report(missing=2, named={"missing": ["t-0 offsets 5 to 6"]}, breaks=("commit 3 jumps",)),
            "<Report p: NOT conserved, 2 missing, 0 duplicated, 0 unexpected; 3,001 consumed = 2,998 in the table + "
            "3 in quarantine + 0 dropped; break: commit 3 jumps; missing: t-0 offsets 5 to 6>",
        ),
        (
            report(commits=0, earlier=5),
            "<Report p: nothing is proved, the table's log has no receipt left; 3,001 consumed = 2,998 in the table + "
            "3 in quarantine + 0 dropped>",
        ),
        (
            RESULTS["status"],
            "<Status p: lag 10, 2,998 rows in the table, 3 in quarantine, commit 4 at 2026-11-26T04:00:00+00:00>",
        ),
        (
            RESULTS["plan"],
            "<Plan p: of 1,000 records sampled, 997 to the table, 3 to quarantine, 0 dropped; the batch would be held>",
        ),
        (RESULTS["schemas"], "<SchemaHistory p: BACKWARD, 1 schema seen, 1 column now>"),
        (
            RESULTS["backfilled"],
            "<Backfilled p: 5 offsets to take, 2 left; 3 records, 2 to the table, 1 to quarantine, 0 dropped>",
        ),
        (RESULTS["certificate"], "<Certificate request 1: 3 records are taken out of the tables of 1 pipeline>"),
        (RESULTS["replayed"], "<Replayed 5 refused records looked at, 2 pass, 3 stay>"),
    ],
)
def test_the_line_says_what_the_result_comes_to(result: Showable, line: str) -> None:
    """As an engineer would say it to another."""
    assert repr(result) == line


@pytest.mark.parametrize("name", [name for name, result in RESULTS.items() if result.listings])
def test_each_listing_is_a_frame(name: str) -> None:
    """Of pandas and of Arrow, with the same rows and columns; without a name it is the first."""
    result = RESULTS[name]
    for listing, rows in result.listings.items():
        pandas, arrow = result.to_pandas(listing), result.to_arrow(listing)
        assert len(pandas) == arrow.num_rows == len(rows)
        assert [*pandas.columns] == arrow.column_names == [*(rows[0] if rows else ())]
    first = next(iter(result.listings))
    assert result.to_pandas().equals(result.to_pandas(first))
    assert result.to_arrow().equals(result.to_arrow(first))


def test_a_listing_that_is_not_there_is_told_with_those_that_are() -> None:
    """A listing is asked for by its name."""
    with pytest.raises(UsageError, match="Replayed has no listing 'moved'") as wrong:
        RESULTS["replayed"].to_pandas("moved")
    assert wrong.value.cure == "name one of 'refused'"


def test_rows_are_a_list() -> None:
    """So programs that were written for a list go on."""
    assert Rows("p", "t", [REFUSED]) == [REFUSED]
    assert repr(Rows("p", "t", [{"a": 1}])) == "[{'a': 1}]"
    assert Rows("p", "nothing", [])._repr_html_().count("<table") == 0


def test_html_has_the_columns_that_are_asked_for() -> None:
    """The frames have all of them."""

    class OneColumn(Rows):
        html_columns = ("b",)

    rows = OneColumn("p", "t", [{"a": 1, "b": 2}])
    assert page(rows).texts == ["p: t", "b", "2"]
    assert [*rows.to_pandas().columns] == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "—"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (1_234_567, "1,234,567"),
        (0.1 + 0.2, "0.3"),
        (["a", 1], "a\n1"),
        ([{"coordinates": "t-0:5", "message": "m"}], "t-0:5: m"),
        ({"flown": 2}, "flown: 2"),
        (datetime(2026, 11, 26, 4, tzinfo=UTC), "2026-11-26 04:00:00+00:00"),
        ("\ud800\u202e", "\\ud800\\u202e"),
        ("x" * 1000, "x" * 299 + "…"),
    ],
)
def test_a_cell_shows_a_value(value: object, text: str) -> None:
    """In the words of the command line."""
    assert page(Rows("p", "t", [{"a": value}])).texts == ["p: t", "a", text]


def test_many_rows_are_cut_and_counted() -> None:
    """A notebook with ten thousand rows in it cannot be opened."""
    texts = Page(html("t", {"rows": [{"a": n} for n in range(10_000)]})).texts
    assert texts[-1] == "… and 9,950 more, which to_pandas() gives too"
    assert len(texts) == 2 + 50 + 1


def test_a_pipeline_shows_its_file_and_no_secret() -> None:
    """Neither Spark nor a server is started for it."""
    config = file.from_mapping(
        {
            "name": "p",
            "source": {"topics": ["a", "b"], "bootstrap_servers": "localhost:1"},
            "schema": {"columns": "n INT, t TIMESTAMP"},
            "partition": [{"by": "time", "field": "t"}, {"by": "kafka_partition"}],
            "table": {"path": "s3a://lake/p"},
            "storage": {"access_key": "AKIA-hidden", "secret_key": "hidden-too"},
        }
    )
    pipeline = lakeingest.Pipeline(config)
    assert repr(pipeline) == "<Pipeline p: a, b → s3a://lake/p>"
    texts = page(pipeline).texts
    assert {"localhost:1", "s3a://lake/p_quarantine", "t, Kafka partition"} <= {*texts}
    assert "hidden" not in "".join(texts) + repr(pipeline)
