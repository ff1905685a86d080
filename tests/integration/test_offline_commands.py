"""Commands that need no Spark, over the real store: they say what Spark says, and start none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.pipelines import World
from support.records import mixed_records

from lakeingest.cli.quarantine import _text
from lakeingest.delta.reader.log import Unreadable
from lakeingest.local import Addresses
from lakeingest.operations import refused
from lakeingest.operations.readers import FileTables
from lakeingest.record import coordinates_of

ASKED = {
    "status": ("status",),
    "audit": ("audit",),
    "quarantine": ("quarantine", "list", "--samples", "2"),
    "gate": ("gate", "history"),
    "schemas": ("schema", "history"),
}


@pytest.fixture
def file(world: World, tmp_path: Path) -> Path:
    """The file of a pipeline with a gate that committed two batches, and partitions its table by texts."""
    rule = {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "n", "max_value": 12},
        "meta": {"on_failure": "quarantine"},
    }
    (tmp_path / "suite.json").write_text(json.dumps({"name": "s", "expectations": [rule]}))
    world.changes = {
        "gate": {"suite": str(tmp_path / "suite.json")},
        "partition": [{"by": "field", "field": "text"}],
    }
    for _ in range(2):
        world.produce(*mixed_records(15))
        world.run()
    path = tmp_path / "pipeline.yaml"
    path.write_text(json.dumps(world.values()))
    return path


def said(*words: object, environment: dict[str, str]) -> Any:
    """What a command says to programs, in a process that could start no JVM."""
    code = "from lakeingest.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, words), "--output", "json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


@pytest.mark.faults
def test_the_answers_are_those_of_spark(
    world: World, file: Path, tmp_path: Path, stack: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte, as JSON has them; and SQL counts the rows that Spark counts."""
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    # No Java is found: whoever asked Spark would fail.
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    environment = dict(os.environ)
    pipeline = world.ingestion()
    wanted = {
        "status": pipeline.status().to_json(),
        "audit": pipeline.audit().to_json(),
        "quarantine": {"pipeline": world.name, "reasons": pipeline.quarantined(2)},
        "gate": {"pipeline": world.name, "results": pipeline.results(5)},
        "schemas": pipeline.schemas().to_json(),
    }
    for name, (first, *more) in ASKED.items():
        words = [first, *more[:1], file, *more[1:]] if more else [first, file]
        found = said(*words, environment=environment)
        assert found == json.loads(json.dumps(wanted[name], default=str)), name
    place = pipeline.quarantined(1)[0]["samples"][0]["coordinates"]
    record = pipeline.quarantined_record(*coordinates_of(place))
    assert record is not None
    expected = json.loads(json.dumps({name: _text(value) for name, value in record.items()}, default=str))
    assert said("quarantine", "show", file, place, environment=environment) == expected
    query = f"SELECT count(*) AS n, count(DISTINCT text) AS texts, sum(n) AS total FROM {world.name}"
    rows = world.rows()
    (row,) = said("sql", file, query, environment=environment)["rows"]
    assert row == {"n": len(rows), "texts": len({r["text"] for r in rows}), "total": sum(r["n"] for r in rows)}
    opened = said("sql", file, environment=environment)
    assert stack.s3_secret_key not in json.dumps(opened)
    # What is wrong with the store, Spark says as it always did.
    denied = world.ingestion(storage={"secret_key": "another one"}).config
    with pytest.raises(Unreadable):
        refused.reasons(FileTables(denied, denied.storage), 1)
