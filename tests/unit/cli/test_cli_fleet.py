"""Several pipelines in one command: what is refused before anything starts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from lakeingest.cli import fleet, run
from lakeingest.cli.output import Output
from lakeingest.delta.receipt import Counts
from lakeingest.errors import BatchHeld, Fenced, PipelineFileError, StorageUnreachable, UsageError
from lakeingest.ingest.events import Committed, Ended, Retrying
from lakeingest.operations.results.fleet import Outcome, Outcomes


def written(folder: Path, name: str, /, **changes: Any) -> Path:
    values = {
        "name": name,
        "source": {"topics": [name], "bootstrap_servers": "localhost:1"},
        "table": {"path": f"s3a://lake/{name}"},
        "schema": {"columns": "n INT"},
        **changes,
    }
    path = folder / f"{name}.yaml"
    # JSON is YAML too.
    path.write_text(json.dumps(values))
    return path


def test_the_mistakes_of_all_files_are_told(tmp_path: Path) -> None:
    """Those of a folder, and of a file that is named."""
    (tmp_path / "folder").mkdir()
    for name in ("b", "c"):
        written(tmp_path / "folder", name, nmae="x")
    written(tmp_path / "folder", "good")
    with pytest.raises(PipelineFileError) as wrong:
        run.run([tmp_path / "folder", tmp_path / "none.yaml", tmp_path / "folder" / "b.yaml"], output="text")
    assert [re.sub(r".*/|:.*", "", problem) for problem in wrong.value.problems] == ["b.yaml", "c.yaml", "none.yaml"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "one"}, "two files have the name 'one'"),
        ({"renamed_from": "one"}, "two files have the name 'one'"),
        ({"table": {"path": "s3://lake/one/"}}, "pipelines 'one' and 'two' both write to s3a://lake/one"),
        ({"table": {"path": "s3a://lake/one/within"}}, "table of pipeline 'one' (s3a://lake/one) and table of 'two'"),
        ({"table": {"path": "s3://lake//one_quarantine/"}}, "quarantine of pipeline 'one' (s3a://lake/one_quarantine)"),
    ],
)
def test_two_that_cannot_run_side_by_side(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    """Of one name, or with one table, however it is spelt."""
    files = [written(tmp_path, "one"), written(tmp_path, "two", **changes)]
    with pytest.raises(UsageError, match=re.escape(said)):
        run.run(files, output="text")


def test_a_folder_without_a_pipeline(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no pipeline file"):
        run.run([tmp_path], output="text")


@pytest.mark.parametrize(
    "consent",
    [{"accept_gap": True}, {"accept_held": "x"}, {"accept_dropped_topics": True}, {"accept_log_restart": True}],
)
def test_a_consent_is_for_one(tmp_path: Path, consent: dict[str, Any]) -> None:
    """What one pipeline may do must not be allowed to all."""
    files = [written(tmp_path, name) for name in "ab"]
    with pytest.raises(UsageError, match="is for one pipeline"):
        run.run(files, output="text", **consent)


def ended(name: str, failure: Exception | None = None) -> Outcome:
    return Outcome(failure, pipeline=name, commits=2, counts=Counts(10, 8, 2), lag=3)


@pytest.mark.parametrize(
    ("failures", "code"),
    [
        ([], 0),
        ([StorageUnreachable("s", cure="c")], 4),
        ([StorageUnreachable("s", cure="c"), Fenced("f", cure="c"), UsageError("u", cure="c")], 3),
        ([Fenced("f", cure="c"), BatchHeld("b", cure="c")], 1),
        ([Fenced("f", cure="c"), KeyError("a fault of ours")], 1),
    ],
)
def test_the_exit_code_is_of_the_worst(
    capsys: pytest.CaptureFixture[str], failures: list[Exception], code: int
) -> None:
    """A broken promise of the data before a lost fence, before what is outside."""
    outcomes = [ended("good"), *(ended(f"p{n}", failure) for n, failure in enumerate(failures))]
    try:
        fleet._tell(Output(is_json=True), Outcomes(outcomes))
        found = 0
    except typer.Exit as ending:
        found = ending.exit_code
    assert found == code
    said = json.loads(capsys.readouterr().out)["pipelines"]
    assert [each["error"]["exit_code"] if each["error"] else 0 for each in said] == [
        getattr(failure, "exit_code", 1 if failure else 0) for failure in [None, *failures]
    ]
    assert (said[0]["outcome"], said[0]["consumed"], said[0]["lag"]) == ("caught up", 10, 3)


def test_a_line_for_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal each is told as it comes; of a fault of ours the traceback too."""
    board = fleet.Board(Output())
    board.says("starting Spark …")
    board.take("a", Committed(7, 9, Counts(10, 8, 2), 2.0, 3))
    board.take("b", Retrying(StorageUnreachable("the store is down", cure="c"), 4, 60))
    board.take("b", Ended(KeyError("x")))
    board.take("a", Ended(commits=2, counts=Counts(10, 8, 2)))
    board.end()
    said = capsys.readouterr()
    first, *lines = said.out.splitlines()
    assert re.fullmatch(r"a: 10 records · 5/s · lag 3 · refused 2 · commit 7 at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", first)
    assert lines == [
        "b: the store is down; trying again in 4 s, for 60 s more",
        "b: failed: KeyError('x')",
        "a: caught up: 10 records in 2 commits",
    ]
    assert said.err.splitlines()[-1] == "KeyError: 'x'"
