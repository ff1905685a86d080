"""The audit of a table of mode upsert: what its log says was done, held against its rows.

Rows of this mode do not stay, so that a record which is in neither table need not be missing. What can be held against
the log is: how many rows it inserted and deleted, and how many are there; that no key has two rows; that each row is of
a record which was consumed, and is not in quarantine too; and that no row is older than a delete of its key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.reader.contract import TableReader
from lakeingest.operations import sql
from lakeingest.operations.latest_view import path_names
from lakeingest.operations.readers import PipelineReader
from lakeingest.operations.results.audit import Report
from lakeingest.record import COORDINATES, PARTITION, TOPIC, OffsetRange, OffsetRanges
from lakeingest.schema import ddl

NAMED = 20


def of(report: Report, reader: PipelineReader, log: CommitLog, accepted: int, consumed: OffsetRanges) -> Report:
    """The report of such a table.

    Args:
        report: what the audit says of it, as if each record were a row.
        log: all that the pipeline committed to the table.
        accepted: how many records its batches accepted, those that delete a row included.
        consumed: their offsets.
    """
    config, main = reader.config, reader.main
    replayed = sum(commit.receipt.account.counts.accepted for commit in log.replays if commit.receipt.account)
    removals = _removals(reader)
    refused = report.consumed - report.dropped - accepted - replayed
    missing = max(0, refused - removals.of_quarantine - report.quarantine)
    commits = (*log.commits, *log.backfills, *log.replays)
    expected = _expected_rows(log, commits, removals.accepted_versions)
    rows, rows_there = report.table + report.earlier, report.table + report.quarantine
    changed = [] if expected is None or expected == rows else [_changed(expected, rows, log)]
    keys = {path: path_names(config.columns, path) for path in config.table.key_paths}
    changed += _deleted(reader, keys, consumed)
    twice = list(_twice(main, keys))
    places = {kind: each for kind, each in report.named.items() if kind != "missing"}
    doubled = [*twice, *places.get("duplicated", [])][:NAMED]
    return replace(
        report,
        missing=missing,
        superseded=max(0, report.consumed - report.dropped - sum(report.removed.values()) - rows_there - missing),
        ties=sum(each.receipt.account.ties for each in commits if each.receipt.account),
        duplicated=report.duplicated + len(twice),
        named={**places, **({"duplicated": doubled} if twice else {})},
        altered=(*report.altered, *changed),
    )


class _RemovalCounts(NamedTuple):
    """What was taken out of the tables.

    Attributes:
        of_quarantine: how many records of quarantine.
        accepted_versions: the versions of the table that are accepted deletes.
    """

    of_quarantine: int
    accepted_versions: frozenset[int]


def _removals(reader: PipelineReader) -> _RemovalCounts:
    if not reader.removals.exists:
        return _RemovalCounts(0, frozenset())
    rows = reader.removals.scan(
        "SELECT place, reason, version, _topic, _partition, low, high FROM {rows} WHERE pipeline = :pipeline",
        pipeline=reader.config.known_as,
    )
    of_quarantine = (row for row in rows if row["place"] == "quarantine")
    ranges = OffsetRanges(tuple(OffsetRange(r[TOPIC], r[PARTITION], r["low"], r["high"]) for r in of_quarantine))
    accepted = (row["version"] for row in rows if (row["place"], row["reason"]) == ("table", "deleted"))
    return _RemovalCounts(ranges.merged.offsets, frozenset(accepted))


def _expected_rows(log: CommitLog, commits: Iterable[Commit], accepted_versions: Collection[int]) -> int | None:
    """How many rows these commits of the pipeline left, beside those that were there when it was adopted; None where
    the log does not reach back so far.

    Args:
        accepted_versions: deletes by others that were accepted.
    """
    if not (log.complete or log.adopted):
        return None
    rows = sum(each.changes.inserted - each.changes.deleted for each in commits if each.changes)
    deleted = sum(each.rows or 0 for each in log.deletes if each.version in accepted_versions)
    return rows + int(log.adopted.get("rows", 0)) - sum(log.removed.values()) - deleted


def _changed(expected: int, rows: int, log: CommitLog) -> str:
    deletes = "".join(f"; {deletion}" for deletion in log.deletes)
    return f"the pipeline's commits left {expected:,} rows, and {rows:,} are there: others have changed them{deletes}"


def _twice(main: TableReader, paths: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The first keys with several rows.

    Args:
        paths: of each field of the key the names that lead to it.
    """
    names = _columns(main, paths)
    keys = ", ".join(f"{name} AS key_{at}" for at, name in enumerate(names))
    by = ", ".join(f"key_{at}" for at in range(len(names)))
    text = (
        f"SELECT {by}, count(*) AS rows FROM (SELECT {keys} FROM {{rows}}) AS keys "
        f"GROUP BY {by} HAVING count(*) > 1 ORDER BY {by} LIMIT {NAMED}"
    )
    for row in main.scan(text):
        values = ", ".join(f"{path} = {row[f'key_{at}']!r}" for at, path in enumerate(paths))
        yield f"{row['rows']} rows of the key {values}"


def _columns(main: TableReader, paths: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns, or fields within them, as a query of this reader writes them."""
    quoted = ddl.quoted if main.files is None else sql.quoted
    return [".".join(map(quoted, steps)) for steps in paths.values()]


def _deleted(reader: PipelineReader, paths: Mapping[str, Sequence[str]], consumed: OffsetRanges) -> Iterator[str]:
    """The first keys whose row is older than a delete that is remembered.

    Args:
        consumed: a delete of other offsets is that of a batch which has still to be committed.
    """
    config, main = reader.config, reader.main
    if not config.deletes or not reader.deleted_keys.exists:
        return
    views = {"rows": main.view, "deletes": reader.deleted_keys.view}
    names = views["deletes"].schema.names
    order = {path: path_names(config.columns, path) for path in config.table.order_by}
    if [name for name in names if name.startswith(("key_", "order_"))] != [
        *_numbered("key", paths),
        *_numbered("order", order),
    ]:
        # A key of several fields has a column for each.
        return
    keys, compared = ([f"r.{name}" for name in _columns(main, each)] for each in (paths, order))
    same = " AND ".join(f"{key} = d.{name}" for key, name in zip(keys, _numbered("key", paths), strict=True))
    older = _older(
        [*compared, *(f"r.{name}" for name in COORDINATES)],
        [f"d.{name}" for name in (*_numbered("order", order), *COORDINATES)],
    )
    text = (
        f"SELECT DISTINCT {', '.join(f'{key} AS k{at}' for at, key in enumerate(keys))} FROM {{rows}} AS r "
        f"JOIN {{deletes}} AS d ON {same} "
        f"WHERE d.pipeline = :pipeline AND {older} AND ({_within(consumed)}) LIMIT {NAMED}"
    )
    for row in main.query(text, views, pipeline=config.known_as):
        values = ", ".join(f"{path} = {row[f'k{at}']!r}" for at, path in enumerate(paths))
        yield f"the row of the key {values} is older than a delete of it: others have brought it back"


def _within(ranges: OffsetRanges) -> str:
    """SQL: whether a delete is of one of these offsets."""
    topic, partition, offset = (f"d.{name}" for name in COORDINATES)
    each = (
        f"{topic} = '{s.topic}' AND {partition} = {s.partition} AND {offset} >= {s.start} AND {offset} < {s.end}"
        for s in ranges
    )
    return " OR ".join(each) or "false"


def _numbered(name: str, paths: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{name}_{at}" for at in range(1, len(paths) + 1)]


def _older(row: Sequence[str], delete: Sequence[str]) -> str:
    """SQL: whether the first of a row's columns that differ is less than that of a delete."""
    (one, *rest), (other, *more) = row, delete
    return f"({one} < {other} OR ({one} = {other} AND {_older(rest, more)}))" if rest else f"{one} < {other}"
