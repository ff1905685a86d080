"""`lakeingest schema history`: the ledger of schemas as a timeline, and what each schema has brought."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pipelines import values_of
from support.records import Record, clean_records, produce, registered
from support.records.registered import maybe, record

from lakeingest.cli import schema
from lakeingest.config.file import from_mapping
from lakeingest.errors import UsageError
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline

NAME = "history"

SUBJECT = f"{NAME}-value"


def written(folder: Path, values: dict[str, Any]) -> Path:
    """The pipeline file; JSON is YAML too."""
    path = folder / "pipeline.yaml"
    path.write_text(json.dumps(values))
    return path


@pytest.fixture(scope="module")
def file(stack: Addresses, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline that took two batches of three versions, the third refused, and of bytes with an id that nobody has.

    | batch  | 1      | 2  |    |    |        |            |
    | offset | 0 to 4 | 5  | 6  | 7  | 8      | 9          |
    | ------ | ------ | -- | -- | -- | ------ | ---------- |
    | record | v1     | v2 | v1 | v3 | v2 cut | 0xFFFFFFFF |
    """
    key = registered.avro(stack, f"{NAME}-key", "string")
    one, two, three = (
        registered.avro(stack, SUBJECT, record("Wind", **fields))
        for fields in ({"n": "int"}, {"n": "long", "gust": maybe("double")}, {"n": "string"})
    )
    decode = {"key": {"format": "avro"}, "value": {"format": "avro"}}
    more = {"registry": {"url": stack.registry}, "trigger": {"max_records": 5}}
    values = values_of(stack, NAME, decode=decode, schema={"columns": None}, **more)
    first = [one(n=n) for n in range(5)]
    second = [two(n=5, gust=1.5), one(n=6), three(n="seven"), two(n=8, gust=2.5)[:-1], b"\0\xff\xff\xff\xff\1"]
    produce(stack, NAME, [Record(value, key("k")) for value in (*first, *second)])
    Pipeline(from_mapping(values)).run(until_caught_up=True)
    return written(tmp_path_factory.mktemp(NAME), values)


@pytest.fixture(scope="module")
def ids(stack: Addresses) -> list[int]:
    """The registry's ids: of the key, and of the three versions."""
    client = registered.client(stack)
    wanted = [(f"{NAME}-key", 1), *((SUBJECT, version) for version in (1, 2, 3))]
    return [client.get_version(subject, version).schema_id or 0 for subject, version in wanted]


@pytest.mark.slow
def test_the_timeline(file: Path, ids: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    """Oldest first: what was decided, which fields changed, which one is current."""
    schema.history(file)
    blocks = capsys.readouterr().out.split("\n\n")
    assert blocks[0] == "history: schema.compatibility BACKWARD"
    wanted = [
        (f"batch 1: key, schema {ids[0]}, version 1 of history-key", "OK → the column _key begins with it (current)"),
        (f"batch 1: schema {ids[1]}, version 1 of {SUBJECT} (x.Wind, ", "OK → the table begins with it"),
        (f"batch 2: schema {ids[2]}, version 2 of {SUBJECT} (x.Wind, ", "DIFFERENT_TYPE → the table follows (current)"),
        (f"batch 2: schema {ids[3]}, version 3 of {SUBJECT} (x.Wind, ", "DIFFERENT_TYPE → refused, to quarantine"),
    ]
    for block, (head, decided) in zip(blocks[1:], wanted, strict=False):
        first, second, *more = block.splitlines()
        assert head in first
        assert second == f"  {decided}"
        assert more[-1].startswith("  first record history-0:")
    assert blocks[3].splitlines()[2:] == [
        "    ~ n INT → BIGINT",
        "    + gust DOUBLE",
        "  first record history-0:5",
    ]


@pytest.mark.slow
def test_what_each_schema_has_brought(file: Path, ids: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    """Rows from the table, refused records from the bytes in quarantine, and where the first and last of them lie."""
    schema.history(file, output="json")
    data = json.loads(capsys.readouterr().out)
    brought = [
        [w[name] for name in ("side", "id", "version", "rows", "refused", "first", "last")] for w in data["writers"]
    ]

    def at(offset: int) -> list[object]:
        return [NAME, 0, offset]

    assert brought == [
        ["key", ids[0], 1, None, 3, at(0), at(9)],
        ["value", ids[1], 1, 6, 0, at(0), at(6)],
        ["value", ids[2], 2, 1, 1, at(5), at(8)],
        ["value", ids[3], 3, 0, 1, at(7), at(7)],
    ]
    assert data["columns"]["value"] == [{"name": "n", "type": "BIGINT"}, {"name": "gust", "type": "DOUBLE"}]
    assert [step["current"] for step in data["steps"]] == [True, False, True, False]


def test_a_pipeline_that_never_ran(stack: Addresses, spark: SparkSession, named: str, tmp_path: Path) -> None:
    """There is no table yet, and the message says what to do."""
    produce(stack, named, clean_records(1))
    with pytest.raises(UsageError, match="run the pipeline first"):
        schema.history(written(tmp_path, values_of(stack, named)))


def test_declared_columns(
    stack: Addresses, spark: SparkSession, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a registry the pipeline file is version 1, and no schema is told apart in the rows."""
    produce(stack, named, clean_records(1))
    values = values_of(stack, named)
    Pipeline(from_mapping(values)).run(until_caught_up=True)
    schema.history(written(tmp_path, values))
    head, block = capsys.readouterr().out.rstrip().split("\n\n")
    assert head == f"{named}: schema.compatibility FORWARD"
    first, *more = block.splitlines()
    assert "batch 1: the pipeline file, version 1 (" in first
    assert more == ["  OK → the table begins with it (current)", "    + n INT NOT NULL", "    + text STRING"]
