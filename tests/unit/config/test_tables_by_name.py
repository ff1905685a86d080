"""Tables that have a name instead of a path."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lakeingest.config import PipelineConfig, file
from lakeingest.errors import PipelineFileError


def config(**parts: Any) -> PipelineConfig:
    values = {"name": "p", "source": {"topics": ["t"]}, "schema": {"columns": "n INT"}, **parts}
    return file.from_mapping(values)


def test_the_others_are_named_after_it() -> None:
    made = config(table={"name": "main.bronze.flights"}, gate={"suite": "s.json"})
    assert made.names == (
        "main.bronze.flights",
        "main.bronze.flights_quarantine",
        "main.bronze.flights_expectations",
        "main.bronze.flights_removed",
    )
    assert made.paths == ()


def test_a_path_goes_before_a_name() -> None:
    """Beside a path the name is what the table is registered under."""
    made = config(table={"path": "s3a://lake/flights", "name": "lake.flights"}, quarantine={"name": "lake.refused"})
    assert (made.paths, made.names) == (("s3a://lake/flights", "s3a://lake/flights_removed"), ("lake.refused",))


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"table": {}}, "table.path: required, and missing"),
        ({"table": {"name": "a.b.c.d"}}, "table.name: .*not a table's name"),
        ({"table": {"name": "delta.x"}}, "table.name: .*not a table's name"),
        ({"table": {"name": "x"}}, r"table.name: .*not a table's name with its schema \(which"),
        ({"table": {"name": "a.x"}, "quarantine": {"name": "A.X"}}, "quarantine.name: .*are the same"),
        ({"table": {"name": "a.x"}, "quarantine": {"name": "spark_catalog.a.x"}}, "quarantine.name: .*are the same"),
        ({"table": {"name": "a.x"}, "gate": {"suite": "s", "results": "x"}}, "gate.results: .*relative"),
        ({"table": {"name": "a.x"}, "gate": {"suite": "s", "results": "a.x"}}, "gate.results: .*are the same"),
        ({"table": {"name": "a.x"}, "storage": {"region": "eu-west-1"}}, "storage: .*the tables have names alone"),
    ],
)
def test_what_cannot_be(parts: dict[str, Any], told: str) -> None:
    with pytest.raises(PipelineFileError) as refused:
        config(**parts)
    (problem,) = refused.value.problems
    assert re.search(told, problem), problem
