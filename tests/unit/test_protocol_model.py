"""The commit protocol, explored by a machine; test_protocol_traces.py holds the real code against it, step by step.

Two RESTOREs of the same table, each within the moment that a commit takes, are beyond it: the audit names what they do.
"""

from __future__ import annotations

import pytest
from support.oracle.protocol_model import CURES, Bounds, State, explore

WORLDS = {
    "two runs": Bounds("gb", retries=1),
    "restored": Bounds("gbd", restores=1),
    "retention": Bounds("gbd", expiries=1),
    "restored and expired": Bounds("gb", restores=1, expiries=1),
    "two replays": Bounds("gr", produced=1, runs=1, replays=2),
    "a replay restored": Bounds("gr", produced=1, runs=2, replays=1, restores=1),
    "two replays restored": Bounds("gr", produced=1, runs=1, replays=2, restores=1),
    "rules that change": Bounds("gc", produced=1, runs=2, replays=1, restores=1),
    "replays discarded": Bounds("gr", produced=1, runs=1, replays=2, discards=1),
    "shared quarantine": Bounds("gr", pipelines="AB", produced=1, replays=1),
    "two backfills": Bounds("gbd", runs=1, history=2, backfills=2),
    "a backfill restored": Bounds("gb", runs=1, history=2, backfills=1, restores=1),
    "a backfill replayed": Bounds("gr", runs=1, history=2, backfills=1, replays=1),
    "a gap that came back": Bounds("gb", runs=1, expiries=1, returns=1, accepts=True, backfills=1),
    "quarantine restored": Bounds("gb", produced=3, runs=2, asides=1),
    "quarantine made anew": Bounds("gb", produced=2, runs=2, kills=1, anew=1),
    "a gap, restored": Bounds("g", runs=1, expiries=1, returns=1, accepts=True, backfills=1, restores=1),
}
"""What may happen in a small world, in any order, with one kill at any step."""


@pytest.mark.parametrize("world", WORLDS)
def test_nothing_is_lost_doubled_or_stuck(world: str) -> None:
    """From every state that can be reached, one run and one replay bring each record to where it belongs."""
    states, wrong, way = explore(State(WORLDS[world]))
    assert (wrong, way) == (None, []), way
    assert states > 100


@pytest.mark.parametrize(
    ("cure", "world", "found"),
    [
        ("no span backwards", "two runs", "a span goes backwards"),
        ("number first", "two replays", "doubled: offset"),
        ("own rows", "shared quarantine", "lost: offset"),
        ("settle what is left", "retention", "stopped for ever: the batch cannot be read"),
        ("marks by coordinates", "replays discarded", "stopped for ever: not conserved"),
        ("withdraw", "restored", "doubled: offset"),
        ("rows before logs", "two runs", "lost: offset"),
        ("rows by their batch", "restored", "lost: offset"),
        ("undo replays", "a replay restored", "doubled: offset"),
        ("look", "restored", "doubled: offset"),
        ("undo", "restored", "lost: offset"),
        ("undo beyond", "a gap, restored", "stopped for ever: others have changed rows"),
        ("read again what quarantine lost", "quarantine restored", "lost: offset"),
        ("how far quarantine had come", "quarantine made anew", "lost: offset"),
        ("how many are left", "quarantine restored", "lost: offset"),
        ("look behind the account", "quarantine restored", "lost: offset"),
        ("numbers of its own", "quarantine restored", "doubled: offset"),
    ],
)
def test_the_model_finds_what_a_cure_prevents(cure: str, world: str, found: str) -> None:
    """Without the cure the scenario is found by the machine alone, and its way is told."""
    _, wrong, way = explore(State(WORLDS[world], cures=CURES - {cure}))
    assert wrong is not None
    assert wrong.startswith(found), way


def test_every_cure_is_taken_out_once() -> None:
    """A new cure has its scenario."""
    (parameters,) = test_the_model_finds_what_a_cure_prevents.pytestmark
    assert {each[0] for each in parameters.args[1]} == CURES
