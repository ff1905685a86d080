"""Several jobs delete and bring rows of one key at once; what each cure prevents is found without it."""

from __future__ import annotations

import pytest
from support.oracle.deletes_model import CURES, Change, Jobs, explore

OLD, NEW, DELETE = Change(1), Change(3), Change(2, deletes=True)
WORLDS = {
    "a backfill of an older record": Jobs(run=((DELETE,),), backfill=((OLD,),), runs=2, backfills=1),
    "a row, and its delete": Jobs(run=((OLD,), (DELETE,)), backfill=((Change(0),),), runs=2, backfills=1),
    "a backfill of a delete": Jobs(run=((OLD,),), backfill=((DELETE,),), runs=1, backfills=2),
    "deleted, and made again": Jobs(run=((DELETE,), (NEW,)), backfill=((OLD,),), runs=2, backfills=1),
    "late in the run itself": Jobs(run=((DELETE,), (OLD,)), runs=3),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_table_comes_right(world: str) -> None:
    """From every state, whoever is killed where."""
    states, way = explore(WORLDS[world])
    assert way is None, way
    assert states > 100


@pytest.mark.parametrize("cure", sorted(CURES))
def test_the_model_finds_what_a_cure_prevents(cure: str) -> None:
    """Without the cure there is a way to a wrong table."""
    ways = [explore(world._replace(cures=CURES - {cure}))[1] for world in WORLDS.values()]
    assert any(way is not None for way in ways)
