"""A cell of the matrix: a pipeline of one kind of batch, hurt in one way, brought back, held against a manifest."""

from __future__ import annotations

import base64
import json
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from support.pipelines import values_of
from support.records import DIRTY, Record, produce

from lakeingest.config import file
from lakeingest.delta.receipt import Counts
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.testing.manifest import Balance, Place, balance
from lakeingest.testing.process import Process
from lakeingest.testing.s3 import Request, S3Proxy, call_after, call_instead
from lakeingest.testing.steps import Step, end_at

QUICK = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}
"""A JVM that lives for seconds gains nothing from the compiler that takes its time."""
KINDS = ("clean", "dirty", "evolving")
BUCKET = "faulty"
"""The bucket that the shared session reaches through the proxy; `lake` is reached directly. They are one server."""
OF_A_DIRTY_BATCH = (
    Step.MAKING,
    Step.WRITING,
    Step.COMMITTING,
    Step.COMMITTED,
    Step.SETTING_ASIDE,
    Step.ACCOUNTING,
    Step.ACCOUNTED,
)
"""The steps of the first batch that has refused records: the first one makes the table."""
MIXED = {"schema": {"compatibility": "BACKWARD"}, "decode": {"on_null": "ignore"}}


def records(kind: str, count: int, start: int = 0) -> Iterator[Record]:
    """Records of a kind; `evolving` ones get new fields, and every ninth of them is refused."""
    for n in range(start, start + count):
        value: dict[str, Any] = {"n": n, "text": f"text {n}"}
        if kind == "dirty" and n % 7 == 0:
            yield Record(DIRTY if n % 2 else b"\xff{")
        elif kind == "dirty" and n % 11 == 0:
            yield Record(None, b"gone")
        elif kind == "evolving" and n % 9 == 0:
            yield Record(DIRTY)
        else:
            more = {"more": n / 2, "words": [str(n)]} if kind == "evolving" else {}
            yield Record(json.dumps(value | more).encode())


def first_tries(is_meant: Callable[[Request], bool]) -> Callable[[Request], bool]:
    """Of the requests that are meant, whether one is the first for its object: what is asked again comes through."""
    tried = set[str]()

    def first_try(request: Request) -> bool:
        # Whether the next commit is there already is asked before it is made.
        new = is_meant(request) and request.key not in tried
        if new:
            tried.add(request.key)
        return new

    return first_try


def commits(operation: str, of: str = "") -> Callable[[Request], bool]:
    """Of requests those that commit an operation to a table's log.

    Args:
        of: how the table's path ends; any table by default.
    """
    return lambda request: (
        request.kind == "PUT" and f'"operation":"{operation}"' in request.text and f"{of}/_delta_log/" in request.key
    )


def killed_at(
    s3: S3Proxy, rule: Callable[[Request], bool], command: Sequence[str], file: Path, *options: str, is_done: bool
) -> None:
    """End a command by SIGKILL when it sends a request.

    Args:
        rule: what request that is.
        is_done: whether the store has done by then what it is asked for.
    """
    state = str(file.parent / "state")
    environment = {"LAKEINGEST_STATE": state, "LAKEINGEST_DRIVER_MEMORY": "1g", **QUICK}
    with Process(file, *options, command=command, env=environment) as process:
        at_step = threading.Event()

        def end() -> None:
            at_step.set()
            process.kill()

        s3.fault(rule, call_after(end) if is_done else call_instead(end), times=1)
        assert at_step.wait(240), process.out + process.err
        assert process.wait(60) == -signal.SIGKILL
    s3.clear()


@dataclass(frozen=True)
class Row:
    """A line of the matrix."""

    fault: str
    kind: str
    happened: str
    balance: Balance
    seconds: float

    @property
    def texts(self) -> tuple[str, ...]:
        """What stands in each column."""
        return (
            self.fault,
            self.kind,
            self.happened,
            f"{self.balance.produced:,}",
            f"{self.balance.table:,}",
            f"{self.balance.quarantine:,}",
            f"{self.balance.dropped:,}",
            str(len(self.balance.missing)),
            str(len(self.balance.double)),
            f"{self.seconds:.1f} s",
        )


@dataclass
class Cell:
    """One pipeline: its topic, its tables, and what was produced to it."""

    stack: Addresses
    spark: SparkSession
    name: str
    kind: str
    folder: Path
    rows: list[Row]
    bucket: str = "lake"
    partitions: int = 2
    changes: dict[str, Any] = field(default_factory=dict)
    manifest: dict[Place, str | None] = field(default_factory=dict)

    @property
    def table(self) -> str:
        return f"s3a://{self.bucket}/{self.name}"

    @property
    def quarantine(self) -> str:
        return f"{self.table}_quarantine"

    def produce(self, count: int, kind: str | None = None) -> None:
        """Produce so many records of the cell's kind, or of another."""
        made = records(kind or self.kind, count, len(self.manifest))
        self.manifest.update(produce(self.stack, self.name, made, self.partitions))

    def values(self, **changes: Any) -> dict[str, Any]:
        values = values_of(self.stack, self.name, **MIXED, table={"path": self.table}, **self.changes)
        for part, change in changes.items():
            values[part] = {**values.get(part, {}), **change} if isinstance(change, Mapping) else change
        return values

    def file(self, **changes: Any) -> Path:
        """The pipeline file, for a process."""
        path = self.folder / f"{self.name}.yaml"
        # JSON is YAML too.
        path.write_text(json.dumps(self.values(**changes)))
        return path

    def process(
        self,
        *options: str,
        s3: S3Proxy | None = None,
        command: Sequence[str] = ("run",),
        env: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
        **changes: Any,
    ) -> Process:
        """A command, with a state folder of its own, through the proxy if one is given."""
        self.folder.mkdir(exist_ok=True)
        if s3 is not None:
            changes["storage"] = {"endpoint": s3.endpoint, **changes.get("storage", {})}
        own = {"LAKEINGEST_STATE": str(self.folder / "state"), "LAKEINGEST_DRIVER_MEMORY": "1g", **QUICK}
        return Process(self.file(**changes), *options, command=command, env={**own, **(env or {})}, within=within)

    def killed(self, s3: S3Proxy, step: Step, *options: str, batch: int = 1, **how: Any) -> None:
        """SIGKILL to a process and its JVM when the store sees it at a step, the so-and-so-many-th time."""
        with self.process(*options, s3=s3, **how) as process:
            there = end_at(s3, step, self.table, self.quarantine, process.kill, batch=batch)
            deadline = time.monotonic() + 240
            while process.code is None:
                assert time.monotonic() < deadline, process.out + process.err
                time.sleep(0.05)
            assert there.is_set(), f"{step} was never reached: {process.out}{process.err}"
            assert process.code == -signal.SIGKILL

    def ingestion(self, **changes: Any) -> Pipeline:
        return Pipeline(file.from_mapping(self.values(**changes)))

    def run(self, **changes: Any) -> Counts:
        """Catch up in this process, as on a machine that never ran the pipeline."""
        return self.ingestion(**changes).run(until_caught_up=True)

    def restore(self, version: int) -> None:
        self.spark.sql(f"RESTORE TABLE delta.`{self.table}` TO VERSION AS OF {version}")

    def recover(self, fault: str, happened: str, **changes: Any) -> None:
        """Catch up, and hold both tables against the manifest."""
        begun = time.monotonic()
        self.run(**changes)
        self.check(fault, happened, time.monotonic() - begun)

    def check_balance(
        self, fault: str, happened: str, seconds: float, *others: Cell, without: frozenset[Place] = frozenset()
    ) -> Balance:
        """Note the line, and demand that each record of this cell and of others in its table is there once."""
        manifest = {place: digest for cell in (self, *others) for place, digest in cell.manifest.items()}
        quarantines = [cell.quarantine for cell in (self, *others)]
        found = balance(self.spark, self.ingestion().config, manifest, *quarantines[1:])
        self.rows.append(Row(fault, self.kind, happened, found, seconds))
        assert replace(found, missing=tuple(p for p in found.missing if p not in without)).exact, found
        return found

    def check(self, fault: str, happened: str, seconds: float, without: frozenset[Place] = frozenset()) -> None:
        """Note the line, and demand that all is there once and conserved.

        Args:
            without: records that somebody deleted from the table on purpose.
        """
        found = self.check_balance(fault, happened, seconds, without=without)
        report = self.ingestion().audit()
        assert (report.missing, report.duplicated, report.unexpected, report.breaks) == (len(without), 0, 0, ()), report
        assert report.table + len(without) + report.quarantine + report.dropped == found.produced


def large(cell: Cell) -> None:
    """Produce records that no codec makes small, so that a file is uploaded in parts."""
    noise = random.Random(cell.name)
    texts = (base64.b64encode(noise.randbytes(600_000)).decode() for _ in range(24))
    made = [json.dumps({"n": n, "text": text}).encode() for n, text in enumerate(texts)]
    cell.manifest.update(produce(cell.stack, cell.name, made, 1))
    cell.partitions = 1


def ride_out(
    cells: Mapping[str, Cell],
    fault: str,
    hurt: Callable[[], object],
    heal: Callable[[], object],
    last_s: float,
    **how: Any,
) -> None:
    """Processes, one of each kind, commit each second while something is hurt for so long, and go on when it is well.

    Records come before, meanwhile and after. The time that is noted is from the healing until all of them caught up.

    Args:
        how: more for `Cell.process`.
    """
    for cell in cells.values():
        cell.produce(200)
    with ExitStack() as running:
        processes = {
            kind: running.enter_context(cell.process(retry={"wait": "20 minutes"}, **how))
            for kind, cell in cells.items()
        }
        for process in processes.values():
            process.commits(1)
        hurt()
        for cell in cells.values():
            cell.produce(200)
        time.sleep(last_s)
        heal()
        begun, seconds = time.monotonic(), dict[str, float]()
        for cell in cells.values():
            cell.produce(100)
        while len(seconds) < len(cells):
            for kind, cell in cells.items():
                process = processes[kind]
                assert process.code is None, process.out + process.err
                assert time.monotonic() - begun < 300, process.out + process.err
                if kind not in seconds and cell.ingestion().status().lag == 0:
                    seconds[kind] = time.monotonic() - begun
            time.sleep(0.5)
        retries = {kind: process.out.count("trying again") for kind, process in processes.items()}
    for kind, cell in cells.items():
        cell.run()
        cell.check(fault, f"went on by itself, told of {retries[kind]} retries", seconds[kind])


def shown(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """The matrix as text, of the `texts` of its rows."""
    titles = ("fault", "batch", "what happened", "in", "table", "quar.", "drop.", "miss.", "double", "back in")
    widths = [max(len(line[n]) for line in (titles, *lines)) for n in range(len(titles))]
    for line in (titles, tuple("─" * width for width in widths), *lines):
        cells = [
            text.ljust(width) if n < 3 else text.rjust(width)
            for n, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
