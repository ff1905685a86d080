"""No table of a pipeline is a table of another one for another purpose, or lies within one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.pipelines.command_line import Command

from lakeingest.config import PipelineConfig, file, places


def pipeline(name: str, **parts: Any) -> PipelineConfig:
    values = {
        "name": name,
        "source": {"topics": [name]},
        "schema": {"columns": "n INT"},
        "table": {"path": f"s3a://lake/{name}"},
        "partition": [{"by": "time", "every": "hour"}],
    }
    return file.from_mapping({**values, **parts})


def named(name: str) -> dict[str, Any]:
    return {"table": {"name": name}}


WATCHED = {"contract": {"completeness": {}}}
GATED = {"gate": {"suite": "s.json", "results": "s3a://lake/results"}}


@pytest.mark.parametrize(
    ("one", "other", "roles"),
    [
        ({}, {}, []),
        ({}, {"table": {"path": "s3a://lake/x"}}, [("table", "table")]),
        ({}, {"table": {"path": "s3://lake/./x_quarantine/"}}, [("quarantine", "table")]),
        (
            {},
            {"table": {"path": "s3a://lake/x_quarantine/of/y"}},
            [("quarantine", "table"), ("quarantine",) * 2, ("quarantine", "the removals of table")],
        ),
        ({}, {"quarantine": {"path": "s3a://lake/x"}}, [("table", "quarantine")]),
        ({"quarantine": {"path": "s3a://lake/q"}}, {"quarantine": {"path": "s3://lake/q/"}}, []),
        ({"quarantine": {"path": "s3a://lake/q"}}, {"quarantine": {"path": "s3a://lake/q/y"}}, [("quarantine",) * 2]),
        (WATCHED, {"table": {"path": "s3a://lake/x_completeness"}}, [("contract.completeness.table", "table")]),
        (GATED, GATED, []),
        (GATED, {"quarantine": {"path": "s3a://lake/results"}}, [("gate.results", "quarantine")]),
        (named("lake.x"), named("lake.x_quarantine"), [("quarantine", "table")]),
        (named("lake.x"), named("spark_catalog.lake.x_quarantine"), [("quarantine", "table")]),
        (named("lake.x"), {"table": {"path": "s3a://lake/raw.lake.x"}}, []),
        ({"table": {"path": "s3a://lake/x", "name": "lake.y"}}, named("lake.y"), [("table", "table")]),
    ],
)
def test_the_places_of_two_pipelines(one: dict[str, Any], other: dict[str, Any], roles: list[tuple[str, str]]) -> None:
    """A dead-letter topic beside its topic is common: the quarantine of one became the table of the other. Quarantine,
    results and completeness may be shared.
    """
    found = [(each.one, each.other) for each in places.clashes(pipeline("x", **one), pipeline("y", **other))]
    assert found == roles


@pytest.mark.parametrize("name", ["x_quarantine", "x.quarantine", "x-quarantine"])
def test_check_compares_all_that_it_is_given(tmp_path: Path, lakeingest: Command, name: str) -> None:
    """Those of a pattern too, for the topics that the other files name; in a catalog's name . and - become _."""
    of_pattern = {
        "name": "all_{topic}",
        "source": {"topics": {"pattern": "x.*"}},
        "schema": {"columns": "n INT"},
        "table": {"name": "lake.{topic}"},
    }
    alone = {**of_pattern, "name": "alone", "source": {"topics": ["x"]}, "table": {"name": "lake.other"}}
    dead = {**of_pattern, "name": "dead", "source": {"topics": [name]}, "table": {"name": "lake.letters"}}
    for number, values in enumerate((of_pattern, alone, dead)):
        (tmp_path / f"{number}.yaml").write_text(json.dumps(values))
    assert lakeingest("check", tmp_path / "0.yaml", tmp_path / "1.yaml").code == 0
    said = lakeingest("check", *sorted(tmp_path.iterdir()))
    assert said.code == 2
    assert "quarantine of pipeline 'all_x' (lake.x_quarantine) and table of " in said.err
    assert "let the pattern leave one out" in said.err
