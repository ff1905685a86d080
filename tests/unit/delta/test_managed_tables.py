"""A table whose newest commits a catalog keeps, or that has a feature nobody here knows: no reader of files answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lakeingest.config import PipelineConfig, Storage
from lakeingest.config.file import from_mapping
from lakeingest.delta.reader import rows
from lakeingest.delta.reader.log import OfflineLog, Unreadable
from lakeingest.delta.receipt import Receipt, Run
from lakeingest.errors import TableMismatch, UsageError
from lakeingest.ingest.bronze import BronzeSource
from lakeingest.kafka.offsets import Topics
from lakeingest.operations import audit, completeness, freshness, openers, read, refused, sql, status
from lakeingest.operations.readers import FileTables
from lakeingest.operations.report import facts
from lakeingest.operations.report import refused as report_refused
from lakeingest.operations.wait import Waiter
from lakeingest.record import OffsetRange, OffsetRanges

STORE = Storage()
TOPICS = Topics("c", {"t": "i"}, {("t", 0): 0}, {("t", 0): 9})
METADATA = {
    "id": "x",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps({"type": "struct", "fields": []}),
    "partitionColumns": [],
    "configuration": {},
}


def commit(folder: Path, *actions: dict[str, Any]) -> None:
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{len([*log.iterdir()]):020}.json").write_text("\n".join(map(json.dumps, actions)))


def protocol(*features: str, written: bool = False) -> dict[str, Any]:
    named = {} if written else {"readerFeatures": [*features]}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": [*features], **named}}


def batch(number: int) -> dict[str, Any]:
    taken = OffsetRanges((OffsetRange("t", 0, 5 * number - 5, 5 * number),))
    said = Receipt("p", number, Run(), "c", {"t": "i"}, taken, "q").to_json()
    return {"commitInfo": {"operation": "WRITE", "operationParameters": {}, "userMetadata": said}}


@pytest.fixture
def config(tmp_path: Path) -> PipelineConfig:
    """A pipeline whose tables have one batch each."""
    found = from_mapping(
        {
            "name": "p",
            "source": {"topics": ["t"], "bootstrap_servers": "127.0.0.1:1"},
            "schema": {"columns": "n INT"},
            "partition": [{"by": "time", "every": "hour"}],
            "table": {"path": str(tmp_path / "table")},
            "contract": {"completeness": {"late": "5 minutes"}},
        }
    )
    for each in found.tables:
        commit(Path(each), protocol(), {"metaData": METADATA})
        commit(Path(each), batch(1))
    return found


def by_spark() -> Any:
    raise UsageError("Spark is asked: it has madeUp", cure="none")


def waited(config: PipelineConfig) -> Any:
    return Waiter(config, STORE, datetime(2026, 11, 1), pytest.fail, by_spark).look()


def records(config: PipelineConfig) -> Any:
    with read.records(config, STORE, read.RecordSelection()) as found:
        return [*found.records]


def bronze(config: PipelineConfig) -> Any:
    return BronzeSource(config.table.identifier, (), STORE, lambda: pytest.fail("Spark is asked")).topics()


READERS: dict[str, Callable[[PipelineConfig], Any]] = {
    "status": lambda c: status.status(FileTables(c, STORE), TOPICS),
    "audit": lambda c: audit.audit(FileTables(c, STORE)),
    "worst": lambda c: freshness.worst_of(FileTables(c, STORE), 20),
    "periods": lambda c: completeness.periods(FileTables(c, STORE)),
    "completeness": lambda c: completeness.declared(FileTables(c, STORE)),
    "wait": waited,
    "reasons": lambda c: refused.reasons(FileTables(c, STORE), 1),
    "report of quarantine": lambda c: report_refused.summary(FileTables(c, STORE), 1),
    "report's columns": lambda c: list(facts._columns(OfflineLog(c.table.identifier, STORE))),
    "sql": lambda c: sql.ask(c, STORE, 'SELECT * FROM "table"', 1, as_json=True),
    "history in sql": lambda c: sql.ask(c, STORE, "SELECT * FROM history", 1, as_json=True),
    "openers": lambda c: openers.openers(c, STORE),
    "read": records,
    "rows": lambda c: rows.dataset(OfflineLog(c.table.identifier, STORE)),
}


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_no_reader_counts_what_a_catalog_keeps(config: PipelineConfig, feature: str) -> None:
    """Commits that are in no file yet were left out in silence: an audit without them says conserved. The bronze source
    noticed nothing where the table became such a one behind its first look.
    """
    source = BronzeSource(config.table.identifier, (), STORE, lambda: pytest.fail("Spark is asked"))
    source.topics()
    for each in config.tables:
        commit(Path(each), protocol(feature, written=feature == "catalogManaged"))
    for name, ask in {**READERS, "bronze": bronze, "bronze, later": lambda _: source.topics()}.items():
        with pytest.raises(TableMismatch, match="managed by a catalog") as failed:
            pytest.fail(f"{name}: {ask(config)}")
        assert "a table that no catalog manages" in failed.value.cure


def test_no_reader_ignores_a_feature_that_it_does_not_know(config: PipelineConfig) -> None:
    """Spark is asked, which knows it or says so; what has no Spark says what is in its way."""
    log = OfflineLog(config.table.identifier, STORE)
    _ = log.state
    for each in config.tables:
        commit(Path(each), protocol("madeUp"))
    for name, ask in READERS.items():
        if name == "openers":
            assert "it has madeUp" in {each.why for each in ask(config)}
            continue
        with pytest.raises((Unreadable, UsageError), match="it has madeUp"):
            pytest.fail(f"{name}: {ask(config)}")
    with pytest.raises(Unreadable, match="it has madeUp"):
        log.since(1)
