"""`source.table`: what stands beside it, and what cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeingest.config import PipelineConfig, file
from lakeingest.errors import PipelineFileError

VALUES: dict[str, Any] = {
    "name": "p",
    "table": {"path": "s3a://lake/silver"},
    "schema": {"columns": "n INT, t TIMESTAMP"},
}


def read(**parts: Any) -> PipelineConfig:
    return file.from_mapping({**VALUES, **parts})


@pytest.mark.parametrize("table", ["s3a://lake/bronze", "/data/bronze", "lake.bronze", "main.lake.bronze"])
def test_a_table_stands_for_kafka(table: str) -> None:
    """Topics may be left to it; its place is opened with the pipeline's own tables."""
    made = read(source={"table": table})
    assert (made.source.topics, made.source.text) == ((), table)
    assert table in (*made.paths, *made.names)
    assert table not in made.tables
    chosen = made.reading(["a", "b"])
    assert (chosen.source.topics, chosen.source.text) == (("a", "b"), f"{table}, a, b")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({}, "source.topics: required, and missing; as in topics: "),
        ({"table": "bronze"}, "source.table: "),
        ({"table": "s3a://lake/b", "bootstrap_servers": "h:1"}, "source.bootstrap_servers: is of Kafka, which is not"),
        ({"table": "s3a://lake/b", "start": "latest"}, "source.start: is of Kafka, which is not asked"),
        ({"table": "s3a://lake/b", "options": {"a": "b"}}, "source.options: is of Kafka, which is not asked"),
        ({"table": "s3a://lake/silver"}, "table.path: .* are the same or lie within each other"),
        ({"table": "s3a://lake/silver/x"}, "are the same or lie within each other"),
        ({"table": "s3a://lake/silver_quarantine"}, "are the same or lie within each other"),
        ({"tabel": "s3a://lake/b"}, "source.tabel: unknown option; did you mean table?"),
    ],
)
def test_what_cannot_be_a_source(source: dict[str, Any], told: str) -> None:
    """Each with what to write instead."""
    with pytest.raises(PipelineFileError, match=told):
        read(source=source)


def test_a_pattern_is_of_kafka(tmp_path: Path) -> None:
    """What topics there are, Kafka is asked; a table has those that it has."""
    values = {**VALUES, "name": "{topic}", "source": {"table": "s3a://lake/b", "topics": {"pattern": ".*"}}}
    (tmp_path / "p.yaml").write_text(json.dumps({**values, "table": {"path": "s3a://lake/{topic}"}}))
    with pytest.raises(PipelineFileError, match="a pattern is for Kafka's topics; name those"):
        file.read_any(tmp_path / "p.yaml", {})


def test_completeness_is_of_kafka() -> None:
    """Nothing but Kafka knows until when a table is complete."""
    promised = {"contract": {"completeness": {}}, "partition": [{"by": "time", "field": "t", "every": "hour"}]}
    with pytest.raises(PipelineFileError, match="Kafka alone can tell until when a table is complete"):
        read(source={"table": "s3a://lake/b"}, **promised)
