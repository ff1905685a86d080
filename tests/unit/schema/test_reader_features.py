"""What shuts out a table's readers, and what a pipeline file makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeingest.config import PipelineConfig, file
from lakeingest.errors import PipelineFileError
from lakeingest.schema import readers

MATRIX = json.loads((Path(__file__).parents[2] / "readers" / "expected.json").read_text(encoding="utf-8"))["reads"]
FEATURES = {
    "typeWidening": ("widened by metadata", "widened by rewriting"),
    "deletionVectors": ("theirs: deletion vectors", "compacted"),
    "variantType": ("theirs: a VARIANT column", "compacted"),
    "v2Checkpoint": ("theirs: v2 checkpoint", "compacted"),
    "columnMapping": ("theirs: column mapping", "compacted"),
}
"""Feature → a table that has it, and one that is like it but for that."""


def config(**parts: Any) -> PipelineConfig:
    values = {"name": "p", "source": {"topics": ["t"]}, "table": {"path": "/t"}, **parts}
    values["schema"] = {"columns": "n INT", **parts.get("schema", {})}
    return file.from_mapping(values)


def test_a_reader_is_named_with_what_is_in_its_way() -> None:
    found = readers.shut_out(["spark", "trino", "polars"], {"typeWidening-preview", "v2Checkpoint", "clustering"})
    assert found == {"trino": ("typeWidening",), "polars": ("typeWidening", "v2Checkpoint")}


@pytest.mark.parametrize("reader", MATRIX)
@pytest.mark.parametrize("feature", FEATURES)
def test_what_shuts_out_is_what_the_matrix_found(reader: readers.Reader, feature: str) -> None:
    """A table with the feature is read less well than one like it without."""
    having, like = FEATURES[feature]
    worse = MATRIX[reader][having] != MATRIX[reader][like]
    assert bool(readers.shut_out([reader], {feature})) == worse


@pytest.mark.parametrize(
    ("named", "widening"),
    [([], "metadata"), (["spark", "duckdb"], "metadata"), (["spark", "athena"], "rewrite"), (["polars"], "rewrite")],
)
def test_widening_follows_the_readers(named: list[str], widening: str) -> None:
    assert config(readers=named).widening == widening


def test_the_file_may_refuse_instead() -> None:
    assert config(readers=["athena"], schema={"widening": "refuse"}).widening == "refuse"


def test_metadata_is_no_choice_for_some() -> None:
    """Athena would leave the widened column out in silence."""
    with pytest.raises(PipelineFileError) as refused:
        config(readers=["athena", "spark"], schema={"widening": "metadata"})
    assert refused.value.problems[0].startswith('schema.widening: "metadata" shuts out athena, which is among')


def test_an_unknown_reader_is_told() -> None:
    with pytest.raises(PipelineFileError) as refused:
        config(readers=["atena"])
    assert "athena" in refused.value.problems[0]


def test_a_new_table_says_no_to_what_shuts_readers_out() -> None:
    """Databricks makes tables with deletion vectors by itself."""
    assert readers.properties(["delta-rs"]) == {
        "delta.enableDeletionVectors": "false",
        "delta.checkpointPolicy": "classic",
    }
    assert readers.properties(["spark", "trino"]) == {}
