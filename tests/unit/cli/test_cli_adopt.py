"""What `lakeingest adopt` takes, before a server or Spark is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.pipelines.command_line import Command

from lakeingest.cli import adopt


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("topic=t,partition=p,offset=o", {"topic": "t", "partition": "p", "offset": "o"}),
        ("partition=p , offset = src.o", {"partition": "p", "offset": "src.o"}),
        ("topic='my topic',partition=p,offset=o", {"topic": "'my topic'", "partition": "p", "offset": "o"}),
        ("topic='a=b',partition=p,offset=o", {"topic": "'a=b'", "partition": "p", "offset": "o"}),
    ],
)
def test_coordinates(text: str, columns: dict[str, str]) -> None:
    """Columns by the part of the coordinates that they have; the topic may be left out."""
    assert adopt._coordinates(text) == columns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "offset=o",
        "topic=t,offset=o",
        "partition=,offset=o",
        "partition=p,offset=o,offset=o",
        "partition=p,offset=o,x=y",
        "p,o",
    ],
)
def test_wrong_coordinates(text: str, lakeingest: Command, tmp_path: Path) -> None:
    """A sentence with the form."""
    said = lakeingest("adopt", tmp_path / "p.yaml", "--coordinates", text)
    assert (said.code, "write topic=COLUMN,partition=COLUMN,offset=COLUMN" in said.err) == (2, True), said


def test_frontier() -> None:
    """Topics may have any name that Kafka lets them have."""
    found = adopt._frontier("a.b-c:0=12, a.b-c:1=0")
    assert found == {("a.b-c", 0): 12, ("a.b-c", 1): 0}


@pytest.mark.parametrize("text", ["", "t=1", "t:0", "t:0=-1", "t:x=1", ":0=1", "t:0=1,t:0=2", "t:0=1,", "t:0=१"])
def test_wrong_frontier(text: str, lakeingest: Command, tmp_path: Path) -> None:
    """A sentence with what is wrong."""
    said = lakeingest("adopt", tmp_path / "p.yaml", "--frontier", text)
    assert (said.code, "is no new partition with its offset" in said.err) == (2, True), said


def test_one_way_alone(lakeingest: Command, tmp_path: Path) -> None:
    """Two ways to tell exclude each other, also as JSON."""
    said = lakeingest("adopt", tmp_path / "p.yaml", "--frontier", "t:0=1", "--from-group", "g", "--output", "json")
    assert (said.code, "--frontier and --from-group exclude each other" in said.err) == (2, True), said


def test_as_json(lakeingest: Command, tmp_path: Path) -> None:
    """A program is told, too, where there is nothing to adopt."""
    said = lakeingest("adopt", tmp_path / "none.yaml", "--output", "json")
    assert (said.code, json.loads(said.out)["error"]) == (2, "PipelineFileError"), said


def test_a_group_and_a_table(lakeingest: Command, tmp_path: Path) -> None:
    """A bronze table has offsets of its own: no group of Kafka's stands in it."""
    (tmp_path / "p.yaml").write_text(
        "{name: p, source: {table: /bronze, topics: [t]}, table: {path: /t}, schema: {columns: n INT}}"
    )
    said = lakeingest("adopt", tmp_path / "p.yaml", "--from-group", "sink")
    assert (said.code, "a consumer group has offsets in Kafka" in said.err) == (2, True), said
