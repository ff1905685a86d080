"""`lakeingest read` over the real store: the records that Kafka holds, out of as few files as can be."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.pipelines import World
from support.pipelines.command_line import Command
from support.records import Record, clean_records


def read_back(lakeingest: Command, file: Path, *words: object) -> tuple[list[dict[str, Any]], str]:
    said = lakeingest("read", file, *words)
    assert said.code == 0, said.err
    return [json.loads(line) for line in said.out.splitlines()], said.err.strip()


def coordinates(records: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(record["_topic"], record["_partition"], record["_offset"]) for record in records]


def test_what_is_read_is_what_was_sent(world: World, tmp_path: Path, lakeingest: Command) -> None:
    """By offset, by time and by key; refused records among them, with the bytes that they came with."""
    world.changes = {
        "trigger": {"max_records": 4},
        "decode": {"key": {"format": "string"}, "value": {"format": "json"}},
    }
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(world.values()))
    missing = lakeingest("read", file)
    assert (missing.code, "there is no Delta table" in missing.err) == (2, True)

    values = [b"\xff\x00" if n == 6 else json.dumps({"n": n, "text": "ü\u202e"}).encode() for n in range(20)]
    sent = [
        Record(value, key=f"k{n % 3}".encode(), partition=n % 2, headers=(("h", b"\xfe"),))
        for n, value in enumerate(values)
    ]
    made = world.produce(*sent, partitions=2)
    world.run()

    everything, said = read_back(lakeingest, file)
    assert coordinates(everything) == sorted(made)
    assert [record["n"] for record in everything if "n" in record] == [
        n for n in (*range(0, 20, 2), *range(1, 20, 2)) if n != 6
    ]
    assert said == "20 records; opened 5 of 5 files of table, 1 of 1 file of quarantine"
    first = everything[0]
    assert list(first)[:6] == ["_topic", "_partition", "_offset", "_timestamp", "_key", "_headers"]
    assert (first["_key"], first["_headers"], first["text"]) == (
        "k0",
        [{"key": "h", "value": {"base64": "/g=="}}],
        "ü\u202e",
    )
    (refused,) = [record for record in everything if "_refused" in record]
    assert (refused["_offset"], refused["_key"], refused["_value"]) == (3, "k0", {"base64": "/wA="})
    assert refused["_refused"]["reason"] == "INVALID_UTF8"

    few, said = read_back(lakeingest, file, "--partition", 1, "--from-offset", 4, "--to-offset", 6)
    assert coordinates(few) == [(world.name, 1, 4), (world.name, 1, 5)]
    assert said == "2 records; opened 1 of 5 files of table, 0 of 1 file of quarantine"

    by_key, _ = read_back(lakeingest, file, "--key", "k1")
    assert sorted(record["n"] for record in by_key) == [n for n in range(20) if n % 3 == 1]
    moment = datetime.fromisoformat(first["_timestamp"]).astimezone(UTC)
    within, _ = read_back(lakeingest, file, "--at", first["_timestamp"][:23])
    assert coordinates([first])[0] in coordinates(within)
    nothing, said = read_back(lakeingest, file, "--at", f"{moment.year - 1}-01-01")
    assert (nothing, said) == ([], "0 records; opened 0 of 5 files of table, 0 of 1 file of quarantine")
    assert read_back(lakeingest, file, "--topic", "another")[0] == []
    assert len(read_back(lakeingest, file, "--limit", 3)[0]) == 3

    # A record that a replay has moved is there once.
    world.sql(
        "UPDATE {table} SET moved = named_struct('at', now(), 'who', 'ada', 'why', 'x', 'replay', 1L)",
        world.path("_quarantine"),
    )
    assert len(read_back(lakeingest, file)[0]) == 19


@pytest.mark.parametrize("format_", ["bytes", "json"])
def test_keys_that_are_no_text(world: World, tmp_path: Path, lakeingest: Command, format_: str) -> None:
    """Bytes are asked for by their text; a key of columns cannot be named."""
    key = {"format": format_} if format_ == "bytes" else {"format": format_, "columns": "id INT"}
    world.changes = {"decode": {"key": key, "value": {"format": "json"}}}
    world.produce(*(Record(value, key=b'{"id": 7}') for value in clean_records(2)))
    world.run()
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(world.values()))
    said = lakeingest("read", file, "--key", '{"id": 7}')
    if format_ == "bytes":
        assert [json.loads(line)["_key"] for line in said.out.splitlines()] == ['{"id": 7}'] * 2
    else:
        assert said.code == 2
        assert "--key cannot name one" in said.err
        assert read_back(lakeingest, file)[0][0]["_key"] == {"id": 7}
