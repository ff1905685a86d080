"""Where a pipeline can go on in a table that others wrote, and what is said of it: arithmetic alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.errors import SourceChanged, UsageError
from lakeingest.kafka.offsets import Topics
from lakeingest.operations import adoption
from lakeingest.operations.adoption import FrontierOrigin, TableContents
from lakeingest.record import Frontier

KAFKA = Topics(
    "cluster", {"t": "i"}, {("t", 0): 5, ("t", 1): 0, ("t", 2): 7}, {("t", 0): 20, ("t", 1): 10, ("t", 2): 7}
)


def tables(*topics: str) -> PipelineTables:
    config = SimpleNamespace(source=SimpleNamespace(topics=topics or ("t",)))
    return cast(PipelineTables, SimpleNamespace(config=config, main="/t", with_quarantine=lambda told: told))


def found(places: dict[tuple[str, int], tuple[int, int, int, int]], rows: int = 0, unplaced: int = 0) -> TableContents:
    return TableContents(3, rows, 0, places, unplaced)


def of(**told: Any) -> Frontier:
    held = found(told.pop("places", {}))
    return adoption.frontier(tables(), KAFKA, FrontierOrigin(**told), held)


def test_behind_the_rows() -> None:
    """Partitions without a row, and rows of other topics, are left out."""
    places = {("t", 0): (2, 12, 10, 0), ("other", 0): (0, 99, 99, 0)}
    assert of(places=places) == {("t", 0): 12}


def test_a_frontier_that_is_given() -> None:
    """A partition that holds nothing need not be named: it is taken from its end, which is its beginning."""
    assert of(frontier={("t", 0): 12, ("t", 1): 10}) == {("t", 0): 12, ("t", 1): 10, ("t", 2): 7}


def test_a_group_of_many_topics() -> None:
    """The others are none of the pipeline's business."""
    told = {("t", 0): 12, ("t", 1): 10, ("other", 0): 99}
    assert of(frontier=told, group="g") == {("t", 0): 12, ("t", 1): 10, ("t", 2): 7}


@pytest.mark.parametrize(
    ("told", "error", "what"),
    [
        ({"frontier": {("t", 0): 12}}, UsageError, "--frontier lacks t-1"),
        ({"frontier": {("t", 0): 12}, "group": "g"}, UsageError, "the consumer group g has committed no offset of t-1"),
        ({"frontier": {("t", 0): 12, ("t", 1): 1, ("u", 0): 1}}, UsageError, "--frontier names u-0"),
        (
            {"frontier": {("t", 0): 21, ("t", 1): 1}},
            SourceChanged,
            "t-0: .* before offset 21, and in Kafka it ends at 20",
        ),
        ({"places": {("t", 9): (0, 4, 4, 0)}}, SourceChanged, "t-9: .*there is no such partition"),
        ({"places": {("t", 1): (0, 11, 4, 0)}}, SourceChanged, "t-1: .*it ends at 10"),
        ({"places": {("u", 1): (0, 11, 4, 0)}}, UsageError, "/t has no row of t"),
    ],
)
def test_refused(told: dict[str, Any], error: type[Exception], what: str) -> None:
    """A sentence that names the partition."""
    with pytest.raises(error, match=what):
        of(**told)


def unknown(source: FrontierOrigin, held: TableContents, frontier: Frontier) -> str:
    return "\n".join(adoption.unknown(tables(), KAFKA, source, held, frontier))


def test_what_coordinates_do_not_tell() -> None:
    """Holes, rows without them, other topics, partitions that begin anew, and what Kafka has deleted."""
    places = {("t", 0): (0, 4, 3, 1), ("u", 0): (0, 9, 9, 0)}
    said = unknown(FrontierOrigin(coordinates=adoption.OWN), found(places, 14, 2), {("t", 0): 4})
    for part in (
        "why 2 offsets",
        "2 rows without coordinates",
        "the rows of u,",
        "t-1, t-2",
        "--accept-gap",
        "cluster",
    ):
        assert part in said, said


def test_what_a_frontier_does_not_tell() -> None:
    """That the table holds what lies before it."""
    said = unknown(FrontierOrigin(frontier={}, group="g"), found({}), {tp: KAFKA.last[tp] for tp in KAFKA.last})
    assert "every record before these offsets" in said
    assert "the group g is the job's" in said
    assert "--accept-gap" not in said


def test_double_rows() -> None:
    """They are counted, and the first partitions named."""
    places = {("t", p): (0, 4, 5, 1) for p in range(7)}
    (said,) = adoption.doubles(found(places))
    assert said.startswith("7 rows are double")
    assert "t-4 and 2 more" in said
    assert not list(adoption.doubles(found({("t", 0): (0, 4, 4, 0)})))


@pytest.mark.parametrize(
    ("source", "how"),
    [
        (FrontierOrigin(), "the coordinates topic=_topic, partition=_partition, offset=_offset"),
        (FrontierOrigin(coordinates={"partition": "p", "offset": "o"}), "the coordinates partition=p, offset=o"),
        (FrontierOrigin(frontier={}), "a frontier that was given"),
        (FrontierOrigin(frontier={}, group="g"), "the offsets of the consumer group g"),
    ],
)
def test_how(source: FrontierOrigin, how: str) -> None:
    """In the words that the receipt keeps."""
    assert source.how == how
