"""`lakeingest init --from-topic` with the real broker and registry: the file runs, and no offset is committed."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.pipelines.command_line import Command
from support.records import Record, admin_client, create_topic, produce, registered, transaction

from lakeingest.cli import complete
from lakeingest.config import file as pipeline_file
from lakeingest.local import Addresses, s3


def test_a_file_from_a_sample_runs(
    stack: Addresses, spark: SparkSession, named: str, tmp_path: Path, lakeingest: Command
) -> None:
    """Names that SQL and YAML would take for something else come out right; the frontier is no group's offset."""
    fields = {"order id": 1, "not": 2, "q\"'": "x", "tü.#": [1.5], "`": {"A": 1, "a": 2}, "1st": True, "_x": 0}
    values = [{"n": n, "at": f"2026-11-{n % 3 + 1:02}T10:00:00Z", **fields} for n in range(60)]
    keyed = [Record(json.dumps(value).encode(), b"k%d" % n) for n, value in enumerate(values)]
    produce(stack, named, [*keyed, b"{"], 3)
    file = tmp_path / "two words.yaml"
    said = lakeingest("init", file, "--from-topic", named)
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith(f"look at it, then: lakeingest plan '{file}'\n")
    assert lakeingest("check", file).code == 0
    assert lakeingest("run", file, "--until-caught-up").code == 0
    (row,) = spark.read.format("delta").load(f"s3a://lake/{named}").where("n = 7").collect()
    assert [row[name] for name in ("not", "q\"'", "tü.#", "1st", "day")] == [
        *(2, "x", [1.5], True),
        row["at"].date(),
    ]
    assert (row["`"].asDict(), row["_key"]) == ({"A": 1}, "k7")
    assert json.loads(row["_rescued"])["order id"] == 1
    assert lakeingest("quarantine", "list", file, "--output", "json").data["reasons"][0]["count"] == 1
    groups = admin_client(stack).list_consumer_groups().result().valid
    assert "lakeingest-init" not in [group.group_id for group in groups]


def test_a_registry_is_asked(stack: Addresses, named: str, tmp_path: Path, lakeingest: Command) -> None:
    """The stack's own for its own topics; of other brokers only one that is named."""
    writer = registered.avro(stack, f"{named}-value", registered.record("R", n="int"))
    produce(stack, named, [writer(n=n) for n in range(3)])

    def format_by(*options: object) -> str:
        lakeingest("init", tmp_path / "p.yaml", "--from-topic", named, "--force", *options)
        return pipeline_file.read(tmp_path / "p.yaml", os.environ).decode.value.format

    assert format_by() == "avro"
    assert format_by("--brokers", stack.kafka) == "bytes"
    assert format_by("--brokers", stack.kafka, "--registry", stack.registry) == "avro"
    assert format_by("--brokers", stack.kafka, "--registry", "http://127.0.0.1:1") == "bytes"


def test_records_behind_markers_are_found(stack: Addresses, named: str, tmp_path: Path, lakeingest: Command) -> None:
    """The newest offsets may hold none: markers of transactions. Those of an aborted one do not count."""
    transaction(stack, named, [b'{"good": 1}'], commit=True)
    for _ in range(3):
        transaction(stack, named, [b"\xff" * 5] * 300, commit=False)
    assert lakeingest("init", tmp_path / "p.yaml", "--from-topic", named).code == 0
    assert [c.name for c in pipeline_file.read(tmp_path / "p.yaml", os.environ).columns] == ["good"]


@pytest.mark.slow
def test_what_cannot_be_told(stack: Addresses, named: str, tmp_path: Path, lakeingest: Command) -> None:
    """An empty topic, one that is not there, and one whose name is none: an error with its cure, and no file."""
    create_topic(stack, named)
    for topic, what, cure in (
        (named, "holds no record", "let some records come"),
        (f"{named}s", "does not exist on", f"did you mean {named}?"),
        ("a b", "not a Kafka topic's name", "write 1 to 249 of letters"),
    ):
        said = lakeingest("init", tmp_path / "p.yaml", "--from-topic", topic)
        assert (said.code, said.out) == (2, "")
        assert what in said.err
        assert cure in said.err
    assert not (tmp_path / "p.yaml").exists()
    said = lakeingest("init", tmp_path / "p.yaml", "--from-topic", named, "--brokers", "127.0.0.1:1")
    assert said.code == 4
    assert "Kafka at 127.0.0.1:1 does not answer" in said.err


def test_a_terminal_is_asked_for_the_topic(stack: Addresses, named: str, tmp_path: Path) -> None:
    """Only there, and only where neither file nor topic was given."""
    produce(stack, named, [b'{"n": 1}'])
    terminal, end = pty.openpty()
    command = [sys.executable, "-c", "from lakeingest.cli import main; main()", "init"]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=end, stdout=end, stderr=end)
    os.close(end)
    seen, until = "", time.monotonic() + 60
    while "(Enter: a file to fill in)" not in seen and time.monotonic() < until:
        seen += _read(terminal)
    assert "topics of the embedded stack: " in seen
    os.write(terminal, f"{named}\n".encode())
    while chunk := _read(terminal):
        seen += chunk
    assert process.wait(60) == 0, seen
    os.close(terminal)
    assert "pipeline.yaml is written from a sample of" in seen
    assert pipeline_file.read(tmp_path / "pipeline.yaml", os.environ).source.topics == (named,)


def _read(terminal: int) -> str:
    """What a program has written to its terminal; empty where it has ended."""
    try:
        return os.read(terminal, 4096).decode() if select.select([terminal], [], [], 60)[0] else ""
    except OSError:
        return ""


@pytest.mark.parametrize("ran", [False, True])
def test_lakeingest_alone_knows_what_ran(
    stack: Addresses,
    spark: SparkSession,
    named: str,
    tmp_path: Path,
    lakeingest: Command,
    *,
    monkeypatch: pytest.MonkeyPatch,
    ran: bool,
) -> None:
    """In the stack's own store it looks for the table's log."""
    produce(stack, named, [b'{"n": 1}'])
    monkeypatch.chdir(tmp_path)
    lakeingest("init", "p.yaml", "--from-topic", named)
    if ran:
        lakeingest("run", "p.yaml", "--until-caught-up")
        produce(stack, named, [b"{", b'{"n": 2}'])
    stands = "2 records wait, 0 records in quarantine" if ran else "it has never run"
    steps = ["run", "status"] if ran else ["plan", "run"]
    said = lakeingest().out.splitlines()
    assert said[:2] == ["embedded stack: running", f"p.yaml: good; {stands}"]
    assert [line.split()[1] for line in said[2:4]] == steps
    if ran:
        lakeingest("run", "p.yaml", "--until-caught-up")
        said = lakeingest().out.splitlines()
        assert said[1] == "p.yaml: good; 0 records wait, 1 record in quarantine"
        assert [line.split()[1] for line in said[2:4]] == ["quarantine", "status"]
    assert s3.holds(stack, "no-such-bucket", "") is False


def test_topics_are_completed(stack: Addresses, named: str, tmp_path: Path) -> None:
    """Those of the stack, and behind FILE: those that its pattern matches."""
    create_topic(stack, f"{named}.a")
    create_topic(stack, f"{named}_b")
    assert complete.topics(named) == [f"{named}.a", f"{named}_b"]
    file = tmp_path / "many.yaml"
    file.write_text(
        f"name: '{{topic}}'\nsource: {{topics: {{pattern: '{named}\\..*'}}}}\n"
        "table: {path: 's3a://lake/{topic}'}\nschema: {columns: n INT}\n"
    )
    assert complete.files(f"{file}:") == [f"{file}:{named}.a"]
    assert complete.files(f"{file}:x") == []
