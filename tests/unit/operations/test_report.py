"""`lakeingest report`: what it tells of tables that an older lakeingest wrote, and a page that nothing can break."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from support.pipelines.command_line import Command

from lakeingest.config import PipelineConfig, Storage, Trigger
from lakeingest.config.file import from_mapping
from lakeingest.delta.reader.log import DataFile
from lakeingest.errors import SourceUnreachable, UsageError
from lakeingest.kafka.broker import Broker
from lakeingest.kafka.offsets import Topics
from lakeingest.operations.readers import FileTables
from lakeingest.operations.refused import gate_results
from lakeingest.operations.report import facts, files, page
from lakeingest.operations.report.facts import Facts
from lakeingest.operations.report.verdict import duration, verdict
from lakeingest.operations.results.log_position import LogPosition
from lakeingest.operations.results.status import Status
from lakeingest.operations.status import status

KEPT = Path(__file__).parents[2] / "fixtures" / "49fd8c6" / "tables.tar.gz"
NAME = "kept_49fd8c6"
BAD = "</script><script>alert(1)</script><!--"
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
AWAY = SourceUnreachable("Kafka at k:1 does not answer: refused", cure="start it")


class Asked:
    """A pipeline over tables of this machine, with a Kafka that says what a test wants."""

    def __init__(self, folder: Path, ends: dict[tuple[str, int], int] | Exception, **parts: Any) -> None:
        values = {
            "name": NAME,
            "source": {"topics": [NAME], "bootstrap_servers": "nowhere:1"},
            "schema": {"columns": "n INT"},
            "table": {"path": str(folder / NAME)},
        }
        self.config: PipelineConfig = from_mapping({**values, **parts})
        self.storage = Storage()
        self._ends = ends

    @property
    def source(self) -> Any:
        return self

    def topics(self) -> Topics:
        if isinstance(self._ends, Exception):
            raise self._ends
        return Topics("c", {}, dict.fromkeys(self._ends, 0), self._ends)

    @property
    def tables(self) -> Any:
        raise UsageError("Spark is asked", cure="do not")

    def audit(self) -> Any:
        raise UsageError("Spark is asked for the audit", cure="do not")

    def quarantined(self, samples: int) -> Any:
        raise UsageError("Spark is asked for quarantine", cure="do not")

    def results(self, batches: int) -> Any:
        return gate_results(FileTables(self.config, self.storage), batches)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The tables of a pipeline, on this machine: the main one as it was, and a quarantine as it is made today."""
    with tarfile.open(KEPT) as packed:
        packed.extractall(tmp_path / "lake", filter="data")
    quarantine = tmp_path / "lake" / f"{NAME}_quarantine"
    shutil.rmtree(quarantine)
    deltalake.write_deltalake(quarantine, refused_rows())
    return tmp_path / "lake"


def refused_rows() -> pa.Table:
    """Two broken records, one that breaks two expectations, one that was moved and one that was discarded."""
    done = {"at": NOW, "who": "me", "why": "because"}
    rows: list[dict[str, Any]] = [
        {"reason": "BROKEN_JSON", "value": b"{" + b"x" * 500},
        {"reason": "BROKEN_JSON", "value": b"\xff", "bytes": "encrypted"},
        {"reason": "EXPECTATION", "value": b'{"n": 1}', "stage": "gate", "expectations": ["a(n)", "b(n)"]},
        {"reason": "BROKEN_JSON", "moved": {**done, "replay": 1}},
        {"reason": "BROKEN_JSON", "discarded": done},
    ]
    place = {"_topic": NAME, "_partition": 0, "_timestamp": NOW, "stage": "value", "message": "it is broken"}
    place |= {"pipeline": NAME, "sequence": 1, "refused_at": NOW}
    times, who = pa.timestamp("us", "UTC"), [("who", pa.string()), ("why", pa.string())]
    schema = pa.schema(
        [
            ("_topic", pa.string()),
            ("_partition", pa.int32()),
            ("_offset", pa.int64()),
            ("_timestamp", times),
            ("value", pa.binary()),
            *((name, pa.string()) for name in ("stage", "reason", "message", "pipeline")),
            ("sequence", pa.int64()),
            ("refused_at", times),
            ("expectations", pa.list_(pa.string())),
            ("moved", pa.struct([("at", times), *who, ("replay", pa.int64())])),
            ("discarded", pa.struct([("at", times), *who])),
            ("bytes", pa.string()),
        ]
    )
    return pa.Table.from_pylist([{**place, "_offset": n, **row} for n, row in enumerate(rows)], schema)


def of(folder: Path, ends: Any = AWAY, *, audited: bool = False, **parts: Any) -> Facts:
    (found,) = facts.gather([Asked(folder, ends, **parts)], samples=2, audited=audited)
    return found


# What is told -------------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_status(folder: Path) -> None:
    """Of commits, of rows, and of quarantine; no Spark is asked."""
    asked = Asked(folder, {(NAME, 0): 10_000})
    found = of(folder, {(NAME, 0): 10_000})
    expected = status(FileTables(asked.config, asked.storage), asked.topics()).to_json()
    told = found.to_json()
    assert told["status"] == json.loads(json.dumps(expected, default=str)) or told["status"] == expected
    assert told["lag"] == expected["lag"] > 0
    newest = [(b["sequence"], b["version"], b["rows"], b["offsets"], b["refused"] or 0) for b in told["batches"][::-1]]
    wanted = [(c["sequence"], c["version"], c["rows"], c["offsets"], c["refused"]) for c in expected["commits"]]
    assert newest[: len(wanted)] == wanted
    assert {name: told["refused"][name] for name in ("total", "open", "moved", "discarded")} == {
        **{"total": 5, "open": 3},
        **{"moved": 1, "discarded": 1},
    }
    assert expected["tables"]["quarantine"]["rows"] == 4
    assert {each["reason"]: each["count"] for each in told["refused"]["over_time"]} == {
        **{"BROKEN_JSON": 4, "a(n)": 1},
        **{"b(n)": 1},
    }
    assert told["files"][0]["files"] == expected["tables"]["table"]["files"]
    assert told["files"][0]["bytes"] == expected["tables"]["table"]["bytes"]


def test_samples_have_their_values(folder: Path) -> None:
    """As text, cut; or why it is none; and none if none is asked for."""
    found = of(folder).refused
    assert found is not None
    samples = {each["reason"]: [sample["value"] for sample in each["samples"]] for each in found["reasons"]}
    assert samples == {
        "BROKEN_JSON": ["{" + "x" * 298 + "…", "(encrypted)"],
        **{key: ['{"n": 1}'] for key in ("a(n)", "b(n)")},
    }
    (none,) = facts.gather([Asked(folder, AWAY)], samples=0, audited=False)
    assert none.refused is not None
    assert [each["samples"] for each in none.refused["reasons"]] == [[], [], []]


def test_times_are_utc_wherever_it_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's times have no zone but that of the process."""
    told = []
    try:
        for zone in ("UTC", "America/New_York", "Asia/Kathmandu"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            found = of(folder)
            told.append([batch["time"] for batch in found.batches] + [str((found.refused or {})["over_time"])])
    finally:
        monkeypatch.undo()
        time.tzset()
    assert told[0] == told[1] == told[2]
    assert told[0][0].endswith("Z")


def test_a_part_that_cannot_be_told_leaves_the_others(folder: Path) -> None:
    """Kafka is away, the audit fails, quarantine is gone: each is said, and the rest is there."""
    found = of(folder, audited=True)
    assert found.unknown == {"lag": "Kafka at k:1 does not answer: refused", "audit": "Spark is asked for the audit"}
    assert found.verdict.label == "lag unknown"
    shutil.rmtree(folder / f"{NAME}_quarantine")
    found = of(folder)
    assert found.batches
    assert found.unknown["refused"].startswith("there is no quarantine at ")
    assert "there is no quarantine" in page.html([found])


def test_the_contract_is_part_of_the_page(folder: Path) -> None:
    """What is kept and what is not; where Kafka is away, that it is not known. Without a contract it has no place."""
    parts = {"contract": {"retention": "30 days", "owners": ["ada"]}}
    kept = of(folder, {(NAME, 0): 10_000}, **parts)
    assert [(each["promise"], each["kept"]) for each in kept.contract] == [("retention", None), ("owners", None)]
    shown = page.html([replace(kept, contract=(*kept.contract, BROKEN))])
    assert "30 days</td><td>not checked" in shown
    assert 'class="label bad">no</span></td><td class="long">&lt;/script&gt;' in shown
    assert "(too late by 1 minute)" in shown
    away = of(folder, **parts)
    assert (away.contract, away.unknown["contract"]) == ((), "what waits in Kafka is not known")
    assert "<h3>Contract</h3>" in page.html([away])
    assert "<h3>Contract</h3>" not in page.html([of(folder)])


@pytest.mark.parametrize(
    ("prepare", "label"),
    [
        (shutil.rmtree, "never ran"),
        (lambda table: shutil.rmtree(table / "_delta_log"), "never ran"),
        (lambda table: [each.unlink() for each in table.rglob("*.parquet")], "lag unknown"),
        (lambda table: next((table / "_delta_log").glob("*1.json")).unlink(), "uncertain"),
    ],
)
def test_a_table_that_is_none_is_a_sentence(folder: Path, prepare: Callable[[Path], Any], label: str) -> None:
    """Never run, deleted, or broken: there is a page all the same."""
    prepare(folder / NAME)
    found = of(folder)
    assert label in (found.verdict.label, "uncertain" if "batches" in found.unknown else None)
    assert found.verdict.sentence in re.sub(r"\s+", " ", texts(page.html([found])))


# The verdict --------------------------------------------------------------------------------------------------------


def known(**parts: Any) -> Facts:
    """A pipeline that committed five minutes ago and has nothing to complain of."""
    healthy = Facts("p", "/t", "/q", ("t",), NOW, exists=True, lag=0, refused=REFUSED, batches=[batch(7, 300)])
    return replace(healthy, **parts)


def batch(sequence: int, age_s: float) -> dict[str, Any]:
    """One that was committed so long ago."""
    counts = {"offsets": 1, "rows": 1, "refused": 0, "dropped": 0, "newest_s": 1.0, "oldest_s": 2.0}
    return {"sequence": sequence, "version": 1, "time": facts.utc(NOW - timedelta(seconds=age_s)), **counts}


COUNTS = dict.fromkeys(("total", "open", "moved", "discarded", "reasons_left_out", "over_time_left_out"), 0)
REFUSED = {**COUNTS, "reasons": [], "over_time": []}
HELD = {"time": facts.utc(NOW), "sequence": 8, "outcome": "held", "expectation": "mean(n)", "success": False}
BROKEN = {"promise": "freshness", "promised": "5 minutes", "kept": False, "found": BAD, "by_s": 90.0}
LOST = {"conserved": False, "missing": 2, "duplicated": 0, "unexpected": 0}


@pytest.mark.parametrize(
    ("parts", "state", "label", "words"),
    [
        ({}, "good", "healthy", "caught up with Kafka"),
        ({"lag": 0, "audit": {"conserved": True}}, "good", "healthy", "an audit found each record exactly once"),
        ({"lag": 90}, "warn", "behind", "behind by 90 offsets; its last commit was 5 minutes ago"),
        ({"lag": None, "unknown": {"lag": "Kafka is away: x"}}, "warn", "lag unknown", "not known: Kafka is away."),
        ({"refused": {**REFUSED, "open": 1}}, "warn", "records refused", "1 record was refused"),
        ({"gate": [HELD]}, "bad", "held", "Batch 8 is held: it breaks mean(n)."),
        ({"gate": [{**HELD, "success": True}]}, "bad", "held", "Batch 8 is held: it breaks quarantine.max_refused."),
        ({"gate": [{**HELD, "sequence": 7}]}, "good", "healthy", "caught up"),
        ({"contract": (BROKEN,)}, "warn", "contract broken", "The contract is not kept: freshness."),
        ({"contract": ({**BROKEN, "kept": None},)}, "good", "healthy", "caught up"),
        ({"audit": LOST, "lag": 5}, "bad", "not conserved", "2 missing. It is behind by 5"),
        ({"unknown": {"table": "denied"}}, "bad", "unreadable", "denied"),
        ({"exists": False}, "none", "never ran", "has never run"),
    ],
)
def test_the_verdict_begins_with_the_worst(parts: dict[str, Any], state: str, label: str, words: str) -> None:
    """And has all the rest behind it."""
    found = verdict(known(**parts), Trigger())
    assert (found.state, found.label) == (state, label)
    assert words in found.sentence


def test_a_lag_within_a_batch_and_its_time_is_none() -> None:
    """Records come while a run pauses."""
    recent = [batch(1, 90)]
    assert verdict(known(lag=100, batches=recent), Trigger()).label == "healthy"
    assert verdict(known(lag=100, batches=recent), Trigger(max_records=99)).label == "behind"


@pytest.mark.parametrize(
    ("seconds", "told"), [(0, "0 seconds"), (-5, "0 seconds"), (61, "1 minute"), (7200, "2 hours"), (1e6, "11 days")]
)
def test_a_time_is_told_in_its_largest_unit(seconds: float, told: str) -> None:
    """As somebody says it."""
    assert duration(timedelta(seconds=seconds)) == told


# Files --------------------------------------------------------------------------------------------------------------


class Log:
    """A table of these files."""

    identifier = "/t"

    def __init__(self, *sizes: tuple[str | None, int]) -> None:
        self.files = [DataFile(f"f{n}", size * files.MIB, {"d": d}, None) for n, (d, size) in enumerate(sizes)]

    @property
    def state(self) -> Any:
        return self


def test_a_compaction_is_foretold() -> None:
    """Within partitions alone, what is large enough stays, and one file alone is none too many."""
    told = files.summary("table", Log(("a", 50), ("a", 60), ("a", 70), ("a", 200), ("b", 1), (None, 1), (None, 1)))  # type: ignore[arg-type]
    assert told["compaction"] == {"removed": 4, "added": 2, "bytes": 112 * files.MIB, "due": False}
    assert {each["size"]: each["files"] for each in told["sizes"]} == {
        "< 1 MiB": 0,
        "1–8 MiB": 3,
        "8–32 MiB": 0,
        "32–128 MiB": 3,
        "128–512 MiB": 1,
        "≥ 512 MiB": 0,
    }
    assert [each["partition"] for each in told["partitions"]] == ["d=a", "d=None", "d=b"]
    many = files.summary("table", Log(*(("a", 1) for _ in range(60))))  # type: ignore[arg-type]
    assert many["compaction"]["due"]


def test_what_is_left_out_is_said() -> None:
    """Of many partitions."""
    told = files.summary("table", Log(*((str(n), 1) for n in range(100))))  # type: ignore[arg-type]
    assert (len(told["partitions"]), told["partitions_left_out"]) == (files.PARTITIONS, 100 - files.PARTITIONS)


# The page -----------------------------------------------------------------------------------------------------------


class Parsed(HTMLParser):
    """Elements, texts, and what the scripts are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        (self.scripts if self.tags[-1:] == ["script"] else self.texts).append(data)


def texts(html: str) -> str:
    return " ".join(Parsed(html).texts)


def hostile() -> Facts:
    """A pipeline whose every value is against us."""
    sample = {"coordinates": BAD, "message": BAD, "value": BAD + "\x1b[31m\u202e"}
    step = {"time": facts.utc(NOW), "meaning": BAD, "current": True, "side": "value", "subject": BAD, "version": 1}
    step |= {"name": BAD, "verdict": BAD, "sequence": 1, "changes": [BAD], "action": "evolve"}
    result = {"time": facts.utc(NOW), "sequence": 1, "outcome": BAD, "expectation": BAD, "action": "warn"}
    result |= {"success": False, "evaluated": 1, "unexpected": 1, "observed": None, "sample": [BAD]}
    partition = {"partition": BAD, "files": 1, "bytes": 1, "rows": 1}
    return replace(
        known(),
        pipeline=BAD,
        table=BAD,
        topics=(BAD,),
        refused={
            **{**COUNTS, "total": 1, "open": 1},
            "reasons": [{"stage": BAD, "reason": BAD, "count": 1, "samples": [sample]}],
            "over_time": [{"at": 1_764_000_000_000, "reason": BAD, "count": 1}],
        },
        schema={"compatibility": "NONE", "steps": [step]},
        columns=[{"name": BAD, "type": BAD}, {"name": "b", "type": "long"}],
        gated=True,
        gate=[result],
        files=[
            {
                **{"name": "table", "path": BAD, "files": 2, "bytes": 2, "skew": 1.0, "partitions_left_out": 0},
                "sizes": [{"size": "< 1 MiB", "files": 2}],
                "partitions": [partition, partition],
                "compaction": {"removed": 2, "added": 1, "bytes": 2, "due": True},
            }
        ],
        unknown=dict.fromkeys(("audit", "lag", "batches", "refused", "gate", "files"), BAD),
    )


@pytest.mark.parametrize("count", [1, 2])
def test_values_stay_text(count: int) -> None:
    """In the page, in attributes and in the charts' data: there are no elements but ours, and no control characters."""
    html = page.html([hostile()] * count)
    parsed = Parsed(html)
    assert parsed.tags.count("script") == 4
    assert not any(name.startswith("on") for name, _ in parsed.attributes)
    assert not {"img", "iframe", "link", "object"} & set(parsed.tags)
    assert "alert" not in "".join(parsed.scripts[2:])
    points = json.loads(parsed.scripts[0])
    assert points[0]["refused"][0]["reason"] == BAD
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert html.count("</script>") == 4


def test_nothing_is_loaded() -> None:
    """No address stands in an attribute, and the browser is told to load nothing."""
    parsed = Parsed(page.html([known(), hostile()]))
    values = [value or "" for name, value in parsed.attributes if name in ("src", "href", "action", "srcset", "data")]
    assert [value for value in values if not value.startswith("#")] == []
    policy = next(value for _, value in parsed.attributes if value and value.startswith("default-src"))
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe-inline' 'sha" not in policy


def test_headings_and_tables_have_their_order() -> None:
    """h1, then h2, then h3; each table has a caption and each heading cell a scope."""
    html = page.html([known(), hostile()]).partition("<script")[0]
    levels = [int(tag[1]) for tag in Parsed(html).tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert html.count("<table>") == html.count("<caption>")
    assert len(re.findall(r"<th [^>]*scope=", html)) == len(re.findall(r"<th[ >]", html))


def test_a_long_table_is_cut_and_says_so() -> None:
    """A page stays readable: the newest commits are shown."""
    text = texts(page.html([known(batches=[batch(n, 0) for n in range(250)], refused=None)]))
    assert "150 older commits are left out here" in text


def test_a_table_of_change_events_says_its_position() -> None:
    sizes = {name: {"rows": 1} for name in ("table", "quarantine")}
    state = Status("p", (), (), sizes, position=LogPosition((3, 1547, 0)))
    text = texts(page.html([known(state=state)]))
    assert "Position: the table holds all that Kafka has of the database's log up to position 1547 of binlog 3." in text


# Where it is written ------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_report_is_kept(tmp_path: Path) -> None:
    """Unless it is forced; a report of ours is written over."""
    to = tmp_path / "report.html"
    to.write_text("somebody's own")
    with pytest.raises(UsageError, match="is no report of lakeingest"):
        page.check(to, force=False)
    page.check(to, force=True)
    page.write([known()], to)
    page.check(to, force=False)
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    for wrong in (tmp_path, tmp_path / "nothing" / "report.html", Path("/dev/null")):
        with pytest.raises(UsageError):
            page.check(wrong, force=True)


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there stays, and nothing is left behind."""
    to = tmp_path / "report.html"
    page.write([known()], to)
    before = to.read_bytes()

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(UsageError, match="No space left"):
        page.write([hostile()], to)
    assert to.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_the_command_tells_each_verdict(
    folder: Path, tmp_path: Path, lakeingest: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line a pipeline, and the page; as JSON what the page is made of, and no page."""

    def away(_: Broker) -> Topics:
        raise AWAY

    # It would wait half a minute for a broker that is none.
    monkeypatch.setattr(Broker, "topics", away)
    for name, path in (("p", folder / NAME), ("q", tmp_path / "nowhere")):
        values = {
            "name": NAME if name == "p" else name,
            "source": {"topics": [NAME], "bootstrap_servers": "127.0.0.1:1"},
        }
        values |= {"schema": {"columns": "n INT"}, "table": {"path": str(path)}}
        (tmp_path / f"{name}.yaml").write_text(json.dumps(values))
    to = tmp_path / "out.html"
    said = lakeingest("report", tmp_path / "p.yaml", tmp_path / "q.yaml", "--no-audit", "--to", to)
    assert (said.code, said.err) == (0, "")
    assert f"{NAME}: lag unknown. " in said.out
    assert "q: never ran. " in said.out
    assert to.stat().st_size > 500_000
    told = lakeingest("report", tmp_path / "q.yaml", "--output", "json").data
    assert (told["page"], told["pipelines"][0]["verdict"]["label"]) == (None, "never ran")
    assert not (tmp_path / "report.html").exists()
