"""Rehearsals of everyday events with real processes: stopped, doubled, moved to another machine, read by others."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.faults import Cell
from support.pipelines import config_of
from support.records import mixed_records, produce

from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.testing.s3 import S3Proxy, hang

pytestmark = pytest.mark.slow

SMALL = {"trigger": {"max_records": 500}}


@pytest.fixture
def dirty(stack: Addresses, spark: SparkSession, named: str, tmp_path: Path) -> Cell:
    """One pipeline with refused records, whose line in the matrix nobody prints."""
    return Cell(stack, spark, named, "dirty", tmp_path, [])


@pytest.mark.faults
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_asked_to_stop(dirty: Cell, number: signal.Signals) -> None:
    """SIGTERM and Ctrl-C: the batch in hand is committed, exit code 0 within 30 s."""
    dirty.produce(2_000)
    with dirty.process(**SMALL) as process:
        process.commits(1)
        process.signal(number)
        assert process.wait(30) == 0, process.err
        assert process.out.splitlines()[-1].startswith("stopped: ")
        assert not re.search(" (WARNING|ERROR) ", process.err)
    report = dirty.ingestion().audit()
    assert report.conserved
    assert report.consumed


@pytest.mark.faults
def test_a_batch_that_hangs_is_given_up(dirty: Cell, s3: S3Proxy) -> None:
    """SIGTERM while the store hangs: it ends in 30 s all the same, with exit code 0; the next run takes the batch."""
    dirty.produce(1_000)
    with dirty.process(s3=s3, **SMALL) as process:
        process.commits(1)
        hung = s3.fault(lambda _: True, hang(300))
        while not hung.hits:
            assert process.code is None, process.out + process.err
            time.sleep(0.05)
        process.signal(signal.SIGTERM)
        assert process.wait(30) == 0, process.err
        assert "was given up" in process.out.splitlines()[-1]
    s3.clear()
    dirty.recover("SIGTERM while the store hangs", "given up")


@pytest.mark.faults
def test_two_at_once(dirty: Cell) -> None:
    """Two first runs of one pipeline: who loses says who won, and no record is lost or written twice."""
    dirty.produce(2_000)
    with dirty.process("--until-caught-up", **SMALL) as one, dirty.process("--until-caught-up", **SMALL) as two:
        ends = {one: one.wait(240), two: two.wait(240)}
        for process, code in ends.items():
            assert code in (0, 3), process.err
            if code == 3:
                winner = two if process is one else one
                assert f"process {winner.pid} on" in process.err
    dirty.recover("two at once", "")


@pytest.mark.faults
def test_nothing_local_is_kept(dirty: Cell) -> None:
    """A new machine goes on where the last one stood; no checkpoint was ever written."""
    dirty.produce(100)
    with dirty.process("--until-caught-up") as process:
        assert process.wait(240) == 0, process.err
    state = dirty.folder / "state"
    left = [path.name for path in state.rglob("*")]
    assert left, "the state folder holds the log at least"
    assert not {"offsets", "commits", "checkpoint", "checkpoints", "metadata", "sources"} & set(left)
    state.rename(dirty.folder / "lost")
    dirty.produce(50)
    dirty.recover("state folder lost", "")


def test_others_read_the_table(stack: Addresses, spark: SparkSession, named: str) -> None:
    """Spark SQL, delta-rs and DuckDB find the same rows in the table on S3."""
    import duckdb
    from deltalake import DeltaTable

    produce(stack, named, mixed_records(100))
    ingestion = Pipeline(config_of(stack, named))
    ingestion.run(until_caught_up=True)
    in_spark = spark.sql(f"SELECT count(*), sum(n) FROM delta.`{ingestion.config.table.path}`").collect()[0]
    options = {**stack.env(), "AWS_ALLOW_HTTP": "true"}
    records = DeltaTable(ingestion.config.table.path, storage_options=options).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("records", records)
        in_duckdb = connection.sql("SELECT count(*), sum(n) FROM records").fetchall()[0]
    assert tuple(in_spark) == in_duckdb == (80, sum(n for n in range(100) if n % 5))
    assert records.count_rows() == 80
