"""An export that is killed at each of its steps, and two at once: what counts are the table's rows, each once."""

from __future__ import annotations

import re
import signal
import time
from contextlib import ExitStack

import pytest
from support.faults import Cell
from support.oracle import exports
from support.servers import s3_client

from lakeingest.operations.export.request import FORMATS
from lakeingest.testing.process import Process
from lakeingest.testing.s3 import Request, S3Proxy, call_after, call_instead

COLUMNS = ["_topic", "_partition", "_offset", "_timestamp", "n", "text"]
"""What CSV tells the types of, too."""
STEPS = {
    "before its objects": (r"export=[^/]+/_temporary/.*part-", 0),
    "between its objects": (r"export=[^/]+/_temporary/.*part-", 1),
    "while they are moved": (r"export=[^/]+/_partition=\d/part-", 1),
    "before its commit": (r"_lakeingest_export/_delta_log/\d{20}\.json$", 0),
    "after its commit": (r"_lakeingest_export/_delta_log/\d{20}\.json$", 0),
}
"""step → what the store is asked to put, and how often before."""


def place_of(cell: Cell) -> str:
    return f"{cell.table}_out"


def process(cell: Cell, format_: str, s3: S3Proxy | None = None) -> Process:
    words = ("--to", place_of(cell), "--format", format_, "--partition-by", "_partition")
    return cell.process(*words, command=("export",), s3=s3)


def killed(cell: Cell, s3: S3Proxy, step: str, format_: str) -> None:
    """SIGKILL to an export and its JVM at a step."""
    pattern, skip = STEPS[step]
    with process(cell, format_, s3) as running:

        def there(request: Request) -> bool:
            return request.kind == "PUT" and bool(re.search(f"{cell.name}_out/{pattern}", request.key))

        act = call_after(running.kill) if step == "after its commit" else call_instead(running.kill)
        fault = s3.fault(there, act, times=1, skip=skip)
        deadline = time.monotonic() + 240
        while running.code is None:
            assert time.monotonic() < deadline, running.out + running.err
            time.sleep(0.05)
        assert (fault.hits, running.code) == (1, -signal.SIGKILL), running.out + running.err
    s3.clear()


def check(cell: Cell, format_: str, exports_: int) -> None:
    """The next export completes the place, and leaves no folder that is not named."""
    wanted = place_of(cell)
    cell.ingestion().export(wanted, format=format_, partition_by=["_partition"])  # type: ignore[arg-type]
    rows = cell.spark.read.format("delta").load(cell.table)
    exports.assert_exported(cell.spark, wanted, format_, rows.select(COLUMNS))
    client = s3_client(cell.stack)
    listed = client.list_objects_v2(Bucket="lake", Prefix=f"{cell.name}_out/export=")["Contents"]
    client.close()
    assert len({each["Key"].split("/")[1] for each in listed}) == exports_


@pytest.mark.faults
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("step", STEPS)
def test_killed(cells: dict[str, Cell], s3: S3Proxy, step: str, format_: str) -> None:
    """Its second export, with rows of a batch that came since the first."""
    cell = cells["dirty"]
    cell.produce(100)
    cell.run()
    check(cell, format_, 1)
    cell.produce(60)
    cell.run()
    killed(cell, s3, step, format_)
    if step == "after its commit":
        # What was left is deleted by an export that has something new.
        cell.produce(10)
        cell.run()
    check(cell, format_, 3 if step == "after its commit" else 2)


@pytest.mark.faults
def test_killed_at_every_step_of_the_first(cells: dict[str, Cell], s3: S3Proxy) -> None:
    """One after the other, into a place that is not there yet."""
    cell = cells["dirty"]
    cell.produce(100)
    cell.run()
    for step in STEPS:
        killed(cell, s3, step, "jsonl")
    cell.produce(10)
    cell.run()
    check(cell, "jsonl", 2)


@pytest.mark.faults
def test_two_at_once(cells: dict[str, Cell]) -> None:
    """Of two processes one commits each number; whoever is fenced, nothing is doubled."""
    cell = cells["dirty"]
    cell.produce(100)
    cell.run()
    codes = []
    for _ in range(2):
        with ExitStack() as stack:
            both = [stack.enter_context(process(cell, "csv")) for _ in range(2)]
            codes += [each.wait(240) for each in both]
        cell.produce(20)
        cell.run()
    assert set(codes) <= {0, 3}
    assert 0 in codes
    check(cell, "csv", 3)
