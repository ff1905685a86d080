"""The next commit: rows and receipt in one, written once, and read back to make sure that it is ours."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from lakeingest.delta import commit_log, numbered_append
from lakeingest.delta.commit_log import Commit, application
from lakeingest.delta.history import TableHistory
from lakeingest.delta.receipt import Receipt
from lakeingest.delta.table import Table
from lakeingest.errors import Fenced, LakeingestError
from lakeingest.record import replan_reason
from lakeingest.spark import frames
from lakeingest.spark.failures import spark_failures, translate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAST_VERSION = "spark.databricks.delta.lastCommitVersionInSession"
"""The setting in which Delta names the version that the session wrote last, of whatever table."""


class Mode(Protocol):
    """How a commit changes a table: it writes rows with Delta's options, in one version of the table.

    `append` is one, and `upsert.Upsert` another.
    """

    def __call__(self, table: Table, rows: DataFrame, options: Mapping[str, str], /) -> None: ...


append: Mode = numbered_append.append


def write(
    table: Table,
    frame: DataFrame,
    receipt: Receipt,
    compression: str,
    *,
    evolve: bool = False,
    mode: Mode = append,
) -> Commit:
    """Write `frame` as the commit of `receipt`, once, and make sure that it is ours.

    1. Delta writes the files and commits, with the pipeline as txnAppId and the sequence number as txnVersion. A
       writer that committed this number meanwhile makes our commit fail; one that did so before makes Delta skip ours.
    2. The commit is read back: the log must have one of this run with this number.

    Args:
        evolve: whether columns of the frame that the table lacks are added to it, in the same commit.
        mode: how the table changes.

    Raises:
        Fenced: another run committed; nothing of ours was written.
        UnsafeStore: the log store refuses the object store or its settings.
        StorageUnreachable: the object store failed.
        UnknownSchema: a record's schema is not among those that the frame was made for; nothing was written.
        UnreadableTime: Spark's reader cannot hold a record's time; nothing was written.
    """
    assert not receipt.ranges.backwards, receipt.ranges
    options = {
        "compression": compression,
        # A shuffle behind what is observed would count a task twice that is done again.
        "optimizeWrite": "false",
        "txnAppId": application(receipt.pipeline),
        "txnVersion": str(receipt.sequence),
        "userMetadata": receipt.to_json(),
        "mergeSchema": str(evolve).lower(),
    }
    try:
        mode(table, frames.for_new_columns(frame) if evolve else frame, options)
    except spark_failures() as failed:
        if other := replan_reason(failed):
            raise other from failed
        if not _overtaken(table, receipt):
            raise translate(table.identifier, failed) from failed
    ended = time.time()
    newest = _read_back(table, frame.sparkSession, receipt) or commit_log.read(table, receipt.pipeline).newest
    if newest is None or not _same(newest.receipt, receipt):
        raise fenced(table, receipt, newest)
    # Delta takes that time when the data files are there.
    return replace(newest, seconds=max(0.0, ended - newest.time.timestamp()))


def _same(one: Receipt, other: Receipt) -> bool:
    return one.run.id == other.run.id and one.sequence == other.sequence


def _read_back(table: Table, session: SparkSession, receipt: Receipt) -> Commit | None:
    """The commit of this receipt, if it is in the version that the session wrote last, of whatever table.

    It is the log that tells, as DESCRIBE HISTORY does in four times the time; the session only says where to look.
    """
    version = session.conf.get(LAST_VERSION, None)
    if version is None:
        return None
    with suppress(*spark_failures()):
        entry = TableHistory(table).entry(int(version))
        return None if entry is None else _commit_of(table, entry, receipt)
    return None


def is_replaced(table: Table, commit: Commit) -> bool:
    """Whether its version of the log holds another commit by now; False also where it cannot be read.

    A catalog that keeps the newest commits itself writes them to the log later.
    """
    with suppress(*spark_failures()):
        entry = TableHistory(table).entry(commit.version)
        return entry is not None and _commit_of(table, entry, commit.receipt) is None
    return False


def _commit_of(table: Table, entry: Mapping[str, Any], receipt: Receipt) -> Commit | None:
    """The commit that an entry of the table's history tells of, if it is the one of this receipt."""
    newest = commit_log.of_history(receipt.pipeline, [entry], TableHistory(table)).newest
    return newest if newest is not None and _same(newest.receipt, receipt) else None


def _overtaken(table: Table, receipt: Receipt) -> bool:
    """Whether a write failed because another run had committed; Delta may name that one's new columns as the cause."""
    try:
        newest = commit_log.read(table, receipt.pipeline).newest
    except LakeingestError:
        # Whatever is in the way of the log, also that there is no table yet: the write's own failure says more.
        return False
    return (
        newest is not None and newest.receipt.run.id != receipt.run.id and newest.receipt.sequence >= receipt.sequence
    )


def fenced(table: Table, receipt: Receipt, newest: Commit | None) -> Fenced:
    """The error that names the winner."""
    if newest is None:
        return Fenced(
            f"commit {receipt.sequence} of pipeline {receipt.pipeline!r} is not in the log of {table}",
            cure="look at the table's history: another session restored or replaced it; then run again",
        )
    winner = newest.receipt
    return Fenced(
        f"pipeline {receipt.pipeline!r} is held by another writer: {winner.run} committed sequence {winner.sequence} "
        f"(version {newest.version}); this writer ({receipt.run}) lost commit {receipt.sequence} to {table}",
        cure="nothing is lost or double: let the other go on, or stop it and run this one again",
    )
