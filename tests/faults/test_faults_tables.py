"""Others at work on the same tables, tables that went back in time, and logs that forgot."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from support.faults import Cell
from support.pipelines import forget_receipts, only

from lakeingest.ingest.events import Retrying
from lakeingest.local import Addresses
from lakeingest.testing.manifest import Place
from lakeingest.testing.s3 import S3Proxy, call_before
from lakeingest.testing.steps import Step, reached

SMALL = {"trigger": {"max_records": 100}}


@contextmanager
def objects(stack: Addresses) -> Iterator[object]:
    """A plain client of the object store."""
    keys = {"aws_access_key_id": stack.s3_access_key, "aws_secret_access_key": stack.s3_secret_key}
    client = boto3.client("s3", endpoint_url=stack.s3, region_name="us-east-1", **keys)
    try:
        yield client
    finally:
        client.close()


@pytest.mark.faults
@pytest.mark.parametrize("version", [0, 2])
def test_restored(cell: Cell, version: int) -> None:
    """RESTORE to an older version, or to the first: what it took back is read again, quarantine gets nothing twice."""
    cell.produce(400)
    cell.run(**SMALL)
    cell.restore(version)
    cell.recover(f"RESTORE to version {version}", "read again from the older frontier")
    cell.produce(100)
    cell.recover(f"RESTORE to version {version}, then more", "went on")


@pytest.mark.faults
def test_the_log_forgot(cell: Cell) -> None:
    """Clean-up left no receipt of ours: the frontier comes from the rows, the number from the log's checkpoint."""
    cell.produce(300)
    cell.run(**SMALL)
    forget_receipts(cell.spark, cell.stack, cell.table)
    cell.produce(100)
    begun = time.monotonic()
    cell.run()
    # What the log no longer tells was proved while it did; the manifest knows of all of it.
    cell.check_balance("log cleaned of all receipts", "frontier from the rows", time.monotonic() - begun)


@pytest.mark.faults
@pytest.mark.parametrize("damage", ["deleted", "older", "half written"])
def test_the_logs_checkpoint_pointer(cell: Cell, damage: str) -> None:
    """The one small cache beside the log that readers begin with is gone, stale or broken."""
    cell.produce(100)
    cell.run()
    cell.spark.sql(f"ALTER TABLE delta.`{cell.table}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    key = f"{cell.name}/_delta_log/_last_checkpoint"
    with objects(cell.stack) as client:
        cell.produce(100)
        cell.run(**SMALL)
        before = client.get_object(Bucket="lake", Key=key)["Body"].read()
        cell.produce(100)
        cell.run(**SMALL)
        if damage == "deleted":
            client.delete_object(Bucket="lake", Key=key)
        else:
            client.put_object(Bucket="lake", Key=key, Body=before if damage == "older" else before[: len(before) // 2])
        assert json.loads(before)["version"]
    cell.produce(100)
    with cell.process("--until-caught-up") as process:
        code = process.wait(240)
        assert (code, re.search(" (WARNING|ERROR) ", process.err)) == (0, None), process.err
    cell.recover(f"log's checkpoint pointer {damage}", "not needed")


@pytest.mark.faults
def test_the_state_folder_is_another_pipelines(cells: dict[str, Cell]) -> None:
    """The folder of local state, handed to another pipeline, deleted, or older: it holds nothing that counts."""
    for cell in cells.values():
        cell.produce(100)
    state = next(iter(cells.values())).folder / "state"
    for cell in cells.values():
        with cell.process("--until-caught-up", env={"LAKEINGEST_STATE": str(state)}) as process:
            assert process.wait(240) == 0, process.err
        cell.recover("state folder of another pipeline", "not looked at")


@pytest.mark.faults
def test_others_at_work(cell: Cell) -> None:
    """OPTIMIZE, VACUUM, a new column and a DELETE by another session between the batches and during them."""
    cell.produce(600)
    other, gone = cell.spark.newSession(), set[Place]()
    table = f"delta.`{cell.table}`"
    done, failures = threading.Event(), []

    def tried(statement: str) -> bool:
        """Of OPTIMIZE and DELETE at once one loses, and has to try again."""
        try:
            other.sql(statement).collect()
        # Delta's own errors are PySpark's only where somebody has imported its Python package.
        except (PySparkException, Py4JJavaError) as lost:
            if "CONCURRENT" not in str(lost):
                raise
            return False
        else:
            return True

    def at_work() -> None:
        try:
            while not done.is_set():
                tried(f"OPTIMIZE {table}")
                tried(f"VACUUM {table} RETAIN 200 HOURS")
                done.wait(2)
        except Exception as failed:
            failures.append(failed)

    def between(progress: object) -> None:
        match getattr(progress, "sequence", 0):
            case 1:
                worker.start()
            case 2:
                other.sql(f"ALTER TABLE {table} ADD COLUMNS (theirs STRING)")
            case 3:
                row = other.sql(f"SELECT _topic, _partition, _offset FROM {table} LIMIT 1").collect()[0]
                where = f"_topic = '{row[0]}' AND _partition = {row[1]} AND _offset = {row[2]}"
                gone.add(tuple(row))
                while not tried(f"DELETE FROM {table} WHERE {where}"):
                    time.sleep(0.1)

    worker = threading.Thread(target=at_work)
    begun = time.monotonic()
    ingestion = cell.ingestion(**SMALL, retry={"wait": "5 minutes"})
    retries = []
    ingestion.run(until_caught_up=True, on_progress=between, on_event=only(Retrying, retries.append))
    done.set()
    worker.join()
    assert not failures, failures
    said = f"{len(retries)} retries; the {len(gone)} deleted row is named missing"
    cell.check("OPTIMIZE, VACUUM, ALTER, DELETE meanwhile", said, time.monotonic() - begun, frozenset(gone))


@pytest.mark.faults
def test_two_pipelines_into_one_table(cell: Cell, spark: SparkSession) -> None:
    """Each has its own topic, frontier, sequence and quarantine; the table holds both."""
    other = Cell(cell.stack, spark, f"{cell.name}_b", cell.kind, cell.folder, cell.rows)
    for each in (cell, other):
        each.produce(200)
    into = {"table": {"path": cell.table}, "quarantine": {"path": other.quarantine}}
    begun = time.monotonic()
    for _ in range(2):
        cell.run(**SMALL)
        other.run(**into, **SMALL)
        for each in (cell, other):
            each.produce(100)
    cell.run()
    other.run(**into)
    for each, values in ((cell, {}), (other, into)):
        report = each.ingestion(**values).audit()
        assert report.conserved, report
        assert report.consumed == len(each.manifest)
    cell.check_balance("two pipelines into one table", "each its own ledger", time.monotonic() - begun, other)


def zombie(cell: Cell, s3: S3Proxy, step: Step) -> None:
    """A run is stopped (SIGSTOP) with a request on its way; its successor goes on; then it wakes up."""
    cell.produce(200)
    stopped, wakes = threading.Event(), threading.Event()
    with cell.process("--until-caught-up", s3=s3, retry={"wait": "5 minutes"}) as process:

        def stop() -> None:
            process.signal(signal.SIGSTOP)
            stopped.set()
            wakes.wait(120)

        s3.fault(lambda r: reached(step, r, cell.table, cell.quarantine), call_before(stop), times=1)
        assert stopped.wait(120), process.out + process.err
        successor = cell.ingestion()
        successor.run(until_caught_up=True)
        process.signal(signal.SIGCONT)
        wakes.set()
        assert process.wait(120) == 3, process.out + process.err
        winner = f"process {successor.writer.pid} on {successor.writer.host}, started {successor.writer.started}"
        assert f"{winner} committed sequence 1" in process.err
    cell.check(f"a zombie, stopped {step}", "exit 3, it names the winner", 0.0)


@pytest.mark.faults
@pytest.mark.parametrize("step", [Step.WRITING, Step.COMMITTING], ids=lambda step: step.name.lower())
def test_a_zombie(cell: Cell, s3: S3Proxy, step: Step) -> None:
    """Who wakes up after its successor committed has written nothing, says who won, and ends with exit code 3."""
    zombie(cell, s3, step)


@pytest.mark.faults
def test_two_at_once(cell: Cell) -> None:
    """Two processes of one pipeline, started at once on tables that are not there: one of them may win all."""
    cell.produce(600)
    begun = time.monotonic()
    with cell.process("--until-caught-up", **SMALL) as one, cell.process("--until-caught-up", **SMALL) as two:
        ends = [(process.wait(240), process.err) for process in (one, two)]
        for code, said in ends:
            assert code in (0, 3), said
        if {code for code, _ in ends} != {0}:
            loser, winner = (one, two) if ends[0][0] == 3 else (two, one)
            assert f"process {winner.pid} on" in loser.err
    cell.run()
    codes = " and ".join(str(code) for code, _ in sorted(ends))
    cell.check("two writers at once", f"exit codes {codes}", time.monotonic() - begun)
