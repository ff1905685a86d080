"""The rows of a real table in a database, held against those of a pipeline's table, key by key.

1. The lake is asked which offsets its rows have: all that lies before was done in the database before it is read.
2. The database's rows are read (see `database_rows`), nothing is written there. Then it is asked where its log ends.
3. One join of both tells what differs: DuckDB computes it in memory, and Spark where that does not suffice. A key with
   an event that is not before those offsets has changed meanwhile, and is not compared; neither is one with an event
   behind the position that the comparison is made at.

So the lake is never ahead of the database. The database may be ahead of the lake: what differs is looked at again until
the lake holds the log up to the end that was asked. Then no key that is compared has changed between 1 and that end: it
does not matter at which moment in between its row was read in the database, or by which of several starts.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

from lakeingest.config import PipelineConfig
from lakeingest.errors import NotComplete, SourceRefused, SourceUnreachable, UsageError
from lakeingest.ingest.source import RecordSource
from lakeingest.local import artifacts
from lakeingest.operations import database_position, sql
from lakeingest.operations.database_rows import DatabaseRows, connected
from lakeingest.operations.readers import Owner, PipelineReader, answer
from lakeingest.operations.results.database import DatabaseComparison, DifferentKey
from lakeingest.operations.results.log_position import LogPosition
from lakeingest.record import DELETE, OPERATION, RESERVED, Frontier
from lakeingest.schema import ddl
from lakeingest.schema.debezium import CHANGE, CHANGED_AT, POSITION, UNAVAILABLE

if TYPE_CHECKING:
    import pyarrow as pa

_PAUSE_S = 2.0
_NAMED = 1000
"""Keys of a kind that are named."""
_KINDS = ("missing", "different", "extra")
_SAME, _CHANGED = "same", "changed"
_BESIDE = {*RESERVED, CHANGE, POSITION, CHANGED_AT, UNAVAILABLE}
_FRONTIER = """
    SELECT _topic AS topic, _partition AS number, max(_offset) + 1 AS next FROM {rows}
    WHERE _topic IS NOT NULL GROUP BY _topic, _partition
"""


class OwnerWithSource(Owner, Protocol):
    """Whose table is compared, and where its records come from."""

    @property
    def source(self) -> RecordSource:
        """Where its records come from."""


def compare(
    owner: OwnerWithSource,
    url: str,
    table: str | None = None,
    wait: timedelta = timedelta(minutes=1),
    *,
    at: str | None = None,
    on_step: Callable[[str], None] = lambda step: None,
) -> DatabaseComparison:
    """Each row of a database's table held against the pipeline's; see `results.database.DatabaseComparison`.

    Args:
        owner: whose table is compared.
        url: of the database, as SQLAlchemy has it: postgresql+psycopg://user:password@host/database. Nothing is written
            there.
        table: its name there, as in public.orders; by default what stands behind the prefix of the topic's name.
        wait: how long keys that differ are looked at: what the database has just changed is on its way.
        at: a place in the database's log, as `lakeingest wait --position` takes it: what has changed behind it is not
            compared. What was read of the database is kept until the comparison ends: the same call goes on where one
            was cut off.
        on_step: told how many rows are read.

    Raises:
        UsageError: the pipeline is not of mode upsert, there is no such table or key, or the same comparison is at
            work.
        NotComplete: the table does not hold the database's log up to `at`.
        SetupError: SQLAlchemy, or the database's driver, is not installed.
        SourceUnreachable: the database does not answer.
    """
    config = owner.config
    if not config.table.upserts:
        raise UsageError(
            f"{config.name!r} has table.mode {config.table.mode}, and a database has one row for each key",
            cure="compare a pipeline of mode upsert",
        )
    name, target = table or _table_of(config.source.topics), None if at is None else _reached(owner, at)
    columns, frontier = answer(owner, _columns), answer(owner, _frontier)
    masked = {path.partition(".")[0] for step in config.steps for path in step.masks}
    with connected(url) as engine:
        rows = DatabaseRows(engine, name, columns, config.table.key_paths, masked)
        of = None if at is None else (str(engine.url), name, at, config.table.identifier, str(rows.columns))
        with _folder(of) as folder:
            frontier = _first_frontier(folder, frontier)
            files = rows.read(folder, on_step)
            return _looked_at(owner, _Join(rows, files, frontier, target), at, wait)


def _table_of(topics: Sequence[str]) -> str:
    """The table whose events are in the topic PREFIX.SCHEMA.TABLE."""
    if len(topics) != 1 or topics[0].count(".") < 2:
        raise UsageError(
            f"the topics {', '.join(topics)} do not say which table their events are of",
            cure="name it: --table SCHEMA.TABLE",
        )
    return topics[0].split(".", 1)[1]


def _reached(owner: OwnerWithSource, at: str) -> tuple[int, ...]:
    """A place in the log that the table has reached."""
    database_position.check_known(owner.config)
    target = database_position.parse(at)
    claim = _claim(owner)
    if not claim.reaches(target):
        raise NotComplete(
            f"{owner.config.name} is not complete up to {at}: {claim.text}",
            cure=f"lakeingest wait FILE --position {at}, and compare then",
        )
    return target


def _claim(owner: OwnerWithSource) -> LogPosition:
    topics = owner.source.topics()
    return answer(owner, partial(database_position.of_topics, topics=topics))


def _columns(reader: PipelineReader) -> dict[str, pa.DataType]:
    view = reader.main.view
    schema = view.schema if reader.main.files is not None else view.limit(0).toArrow().schema
    return {f.name: f.type for f in schema if f.name not in _BESIDE}


def _frontier(reader: PipelineReader) -> Frontier:
    """Before which offsets all was consumed: by the receipts, or, of what others have written, by the rows."""
    rows = {(row["topic"], row["number"]): row["next"] for row in reader.main.scan(_FRONTIER)}
    return rows | dict(reader.standing().frontier)


# What is read of the database ----------------------------------------------------------------------------------------


@contextmanager
def _folder(of: tuple[str, ...] | None) -> Iterator[Path]:
    """A folder for the database's rows.

    Args:
        of: what makes the comparison the same as another: then the folder is its own, and stays until it has ended.

    Raises:
        UsageError: the same comparison is at work.
    """
    if of is None:
        with TemporaryDirectory(prefix="lakeingest-") as name:
            yield Path(name)
        return
    folder = artifacts.cache_dir() / "compare" / hashlib.sha256(json.dumps(of).encode()).hexdigest()[:20]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
        shutil.rmtree(folder)
    except BlockingIOError:
        raise UsageError("the same comparison is at work already", cure="wait for its end, or end it") from None
    finally:
        os.close(handle)


def _first_frontier(folder: Path, frontier: Frontier) -> Frontier:
    """Where the lake was when the comparison of this folder began."""
    file, part = folder / "frontier.json", folder / "part"
    if not file.exists():
        part.write_text(json.dumps([[*of, offset] for of, offset in frontier.items()]), encoding="utf-8")
        part.replace(file)
    return {(topic, number): offset for topic, number, offset in json.loads(file.read_text(encoding="utf-8"))}


# The comparison ------------------------------------------------------------------------------------------------------


def _looked_at(owner: OwnerWithSource, join: _Join, at: str | None, wait: timedelta) -> DatabaseComparison:
    """Look at the lake until it agrees, or must, or the time is over."""
    end = join.rows.log_end()
    deadline = time.monotonic() + wait.total_seconds()
    result, unsure = answer(owner, join.run), ""
    while not result.equal:
        # Asked before the rows: what it claims of the table, these have.
        claim = _end_claim(owner, end)
        reached = end is not None and claim.reaches(database_position.parse(end))
        left_s = deadline - time.monotonic()
        unsure = "" if reached else claim.reason or claim.text
        if not reached and left_s <= 0:
            break
        if not reached:
            time.sleep(min(_PAUSE_S, left_s))
        result = answer(owner, join.run)
        if reached:
            break
    return replace(result, at=at, position=end, unsure="" if result.equal else unsure)


def _end_claim(owner: OwnerWithSource, end: str | None) -> LogPosition:
    """What the table claims to hold, if that matters."""
    if end is None:
        return LogPosition(reason="the database does not say where it ends")
    try:
        return _claim(owner)
    except (SourceRefused, SourceUnreachable) as failed:
        return LogPosition(reason=failed.what)


@dataclass(frozen=True)
class _Join:
    """The rows of the database in the files, and those of the lake.

    Attributes:
        frontier: the offsets from which on an event is none that the database's rows have for certain.
        target: the place in the log behind which nothing is compared; None to compare all.
    """

    rows: DatabaseRows
    files: Sequence[Path]
    frontier: Frontier
    target: tuple[int, ...] | None

    def run(self, reader: PipelineReader) -> DatabaseComparison:
        """How many keys are the same, differ and have changed, and the first that differ of each kind."""
        import pyarrow.dataset as ds

        in_files, columns = reader.main.files is not None, list(self.rows.columns)
        keys, values = columns[: len(self.rows.keys)], columns[len(self.rows.keys) :]
        database = ds.dataset(self.files)
        views = {"database": database if in_files else database.to_table(), "rows": reader.main.view}
        if reader.config.table.removes and reader.deleted_keys.exists:
            views["deletes"] = reader.deleted_keys.view
        quote = sql.quoted if in_files else ddl.quoted
        text = self._each_key(reader, views, [*map(quote, keys)], [*map(quote, values)])
        counted = reader.main.query(f"SELECT kind, count(*) AS number FROM ({text}) AS each_key GROUP BY kind", views)
        numbers = {row["kind"]: row["number"] for row in counted}
        counts, different = {kind: numbers.get(kind, 0) for kind in _KINDS}, list[DifferentKey]()
        if any(counts.values()):
            order = ", ".join(f"key_{at}" for at in range(len(keys)))
            listed = (
                f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY kind ORDER BY {order}) AS place "
                f"FROM ({text}) AS each_key WHERE kind IN ('missing', 'different', 'extra')) AS numbered "
                f"WHERE place <= {_NAMED}"
            )
            rows = reader.main.query(listed, views)
            for row in sorted(rows, key=lambda row: (_KINDS.index(row["kind"]), row["place"])):
                marks = row["changed"].split(",") if row["kind"] == "different" else ()
                differing = tuple(values[int(mark)] for mark in marks)
                different.append(DifferentKey(_key(keys, row), row["kind"], differing))
        return DatabaseComparison(
            pipeline=reader.config.name,
            database_table=self.rows.name,
            keys=database.count_rows(),
            same=numbers.get(_SAME, 0),
            changed_since=numbers.get(_CHANGED, 0),
            counts=counts,
            different=tuple(different),
            columns=values,
            left_out=self.rows.left_out,
        )

    def _each_key(
        self, reader: PipelineReader, views: Mapping[str, Any], keys: Sequence[str], values: Sequence[str]
    ) -> str:
        """SQL: kind, the key as key_0, key_1, … and the numbers of the columns that differ, of each key.

        Args:
            keys, values: columns, as the reader quotes them.
        """
        tests = [f"d.{name} IS DISTINCT FROM r.{name}" for name in values]
        # One column for all: rules of Spark take each alias of a part of WHERE with and without the others.
        marks = (f"CASE WHEN {test} THEN '{at}' END" for at, test in enumerate(tests))
        on_database, on_lake = f"d.{keys[0]} IS NOT NULL", "r._is_new IS NOT NULL"
        lake, deletes, has_changed = _lake(reader.config, self._is_new(POSITION)), "", "coalesce(r._is_new, false)"
        if "deletes" in views:
            is_own = f"pipeline = {ddl.text(reader.config.known_as)} AND {self._is_new()}"
            numbered = [f"key_{at}" for at in range(1, len(keys) + 1)]
            same = " AND ".join(f"coalesce(d.{key}, r.{key}) = x.{n}" for key, n in zip(keys, numbered, strict=True))
            deletes = (
                f"LEFT JOIN (SELECT DISTINCT {', '.join(numbered)} FROM {{deletes}} WHERE {is_own}) AS x ON {same}"
            )
            has_changed += " OR x.key_1 IS NOT NULL"
            # An event that empties the table has no key.
            emptied = f"SELECT count(*) AS number FROM {{deletes}} WHERE {is_own} AND key_1 IS NULL"
            if reader.deleted_keys.query(emptied, {"deletes": views["deletes"]})[0]["number"]:
                has_changed += f" OR NOT {on_lake}"
        return (
            f"SELECT CASE WHEN {has_changed} THEN '{_CHANGED}' WHEN NOT {on_lake} THEN 'missing' "
            f"WHEN NOT {on_database} THEN 'extra' WHEN {' OR '.join(tests) or 'false'} THEN 'different' "
            f"ELSE '{_SAME}' END AS kind, "
            + "".join(f"coalesce(d.{name}, r.{name}) AS key_{at}, " for at, name in enumerate(keys))
            + (f"concat_ws(',', {', '.join(marks)})" if tests else "''")
            + f" AS changed FROM {{database}} AS d FULL JOIN ({lake}) AS r "
            f"ON {' AND '.join(f'd.{name} = r.{name}' for name in keys)} {deletes}"
        )

    def _is_new(self, position: str | None = None) -> str:
        """SQL, never null: whether an event may have come after the database was read, or lies behind the target.

        Args:
            position: the column that has its place in the log; None in the table of deleted keys.
        """
        is_new = f"(_topic IS NOT NULL AND ({database_position.is_before(self.frontier)}) IS NOT TRUE)"
        if self.target is None:
            return is_new
        parts = ("order_1", "order_2") if position is None else (f"{position}.commit", f"{position}.event")
        return f"({is_new} OR coalesce({database_position.lies_behind(self.target, *parts)}, false))"


def _lake(config: PipelineConfig, is_new: str) -> str:
    """SQL: the lake's rows, with _is_new; where deletes are rows, without those of old ones."""
    rows = f"SELECT *, {is_new} AS _is_new FROM {{rows}}"
    if not config.table.marks:
        return rows
    return f"SELECT * FROM ({rows}) AS marked WHERE _is_new OR {OPERATION} <> '{DELETE}'"


def _key(names: Sequence[str], row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {row[f'key_{at}']!r}" for at, name in enumerate(names))
