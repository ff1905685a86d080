"""`lakeingest doctor`: a set-up that is healthy, and set-ups that each lack one thing, which is named with its cure."""

from __future__ import annotations

import http.server
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from support.pipelines import values_of
from support.pipelines.command_line import Command
from support.records import clean_records, produce
from support.servers import free_port, s3_client

from lakeingest.config import file
from lakeingest.local import Addresses, machine
from lakeingest.pipeline import Pipeline

Values = dict[str, Any]
NAME = "doctor"


@pytest.fixture
def values(stack: Addresses) -> Values:
    """The file of a pipeline with all that it needs."""
    produce(stack, NAME, clean_records(3))
    return values_of(stack, NAME)


@pytest.fixture
def said(lakeingest: Command, tmp_path: Path) -> Callable[..., dict[str, dict[str, str]]]:
    """What the doctor finds, by what it is about."""

    def look(values: Values, *words: str, code: int = 0) -> dict[str, dict[str, str]]:
        (tmp_path / "p.yaml").write_text(json.dumps(values))
        answer = lakeingest("doctor", tmp_path / "p.yaml", "--output", "json", *words)
        assert answer.code == code, answer
        assert answer.data["good"] == (code == 0)
        return {found["about"]: found for found in answer.data["findings"]}

    return look


Look = Callable[..., dict[str, dict[str, str]]]


def test_healthy(values: Values, said: Look, spark: SparkSession, stack: Addresses) -> None:
    """Everything is good, also where the table is not there yet; of the conditional PUT nothing is left behind."""
    found = said(values)
    assert {each["state"] for each in found.values()} == {"good"}
    assert found["Kafka"]["what"].endswith("1 partition, 3 offsets, which may be read")
    assert found["store"]["what"] == "bucket lake: written to, and a second writer was refused (412)"
    assert found["Python on executors"]["what"] == "runs"
    assert found["table"]["what"] == "not there yet; the first run makes it"
    store = s3_client(stack)
    assert "Contents" not in store.list_objects_v2(Bucket="lake", Prefix=f"{NAME}/")
    store.close()
    # Nor a folder, in which Delta would make no table, and a table by writing would have no NOT NULL.
    pipeline = Pipeline(file.from_mapping(values))
    assert pipeline.run(until_caught_up=True).consumed == 3
    assert not spark.read.format("delta").load(pipeline.config.table.identifier).schema["n"].nullable


def test_told_in_lines(values: Values, lakeingest: Command, tmp_path: Path) -> None:
    """A person reads a line for each thing, its cure below it, and the sum."""
    values["source"]["topics"] = ["no_such_topic"]
    (tmp_path / "p.yaml").write_text(json.dumps(values))
    answer = lakeingest("doctor", tmp_path / "p.yaml", "--no-spark")
    lines = answer.out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("bad      Kafka"))
    assert "topic 'no_such_topic' does not exist on" in lines[at]
    assert lines[at + 1].split() == ["cure:", "create", "the", "topic,", "or", "correct", "source.topics"]
    assert lines[-1] == "9 good, 1 bad, 1 skipped"
    assert answer.code == 4


def test_half_of_the_brokers_are_dead(values: Values, said: Look) -> None:
    """A run does without them, and nobody would notice."""
    dead = f"127.0.0.1:{free_port()}"
    values["source"]["bootstrap_servers"] += f",{dead}"
    found = said(values, "--no-spark")
    assert (found["Kafka"]["state"], found["brokers"]["state"]) == ("good", "warning")
    assert found["brokers"]["what"] == f"1 of 2 do not answer: {dead}"


def test_a_consumer_group(values: Values, said: Look) -> None:
    """Whether it may be committed to, before a run does."""
    values["source"]["commit_to_group"] = NAME
    assert said(values, "--no-spark")["consumer group"]["what"] == f"{NAME} may be committed to"


def test_the_file_is_wrong(values: Values, said: Look) -> None:
    del values["table"]
    assert "table" in said(values, code=4)["file"]["what"]


def test_no_java(values: Values, said: Look, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    machine.java.cache_clear()
    found = said(values, "--no-spark", code=4)["Java"]
    machine.java.cache_clear()
    assert found["what"].startswith(f"JAVA_HOME is {tmp_path}")
    assert "install a Java 17 runtime" in found["cure"]


def test_no_pyarrow(values: Values, said: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    found = said(values, "--no-spark", code=4)["pyarrow"]
    assert (found["what"], found["cure"][:36]) == ("not installed", "pip install 'lakeingest[spark]', or ")


def test_spark_is_too_old(values: Values, said: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told from the package, and Spark is not even started."""
    monkeypatch.setattr(pyspark, "__version__", "3.5.3")
    found = said(values, code=4)
    assert "this is Spark 3.5.3, and lakeingest needs Spark 4.0 or newer" in found["pyspark"]["what"]
    assert found["Spark"]["state"] == "skipped"


@pytest.mark.parametrize(("memory", "state"), [("100000g", "warning"), ("much", "bad")])
def test_memory(values: Values, said: Look, monkeypatch: pytest.MonkeyPatch, memory: str, state: str) -> None:
    monkeypatch.setenv("LAKEINGEST_DRIVER_MEMORY", memory)
    assert said(values, "--no-spark", code=4 if state == "bad" else 0)["memory"]["state"] == state


def test_no_addresses(values: Values, said: Look, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No brokers in the file, and no stack is running: the rest is told all the same."""
    monkeypatch.setenv("LAKEINGEST_STATE", str(tmp_path))
    del values["source"]["bootstrap_servers"]
    found = said(values, code=4)
    assert "names no brokers, and no embedded stack is running" in found["addresses"]["what"]
    assert (found["Java"]["state"], found["Spark"]["state"]) == ("good", "skipped")


@pytest.mark.faults
def test_no_broker(values: Values, said: Look) -> None:
    values["source"]["bootstrap_servers"] = f"127.0.0.1:{free_port()}"
    found = said(values, "--no-spark", code=4)
    assert "does not answer" in found["Kafka"]["what"]
    assert found["store"]["state"] == "good"


def test_no_registry(values: Values, said: Look) -> None:
    values |= {"decode": {"value": {"format": "avro"}}}
    del values["schema"]
    values["registry"] = {"url": f"http://127.0.0.1:{free_port()}", "wait": "5 minutes"}
    found = said(values, "--no-spark", code=4)
    assert found["registry"]["state"] == "bad"
    assert found["Kafka"]["state"] == "good"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"secret_key": "wrong"}, "knows the access key, but the secret key is another"),
        ({"access_key": "nobody"}, "does not know the access key"),
        ({"endpoint": "closed"}, "nothing listens at"),
    ],
)
def test_the_store(values: Values, said: Look, change: dict[str, str], what: str) -> None:
    values["storage"] |= {
        name: f"http://127.0.0.1:{free_port()}" if value == "closed" else value for name, value in change.items()
    }
    found = said(values, "--no-spark", code=4)["store"]
    assert found["state"] == "bad"
    assert what in found["what"]


def test_no_bucket(values: Values, said: Look) -> None:
    values["table"]["path"] = "s3a://no-such-bucket/t"
    found = said(values, "--no-spark", code=4)["store"]
    assert "there is no bucket no-such-bucket at" in found["what"]


@contextmanager
def store(date: str) -> Iterator[str]:
    """A store of before conditional writes: it takes every object, as often as it comes."""

    class Old(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b"<ListBucketResult><Name>lake</Name></ListBucketResult>" if self.command == "GET" else b""
            self.send_response_only(200)
            for name, value in {"Date": date, "Content-Length": str(len(body)), "ETag": '"1"'}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_DELETE = answer  # noqa: N815 (the names are http.server's)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Old) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def test_a_store_that_overwrites(values: Values, said: Look) -> None:
    with store(formatdate(usegmt=True)) as endpoint:
        values["storage"]["endpoint"] = endpoint
        found = said(values, "--no-spark", code=4)
    assert "overwrote an object that was to be written once" in found["store"]["what"]
    assert "If-None-Match" in found["store"]["cure"]


@pytest.mark.parametrize(("off_s", "state"), [(-300, "warning"), (3000, "bad")])
def test_the_clock_is_off(values: Values, said: Look, off_s: float, state: str) -> None:
    with store(formatdate(time.time() + off_s, usegmt=True)) as endpoint:
        values["storage"]["endpoint"] = endpoint
        found = said(values, "--no-spark", code=4)["clock"]
    assert (found["state"], found["cure"]) == (state, "let the clock follow a time server")
    said_s, _, rest = found["what"].partition(" ")
    assert int(said_s) == pytest.approx(abs(off_s), abs=2)
    assert rest == f"s {'behind' if off_s > 0 else 'before'} the store's"


def test_a_folder_that_cannot_be_written(values: Values, said: Look) -> None:
    values["table"]["path"] = "/proc/lakeingest/t"
    found = said(values, "--no-spark", code=4)["store"]
    assert found["what"].startswith("/proc/lakeingest/t cannot be written")
