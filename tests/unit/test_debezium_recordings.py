"""The recordings of tests/fixtures/debezium are whole: decoders are tested against them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cdc.recording import load, payload

FOLDER = Path(__file__).parents[1] / "fixtures" / "debezium"
RECORDINGS = sorted(file.name for file in FOLDER.glob("*.jsonl"))
IN_JSON = [name for name in RECORDINGS if ".avro." not in name]
LARGEST = 310_000


def test_recordings_are_small() -> None:
    assert {name for name in RECORDINGS if (FOLDER / name).stat().st_size > LARGEST} == set()


@pytest.mark.parametrize("database", ["postgres", "mariadb"])
def test_the_recordings_of_both_json_forms_say_the_same(database: str) -> None:
    """With schemas and without, but for times of the connectors and names of their topics."""
    plain, with_schema = (load(FOLDER / f"{database}.{form}.jsonl") for form in ("json", "json-schema"))
    for_each = [
        [(payload(each, "key"), (payload(each) or {}).get("after")) for each in records if ".orders" in each["topic"]]
        for records in (plain, with_schema)
    ]
    assert for_each[0] == for_each[1]
    assert len(for_each[0]) > 20


@pytest.mark.parametrize("database", ["postgres", "mariadb"])
def test_recordings_have_each_kind_of_change(database: str) -> None:
    trees = [payload(each) for each in load(FOLDER / f"{database}.json.jsonl")]
    kinds = {tree.get("op") for tree in trees if tree is not None}
    assert kinds >= {"r", "c", "u", "d", "t"}
    assert None in trees, "no tombstone"


@pytest.mark.parametrize("name", IN_JSON)
def test_recordings_are_json(name: str) -> None:
    assert all(payload(each) is None or isinstance(payload(each), dict) for each in load(FOLDER / name))


def test_a_sequence_may_change_when_a_record_is_sent_again() -> None:
    """So it is no name of a change; the LSN, and the place in the transaction, stay."""
    trees = [payload(each) for each in load(FOLDER / "postgres.killed.jsonl")]
    places = {(tree["source"]["lsn"], tree["source"]["sequence"]) for tree in trees}
    changes = {(tree["source"]["lsn"], tree["source"]["txId"], str(tree["transaction"])) for tree in trees}
    assert len(changes) < len(places)
    assert len(changes) == len({tree["after"]["id"] for tree in trees})
