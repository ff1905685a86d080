"""Pipelines on a cluster of a master and two workers, each a process: what they promise holds there too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from support.faults import Cell
from support.servers.cluster import Cluster, cluster

from lakeingest.local import Addresses
from lakeingest.testing.process import Process
from lakeingest.testing.s3 import S3Proxy, call_before
from lakeingest.testing.steps import Step, reached

pytestmark = pytest.mark.cluster
PIPELINES = Path(__file__).parents[2] / "pipelines"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.mark.parametrize(
    ("file", "words"), [("flights.yaml", ()), ("weather.yaml", ("--schemas",))], ids=["flights", "weather"]
)
def test_the_demo(two: Cluster, stack: Addresses, file: str, words: tuple[str, ...]) -> None:
    """The same file as on one machine, and the same proof at the end."""
    with Process(PIPELINES / file, *words, command=("demo",), env=two.env) as process:
        assert process.wait(900) == 0, process.out + process.err
        assert "conserved" in process.out


def test_the_doctor_names_the_cluster(two: Cluster, cell: Cell) -> None:
    cell.produce(1)
    with cell.process(command=("doctor",), env=two.env) as process:
        assert process.wait(300) == 0, process.out + process.err
        assert f"on {two.url}" in process.out


def killed(cell: Cell, s3: S3Proxy, env: dict[str, str], victims: Callable[[], list[psutil.Process]]) -> float:
    """Run until caught up, and kill the first of the victims while a batch is written; how long it took, in seconds."""
    dead: list[int] = []

    def kill() -> None:
        for each in victims()[:1] if not dead else ():
            with suppress(psutil.Error):
                each.kill()
                dead.append(each.pid)

    cell.produce(6000)
    begun = time.monotonic()
    with cell.process("--until-caught-up", s3=s3, env=env) as process:
        s3.fault(lambda r: reached(Step.WRITING, r, cell.table, cell.quarantine), call_before(kill))
        assert process.wait(600) == 0, process.out + process.err
    assert dead
    s3.clear()
    return time.monotonic() - begun


def test_an_executor_is_killed(two: Cluster, cell: Cell, s3: S3Proxy) -> None:
    """While it writes: its tasks are done again, on another one."""
    took = killed(cell, s3, two.env, two.executors)
    cell.check("cluster: an executor is killed", "its tasks were done again", took)


def test_a_worker_is_lost(cell: Cell, s3: S3Proxy, tmp_path: Path) -> None:
    """With its executor, while a batch is written: the other one does all of it."""
    with cluster(tmp_path) as three:

        def first() -> list[psutil.Process]:
            worker = psutil.Process(three.workers[0].pid)
            for each in worker.children(recursive=True):
                each.kill()
            return [worker]

        took = killed(cell, s3, three.env, first)
    cell.check("cluster: a worker is lost", "the other one did its tasks", took)


def test_speculation(two: Cluster, cell: Cell, tmp_path: Path) -> None:
    """Tasks that run twice at once write their rows once."""
    cell.produce(6000)
    conf = tmp_path / "conf"
    conf.mkdir()
    settings = {"speculation": "true", "speculation.quantile": "0.1", "speculation.multiplier": "1.01"}
    settings |= {"speculation.interval": "5ms", "speculation.minTaskRuntime": "1ms"}
    (conf / "spark-defaults.conf").write_text("".join(f"spark.{name} {value}\n" for name, value in settings.items()))
    begun = time.monotonic()
    env = {**two.env, "SPARK_CONF_DIR": str(conf)}
    with cell.process("--until-caught-up", env=env, trigger={"max_records": 1500}) as process:
        assert process.wait(600) == 0, process.out + process.err
    cell.check("cluster: speculative execution", "each row once", time.monotonic() - begun)
