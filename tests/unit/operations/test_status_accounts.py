"""Which account `status` takes for a batch."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

from lakeingest.config.file import from_mapping
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.receipt import Account, Counts, Receipt, Run
from lakeingest.kafka.offsets import Topics
from lakeingest.operations.readers import PipelineReader
from lakeingest.operations.status import status
from lakeingest.record import OffsetRange, OffsetRanges

NOW = datetime(2026, 11, 27, tzinfo=UTC)
PIPELINE = {"name": "p", "source": {"topics": ["t"]}, "schema": {"columns": "n INT"}, "table": {"path": "/t"}}


def commit(sequence: int, account: Account | None = None) -> Commit:
    ranges = OffsetRanges((OffsetRange("t", 0, 0, 3),))
    receipt = Receipt("p", sequence, Run(), "c", {"t": "id"}, ranges, "/q", account=account)
    return Commit(sequence, NOW, 1, receipt)


def test_an_account_with_a_number_of_its_own_is_its_batchs() -> None:
    """Where quarantine's log had seen the batch's number before, the account has a later one, and names the batch."""
    lone = Account(Counts(3, 1, 2, 0), settles=2)
    size = SimpleNamespace(count=0, bytes=0)
    empty = SimpleNamespace(identifier="/t", size=size, count=lambda _: 0, history=lambda _: [])
    reader = SimpleNamespace(
        config=from_mapping(PIPELINE),
        main=empty,
        quarantine=empty,
        commit_logs=lambda _: (CommitLog("/t", "p", (commit(2),)), CommitLog("/q", "p", (commit(5, lone),))),
    )
    topics = Topics("c", {"t": "id"}, {("t", 0): 0}, {("t", 0): 3})
    (shown,) = status(cast(PipelineReader, reader), topics).commits
    assert (shown["sequence"], shown["refused"]) == (2, 2)
