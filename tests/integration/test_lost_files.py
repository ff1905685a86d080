"""A data file that somebody deleted: whoever needs it says which one, in our words, with the cure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pipelines import config_of
from support.records import mixed_records, produce

from lakeingest.errors import FilesLost
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline


def deleted(folder: Path) -> str:
    """The name of a data file of the table that is there no more."""
    (file, *_) = sorted(folder.glob("*.parquet"))
    file.unlink()
    return file.name


@pytest.fixture
def ran(stack: Addresses, spark: SparkSession, named: str, tmp_path: Path) -> Pipeline:
    """A pipeline that ran, with records in both tables; these are on the local disk."""
    produce(stack, named, mixed_records(10))
    config = config_of(stack, named, table={"path": str(tmp_path / "t")}, quarantine={"path": str(tmp_path / "q")})
    ingestion = Pipeline(config)
    ingestion.run(until_caught_up=True)
    return ingestion


def test_an_audit_names_a_lost_file_of_the_table(ran: Pipeline, tmp_path: Path) -> None:
    """It is the very case of an audit; it gave a hundred lines of Java."""
    name = deleted(tmp_path / "t")
    with pytest.raises(FilesLost, match=r"is gone, and the log of .* names it") as caught:
        ran.audit()
    assert name in caught.value.what
    assert "\n" not in caught.value.what
    assert "\tat " not in str(caught.value)


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(Pipeline.audit, id="audit"),
        pytest.param(Pipeline.quarantined, id="list", marks=pytest.mark.faults),
        pytest.param(lambda it: it.quarantined_record(it.config.name, 0, 0), id="show", marks=pytest.mark.faults),
        pytest.param(lambda it: it.replay("x"), id="replay", marks=pytest.mark.faults),
        pytest.param(lambda it: it.discard("x"), id="discard", marks=pytest.mark.faults),
    ],
)
def test_a_lost_file_of_quarantine_is_named(ran: Pipeline, tmp_path: Path, ask: Callable[[Pipeline], Any]) -> None:
    """By each of the commands that read there; a traceback, but for the audit's."""
    name = deleted(tmp_path / "q")
    with pytest.raises(FilesLost) as caught:
        ask(ran)
    assert name in caught.value.what
