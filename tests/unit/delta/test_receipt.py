"""A receipt's JSON, and what Spark's errors mean for a commit."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.pipelines.receipts import receipt

from lakeingest.delta.receipt import Account, Counts, JobFields, Receipt, Run, of_backfill, somebody
from lakeingest.errors import StorageUnreachable, TableMismatch, UnsafeStore, UsageError
from lakeingest.record import OffsetRange, OffsetRanges
from lakeingest.spark import failures


def test_a_receipt_survives_json() -> None:
    """What is written is what is read."""
    made = receipt(7, 42)
    assert Receipt.from_json(made.to_json()) == made
    last = replace(made, pipeline=of_backfill("p"), job=JobFields("backfill", remaining=0))
    assert Receipt.from_json(last.to_json()) == last


def test_form_1_is_read() -> None:
    """Receipts as runs wrote them, of each kind of batch, and the same in form 2, which is written."""
    pairs = json.loads((Path(__file__).parents[2] / "fixtures" / "receipts.json").read_text())
    read = {name: Receipt.from_json(json.dumps(forms["1"])) for name, forms in pairs.items()}
    assert read == {name: Receipt.from_json(json.dumps(forms["2"])) for name, forms in pairs.items()}
    written = {name: json.loads(each.to_json()) for name, each in read.items() if each}
    assert written == {name: forms["2"] for name, forms in pairs.items()}


def test_a_field_of_form_1_is_where_it_belongs() -> None:
    """Of one receipt that has them all, on the table and on quarantine."""
    said = {"who": "ada", "why": "holiday"}
    tree = {
        "lakeingest": 1,
        "pipeline": "p",
        "sequence": 8,
        "run": vars(run := Run()),
        "cluster": "c",
        "topics": {"t": "i"},
        "left": {"old": "j"},
        "offsets": {"t": {"0": [10, 20]}},
        "quarantine": "q",
        "gaps": {"t": {"0": [5, 10]}},
        "accepted": said,
        "ledger": "82ca",
        "base": 12,
        "aside": 6,
        "remaining": 3,
        "read_from": {"table": "b", "version": 4},
        "late": {"t": {"0": [3, 4]}},
    }
    ranges, gaps, late = (OffsetRanges((OffsetRange("t", 0, *ends),)) for ends in ((10, 20), (5, 10), (3, 4)))
    job = JobFields("late", gaps, said, {}, 3, {"table": "b", "version": 4}, late, {"old": "j"})
    made = Receipt("p", 8, run, "c", {"t": "i"}, ranges, "q", job, None, "82ca", base=12, aside=6)
    assert Receipt.from_json(json.dumps(tree)) == made
    counted = {"counts": {"consumed": 3, "accepted": 1, "refused": 1, "dropped": 1}, "left_out": {"flown": 1}}
    account = Account(Counts(3, 1, 1, 1), {"flown": 1}, 4, gaps, 7, 2)
    on_quarantine = Receipt.from_json(json.dumps({**tree, **counted, "lost": 4, "settles": 7, "open": 2}))
    assert on_quarantine == replace(made, job=replace(job, gaps=OffsetRanges(())), account=account)
    assert (made.batch, on_quarantine.batch) == (8, 7)
    assert made.all_topics == {"old": "j", "t": "i"}


@pytest.mark.parametrize("form", [3, 99])
def test_a_newer_form_is_refused(form: int) -> None:
    """It is never taken for no receipt, or for one of the forms that are known."""
    with pytest.raises(TableMismatch, match=f"receipt of form {form}, and this lakeingest knows forms up to 2"):
        Receipt.from_json(json.dumps({"lakeingest": form, "pipeline": "p"}))


@pytest.mark.parametrize("text", [None, "", "by hand", "{}", "[1]", '{"lakeingest": "1"}', '{"lakeingest": true}', "{"])
def test_what_is_no_receipt(text: str | None) -> None:
    """Other tools write userMetadata too."""
    assert Receipt.from_json(text) is None


TRACE = """An error occurred while calling o1.save.
: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.Some.thing(Some.scala:1)
Caused by: org.apache.spark.SparkException: task failed
\t... 3 more
Caused by: java.io.IOException: No space left on device
"""


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (TRACE, "org.apache.spark.SparkException: Job aborted (cause: java.io.IOException: No space left on device)"),
        ("[PATH_NOT_FOUND] s3a://x\n\tat a.b", "[PATH_NOT_FOUND] s3a://x"),
        ("", "ValueError"),
    ],
)
def test_a_line_tells_the_cause(said: str, line: str) -> None:
    """Not what Python called, but what went wrong, and why."""
    assert failures.summary(ValueError(said)) == line


@pytest.mark.parametrize(
    ("text", "kind", "cure"),
    [
        ("x: Unsafe store: s3a://b cannot commit safely: why; do this", UnsafeStore, "do this"),
        ("[DELTA_TABLE_ONLY_OPERATION] no table", UsageError, "run the pipeline first"),
        ("503 SlowDown", StorageUnreachable, "run again"),
    ],
)
def test_what_an_error_of_spark_means(text: str, kind: type[Exception], cure: str) -> None:
    """A refusal of the log store, a table that is not there yet, and anything else."""
    meant = failures.translate("s3a://b/t", RuntimeError(text))
    assert type(meant) is kind
    assert cure in meant.cure


def test_a_user_without_a_name_is_somebody_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Kubernetes a process has any uid, which no passwd file knows."""
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 1_234_567)
    assert somebody().startswith("uid 1234567 on ")
