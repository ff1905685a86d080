"""What a pipeline is asked that has not run yet: it says so, and makes nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pipelines import values_of
from support.records import produce

from lakeingest import cli
from lakeingest.config import file
from lakeingest.errors import UsageError
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline

SUITE = {"name": "s", "expectations": [{"type": "expect_table_row_count_to_equal", "kwargs": {"value": 1}}]}
NAME = "before_the_first_run"
COMMANDS = [
    "status FILE",
    "audit FILE",
    "schema history FILE",
    "quarantine list FILE",
    f"quarantine show FILE {NAME}-0:0",
    "quarantine replay FILE --reason x",
    "quarantine replay FILE --reason x --dry-run",
    "quarantine discard FILE --reason x",
    "gate history FILE",
    "maintain FILE",
    "maintain FILE --dry-run",
]


@pytest.fixture
def values(stack: Addresses, tmp_path: Path) -> dict[str, Any]:
    """The file of a pipeline whose topic is there, and whose tables are not."""
    produce(stack, NAME, [])
    (tmp_path / "s.json").write_text(json.dumps(SUITE))
    return values_of(stack, NAME, gate={"suite": str(tmp_path / "s.json")}, table={"path": f"{tmp_path}/t"})


def told(words: str, values: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The exit code of a command."""
    (folder / "p.yaml").write_text(json.dumps(values))
    names = {"FILE": str(folder / "p.yaml")}
    monkeypatch.setattr(sys, "argv", ["lakeingest", *(names.get(word, word) for word in words.split())])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_that_there_is_no_table_yet(
    spark: SparkSession,
    values: dict[str, Any],
    tmp_path: Path,
    *,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With exit code 2 and the cure, without a traceback; and none of the tables is made."""
    assert told(command, values, tmp_path, monkeypatch) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"error (usage): there is no Delta table at {tmp_path}/t")
    assert "cure: run the pipeline first" in said.err
    assert said.out == ""
    assert {each.name for each in tmp_path.iterdir()} == {"p.yaml", "s.json"}


def test_a_pipeline_without_a_gate_says_so(
    values: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It will never have results, however often it runs."""
    del values["gate"]
    assert told("gate history FILE", values, tmp_path, monkeypatch) == 2
    assert f"pipeline '{NAME}' has no gate" in capsys.readouterr().err


@pytest.mark.parametrize(
    "ask",
    [
        Pipeline.results,
        Pipeline.quarantined,
        Pipeline.status,
        Pipeline.audit,
        Pipeline.schemas,
        Pipeline.table,
        Pipeline.quarantine,
        Pipeline.history,
        lambda it: it.quarantined_record(NAME, 0, 0),
        lambda it: it.replay("x"),
        lambda it: it.discard("x"),
        lambda it: it.maintain(),
    ],
)
def test_python_gets_a_usage_error(
    spark: SparkSession, values: dict[str, Any], tmp_path: Path, ask: Callable[[Pipeline], Any]
) -> None:
    """The same from the API."""
    with pytest.raises(UsageError, match="there is no Delta table at"):
        ask(Pipeline(file.from_mapping(values)))
    assert {each.name for each in tmp_path.iterdir()} == {"s.json"}


def test_quarantine_alone_can_be_asked(spark: SparkSession, values: dict[str, Any]) -> None:
    """A run makes it first: where no record has told the table's columns yet, there is nothing else."""
    ingestion = Pipeline(file.from_mapping(values))
    ingestion.tables.ensure_quarantine()
    assert ingestion.quarantined() == []
    assert ingestion.discard("x") == 0
    with pytest.raises(UsageError, match=r"there is no Delta table at .*/t yet"):
        ingestion.replay("x")
