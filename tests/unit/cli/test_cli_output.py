"""What is shown may come from records: a terminal shows it, and does nothing else with it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lakeingest import cli
from lakeingest.cli.live import Live
from lakeingest.cli.output import Output
from lakeingest.errors import BatchHeld, PipelineFileError
from lakeingest.gate.evaluate import Result
from lakeingest.gate.suite import Rule
from lakeingest.ingest.events import Retrying

CLIPBOARD = "\x1b]52;c;aGk=\x07"
BAD = {
    "OSC 52": (CLIPBOARD, r"\x1b]52;c;aGk=\x07"),
    "C1": ("\x9b2J", r"\x9b2J"),
    "DEL": ("\x7f", r"\x7f"),
    "backspace": ("\b\b", r"\x08\x08"),
    "a line of its own": ("x\nerror (usage): y\r\tz", r"x\nerror (usage): y\r\tz"),
    "Unicode's lines": ("a\x85b\u2028c", r"a\x85b\u2028c"),
    "bidi": ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
    "unseen": ("a\u200bb\ufeff\U000e0041", r"a\u200bb\ufeff\U000e0041"),
    "surrogate": ("a\ud800", r"a\ud800"),
}
bad = pytest.mark.parametrize(("text", "shown"), BAD.values(), ids=BAD)


def saying(what: str, output: Output, text: str) -> None:
    match what:
        case "line":
            output.line(f"a: {text}")
        case "title":
            output.table(f"a: {text}", ("b" * 60,), [])
        case "cell":
            output.table("a", ("b", "c"), [[text, 1]])
        case "cell of lines":
            output.table("a", ("b",), [[["x", text]]])
        case "markdown":
            output.markdown(f"a: {text}") if "\n" not in text else output.line(text)


@bad
@pytest.mark.parametrize("what", ["line", "title", "cell", "cell of lines", "markdown"])
def test_only_printable_characters_are_shown(
    capsys: pytest.CaptureFixture[str], what: str, text: str, shown: str
) -> None:
    """Each other one stands as an escape, wherever a command says it; letters of any language stay."""
    saying(what, Output(), f"Größe {text} 値")
    said = capsys.readouterr().out
    assert f"Größe {shown} 値" in said
    assert all(c.isprintable() for c in said.replace("\n", ""))


@bad
def test_json_is_json(capsys: pytest.CaptureFixture[str], text: str, shown: str) -> None:
    """With every such character escaped as JSON has it, so that programs read what it was."""
    Output(is_json=True).result({"Größe": text, text: [1]})
    said = capsys.readouterr().out
    assert json.loads(said) == {"Größe": text, text: [1]}
    assert "Größe" in said
    assert all(c.isprintable() for c in said.replace("\n", ""))


@bad
def test_errors_show_what_is_printable(text: str, shown: str) -> None:
    """In what, problems and cure; and no value makes a line that looks like the beginning of ours."""
    told = cli.message(PipelineFileError(f"x {text}", cure=f"y {text}", problems=(f"z {text}",)))
    assert f"  z {shown}\n" in told
    assert f"  cure: y {shown}\n" in told
    assert all(c.isprintable() for c in told.replace("\n", ""))
    assert all(line.startswith("  ") for line in told.splitlines()[1:])


@bad
def test_samples_of_a_batch_that_is_held_stay_in_their_line(text: str, shown: str) -> None:
    """They are values of records, within an error of several lines."""
    rule = Rule("r", "expect_x", {}, {}, compiled=True, action="hold")
    told = cli.message(BatchHeld(f"held:\n  {Result(rule, False, 1, 1, sample=(text,))}", cure="c"))
    assert f"\n  expect_x(): 1 of 1 break it, as {shown}\n" in told


def test_progress_shows_what_is_printable(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal too, where Rich would take [red] and links for its own: what a broker says is shown as it is."""
    said: list[Any] = []
    live = Live(Output(), "flights")
    live.retry(Retrying(BatchHeld(f"Kafka said [red]{CLIPBOARD}", cure=""), 1, 2))
    assert r"flights: Kafka said [red]\x1b]52;c;aGk=\x07; trying" in capsys.readouterr().out
    live._status = Console().status("x")
    monkeypatch.setattr(live._status, "update", said.append)
    live.says(f"[red]{CLIPBOARD}")
    assert re.fullmatch(r"flights: \[red\]\\x1b\]52;c;aGk=\\x07", said[0].plain)


@pytest.mark.parametrize(("columns", "width"), [("200", 200), ("60", 60), ("", 140)])
def test_a_table_in_a_pipe_is_as_wide_as_columns_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    """It was 140 characters, whatever the environment said."""
    monkeypatch.setenv("COLUMNS", columns)
    Output().table("a", ("b", "c"), [["x" * 500, "y"]])
    assert max(map(len, capsys.readouterr().out.splitlines())) == width


def test_an_error_of_the_pipeline_file_tells_its_mistakes() -> None:
    """Also where it is logged or raised from Python, and not told by the command line."""
    error = PipelineFileError("f.yaml: 2 mistakes", cure="correct them", problems=("name: missing", "table: missing"))
    assert str(error) == "f.yaml: 2 mistakes\n  name: missing\n  table: missing\n  cure: correct them"


@pytest.mark.parametrize("command", ["run", "status", "audit", "plan", "report", "quarantine list"])
def test_a_program_that_wants_json_gets_the_error_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Stdout was empty; the text for people stays on stderr."""
    (tmp_path / "p.yaml").write_text("name: p\nfoo: 1\n")
    words = ["lakeingest", *command.split(), str(tmp_path / "p.yaml"), "--output", "json"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert (told["error"], told["stage"], told["exit_code"]) == ("PipelineFileError", "pipeline file", ended.value.code)
    assert any("foo" in problem for problem in told["problems"])
    assert said.err.startswith("error (pipeline file): ")
    assert told["cure"] in said.err


def test_a_result_is_the_one_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a command tells its result and fails, as check does, a program reads that, and the exit code."""
    (tmp_path / "p.yaml").write_text("name: p\n")
    monkeypatch.setattr(sys, "argv", ["lakeingest", "check", str(tmp_path / "p.yaml"), "--output", "json"])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_an_interruption_before_the_command_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the commands are put together ended with a traceback."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    with pytest.raises(SystemExit, match="130"):
        cli.main()
