"""Rehearsals of bad days with real processes: killed, stopped, doubled, moved to another machine, read by others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kit
import pytest
from kit import clean, mixed, produce
from pyspark.sql import SparkSession

from lakeingest.local import Addresses
from lakeingest.pipeline import Ingestion

pytestmark = pytest.mark.slow

LAKEINGEST = [sys.executable, "-c", "from lakeingest.cli import main; main()"]


@dataclass
class Rehearsal:
    """One pipeline file, run by processes whose state folder is not the stack's."""

    stack: Addresses
    spark: SparkSession
    name: str
    folder: Path

    def file(self, **changes: Any) -> Path:
        path = self.folder / "pipeline.yaml"
        # JSON is YAML too.
        path.write_text(json.dumps(kit.values_of(self.stack, self.name, **changes)))
        return path

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @contextmanager
    def process(self, file: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
        """`lakeingest run`, in a process group of its own that does not outlive the block."""
        process = subprocess.Popen(
            [*LAKEINGEST, "run", str(file), *options],
            env={**os.environ, "LAKEINGEST_STATE": str(self.state), "LAKEINGEST_DRIVER_MEMORY": "1g"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            kill(process)
            process.communicate()

    def run(self, file: Path) -> str:
        """Run to the end."""
        with self.process(file, "--until-caught-up") as process:
            out, err = process.communicate(timeout=240)
            assert process.returncode == 0, err
        return out

    def check(self) -> None:
        """Caught up, nothing is missing and nothing double."""
        ingestion = self.conserved()
        kit.assert_exactly_once(self.spark, ingestion, kit.manifest(self.stack, self.name))

    def conserved(self) -> Ingestion:
        """Caught up or not, what was consumed is there."""
        ingestion = Ingestion(kit.config_of(self.stack, self.name))
        report = ingestion.audit()
        assert report.conserved, report
        assert report.consumed
        return ingestion


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL to the process and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait(20)


def commits(process: subprocess.Popen[str], count: int) -> list[str]:
    """Wait for the lines of `count` commits."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(count)]
    assert all(" · commit " in line for line in lines), lines
    return lines


@pytest.fixture
def rehearsal(stack: Addresses, spark: SparkSession, named: str, tmp_path: Path) -> Rehearsal:
    return Rehearsal(stack, spark, named, tmp_path)


def test_killed_again_and_again(rehearsal: Rehearsal) -> None:
    """SIGKILL at the start, between commits and within one: the run that is let finish completes the table."""
    produce(rehearsal.stack, rehearsal.name, mixed(16_000, every=50), partitions=3)
    file = rehearsal.file(trigger={"max_records": 1_000})
    for seen, more_s in ((0, 4.0), (1, 0.0), (2, 0.7)):
        with rehearsal.process(file, "--until-caught-up") as process:
            commits(process, seen)
            time.sleep(more_s)
            assert process.poll() is None
            kill(process)
    assert "caught up" in rehearsal.run(file)
    rehearsal.check()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_asked_to_stop(rehearsal: Rehearsal, number: signal.Signals) -> None:
    """SIGTERM and Ctrl-C: the batch in hand is committed, exit code 0 within 30 s."""
    produce(rehearsal.stack, rehearsal.name, mixed(10_000, every=50), partitions=2)
    with rehearsal.process(rehearsal.file(trigger={"max_records": 1_000})) as process:
        commits(process, 1)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1].startswith("stopped: ")
    rehearsal.conserved()


def test_two_at_once(rehearsal: Rehearsal) -> None:
    """Two processes of one pipeline: who loses says who won, and no record is lost or written twice."""
    produce(rehearsal.stack, rehearsal.name, mixed(6_000, every=50), partitions=2)
    file = rehearsal.file(trigger={"max_records": 1_000})
    with rehearsal.process(file, "--until-caught-up") as one, rehearsal.process(file, "--until-caught-up") as two:
        ends = [(process, process.communicate(timeout=240)[1]) for process in (one, two)]
    for process, err in ends:
        assert process.returncode in (0, 3), err
        if process.returncode == 3:
            other = two if process is one else one
            assert f"process {other.pid} on" in err
    assert 0 in (one.returncode, two.returncode) or rehearsal.run(file)
    rehearsal.check()


def test_nothing_local_is_kept(rehearsal: Rehearsal) -> None:
    """A new machine goes on where the last one stood; no checkpoint was ever written."""
    produce(rehearsal.stack, rehearsal.name, mixed(100))
    file = rehearsal.file()
    rehearsal.run(file)
    left = [path.name for path in rehearsal.state.rglob("*")]
    assert left, "the state folder holds the log at least"
    assert not {"offsets", "commits", "checkpoint", "checkpoints", "metadata", "sources"} & set(left)
    rehearsal.state.rename(rehearsal.folder / "lost")
    produce(rehearsal.stack, rehearsal.name, clean(50))
    assert "caught up: 50 records in 1 commits" in rehearsal.run(file)
    rehearsal.check()


def test_others_read_the_table(rehearsal: Rehearsal) -> None:
    """Spark SQL, delta-rs and DuckDB find the same rows in the table on S3."""
    import duckdb
    from deltalake import DeltaTable

    produce(rehearsal.stack, rehearsal.name, mixed(100))
    ingestion = Ingestion(kit.config_of(rehearsal.stack, rehearsal.name))
    ingestion.run(until_caught_up=True)
    in_spark = rehearsal.spark.sql(f"SELECT count(*), sum(n) FROM delta.`{ingestion.config.table.path}`").collect()[0]
    options = {**rehearsal.stack.env(), "AWS_ALLOW_HTTP": "true"}
    records = DeltaTable(ingestion.config.table.path, storage_options=options).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("records", records)
        in_duckdb = connection.sql("SELECT count(*), sum(n) FROM records").fetchall()[0]
    assert tuple(in_spark) == in_duckdb == (80, sum(n for n in range(100) if n % 5))
    assert records.count_rows() == 80
