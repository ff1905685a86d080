"""The page that a run's endpoint shows: made without the run's Spark, and without a value of a record."""

from __future__ import annotations

import os
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from test_report import NAME, Asked, folder

from lakeingest.cli import report
from lakeingest.errors import SetupError, SourceUnreachable, UsageError
from lakeingest.operations.report import facts, page
from lakeingest.operations.report.running import Running
from lakeingest.spark import session

__all__ = ["folder"]
ENDS = {(NAME, 0): 10_000}
SECRET = "Ada Lovelace"


def beside(asked: Asked) -> Running:
    """The pipeline, and a Kafka that answers."""
    running = Running(asked.config)
    running.source = asked.source
    return running


def results(folder: Path) -> None:
    """What the gate found in a batch, with a value that breaks it, and a statistic that is one."""
    row = {"pipeline": NAME, "sequence": 1, "time": datetime(2026, 11, 26, tzinfo=UTC), "outcome": "committed"}
    row |= {"suite": "s", "fingerprint": "f", "expectation": "expect_column_distinct_values_to_be_in_set"}
    row |= {"asked": "{}", "action": "warn", "success": False, "evaluated": 1, "unexpected": 1}
    row |= {"observed": f'["{SECRET}"]', "sample": [SECRET], "offsets": "{}"}
    table = pa.Table.from_pylist([row])
    at = table.schema.get_field_index("time")
    times = pa.timestamp("us", "UTC")
    deltalake.write_deltalake(folder / "results", table.set_column(at, "time", table["time"].cast(times)))


def test_it_is_told_beside_a_spark_that_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is never asked: a session would be ours to disturb."""
    monkeypatch.setattr(session, "runs", lambda: True)
    (found,) = facts.gather([beside(Asked(folder, ENDS))], samples=0, audited=False)
    assert found.unknown == {"audit": "lakeingest audit proves it, and reads the coordinates of every row"}
    assert found.batches
    assert found.state is not None
    assert found.refused is not None
    assert "audit" not in found.verdict.sentence
    assert "xxxx" not in page.html([found])


def test_a_name_in_a_catalog_is_sparks(folder: Path) -> None:
    """The page says what it cannot tell, and where it is told."""
    asked = Asked(folder, ENDS, table={"name": "lake.t"}, quarantine={"name": "lake.q"})
    (found,) = facts.gather([beside(asked)], samples=0, audited=False)
    assert "`lakeingest report` starts one of its own" in found.unknown["batches"]
    assert found.verdict.label != "healthy"
    assert "lakeingest report" in page.html([found])


@pytest.mark.parametrize("ask", ["tables", "audit", "quarantined"])
def test_what_spark_alone_tells_is_refused(folder: Path, ask: str) -> None:
    running = Running(Asked(folder, ENDS).config)
    with pytest.raises(UsageError, match="without Spark, which is the run's"):
        _ = running.tables if ask == "tables" else getattr(running, ask)(*([1] if ask == "quarantined" else []))


def test_the_gates_samples_are_values_too(folder: Path) -> None:
    """They are shown with samples, and left out without."""
    (folder / "suite.json").write_text('{"name": "s", "expectations": []}')
    results(folder)
    asked = Asked(folder, ENDS, gate={"suite": str(folder / "suite.json"), "results": str(folder / "results")})
    pages = [page.html(facts.gather([beside(asked)], samples=samples, audited=False)) for samples in (1, 0)]
    assert [SECRET in each for each in pages] == [True, False]
    assert all("expect_column_distinct_values_to_be_in_set" in each for each in pages)


def test_topics_of_a_pattern_need_kafka(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Whose absence is a sentence."""
    from lakeingest.config.file import read_any
    from lakeingest.kafka.broker import Broker

    def away(_: Any) -> list[str]:
        raise SourceUnreachable("Kafka at k:1 does not answer", cure="start it")

    file = folder / "p.yaml"
    file.write_text(
        "{name: 'p-{topic}', source: {topics: {pattern: 'a.*'}, bootstrap_servers: 'k:1'}, "
        "table: {path: '/t/{topic}'}, schema: {columns: n INT}}"
    )
    each = read_any(file, {})
    monkeypatch.setattr(Broker, "names", away)
    with pytest.raises(SourceUnreachable):
        report.page_text([each])
    monkeypatch.setattr(Broker, "names", lambda _: ["a1", "b"])
    monkeypatch.setattr(Broker, "topics", away)
    shown = report.page_text([each])
    assert "p-a1" in shown

    assert "Never ran" in shown


def test_another_process_makes_it() -> None:
    """What draws holds Python's lock for seconds: here it is not even imported."""
    assert "0 pipelines" in report.page_of([])


def test_what_is_wrong_there_is_told_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its sentence and its cure, or else as a fault of ours with its traceback."""
    with pytest.raises(RuntimeError, match="AttributeError: 'int' object"):
        report.page_of([1])  # type: ignore[list-item]
    (tmp_path / "altair.py").write_text("raise ModuleNotFoundError('no', name='altair')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(SetupError, match="altair is not installed") as missing:
        report.page_of([])
    assert missing.value.cure == "pip install 'lakeingest[report]'"


def test_a_process_that_was_killed_gives_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kernel, say, where memory is short."""
    (tmp_path / "altair.py").write_text("import os\nos.kill(os.getpid(), 9)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(RuntimeError, match="it ended with -9"):
        report.page_of([])
    (tmp_path / "altair.py").write_text("import os\nos.kill(os.getpid(), 14)")
    with pytest.raises(SetupError, match="did not answer within 120 seconds"):
        report.page_of([])


def test_a_file_with_secrets_is_handed_over(folder: Path) -> None:
    """By a pipe: neither a command line nor a file has them."""
    config = Asked(folder, ENDS, storage={"access_key": "me", "secret_key": "hush"}).config
    assert pickle.loads(pickle.dumps(config)) == config
