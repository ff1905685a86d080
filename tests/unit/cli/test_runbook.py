"""The runbook knows every error and every exit code, and `lakeingest explain` shows its entries."""

from __future__ import annotations

import ast
import inspect
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from lakeingest import cli, errors
from lakeingest.cli import explain
from lakeingest.delta import partitioning, quarantine
from lakeingest.errors import Fenced, LakeingestError, PipelineFileError, UsageError
from lakeingest.gate import predicates
from lakeingest.ingest import schema_decisions
from lakeingest.schema.compatibility.verdict import Verdict

ROOT = Path(errors.__file__).parent
TESTS = Path(__file__).resolve().parents[2]
ALERTS = {alert.name for alert in runpy.run_path(str(TESTS.parent / "infra" / "generate.py"))["ALERTS"]}
TOPICS = {"slow", "quarantine", "upsert", "gap", "retries", "SIGTERM", *ALERTS}
"""What looks like an error and is none, and the alerts."""


def raised() -> set[str]:
    """The classes of errors.py that the package makes somewhere; the others only group them."""
    calls = [
        node
        for file in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    made = [call.func for call in calls] + [call.args[0] for call in calls if ast.unparse(call.func) == "KnownFailure"]
    return {c.__name__ for c in classes()} & {ast.unparse(each) for each in made}


def classes() -> list[type[LakeingestError]]:
    return [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, LakeingestError)]


def test_every_error_has_an_entry_and_every_entry_is_known() -> None:
    """An error that is new is not shipped without what to do then, and one that is gone leaves no advice behind."""
    assert set(explain.entries()) == raised() | TOPICS
    assert {name for name, entry in explain.entries().items() if entry.is_alert} == ALERTS


def test_each_entry_is_rehearsed() -> None:
    """A test makes each error with the real thing, and each reason; alerts have a rehearsal of their own."""
    tests = {file: file.read_text(encoding="utf-8") for file in TESTS.rglob("*.py") if file.name != Path(__file__).name}
    real = "".join(text for file, text in tests.items() if not file.is_relative_to(TESTS / "unit"))
    assert [name for name in sorted(raised()) if not re.search(rf"\b{name}\b", real)] == []
    every = "".join(tests.values())
    reasons = refusing() - {partitioning.UNSTORABLE} | {"UNSTORABLE"}
    assert [name for name in sorted(reasons) if not re.search(rf"\b{name}\b", every)] == []


@pytest.mark.parametrize("entry", explain.entries().values(), ids=lambda entry: entry.name)
def test_an_entry_has_three_parts(entry: explain.RunbookEntry) -> None:
    """What it means, what to look at, what to do; an error's says why nothing is lost, and has its exit code."""
    assert all(part.endswith(".") and "\n\n" not in part for part in (entry.means, entry.look, entry.do))
    if entry.name in TOPICS:
        assert entry.exit_code is None
    else:
        assert entry.exit_code == getattr(errors, entry.name).exit_code
        assert re.search(r"\b(Nothing|nothing|Everything|the audit is conserved)\b", entry.do)


def refusing() -> set[str]:
    """The reasons in the package: the first word of each diagnosis, those of broken JSON, and the verdicts."""
    found = set()
    for file in ROOT.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        constants = {
            target.id: node.value.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "diagnosis":
                first = node.args[0]
                said = first.value if isinstance(first, ast.Constant) else constants.get(getattr(first, "id", ""))
                found |= {str(said)} if said else set()
    found |= set(re.findall(r'"([A-Z]+(?:_[A-Z0-9]+)+)"', (ROOT / "decode" / "json_diagnosis.py").read_text()))
    return found | {*Verdict} - {Verdict.OK} | {predicates.BATCH, schema_decisions.UNUSABLE, quarantine.SETTLED}


def test_every_reason_is_explained() -> None:
    """What quarantine has in its column reason, by that name; and none that is there no more."""
    assert {"WRONG_TYPE", "UNREADABLE", "TOO_LARGE", "CONSTRAINT", "EXPECTATION"} < refusing()
    assert set(explain.reasons()) == refusing()
    assert set(quarantine.REASONS) == refusing()


@pytest.mark.parametrize("entry", explain.reasons().values(), ids=lambda entry: entry.name)
def test_a_reason_says_what_it_means_and_what_to_do(
    entry: explain.RunbookEntry, capsys: pytest.CaptureFixture[str]
) -> None:
    """In full sentences, as `lakeingest explain` shows them."""
    assert entry.means.endswith(".")
    assert entry.do.endswith(".")
    explain.explain(entry.name.lower())
    said = capsys.readouterr().out
    assert said.startswith(f"{entry.name}\n\nWhat it means. {entry.means[:20]}")


@pytest.mark.parametrize("error", classes(), ids=lambda error: error.__name__)
def test_every_class_of_error_is_explained(error: type[LakeingestError], capsys: pytest.CaptureFixture[str]) -> None:
    """Also those that only group others: code that catches one names it."""
    explain.explain(error.__name__)
    assert capsys.readouterr().out.startswith(f"{error.__name__}\n\nWhat it means. ")


def test_every_command_and_option_in_the_runbook_exists() -> None:
    """Advice that cannot be followed is worse than none."""
    text = " ".join(explain.RUNBOOK.read_text(encoding="utf-8").split())
    for command in set(re.findall(r"`lakeingest ([a-z]+)", text)):
        assert command in {*(c.name or c.callback.__name__ for c in cli.app.registered_commands), *groups()}  # type: ignore[union-attr]


def groups() -> set[str]:
    return {str(group.typer_instance.info.name) for group in cli.app.registered_groups if group.typer_instance}


def test_the_table_has_every_exit_code() -> None:
    """0 and those of the classes, no others; code 1 names its classes."""
    text = explain.RUNBOOK.read_text(encoding="utf-8")
    codes = {int(code): meaning for code, meaning in re.findall(r"^\| (\d) \| (.*) \|$", text, flags=re.MULTILINE)}
    assert set(codes) == {0} | {error.exit_code for error in classes()}
    assert set(re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", codes[1])) == {
        error.__name__ for error in classes() if error.exit_code == 1 and error.__name__ in raised()
    }


def test_explain_lists_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a name: every entry with its first sentence."""
    explain.explain()
    said = capsys.readouterr().out
    assert all(name in said for name in explain.entries())
    assert "Another writer holds the pipeline: it committed the sequence number that this run wanted." in said
    explain.explain(output="json")
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)["entries"]] == list(explain.entries())


def test_explain_shows_an_entry(capsys: pytest.CaptureFixture[str]) -> None:
    """As plain text where there is no terminal, however the name is written, and as JSON."""
    explain.explain("fenced")
    said = capsys.readouterr().out
    assert said.startswith("Fenced\n\nWhat it means. Another writer holds the pipeline")
    assert "**" not in said
    explain.explain("Fenced", output="json")
    data = json.loads(capsys.readouterr().out)
    assert (data["name"], data["exit_code"], sorted(data)[2:]) == ("Fenced", 3, ["look", "means", "name"])


def test_explain_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """There the Markdown is laid out."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    explain.explain("Fenced")
    said = capsys.readouterr().out
    assert "What it means." in said
    assert "**" not in said
    assert "##" not in said


@pytest.mark.parametrize(
    ("name", "nearest"), [("Fence", "Fenced"), ("OffsetLost", "OffsetsLost"), ("sigint", "SIGTERM")]
)
def test_a_wrong_name(name: str, nearest: str) -> None:
    """It is a usage error that suggests the nearest."""
    with pytest.raises(UsageError, match=f"did you mean {nearest}\\?"):
        explain.explain(name)


@pytest.mark.parametrize("name", ["gdpr", "delete", "exactly-once"])
def test_a_word_that_is_none_of_its_names(name: str) -> None:
    """`gdpr` was sent to gap."""
    with pytest.raises(UsageError) as wrong:
        explain.explain(name)
    assert wrong.value.cure == "`lakeingest explain` lists what it has"


def test_a_message_names_its_entry() -> None:
    """The last line of an error's message is the command that says more, and it works."""
    mistakes = PipelineFileError("f.yaml: 1 mistake", cure="correct it", problems=("name: missing",))
    assert cli.message(mistakes).splitlines() == [
        "error (pipeline file): f.yaml: 1 mistake",
        "  name: missing",
        "  cure: correct it",
        "  more: lakeingest explain PipelineFileError",
    ]
    assert cli.message(Fenced("held", cure="let it")).endswith("\n  more: lakeingest explain Fenced\n")


def test_explain_starts_no_spark() -> None:
    """It answers at once, and where pyspark is not installed."""
    code = (
        "import sys, lakeingest.cli\n"
        "sys.argv = ['lakeingest', 'explain', 'Fenced']\n"
        "try:\n    lakeingest.cli.main()\nexcept SystemExit:\n    pass\n"
        "sys.exit(77 if 'pyspark' in sys.modules else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
