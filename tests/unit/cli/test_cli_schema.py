"""lakeingest schema check: the answer, its JSON, its exit code, and files that are no schemas."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from lakeingest import cli
from lakeingest.errors import UsageError

V1 = [{"name": "wind", "type": "int"}, {"name": "old", "type": "string"}]
V2 = [{"name": "wind", "type": "long"}, {"name": "gust", "type": ["null", "double"], "default": None}]
BAD = [{"name": "wind", "type": "string"}]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """v1.avsc, v2.avsc and bad.avsc, in the current directory."""
    for name, fields in (("v1", V1), ("v2", V2), ("bad", BAD)):
        text = json.dumps({"type": "record", "name": "weather", "fields": fields})
        (tmp_path / f"{name}.avsc").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["schema", "check", *arguments])


def versions(current: str, record: str, *more: str) -> Result:
    """`current` is version 1, `record` version 2."""
    return run("--current", current, "--current-version", "1", "--record", record, "--record-version", "2", *more)


@pytest.mark.usefixtures("folder")
def test_a_record_that_would_be_written() -> None:
    """What would be done, why, and the change of each field; exit code 0. BACKWARD is the mode."""
    ran = versions("v1.avsc", "v2.avsc")
    assert ran.exit_code == 0
    assert ran.stdout.splitlines() == [
        "v2.avsc: its records would be written, after the table's schema has changed (evolve, DIFFERENT_TYPE)",
        "  wind: BIGINT in the record, INT in the table",
        "  the table's schema changes:",
        "    ~ wind INT → BIGINT",
        "    - old STRING",
        "    + gust DOUBLE",
    ]


@pytest.mark.usefixtures("folder")
def test_a_record_that_would_be_refused() -> None:
    """The reason, and how the record differs; exit code 1."""
    ran = versions("v1.avsc", "bad.avsc")
    assert ran.exit_code == 1
    assert ran.stdout.splitlines() == [
        "bad.avsc: its records would be refused (quarantine, DIFFERENT_TYPE)",
        "  wind: INT in the table, STRING in the record",
        "  from the table's schema to the record's:",
        "    ~ wind INT → STRING",
        "    - old STRING",
    ]


@pytest.mark.parametrize(
    ("suffix", "text", "name", "reference"),
    [
        (
            "avsc",
            '{"type": "record", "name": "S", "fields": [{"name": "at", "type": "P"}]}',
            "place.avsc",
            '{"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}',
        ),
        (
            "proto",
            'syntax = "proto3"; import "place.proto"; message S { P at = 1; }',
            "place.proto",
            'syntax = "proto3"; message P { int32 x = 1; }',
        ),
        (
            "json",
            '{"type": "object", "properties": {"at": {"$ref": "place.json"}}}',
            "place.json",
            '{"type": "object", "properties": {"x": {"type": "integer"}}}',
        ),
    ],
)
def test_a_schema_that_refers_to_another_one(folder: Path, suffix: str, text: str, name: str, reference: str) -> None:
    """The schemas that it names are given as files; without them it cannot be read."""
    (folder / f"s.{suffix}").write_text(text, encoding="utf-8")
    (folder / name).write_text(reference, encoding="utf-8")
    ran = run("--record", f"s.{suffix}", "--reference", name, "--output", "json")
    assert (ran.exit_code, json.loads(ran.stdout)["action"]) == (0, "evolve")
    assert isinstance(run("--record", f"s.{suffix}").exception, UsageError)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("mode", "verdict", "action", "code"),
    [
        ("NONE", "DIFFERENT_SCHEMA", "evolve", 0),
        ("BACKWARD", "DIFFERENT_TYPE", "evolve", 0),
        ("FORWARD", "DIFFERENT_TYPE", "quarantine", 1),
        ("FULL", "DIFFERENT_TYPE", "quarantine", 1),
        ("backward", "DIFFERENT_TYPE", "evolve", 0),
    ],
)
def test_the_modes_as_json(mode: str, verdict: str, action: str, code: int) -> None:
    """One document with verdict, action, changes and why, also when the record is refused."""
    ran = versions("v1.avsc", "v2.avsc", "--mode", mode, "--output", "json")
    told: dict[str, Any] = json.loads(ran.stdout)
    assert list(told) == ["verdict", "action", "changes", "why"]
    assert (told["verdict"], told["action"], ran.exit_code) == (verdict, action, code)
    assert {"path": "wind", "kind": "widened", "text": "~ wind INT → BIGINT"} in told["changes"]


@pytest.mark.usefixtures("folder")
def test_equal_schemas_need_no_version() -> None:
    """Nothing differs, nothing is said."""
    ran = run("--current", "v1.avsc", "--record", "v1.avsc")
    assert (ran.exit_code, ran.stdout) == (0, "v1.avsc: its records would be written as they are (write, OK)\n")


@pytest.mark.usefixtures("folder")
def test_an_unknown_version_is_asked_for() -> None:
    """Without both versions nobody knows which is the newer; the options are named."""
    ran = run("--current", "v1.avsc", "--current-version", "1", "--record", "v2.avsc")
    assert ran.exit_code == 1
    assert "  a schema version is required: unknown in the record, 1 in the table\n" in ran.stdout
    assert "  give --current-version and --record-version\n" in ran.stdout


@pytest.mark.usefixtures("folder")
def test_a_table_without_a_schema_takes_the_first() -> None:
    """Without --current the table is new."""
    ran = run("--record", "v1.avsc", "--output", "json")
    assert (ran.exit_code, json.loads(ran.stdout)["action"]) == (0, "evolve")


def test_every_format_by_its_suffix(folder: Path) -> None:
    """JSON Schema and Protobuf are told from Avro by their files' names, and compare like it."""
    (folder / "v1.json").write_text('{"type": "object", "properties": {"wind": {"type": "integer"}}}', encoding="utf-8")
    (folder / "v1.proto").write_text('syntax = "proto3"; message weather { int64 wind = 1; }', encoding="utf-8")
    for name in ("v1.json", "v1.proto"):
        if name.endswith(".proto"):
            pytest.importorskip("grpc_tools")
        assert run("--record", name).stdout.splitlines()[-1].startswith("    + wind BIGINT")


WRONG: list[tuple[list[str], str, str]] = [
    (["--record", "none.avsc"], "none.avsc: No such file or directory", "name a file that can be read"),
    (["--record", "v1.avro"], 'v1.avro: ".avro" says no format', "name it .avsc for Avro"),
    (["--record", "broken.avsc"], "broken.avsc: the type strin is defined neither here nor", "correct the schema"),
    (["--record", "binary.avsc"], "binary.avsc: not UTF-8", "save the schema as UTF-8 text"),
    (["--record", "v1.avsc", "--current", "none.avsc"], "none.avsc: No such file", "name a file"),
    (["--record", "v1.avsc", "--mode", "SIDEWAYS"], '"SIDEWAYS" is not a mode', "NONE, BACKWARD, FORWARD, FULL"),
    (["--record", "v1.avsc", "--output", "xml"], '"xml" is not a format', "text, json"),
]


@pytest.mark.parametrize(("arguments", "what", "cure"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_what_cannot_be_asked(folder: Path, arguments: list[str], what: str, cure: str) -> None:
    """A usage error names the file, the reason and the cure, and ends with 2."""
    (folder / "broken.avsc").write_text('"strin"', encoding="utf-8")
    (folder / "binary.avsc").write_bytes(b"\xff\xfe")
    error = run(*arguments).exception
    assert isinstance(error, UsageError)
    assert what in error.what
    assert cure in error.cure
    assert error.exit_code == 2


def test_nothing_slow_is_imported(folder: Path) -> None:
    """A producer's CI gets its answer without Spark or a client of Kafka."""
    code = (
        "import sys, lakeingest.cli\n"
        "sys.argv = ['lakeingest', 'schema', 'check', '--record', 'v1.avsc']\n"
        "try:\n    lakeingest.cli.main()\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('pyspark', 'confluent_kafka', 'google.protobuf', 'boto3') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder, timeout=60
    )
    assert ran.stdout.splitlines()[-1] == "[]"
