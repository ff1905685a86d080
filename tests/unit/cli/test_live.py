"""The live line of a run: what it says between commits, on a terminal and in a log."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest

from lakeingest.cli.fleet import Board
from lakeingest.cli.live import Live
from lakeingest.cli.output import Output
from lakeingest.delta.receipt import Counts
from lakeingest.errors import StorageUnreachable
from lakeingest.ingest.events import CatalogUpdate, Committed, Looked, Retrying

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
COMMIT = Committed(7, 9, Counts(10, 8, 2), 2.0, 3)


class Terminal(Live):
    """A live line whose every state is kept."""

    def __init__(self) -> None:
        self.said: list[str] = []
        super().__init__(Output(), "orders", self.said.append, redrawn=True)


def test_a_run_without_records_says_since_when_it_waits() -> None:
    """It said that it reads the tables' frontiers, for ever."""
    live = Terminal()
    live.look(Looked(0, 3, 0))
    assert re.fullmatch(rf"no new records since {TIME} · lag 0 in 3 partitions · nothing committed yet", live.said[0])
    live.look(Looked(4, 1, 0))
    assert live.said[1].endswith(" · lag 0 in 1 partition · last commit 4")


def test_the_wait_begins_anew_behind_each_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """And behind a failure that was waited for, of which nothing is left on the line."""
    clock = iter(f"second {n}" for n in range(99))
    monkeypatch.setattr("lakeingest.cli.live._now", lambda: next(clock))
    live = Terminal()
    for event in (
        Looked(6, 1, 0),
        Looked(6, 1, 0),
        COMMIT,
        Looked(7, 1, 0),
        Retrying(StorageUnreachable("down", cure="c"), 1, 2),
    ):
        match event:
            case Looked():
                live.look(event)
            case Committed():
                live.commit(event)
            case Retrying():
                live.retry(event)
    live.look(Looked(7, 1, 0))
    assert [re.sub(r".*(since second \d|at second \d|down).*", r"\1", said) for said in live.said] == [
        *("since second 0", "since second 0", "at second 1", "since second 2", "down", "since second 3")
    ]
    assert live.said[-1].endswith(" · lag 0 in 1 partition · 10 records, 2 refused, commit 7")


def test_a_log_hears_of_idleness_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each trigger would fill it; none at all would leave a run without records silent."""
    live = Live(Output(), "orders")
    for event in (Looked(3, 1, 0), Looked(3, 1, 0)):
        live.look(event)
    live.commit(COMMIT)
    live.look(Looked(7, 1, 0))
    idle, commit = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"orders: no new records since {TIME} · lag 0 in 1 partition · last commit 3", idle)
    assert re.fullmatch(rf"orders: 10 records · 5/s · lag 3 · refused 2 · commit 7 at {TIME}", commit)


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("no_color", [False, True])
def test_on_a_terminal_the_board_follows(monkeypatch: pytest.MonkeyPatch, no_color: bool) -> None:
    """The line of each pipeline is redrawn, idle or not; with NO_COLOR without a colour."""
    stderr = Tty()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    board: Any = Board(Output())
    board.take("a", Looked(0, 1, 0))
    board.take("a", COMMIT)
    board.take("a", Looked(7, 1, 0))
    assert board._last["a"].startswith("no new records since ")
    assert board._last["a"].endswith("10 records, 2 refused, commit 7")
    board.end()
    assert "no new records since" in stderr.getvalue()
    assert not (no_color and re.search(r"\x1b\[(?:3|4|9|10)\d", stderr.getvalue()))


@pytest.mark.parametrize(
    ("lag", "seconds", "left"),
    [
        (0, 2.0, ""),
        (50, 2.0, "about 10 s left"),
        (6000, 2.0, "about 20 min left"),
        (10**5, 2.0, "about 6 h left"),
        (5, 0, ""),
    ],
)
def test_a_terminal_is_told_the_time_that_is_left(lag: int, seconds: float, left: str) -> None:
    """At the rate of the last batch; a log has lag and rate."""
    live = Terminal()
    live.commit(Committed(7, 9, Counts(10, 8, 2), seconds, lag))
    assert live.said[0].partition(f" at {live.said[0].split(' at ')[-1][:19]}")[2].removeprefix(" · ") == left


def test_progress_says_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, on stderr; elsewhere nothing."""
    stderr = Tty()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    with Output().progress("starting …") as say:
        say("kafka: ready [red]\x1b[2J")
    assert r"starting … kafka: ready [red]\x1b[2J" in stderr.getvalue()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Output().progress("starting …") as say:
        say("kafka: ready")
    assert sys.stderr.getvalue() == ""


def test_records_that_came_end_the_wait_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """While the batch is on its way, which takes a while, the line said still that there were none."""
    live = Terminal()
    for look in (Looked(0, 1, 500), Looked(6, 1, 0), Looked(6, 1, 1)):
        live.look(look)
    live.commit(COMMIT)
    live.look(Looked(7, 1, 3))
    assert [re.sub(TIME, "TIME", said) for said in live.said] == [
        "500 new records · nothing committed yet",
        "no new records since TIME · lag 0 in 1 partition · last commit 6",
        "1 new record · last commit 6",
        "10 records · 5/s · lag 3 · refused 2 · commit 7 at TIME · about 1 s left",
    ]
    Live(Output(), "orders").look(Looked(6, 1, 500))
    assert capsys.readouterr().out == ""


def test_each_entry_that_is_behind_is_told() -> None:
    """The table and its quarantine have one each: one that is well again hides no other."""
    live, down = Terminal(), StorageUnreachable("down", cure="c")
    for update in (CatalogUpdate("lake.t", down), CatalogUpdate("lake.q", down), CatalogUpdate("lake.t")):
        live.heard(update)
    assert live.behind == {"lake.q": down}
    live.heard(CatalogUpdate("lake.t", down))
    assert [*live.behind] == ["lake.q", "lake.t"]
