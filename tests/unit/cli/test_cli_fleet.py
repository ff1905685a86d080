"""Several pipelines in one command: what is refused before anything starts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lakeingest.cli import run
from lakeingest.errors import PipelineFileError, UsageError


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
        run.run([tmp_path / "folder", tmp_path / "none.yaml"], output="text")
    assert [re.sub(r".*/|:.*", "", problem) for problem in wrong.value.problems] == ["b.yaml", "c.yaml", "none.yaml"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "one"}, "two files have the name 'one'"),
        ({"renamed_from": "one"}, "two files have the name 'one'"),
        ({"table": {"path": "s3://lake/one/"}}, "pipelines 'one' and 'two' both write to s3a://lake/one"),
        ({"table": {"path": "s3a://lake/one/within"}}, "pipelines 'one' and 'two' both write to"),
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


@pytest.mark.parametrize("consent", [{"accept_gap": True}, {"accept_held": "x"}, {"accept_dropped_topics": True}])
def test_a_consent_is_for_one(tmp_path: Path, consent: dict[str, Any]) -> None:
    """What one pipeline may do must not be allowed to all."""
    files = [written(tmp_path, name) for name in "ab"]
    with pytest.raises(UsageError, match="is for one pipeline"):
        run.run(files, output="text", **consent)
