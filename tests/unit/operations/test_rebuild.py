"""The pipeline that makes a table anew, and what its file has to say afterwards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakeingest.config import PipelineConfig, file
from lakeingest.delta.receipt import JobFields
from lakeingest.errors import UsageError
from lakeingest.operations import rebuild

BRONZE, TO = "s3a://lake/bronze", "s3a://lake/p_2"


def read(**parts: Any) -> PipelineConfig:
    values = {
        "name": "p",
        "source": {"topics": ["t"], "bootstrap_servers": "h:1", "start": "latest"},
        "schema": {"columns": "n INT, t TIMESTAMP"},
        "table": {"path": "s3a://lake/p", "name": "lake.p"},
    }
    return file.from_mapping({**values, **parts})


def test_it_is_the_pipeline_itself_in_another_place() -> None:
    """Under its name, from the beginning of bronze, into tables of their own."""
    before = read()
    made = rebuild.config_of(before, BRONZE, f"{TO}/")
    assert (made.name, made.source.table, made.source.topics, made.source.start) == ("p", BRONZE, ("t",), "earliest")
    assert made.tables == (TO, f"{TO}_quarantine", f"{TO}_removed")
    assert (made.table.name, made.schema_, made.partition) == (None, before.schema_, before.partition)
    assert rebuild.next_steps(before, made) == {"table.path": TO, "table.name": None}
    by_name = rebuild.config_of(before, BRONZE, "lake.p_2")
    assert by_name.tables == ("lake.p_2", "lake.p_2_quarantine", "lake.p_2_removed")
    assert rebuild.next_steps(before, by_name) == {"table.name": "lake.p_2", "table.path": None}


def test_what_has_a_place_of_its_own_is_moved_with_it() -> None:
    """A quarantine, results and completeness that the file names would else be those of both tables."""
    before = read(
        table={"path": "s3a://lake/p"},
        quarantine={"path": "s3a://lake/bad"},
        contract={"completeness": {"table": "s3a://lake/said"}},
        partition=[{"by": "time", "field": "t", "every": "hour"}],
    )
    made = rebuild.config_of(before, BRONZE, TO)
    assert made.tables == (TO, f"{TO}_quarantine", f"{TO}_removed")
    assert rebuild.next_steps(before, made) == {
        "table.path": TO,
        "quarantine.path": None,
        "contract.completeness.table": None,
    }


@pytest.mark.parametrize(
    ("bronze", "to", "told"),
    [
        (None, TO, "reads from Kafka, and no bronze table is named"),
        (BRONZE, "s3a://lake/p", "are the same"),
        (BRONZE, "s3a://lake/p_quarantine", "are the same"),
        (BRONZE, f"{BRONZE}/x", "are the same"),
        ("s3a://lake/p_2_quarantine", TO, "or their quarantines do"),
        (BRONZE, "p_2", "--to 'p_2'"),
        (BRONZE, "", "--to ''"),
        ("s3a://", TO, "--from 's3a://'"),
    ],
)
def test_places_that_are_not_apart(bronze: str | None, to: str, told: str) -> None:
    """Nothing is asked before that is said."""
    with pytest.raises(UsageError, match=told):
        rebuild.config_of(read(), bronze, to)


@pytest.mark.parametrize(
    ("read_from", "told"),
    [
        ({"table": BRONZE}, ""),
        ({"table": "s3://lake/bronze/"}, ""),
        ({"table": "s3a://lake/bronze_2"}, "is fed from s3a://lake/bronze_2"),
        ({}, "is fed from Kafka"),
    ],
)
def test_it_goes_on_from_the_same_bronze(monkeypatch: pytest.MonkeyPatch, read_from: dict[str, Any], told: str) -> None:
    """However its path was spelt when the rebuild began."""
    newest = SimpleNamespace(receipt=SimpleNamespace(job=JobFields(read_from=read_from)))
    monkeypatch.setattr(rebuild.commit_log, "read", lambda *_: SimpleNamespace(newest=newest))
    main = SimpleNamespace(identifier=TO, schema=lambda: ())
    tables: Any = SimpleNamespace(main=main, config=rebuild.config_of(read(), BRONZE, TO))
    if not told:
        rebuild.check_place(tables)
        return
    with pytest.raises(UsageError, match=told):
        rebuild.check_place(tables)
