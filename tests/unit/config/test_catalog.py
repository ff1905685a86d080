"""table.name, table.catalog and table.comment: what agrees with what."""

from __future__ import annotations

from typing import Any

import pytest

from lakeingest.config import PipelineConfig, file
from lakeingest.errors import PipelineFileError


def read(**table: Any) -> PipelineConfig:
    values = {"name": "a", "source": {"topics": ["a"]}, "schema": {"columns": "c INT"}}
    return file.from_mapping({**values, "table": {"path": "s3a://lake/a", **table}})


def test_spark_unless_the_file_says_glue() -> None:
    """A name alone is one of the session's catalog; a comment needs none."""
    assert read(name="A.b", comment="c").table.catalog == "spark"
    assert read(name="lake_1.flights", catalog="glue").table.catalog == "glue"
    assert read(comment="what it is").table.comment == "what it is"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"catalog": "glue"}, "table.catalog: needs table.name, by which a catalog knows the table; write it"),
        ({"catalog": "spark"}, "table.catalog: needs table.name"),
        ({"catalog": "hive", "name": "a.b"}, 'table.catalog: "hive" is not one of spark, glue'),
        ({"catalog": "glue", "name": "flights"}, 'table.name: "flights" is not a table\'s name with its schema'),
        ({"catalog": "glue", "name": "Lake.flights"}, 'table.name: "Lake.flights" is no name in Glue'),
        ({"catalog": "glue", "name": "a.b.c"}, 'table.name: "a.b.c" is no name in Glue'),
        ({"catalog": "glue", "name": "a.b", "path": "/data/a"}, "table.catalog: glue knows tables on S3 alone; write"),
    ],
)
def test_a_contradiction_is_told_with_its_cure(table: dict[str, str], said: str) -> None:
    """Offline, before anything is asked."""
    with pytest.raises(PipelineFileError) as mistakes:
        read(**table)
    assert [problem for problem in mistakes.value.problems if problem.startswith(said)], mistakes.value.problems


def test_a_quarantine_in_glue_lies_on_s3_too() -> None:
    """As the table does."""
    with pytest.raises(PipelineFileError, match=r"quarantine\.name: glue knows tables on S3 alone; drop it"):
        file.from_mapping(
            {
                "name": "a",
                "source": {"topics": ["a"]},
                "schema": {"columns": "c INT"},
                "table": {"path": "s3a://lake/a", "name": "lake.a", "catalog": "glue"},
                "quarantine": {"path": "/data/q", "name": "lake.q"},
            }
        )


def test_completeness_beside_a_table_in_glue_lies_at_a_path() -> None:
    """By a name it would go to the session's own catalog, where nobody else finds it."""
    values = {
        "name": "a",
        "source": {"topics": ["a"]},
        "schema": {"columns": "c INT"},
        "partition": [{"by": "time", "every": "hour"}],
        "table": {"path": "s3a://lake/a", "name": "lake.a", "catalog": "glue"},
        "contract": {"completeness": {}},
    }
    assert file.from_mapping(values).completeness == "s3a://lake/a_completeness"
    with pytest.raises(PipelineFileError, match=r"contract\.completeness\.table: a name is one of Spark's catalog"):
        file.from_mapping({**values, "contract": {"completeness": {"table": "lake.complete"}}})
