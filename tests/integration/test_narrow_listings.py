"""Listings of a real pipeline with long names, 80 columns wide: nothing is wider, and what is left out is said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.cells import cell_len
from support.pipelines import config_of, values_of
from support.pipelines.command_line import Command
from support.records import produce

from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline

COLUMN = "a_column_with_a_name_that_" + "goes_on_and_" * 6 + "ends"
RULE = "expect_column_values_to_match_regex"


@pytest.fixture(scope="module")
def long(stack: Addresses, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a pipeline that ran: three records of five broke an expectation with a long pattern."""
    folder = tmp_path_factory.mktemp("long")
    name = "orders_of_all_customers_of_the_company_" + "and_of_its_daughters_" * 4 + "x"
    asked = {"type": RULE, "kwargs": {"column": COLUMN, "regex": "^(?:a|" + "b" * 300 + ")$"}}
    (folder / "suite.json").write_text(json.dumps({"name": "s", "expectations": [asked]}))
    changes = {"schema": {"columns": f"n INT, {COLUMN} STRING"}, "gate": {"suite": str(folder / "suite.json")}}
    values = values_of(stack, name, **changes)
    (folder / "p.yaml").write_text(json.dumps(values))
    produce(stack, name, [json.dumps({"n": n, COLUMN: "a" * (n + 1)}).encode() for n in range(4)] + [b"{"])
    Pipeline(config_of(stack, name, **changes)).run(until_caught_up=True)
    return folder / "p.yaml"


@pytest.mark.parametrize(
    "command",
    [
        "status",
        "quarantine list",
        "gate history",
        "plan",
        "schema history",
        "maintain --dry-run",
        "run --until-caught-up",
    ],
)
def test_tables_fit(long: Path, lakeingest: Command, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Within tables, and of the expectation its name alone."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    first, *options = command.rsplit(" ", 1) if "--" in command else [command]
    file = long.parent if first == "run" else long
    said = lakeingest(*first.split(), file, *options)
    assert said.code in (0, 1), said.err
    within, found = False, 0
    for line in said.out.splitlines():
        if re.fullmatch(r" ─+ *", line):
            within, found = True, found + 1
        within = within and bool(line.strip())
        assert not within or cell_len(line) <= 80, line
    assert found or first == "schema history"
    assert "bbbb" not in said.out
    if first in ("quarantine list", "plan"):
        assert re.sub(r"\s", "", said.out).count("expect_column_values_to_match_regex") <= 3
    if first == "status":
        assert "left out at this width, and in --output json: writer" in said.out


def test_plan_leads_with_the_verdict(long: Path, lakeingest: Command) -> None:
    """Of the records that were committed: refused as they were."""
    lines = lakeingest("plan", long).out.splitlines()
    assert lines[0].endswith(": 4 of 5 records sampled would be refused")
    assert lines[1:4] == [
        "  records  1 to the table, 4 to quarantine, 0 dropped",
        "  columns  9, no change",
        "  gate     0 of 1 expectation met",
    ]
