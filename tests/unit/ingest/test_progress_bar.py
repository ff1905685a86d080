"""The bar of a run: share and time left, one line where there is no terminal, and nothing that records could say."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from lakeingest.delta.receipt import Counts
from lakeingest.errors import StorageUnreachable
from lakeingest.ingest.events import CatalogUpdate, Committed, Retrying
from lakeingest.ingest.progress_bar import ProgressBar


def commit(sequence: int, consumed: int, lag: int, seconds: float = 1.0, refused: int = 0) -> Committed:
    return Committed(sequence, sequence, Counts(consumed, consumed - refused, refused), seconds, lag)


def drawn(*events: Any, until_caught_up: bool = True, width: int = 120, **options: Any) -> str:
    """What stands there at the end."""
    out = io.StringIO()
    with ProgressBar(until_caught_up=until_caught_up, console=Console(file=out, width=width, **options)) as bar:
        for event in events:
            bar.heard("p", event)
    return out.getvalue().replace("━", "").strip()


@pytest.mark.parametrize(
    ("events", "line"),
    [
        ([commit(1, 250, 750, 2.0)], "25% p: 250 records, 0 refused, lag 750, 0:00:06 left"),
        ([commit(1, 250, 750), commit(2, 750, 0, refused=3)], "100% p: 1,000 records, 3 refused, lag 0"),
        # Of ten offsets, four hold no record.
        ([commit(1, 3, 5), commit(2, 3, 0)], "100% p: 6 records, 0 refused, lag 0"),
        ([commit(1, 0, 0)], "p: 0 records, 0 refused, lag 0"),
        ([commit(1, 1, 10**9, 0.0)], "0% p: 1 record, 0 refused, lag 1,000,000,000, 0:00:00 left"),
        ([], "there was nothing new to commit"),
    ],
)
def test_the_bar_tells_share_and_time_left(events: list[Committed], line: str) -> None:
    """From the first commit on, by the offsets that are left."""
    assert drawn(*events).endswith(line)


def test_a_run_without_an_end_has_no_share() -> None:
    """What it has taken is told, and its lag."""
    text = drawn(commit(1, 250, 750), until_caught_up=False)
    assert text == "p: 250 records, 0 refused, lag 750"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            Retrying(StorageUnreachable("[bold]no[/bold] \x1b[2J answer", cure="look"), 4.0, 60.0),
            "p: [bold]no[/bold] \\x1b[2J answer; trying again in 4 s",
        ),
        (CatalogUpdate("lake.p"), "p: the catalog has lake.p as it is now"),
        (
            CatalogUpdate("lake.p", StorageUnreachable("x", cure="y")),
            "p: the catalog is behind the table; the next batch tries again",
        ),
    ],
)
def test_the_bar_tells_what_happens_between_commits(event: Any, text: str) -> None:
    """As it is: no markup of rich's and no control character acts."""
    assert drawn(commit(1, 1, 0), event).endswith(text)


def test_a_narrow_terminal_without_colours_has_the_text_whole() -> None:
    """It is folded, not cut."""
    text = drawn(commit(1, 250, 750), width=50, no_color=True, force_terminal=False)
    assert "".join(text.split()).endswith("p:250records,0refused,lag750,0:00:03left")


def test_the_bar_ends_with_the_run_that_fails() -> None:
    """The error goes on, and the terminal is as it was."""
    bar = ProgressBar(until_caught_up=True, console=Console(file=io.StringIO(), force_terminal=True))
    with pytest.raises(ZeroDivisionError), bar:
        _ = 1 / 0
    assert bar._bar.live.is_started is False
