"""What `lakeingest backfill` refuses before it starts Spark or asks a server, and what it says of what was done."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.pipelines.command_line import Command

from lakeingest.cli.output import Output
from lakeingest.delta.receipt import Counts
from lakeingest.operations.results.backfill import Backfilled

FILE = "{name: p, source: {topics: [t], bootstrap_servers: 'localhost:1'}, table: {path: /t}, schema: {columns: n INT}}"
RANGE = {"topic": "t", "partition": 0, "start": 0, "end": 1000, "offsets": 1000}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "yesterday"), "--from 'yesterday' names no place in Kafka"),
        (("--from", "2026-01-02", "--to", "2026-01-01"), "lies before --from"),
        (("--to", "2999-01-01"), "is still to come"),
        (("--rate", "0"), "--rate 0.0 lets nothing through"),
        (("--max-records", "-1"), "--max-records -1 lets nothing through"),
    ],
)
def test_what_is_refused(
    file: Path, lakeingest: Command, words: tuple[str, ...], said: str, dry: tuple[str, ...]
) -> None:
    """In a sentence, with exit code 2; a log for programs has it, too."""
    ended = lakeingest("backfill", file, *words, *dry)
    assert ended.code == 2
    assert said in ended.err
    if not dry:
        ended = lakeingest("backfill", file, *words, "--log-format", "json")
        events = [json.loads(line) for line in ended.err.splitlines()]
        assert (ended.code, said in json.dumps(events[-1], ensure_ascii=False)) == (2, True), ended


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            Backfilled("p", (RANGE,), 0, Counts(1000, 990, 9, 1), 2, 0),
            "done: 1,000 records in 2 commits, 990 to the table, 9 to quarantine, 1 dropped\n",
        ),
        (
            Backfilled("p", (RANGE,), 0, Counts(600, 600), 1, 400),
            "stopped: 600 records in 1 commit, 600 to the table, 0 to quarantine, 0 dropped; 400 offsets left\n",
        ),
        (
            Backfilled("p", (), 0, Counts(), 0, 0),
            "nothing to take: all that was asked for was read, or Kafka does not have it\n",
        ),
    ],
)
def test_what_was_done(capsys: pytest.CaptureFixture[str], found: Backfilled, said: str) -> None:
    """In one line; and as JSON, whole."""
    Output().show(found)
    assert capsys.readouterr().out == said
    Output(is_json=True).show(found)
    told = json.loads(capsys.readouterr().out)
    assert (told["remaining"], told["counts"]["consumed"]) == (found.remaining, found.counts.consumed)
    assert (told["dry_run"], "rate" in told) == (False, False)
    shown = [*replace(found, dry_run=True, rate=10).text]
    assert ("at 10 a second that takes 100 s" in shown) == bool(found.ranges), shown
