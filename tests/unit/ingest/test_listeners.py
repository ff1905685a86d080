"""What is made of a run's events: log, metrics, page, lineage; hostile names included."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lakeingest import extend
from lakeingest.delta.commit_log import Changes
from lakeingest.delta.maintenance.inventory import TableFiles
from lakeingest.delta.maintenance.outcome import Expiry, TableMaintenance
from lakeingest.delta.maintenance.vacuum import Vacuumed
from lakeingest.delta.receipt import Counts, Run
from lakeingest.errors import BatchHeld, Fenced, SetupError, StorageRefused, StorageUnreachable, UsageError
from lakeingest.ingest import decided
from lakeingest.ingest.events import (
    CatalogUpdate,
    Committed,
    Ended,
    Event,
    GroupUpdate,
    Looked,
    Maintained,
    Matched,
    Retrying,
    Started,
    Written,
)
from lakeingest.ingest.listeners import endpoint, lineage
from lakeingest.ingest.listeners.log import Log
from lakeingest.ingest.listeners.metrics import Metrics
from lakeingest.ingest.listeners.status_page import StatusPage
from lakeingest.record import OffsetRange, OffsetRanges
from lakeingest.schema.ledger import Entry

AT = datetime(2026, 11, 26, 4, 0, 0, 500_000, UTC)
HOSTILE = '<script>"\\\n\x1b[2J'
DOWN = StorageUnreachable(f"the store {HOSTILE} is down", cure="c")


def result(name: str, *, met: bool) -> Any:
    rule = SimpleNamespace(name=name, type=name, columns=("n",), action="warn")
    return SimpleNamespace(rule=rule, success=met, unexpected=0 if met else 3)


STARTED = Started(Run(), ("t", "u"), "k1:9092,k2:9092", "s3a://lake/a/t", "s3a://lake/a/q", 60.0, at=AT)
COMMIT = Committed(
    7,
    9,
    Counts(10, 6, 3, 1),
    2.0,
    3,
    ranges=OffsetRanges((OffsetRange("t", 0, 5, 15),)),
    refused={"WRONG_TYPE": 2, "TOO_LARGE": 1},
    bytes=1000,
    newest=AT - timedelta(hours=1),
    stages={"write": 1.5, "quarantine": 0.4},
    written=Written(6, 2, 4096, 0.25, {"n": "int", "text": "string"}),
    schemas=(Entry("value", 4, "s", 2, "R", "f" * 64, "OK", "evolve", (), 7, None, ""),),
    gate=(result("good", met=True), result("bad", met=False)),
    at=AT,
)
EVENTS: Sequence[Event] = (
    STARTED,
    Looked(6, 2, 13, at=AT),
    COMMIT,
    Looked(7, 2, 0, at=AT),
    Retrying(DOWN, 1.0, 600.0, at=AT),
    CatalogUpdate("lake.t", at=AT),
    CatalogUpdate("lake.t", DOWN, at=AT),
    Ended(Fenced("another", cure="let it"), commits=1, counts=Counts(10, 6, 3, 1), lag=3, at=AT),
)


@pytest.fixture
def lines() -> list[str]:
    return []


def logged(format: str, lines: list[str], events: Sequence[Event] = EVENTS, name: str = "p") -> list[str]:
    log = Log(format, lines.append)
    try:
        for event in events:
            log.heard(name, event)
    finally:
        log.close()
    return lines


def test_the_log_as_text(lines: list[str]) -> None:
    """One event a line, time and level first; a second look that finds nothing is none."""
    said = logged("text", lines)
    assert [re.match(r"2026-11-26T04:00:00\.500Z ([A-Z]+) p: ", line)[1] for line in said] == [  # type: ignore[index]
        *("INFO", "INFO", "WARNING", "WARNING", "INFO", "WARNING", "ERROR")
    ]
    assert (
        said[2]
        .rstrip()
        .endswith(
            "10 records · 5/s · lag 3 · refused 2 WRONG_TYPE, 1 TOO_LARGE · dropped 1 no value · schema 2: evolve · "
            "gate: bad not met · commit 7"
        )
    )
    assert said[-1].rstrip().endswith("p: fenced: another · 10 records in 1 commit")


@pytest.mark.parametrize("format", ["text", "json"])
def test_nothing_breaks_out_of_its_line(lines: list[str], format: str) -> None:
    """Neither a pipeline's name nor what a server said."""
    said = logged(format, lines, name=HOSTILE)
    assert all(line.count("\n") == 1 and line.endswith("\n") and "\x1b" not in line for line in said)


@pytest.mark.parametrize("failure", [DOWN, None])
def test_a_consumer_group_that_is_behind(lines: list[str], failure: StorageUnreachable | None) -> None:
    """A warning with what is wrong; that it follows again is told too."""
    (said,) = logged("json", lines, [GroupUpdate("g", failure, at=AT)])
    told = json.loads(said)
    assert (told["event"], told["group"]) == ("GroupUpdate", "g")
    assert told["level"] == ("WARNING" if failure else "INFO")
    assert ("tries again" in told["message"]) == (failure is not None)


def test_the_log_as_json(lines: list[str]) -> None:
    """A document for each, with all numbers of a commit, and the cure of a failure."""
    said = [json.loads(line) for line in logged("json", lines)]
    assert [line["event"] for line in said] == [
        *("Started", "Looked", "Committed", "Retrying", "CatalogUpdate", "CatalogUpdate", "Ended")
    ]
    commit, end = said[2], said[-1]
    wanted = {"sequence": 7, "version": 9, "consumed": 10, "accepted": 6, "refused": 3, "dropped": 1, "lag": 3}
    wanted |= {"reasons": {"WRONG_TYPE": 2, "TOO_LARGE": 1}, "drops": {"no value": 1}, "bytes": 1000, "files": 2}
    wanted |= {"bytes_written": 4096, "commit_s": 0.25, "offsets": {"t": {"0": [5, 15]}}, "level": "WARNING"}
    wanted |= {"newest": "2026-11-26T03:00:00.500+00:00", "pipeline": "p"}
    assert {name: commit[name] for name in wanted} == wanted
    assert commit["gate"][1] == {"expectation": "bad", "met": False, "action": "warn", "unexpected": 3}
    assert (end["outcome"], end["error"], end["cure"], end["exit_code"]) == ("fenced", "Fenced", "let it", 3)


def test_what_became_of_the_rows(lines: list[str]) -> None:
    """Of mode upsert: in a line, as JSON and in metrics; elsewhere nothing of it."""
    merged = replace(COMMIT, written=replace(COMMIT.written, changes=Changes(inserted=2, deleted=1, copied=100)))
    text, plain = logged("text", lines, [merged, COMMIT])
    assert " · 2 inserted, 1 deleted, 3 superseded · refused " in text
    assert "inserted" not in plain
    (document,) = (json.loads(line) for line in logged("json", [], [merged]))
    assert document["row_changes"] == {"inserted": 2, "updated": 0, "deleted": 1, "superseded": 3}
    assert heard(STARTED, merged)["row_changes_total superseded"] == 3
    assert not any("row_changes" in name for name in heard(STARTED, COMMIT))


def test_a_compaction_is_told_as_it_was(lines: list[str]) -> None:
    """How many files became how many, in words and in numbers; a status page of a run is not changed by it."""
    done = TableMaintenance("s3a://lake/t", TableFiles(1200, 3000), TableFiles(301, 2000), removed=900, added=1)
    vacuum = Vacuumed(datetime(2026, 11, 1, tzinfo=UTC), files=7)
    denied = StorageRefused("no", cure="allow it")
    events = [
        Maintained(done, 2.5),
        Maintained(replace(done, removed=0, added=0, vacuum=vacuum, remaining={"late": 2}), 0.1),
        Maintained(replace(done, failure=denied), 0.1),
        Maintained(replace(done, expiry=Expiry(vacuum.before, 1200, 2)), 0.1),
    ]
    assert [line.partition("p: ")[2] for line in logged("text", lines, events)] == [
        "s3a://lake/t: 900 files became 1, in 2.5 s\n",
        "s3a://lake/t: nothing to compact in 1,200 files, 2 partitions left, 7 old files deleted, in 0.1 s\n",
        "s3a://lake/t: 900 files became 1, failed: no, in 0.1 s\n",
        "s3a://lake/t: 900 files became 1, 1,200 rows expired, in 0.1 s\n",
    ]
    told, vacuumed, failed, expired = (json.loads(line) for line in logged("json", [], events))
    assert vacuumed["vacuum"]["before"] == "2026-11-01T00:00:00+00:00"
    assert expired["expiry"] == {"before": "2026-11-01T00:00:00+00:00", "rows": 1200, "partitions": 2, "remaining": 0}
    assert failed["failure"] == {"error": "StorageRefused", "what": "no", "cure": "allow it"}
    assert (told["event"], told["table"], told["before"]["count"], told["after"]["bytes"], told["removed"]) == (
        *("Maintained", "s3a://lake/t", 1200, 2000, 900),
    )


def test_a_fault_of_ours_brings_its_traceback(lines: list[str]) -> None:
    """Within its line: a fleet goes on without it."""
    (line,) = logged("json", lines, [Ended(KeyError("x"))])
    assert "KeyError: 'x'" in "".join(json.loads(line)["traceback"])


def test_warnings_are_logged_too(lines: list[str]) -> None:
    """With time and level; and when the log is closed, Python's logging is as it was."""
    before = logging.getLogger("lakeingest").level
    log = Log("text", lines.append)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("look out", stacklevel=1)
    log.close()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING .*look out", lines[0])
    assert (logging.getLogger("lakeingest").level, logging.getLogger("py.warnings").handlers) == (before, [])


def values(metrics: Metrics, pipeline: str = "p") -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for sample in family.samples:
            if sample.labels.get("pipeline") == pipeline:
                labels = [value for name, value in sorted(sample.labels.items()) if name != "pipeline"]
                found[" ".join([sample.name.removeprefix("lakeingest_"), *labels])] = sample.value
    return found


def heard(*events: Event, pipeline: str = "p") -> dict[str, float]:
    metrics = Metrics()
    for event in events:
        metrics.heard(pipeline, event)
    return values(metrics, pipeline)


def test_a_commit_in_metrics() -> None:
    found = heard(STARTED, COMMIT)
    wanted = {
        "records_consumed_total": 10,
        "rows_total": 6,
        "bytes_consumed_total": 1000,
        "records_refused_total WRONG_TYPE": 2,
        "records_refused_total TOO_LARGE": 1,
        "records_dropped_total no value": 1,
        "files_written_total": 2,
        "bytes_written_total": 4096,
        "lag_records": 3,
        "stage_seconds_sum write": 1.5,
        "commit_seconds_sum": 0.25,
        "schema_changes_total evolve": 1,
        "schema_changes_total quarantine": 0,
        "gate_results_total bad broken": 1,
        "gate_results_total good broken": 0,
        "table_version": 9,
        "trigger_seconds": 60,
        "running": 1,
        "ended failed": 0,
    }
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (None, "caught up"),
        (Fenced("f", cure="c"), "fenced"),
        (BatchHeld("h", cure="c", found=[result("bad", met=False)]), "held"),
        (KeyError("x"), "failed"),
    ],
)
def test_an_end_in_metrics(failure: Exception | None, outcome: str) -> None:
    """One outcome is 1, the run is over; a batch that was held shows what it broke."""
    found = heard(STARTED, Retrying(DOWN, 1, 2), Ended(failure))
    assert [name for name, value in found.items() if name.startswith("ended ") and value] == [f"ended {outcome}"]
    assert (found["running"], found["retrying"], found["retries_total StorageUnreachable"]) == (0, 0, 1)
    assert found.get("gate_results_total bad broken") == (1 if outcome == "held" else None)


def test_one_of_two_entries_is_behind() -> None:
    """That the other one is up to date does not hide it."""
    assert heard(STARTED, CatalogUpdate("lake.t", DOWN), CatalogUpdate("lake.q"))["catalog_behind"] == 1
    assert heard(STARTED, CatalogUpdate("lake.t", DOWN), CatalogUpdate("lake.t"))["catalog_behind"] == 0


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("events", "hours"),
    [
        ([], 0),
        ([(0, 3, None)], 3),
        ([(5, 3, None)], 3),
        ([(0, 5, None), (9, 3, None)], 5),
        ([(9, 5, None), (9, 4, 7)], 7),
        ([(0, 5, None), (9, 4, 7)], 5),
        ([(9, 5, 7), (0, 1, 2)], 0),
        ([(9, 5, -7)], 0),
    ],
    ids=[
        "nothing is known",
        "nothing waits",
        "a backlog is seen first",
        "all was committed 5 hours ago",
        "the newest record that is committed is 7 hours old",
        "and another came before all was committed",
        "caught up",
        "a producer's clock is ahead",
    ],
)
def test_the_lag_in_seconds(events: list[tuple[int, int, int | None]], hours: int) -> None:
    """(offsets that wait, hours since the event, hours since the newest committed record was produced)."""
    now = datetime.now(UTC)
    told = [
        Looked(1, 1, lag, at=now - ago * HOUR)
        if newest is None
        else Committed(1, 1, Counts(), lag=lag, newest=now - newest * HOUR, at=now - ago * HOUR)
        for lag, ago, newest in events
    ]
    if told and isinstance(told[-1], Looked) and told[-1].lag == 0:
        hours = 0
    assert heard(STARTED, *told)["lag_seconds"] == pytest.approx(hours * 3600, abs=60)


def test_a_hostile_name_is_a_label() -> None:
    """As Prometheus' own parser reads it."""
    assert heard(STARTED, COMMIT, pipeline=HOSTILE)["lag_records"] == 3


def test_the_page_escapes_what_it_shows() -> None:
    page = StatusPage(["waits"])
    for event in EVENTS:
        page.heard(HOSTILE, event)
    shown = page.html()
    assert shown.count("<script>") == 1
    assert "&lt;script&gt;" in shown
    assert re.search(r'<th scope="row">waits</th><td>starting</td>', shown)
    assert "color-scheme: light dark" in shown


def test_the_page_shows_no_value_of_a_batch_that_is_held() -> None:
    """The error names some: the log has them, and the page is without a password."""
    page = StatusPage([])
    page.heard("p", Looked(6, 1, 2000))
    what = "batch 7 is kept back (t-0 1 to 2):\n  hold: x, as Ada"
    page.heard("p", Ended(BatchHeld(what, cure="run --accept-held", broken=["x", "2 of 3 records are refused"])))
    told = "held: batch 7 is kept back (t-0 1 to 2)"
    assert f"{told} · x · 2 of 3 records are refused · cure: run --accept-held" in page.html()
    assert "Ada" not in page.html()


def test_the_page_knows_the_last_commit_of_a_run_before() -> None:
    """It said "none yet" above "last commit 6"."""
    page = StatusPage([])
    page.heard("p", Looked(6, 1, 2000))
    assert re.search(r'number">2,000<.*number">6, before this run<', page.html())
    page.heard("q", Looked(0, 1, 1))
    assert re.search(r"<th[^>]*>q</th>.*>none yet<", page.html())


def test_who_is_ready() -> None:
    """Once it has looked for records; not while a server fails; one that has ended keeps no other from being ready."""
    page = StatusPage(["a", "b"])
    told = []
    for name, event in (
        ("a", STARTED),
        ("a", Looked(0, 1, 0)),
        ("b", Looked(0, 1, 0)),
        ("b", Retrying(DOWN, 1, 2)),
        ("b", Ended(DOWN)),
    ):
        page.heard(name, event)
        told.append(page.waits_for)
    assert told == [["a", "b"], ["b"], [], ["b"], []]


def test_topics_of_a_pattern_are_waited_for() -> None:
    """A fleet of patterns alone was ready before any pipeline had begun."""
    page, told = StatusPage(["x_{topic}"]), []
    for name, event in (
        ("x_{topic}", Matched(("x_a", "x_b"))),
        ("x_a", Looked(0, 1, 0)),
        ("x_b", Looked(0, 1, 0)),
        ("x_{topic}", Matched(("x_c",))),
        ("x_c", Ended(DOWN)),
    ):
        told.append(page.waits_for)
        page.heard(name, event)
    assert [*told, page.waits_for] == [["x_{topic}"], ["x_a", "x_b"], ["x_b"], [], ["x_c"], []]


@pytest.mark.parametrize(
    ("address", "parsed"),
    [("127.0.0.1:9464", ("127.0.0.1", 9464)), ("[::1]:0", ("::1", 0)), ("host-1.example:80", ("host-1.example", 80))],
)
def test_an_address(address: str, parsed: tuple[str, int]) -> None:
    assert endpoint.parsed(address) == parsed


@pytest.mark.parametrize("address", ["", "9464", ":9464", "::1:9464", "h:", "h:x", "h:65536", "h:-1", "h:1/x", "h:٣"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(UsageError, match="is not HOST:PORT"):
        endpoint.parsed(address)


SETTINGS = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE_DISABLED")


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that OpenLineage's events go to."""
    monkeypatch.chdir(tmp_path)
    transport = {"type": "file", "log_file_path": str(tmp_path / "sent"), "append": True}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
    return tmp_path / "sent"


def lineage_of(sent: Path, *events: Event) -> list[dict[str, Any]]:
    listener = lineage.listener()
    assert listener is not None
    for event in events:
        listener.heard("p", event)
    return [json.loads(line) for line in sent.read_text().splitlines()]


def test_a_run_as_lineage(sent: Path) -> None:
    """START, RUNNING, COMPLETE of one run: topics in, tables out, what was read, written and found."""
    start, running, end = lineage_of(sent, STARTED, COMMIT, COMMIT, Ended())[:3]
    assert [each["eventType"] for each in (start, running)] == ["START", "RUNNING"]
    assert start["run"]["runId"] == running["run"]["runId"] == end["run"]["runId"]
    assert [(each["namespace"], each["name"]) for each in start["inputs"]] == [
        ("kafka://k1:9092", "t"),
        ("kafka://k1:9092", "u"),
    ]
    assert running["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 10
    asserted = running["inputs"][0]["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert [(each["assertion"], each["column"], each["success"]) for each in asserted] == [
        ("good", "n", True),
        ("bad", "n", False),
    ]
    table, quarantine = running["outputs"]
    assert (table["namespace"], table["name"]) == ("s3://lake", "a/t")
    assert table["facets"]["schema"]["fields"][0] == {"name": "n", "type": "int", "fields": []}
    statistics = table["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (6, 4096, 2)
    assert quarantine["outputFacets"]["outputStatistics"]["rowCount"] == 3


def test_a_failure_as_lineage(sent: Path) -> None:
    *_, end = lineage_of(sent, STARTED, Ended(DOWN))
    assert end["eventType"] == "FAIL"
    assert end["run"]["facets"]["errorMessage"]["message"].startswith("StorageUnreachable: the store")


@pytest.mark.skipif(
    "OPENLINEAGE_SPEC" not in os.environ, reason="OPENLINEAGE_SPEC names no folder of OpenLineage's spec"
)
def test_the_events_are_valid(sent: Path) -> None:
    """By OpenLineage's own JSON schemas: the event, and each facet by the schema that it names."""
    from jsonschema import Draft202012Validator, FormatChecker
    from referencing import Registry, Resource

    folder = Path(os.environ["OPENLINEAGE_SPEC"])
    schemas = [json.loads(file.read_text()) for file in (folder / "OpenLineage.json", *folder.glob("facets/*.json"))]
    known = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in schemas)
    checked = 0
    for event in lineage_of(sent, STARTED, COMMIT, Ended(DOWN)):
        inputs, outputs = event["inputs"], event["outputs"]
        holders = [event["run"]["facets"], event["job"]["facets"]]
        holders += [
            each.get(kind, {}) for each in (*inputs, *outputs) for kind in ("facets", "inputFacets", "outputFacets")
        ]
        root = next(schema["$id"] for schema in schemas if schema["$id"].endswith("/OpenLineage.json"))
        wanted = [(event, f"{root}#/$defs/RunEvent")]
        wanted += [(facet, facet["_schemaURL"]) for holder in holders for facet in holder.values()]
        for value, url in wanted:
            Draft202012Validator({"$ref": url}, registry=known, format_checker=FormatChecker()).validate(value)
            checked += 1
    assert checked > 20


@pytest.mark.parametrize(
    ("settings", "on"),
    [
        ({}, False),
        ({"OPENLINEAGE_URL": "http://localhost:1"}, True),
        ({"OPENLINEAGE_URL": "http://localhost:1", "OPENLINEAGE_DISABLED": "True"}, False),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "console"}, True),
        ({"OPENLINEAGE_NAMESPACE": "lake"}, False),
    ],
)
def test_lineage_is_off_unless_it_is_configured(
    settings: dict[str, str], on: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert lineage.is_on() is on
    (tmp_path / "openlineage.yml").touch()
    assert lineage.is_on() is (settings.get("OPENLINEAGE_DISABLED") is None)


def test_wrong_settings_are_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They end no run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps({"type": "no_such_transport"}))
    with pytest.warns(UserWarning, match="OpenLineage's settings are wrong, the run goes on without it"):
        assert lineage.listener() is None


def test_lineage_of_files_that_nobody_installed(monkeypatch: pytest.MonkeyPatch, sent: Path) -> None:
    """Its version is not known, which is no reason to go on without lineage."""

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert {event["producer"] for event in lineage_of(sent, STARTED, Ended())} == {"urn:lakeingest:unknown"}


class Broken:
    def heard(self, pipeline: str, event: Event) -> None:
        raise ConnectionError("away")


def test_a_server_of_lineage_that_fails_ends_no_run(
    monkeypatch: pytest.MonkeyPatch, sent: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each event that was not sent is warned of."""
    listener = lineage.Lineage()
    monkeypatch.setattr(listener._client, "emit", lambda _: (_ for _ in ()).throw(ConnectionError("away")))
    logging.getLogger("lakeingest").propagate = True
    for event in (STARTED, COMMIT, Ended()):
        listener.heard("p", event)
    assert [each.levelname for each in caplog.records if "was not sent" in each.message] == ["WARNING"] * 3


def test_a_listener_that_fails_is_warned_of() -> None:
    """The others are told all the same."""
    metrics = Metrics()
    with pytest.warns(UserWarning, match="listener Broken failed: ConnectionError"):
        extend.tell([Broken(), metrics], "p", STARTED)
    assert values(metrics)["running"] == 1


@pytest.mark.parametrize(
    ("identifier", "found"),
    [
        ("s3a://lake/a/b", ("s3://lake", "a/b")),
        ("s3://lake/", ("s3://lake", "/")),
        ("/data/t", ("file", "/data/t")),
        ("lake.t", ("default", "lake.t")),
        ("abfss://c@a.dfs.core.windows.net/t", ("abfss://c@a.dfs.core.windows.net", "t")),
    ],
)
def test_what_a_table_is_called(identifier: str, found: tuple[str, str]) -> None:
    assert lineage.dataset(identifier, "default") == found


def test_without_its_package_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint was asked for, and is refused before anything starts; without lineage the run goes on."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(SetupError) as missing:
        endpoint.Endpoint("127.0.0.1:0")
    assert missing.value.cure == "pip install 'lakeingest[metrics]'"
    monkeypatch.setenv("OPENLINEAGE_URL", "http://localhost:1")
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    with pytest.warns(UserWarning, match=r"pip install 'lakeingest\[lineage\]'"):
        assert lineage.listener() is None


@pytest.mark.parametrize(
    ("millis", "time"),
    [
        (None, None),
        (-1, None),
        (0, "1970-01-01T00:00:00+00:00"),
        (1_795_665_600_500, "2026-11-26T04:00:00.500000+00:00"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999000+00:00"),
    ],
)
def test_the_newest_time_of_a_batch(millis: int | None, time: str | None) -> None:
    """Records without a time have −1, and would be taken for records of 1969 that wait since then."""
    found = decided.time_of(millis)
    assert (found and found.isoformat()) == time
