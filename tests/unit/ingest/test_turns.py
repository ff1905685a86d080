"""Who may compute, where many want to."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import pytest

from lakeingest.ingest.turns import Turns


def waiting(turns: Turns, count: int) -> None:
    """Until so many wait."""
    deadline = time.monotonic() + 10
    while len(turns._waiting) < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_in_the_order_in_which_they_asked() -> None:
    """Who gives a turn back and asks again comes last."""
    turns, took = Turns(1), list[str]()

    def ask(name: str) -> None:
        with turns.turn():
            took.append(name)

    threads = [threading.Thread(target=ask, args=(name,)) for name in "abc"]
    with turns.turn():
        for number, thread in enumerate(threads, 1):
            thread.start()
            waiting(turns, number)
    ask("again")
    for thread in threads:
        thread.join()
    assert took == ["a", "b", "c", "again"]


@pytest.mark.parametrize("at_once", [1, 3])
def test_so_many_at_once(at_once: int) -> None:
    """One more waits, until one of them is done."""
    turns, began = Turns(at_once), threading.Event()

    def ask() -> None:
        with turns.turn():
            began.set()

    one_more = threading.Thread(target=ask)
    with ExitStack() as held:
        for _ in range(at_once):
            held.enter_context(turns.turn())
        one_more.start()
        waiting(turns, 1)
        assert not began.is_set()
    one_more.join(10)
    assert began.is_set()


def test_a_failure_gives_its_turn_back() -> None:
    turns = Turns(1)
    with pytest.raises(KeyError), turns.turn():
        raise KeyError
    with turns.turn():
        pass
