"""A pipeline file for many topics: what each one's pipeline is, and what is wrong with such a file."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lakeingest.cli import pipeline_file
from lakeingest.config.file import read, read_any
from lakeingest.config.per_topic import PerTopic
from lakeingest.errors import PipelineFileError

GOOD: dict[str, Any] = {
    "name": "{topic}_in",
    "source": {"topics": {"pattern": "orders-.*"}},
    "table": {"path": "s3a://lake/${ZONE:-raw}/{topic}"},
    "schema": {"columns": "n INT"},
}


def written(folder: Path, /, **changes: Any) -> Path:
    path = folder / "orders.yaml"
    path.write_text(json.dumps({**GOOD, **changes}, indent=1))
    return path


def problems(path: Path) -> list[str]:
    with pytest.raises(PipelineFileError) as caught:
        read_any(path, {})
    return [problem.removeprefix(f"{path.parent}/") for problem in caught.value.problems]


def test_a_pipeline_for_each_topic(tmp_path: Path) -> None:
    """The topic stands wherever the file says so, and a part that is left out follows from it."""
    found = read_any(written(tmp_path), {"ZONE": "eu"})
    assert isinstance(found, PerTopic)
    assert (found.name, found.pattern.pattern, found.example.name) == ("{topic}_in", "orders-.*", "topic_in")
    one = found.of("orders-a.b")
    assert (one.name, one.source.topics, one.table.path) == (
        "orders-a.b_in",
        ("orders-a.b",),
        "s3a://lake/eu/orders-a.b",
    )
    assert one.quarantine.path == "s3a://lake/eu/orders-a.b_quarantine"
    assert read(tmp_path / "orders.yaml:orders-a.b", {"ZONE": "eu"}) == one


def test_another_process_can_be_given_it(tmp_path: Path) -> None:
    """The one that makes /report was not: a function within a function cannot be pickled."""
    path = written(tmp_path)
    found = read_any(path, {"ZONE": "eu"})
    assert isinstance(found, PerTopic)
    path.unlink()
    given = pickle.loads(pickle.dumps(found))
    assert given.of("orders-a") == found.of("orders-a")
    assert given.pattern == found.pattern


def test_names_of_a_catalog(tmp_path: Path) -> None:
    """They have no - and no other . than those between their parts; a path has them as the topic does."""
    path = written(
        tmp_path,
        table={"path": "s3a://lake/{topic}", "name": "lake.{topic}"},
        quarantine={"name": "lake.{topic}_refused"},
    )
    one = read(path.with_name("orders.yaml:orders-a.b"), {})
    assert (one.table.path, one.table.name) == ("s3a://lake/orders-a.b", "lake.orders_a_b")
    assert one.quarantine.name == "lake.orders_a_b_refused"


def test_the_pattern_comes_from_the_environment(tmp_path: Path) -> None:
    path = written(tmp_path, source={"topics": {"pattern": "${PREFIX}-.*"}})
    found = read_any(path, {"PREFIX": "x"})
    assert isinstance(found, PerTopic)
    assert found.pattern.pattern == "x-.*"


def test_a_topic_in_braces_elsewhere(tmp_path: Path) -> None:
    """A file for given topics keeps it as it is."""
    path = written(
        tmp_path, name="orders", source={"topics": ["a"]}, table={"path": "s3a://lake/a", "comment": "{topic}"}
    )
    assert read(path, {}).table.comment == "{topic}"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"name": "orders", "table": {"path": "s3a://lake/orders/"}},
            [
                'orders.yaml:2: name: "orders" would be the same for each topic that the pattern matches; write '
                '{topic} in it, as in "orders_{topic}"',
                'orders.yaml:9: table.path: "s3a://lake/orders/" would be the same for each topic that the pattern '
                'matches; write {topic} in it, as in "s3a://lake/orders_{topic}"',
            ],
        ),
        (
            {"source": {"topics": {"pattern": "orders-("}}},
            [
                'orders.yaml:5: source.topics.pattern: "orders-(" is no regular expression: missing ), unterminated '
                "subpattern at position 7; write one as in 'orders-.*'"
            ],
        ),
        (
            {"source": {"topics": {"pattern": "a", "but": 3}}, "table": {"path": "s3a://lake/{topic}", "nmae": "x"}},
            [
                "orders.yaml:4: source.topics: write a list of topics, or a pattern alone, as in",
                "orders.yaml:11: table.nmae: unknown option; did you mean name?",
            ],
        ),
        (
            {"source": {"topics": {"pattern": 7}}},
            ["orders.yaml:5: source.topics.pattern: 7 is no regular expression: first argument must be string"],
        ),
        ({"source": {"topics": {"patern": "x"}}}, ["orders.yaml:4: source.topics: write a list of topics, or"]),
        ({"name": "-{topic}"}, ['orders.yaml:2: name: "-{topic}", as a topic fills it, is not a name; write']),
        ({"source": {"topics": {"pattern": "${NONE}"}}}, ["orders.yaml:5: source.topics.pattern: ${NONE} is not set"]),
    ],
)
def test_mistakes(tmp_path: Path, changes: dict[str, Any], said: list[str]) -> None:
    """Each with its line, as the file has it."""
    found = problems(written(tmp_path, **changes))
    assert len(found) == len(said)
    for one, other in zip(found, said, strict=True):
        assert one.startswith(other)


@pytest.mark.parametrize(
    ("file", "changes", "said"),
    [
        ("orders.yaml", {}, "for each topic that 'orders-.*' matches a pipeline; name one, as in"),
        ("orders.yaml:other", {}, "'other' is no topic of this file: it is for the topics that 'orders-.*' matches"),
        (
            "orders.yaml:orders",
            {"name": "x", "source": {"topics": ["orders"]}, "table": {"path": "/t"}},
            "'orders' is no topic of this file: it is for one pipeline, and the topics it names",
        ),
        ("none.yaml:orders", {}, "none.yaml: no such file"),
    ],
)
def test_which_topic(tmp_path: Path, file: str, changes: dict[str, Any], said: str) -> None:
    """A command for one pipeline needs its topic, and one that the file is for."""
    written(tmp_path, **changes)
    with pytest.raises(PipelineFileError) as caught:
        read(tmp_path / file, {})
    assert said in str(caught.value.problems)


def test_a_topic_whose_pipeline_cannot_be(tmp_path: Path) -> None:
    """What the file as such does not tell: a topic of this kind comes later, and alone."""
    found = read_any(written(tmp_path, source={"topics": {"pattern": ".*"}}), {})
    assert isinstance(found, PerTopic)
    with pytest.raises(PipelineFileError, match="1 mistake"):
        found.of("_schemas")


def test_editors_know_it() -> None:
    """The JSON schema takes a pattern where it takes a list, and {topic} in a name."""
    jsonschema.validate(GOOD, pipeline_file.schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**GOOD, "source": {"topics": {"patern": "x"}}}, pipeline_file.schema())
