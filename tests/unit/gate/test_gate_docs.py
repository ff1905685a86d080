"""Data Docs: Great Expectations' pages of what a gate found, without what a record could smuggle into them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeingest.errors import UsageError
from lakeingest.gate import data_docs

pytest.importorskip("great_expectations")
BETWEEN = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "max_value": 3}}
MEAN = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "n", "min_value": 1}}
SCRIPT = "<script>alert(1)</script>"


def row(sequence: int, asked: dict[str, Any], **found: Any) -> dict[str, Any]:
    """A row of the results of a batch."""
    named = {"pipeline": "flights", "suite": "routes", "outcome": "committed", "offsets": "{}", "success": True}
    empty = {"evaluated": None, "unexpected": None, "observed": None, "sample": []}
    time = datetime(2026, 11, 20, sequence, tzinfo=UTC)
    return {**named, **empty, "time": time, "sequence": sequence, "asked": json.dumps(asked), **found}


def texts(folder: Path) -> list[str]:
    """The pages of batches, without tags."""
    pages = sorted((folder / "validations").rglob("*.html"))
    return [re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.read_text(encoding="utf-8"))) for page in pages]


def test_a_page_for_each_batch(tmp_path: Path) -> None:
    """Statistics, counts and samples are there, values stay text; a later call makes the pages anew, and them alone."""
    (tmp_path / "mine.html").write_text("a page of somebody's own")
    (tmp_path / "validations" / "mine").mkdir(parents=True)
    (tmp_path / "validations" / "mine" / "mine.txt").write_text("a file of somebody's own")
    bad = row(1, BETWEEN, success=False, evaluated=50, unexpected=5, sample=["7", SCRIPT])
    index = data_docs.build([bad, row(1, MEAN, observed=json.dumps(2.5))], tmp_path)
    assert index == tmp_path / "index.html"
    [page] = texts(tmp_path)
    for wanted in ("batch 1 committed", "Failed", "5 unexpected values found. 10% of 50 total rows.", "7", "2.5"):
        assert wanted in page
    whole = "".join(each.read_text(encoding="utf-8") for each in tmp_path.rglob("*.html"))
    assert SCRIPT not in whole
    assert "&lt;script&gt;alert(1)" in whole

    data_docs.build([row(2, MEAN, observed=json.dumps({"quantiles": [SCRIPT]}))], tmp_path)
    [page] = texts(tmp_path)
    assert "batch 2 committed" in page
    assert (tmp_path / "mine.html").exists()
    assert (tmp_path / "validations" / "mine" / "mine.txt").exists()
    assert SCRIPT not in "".join(each.read_text(encoding="utf-8") for each in tmp_path.rglob("*.html"))


def test_a_suite_writes_no_script_either(tmp_path: Path) -> None:
    """Its arguments are shown as the text that they are."""
    regex = {"type": "expect_column_values_to_match_regex", "kwargs": {"column": f"c{SCRIPT}", "regex": SCRIPT}}
    query = {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": f"SELECT '{SCRIPT}' FROM b"}}
    data_docs.build([row(1, regex, evaluated=1, unexpected=0), row(1, query, evaluated=1, unexpected=0)], tmp_path)
    assert SCRIPT not in "".join(each.read_text(encoding="utf-8") for each in tmp_path.rglob("*.html"))


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    """A file stands in its place."""
    (tmp_path / "there").write_text("")
    with pytest.raises(UsageError, match="there cannot be written"):
        data_docs.build([row(1, MEAN)], tmp_path / "there")
