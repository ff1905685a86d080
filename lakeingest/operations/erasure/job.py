"""The steps of a request to forget records: they are listed, taken out, purged, and their files deleted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest.delta.history import TableHistory
from lakeingest.delta.maintenance.vacuum import Vacuumed, vacuum
from lakeingest.delta.removals import Place as PlaceName
from lakeingest.delta.sums import Place
from lakeingest.delta.table import Table
from lakeingest.errors import UsageError
from lakeingest.ingest import endpoints
from lakeingest.ingest.context import RunContext
from lakeingest.operations.erasure import objects
from lakeingest.operations.erasure.records import ErasureRequest, PipelineRecords
from lakeingest.operations.results.erasure import Certificate, PipelinePart, TablePart
from lakeingest.record import OffsetRanges
from lakeingest.schema import ddl
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from lakeingest.delta.pipeline_tables import PipelineTables

_VECTORS = "delta.enableDeletionVectors"


def check_now(*, now: bool, is_known: bool) -> None:
    """Notice that nobody said that the files may go at once.

    Raises:
        UsageError: so it is.
    """
    if now and not is_known:
        raise UsageError(
            "--now deletes files that a query, or a commit that is under way, may still need",
            cure="stop the pipelines and whoever reads these tables, and add --i-know; or leave --now out: then the "
            "files go when maintenance.vacuum.after is over",
        )


def forget(
    contexts: Sequence[RunContext],
    request: ErasureRequest,
    *,
    now: bool = False,
    dry_run: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Certificate:
    """Forget records in the tables of these pipelines; for the steps see the package.

    Raises:
        UsageError: the condition is none, or no table has its columns; it matches a whole table; or there is no reason.
        StorageError, SourceError: a table, or a source, cannot be read.
    """
    _check(request)
    # Where none has a table, the first one says so.
    with_table = [each for each in contexts if each.tables.main.schema() is not None] or contexts
    every = [PipelineRecords(context, request) for context in with_table]
    # 1.
    if not [each for each in every if each.is_condition]:
        names = ", ".join(each.name for each in every)
        raise UsageError(
            f"--where {request.where!r} names columns that no table has: {names}",
            cure="name the file of a pipeline whose table has them; the others are asked by the records' coordinates",
        )
    places = set[Place]()
    for each in every:
        say(f"{each.name}: looking for the records …")
        places |= each.matching()
    shares = {each.name: each.among(places) for each in every}
    _check_part(every, shares, request)
    if not dry_run:
        # 2.
        for each in every:
            say(f"{each.name}: listing them …")
            _list(each, shares[each.name], request)
        # 3. and 4.
        for each in every:
            _take_out(each, shares[each.name], places, say)
    at, parts = datetime.now(UTC), list[PipelinePart]()
    for each in every:
        after = timedelta(0) if now else each.tables.config.maintenance.vacuum.after
        due = _listed_at(each, at) + after
        vacuumed = {} if dry_run or due > at else {table: _vacuum(table, after, say) for table in _tables(each.tables)}
        parts.append(_part(each, shares[each.name], due, vacuumed))
    parts += (_without_table(each) for each in contexts if each not in with_table)
    # 5.
    hits = () if dry_run else tuple(_hits(every, request, say))
    return Certificate.of(request, tuple(parts), hits, at, dry_run=dry_run)


def _check(request: ErasureRequest) -> None:
    for name, text, example in (("where", request.where, "customer_id = 7"), ("why", request.why, "request 123")):
        if not text.strip():
            raise UsageError(f"--{name} is empty", cure=f'write it as in --{name} "{example}"')
    if any(len(text) < objects.SHORTEST for text in request.search):
        raise UsageError(
            f"--search needs {objects.SHORTEST} characters or more: a shorter text stands in any file by chance",
            cure="search for a whole value, as in --search anna@example.com",
        )


def _check_part(
    every: Iterable[PipelineRecords], shares: Mapping[str, Mapping[str, set[Place]]], request: ErasureRequest
) -> None:
    """Notice that a request is about all rows of a table."""
    for each in every:
        rows = 0 if request.everything else each.rows()
        if rows and len(shares[each.name]["table"]) >= rows:
            raise UsageError(
                f"--where {request.where!r} matches all {rows:,} rows of {each.tables.main}",
                cure="correct the condition; if all of them are to be forgotten, add --all",
            )


def _list(records: PipelineRecords, share: Mapping[str, set[Place]], request: ErasureRequest) -> None:
    """Write down which records are to be taken out, but for those that are listed already."""
    removals, tables = records.tables.removals, records.tables
    listed = records.listed
    targets: tuple[tuple[PlaceName, Table, set[Place]], ...] = (
        ("table", tables.main, share["table"] | share["superseded"]),
        ("quarantine", tables.quarantine, share["quarantine"]),
    )
    for place, table, places in targets:
        if new := places - listed:
            version = TableHistory(table).newest()
            removals.add(records.frame(new), "forgotten", place, version, request.why)


def _take_out(
    records: PipelineRecords, share: Mapping[str, set[Place]], places: set[Place], say: Callable[[str], None]
) -> None:
    tables, removals = records.tables, records.tables.removals
    codec = tables.config.table.compression
    if share["table"]:
        say(f"{records.name}: taking them out of {tables.main} …")
        removals.take_out(tables.main, records.frame(share["table"]), "forgotten", codec)
    if refused := share["quarantine"] | share["moved"]:
        say(f"{records.name}: taking them out of {tables.quarantine} …")
        removals.take_out(tables.quarantine, records.frame(refused), "forgotten", codec, of_pipeline=True)
    if tables.deleted_keys is not None and places and tables.deleted_keys.table.schema() is not None:
        removals.take_out(tables.deleted_keys.table, records.frame(places), "forgotten", codec, of_pipeline=True)
    if places:
        _empty_samples(tables, places)
    for table in _tables(tables):
        if table.properties().get(_VECTORS, "").lower() == "true":
            say(f"{records.name}: writing files of {table} anew …")
            with storage_failures(table.identifier):
                table.spark.sql(f"REORG TABLE {table.sql} APPLY (PURGE)").collect()


def _empty_samples(tables: PipelineTables, places: set[Place]) -> None:
    """Take the samples of a gate's results away that may hold values of these records: those of their batches."""
    if tables.config.gate is None or tables.results.schema() is None:
        return
    of_pipeline = F.col("pipeline") == tables.config.known_as
    with storage_failures(tables.results.identifier):
        rows = tables.results.read().where(of_pipeline & (F.size("sample") > 0)).select("sequence", "offsets")
        batches = [
            sequence
            for sequence, text in rows.distinct().collect()
            if any(_within(OffsetRanges.from_json(json.loads(text)), place) for place in places)
        ]
        if batches:
            name, numbers = ddl.text(tables.config.known_as), ", ".join(map(str, batches))
            tables.results.spark.sql(
                f"UPDATE {tables.results.sql} SET sample = array(), observed = NULL "
                f"WHERE pipeline = {name} AND sequence IN ({numbers})"
            ).collect()


def _within(ranges: OffsetRanges, place: Place) -> bool:
    topic, partition, offset = place
    return any((s.topic, s.partition) == (topic, partition) and s.start <= offset < s.end for s in ranges)


def _tables(tables: PipelineTables) -> Iterator[Table]:
    """Those that may hold values of records, and are there."""
    every = [tables.main, tables.quarantine]
    every += [tables.results] if tables.config.gate else []
    every += [tables.deleted_keys.table] if tables.deleted_keys else []
    yield from (table for table in every if table.schema() is not None)


def _listed_at(records: PipelineRecords, at: datetime) -> datetime:
    """When the request has listed records last; `at` where it has none."""
    rows, last = records.list_rows(), None
    if rows is not None:
        with storage_failures(records.tables.removals.table.identifier):
            last = rows.agg(F.unix_micros(F.max("at"))).collect()[0][0]
    return at if last is None else datetime.fromtimestamp(last / 1e6, UTC)


def _vacuum(table: Table, after: timedelta, say: Callable[[str], None]) -> Vacuumed:
    say(f"VACUUM of {table} …")
    return vacuum(table, Vacuumed(datetime.now(UTC) - after), table.properties(), checked=False)


def _part(
    records: PipelineRecords,
    share: Mapping[str, set[Place]],
    due: datetime,
    vacuumed: Mapping[Table, Vacuumed],
) -> PipelinePart:
    """What was done in one pipeline, and what is still due."""
    tables = records.tables
    counts = {"table": len(share["table"] | share["superseded"]), "quarantine": len(share["quarantine"])}
    if (rows := records.list_rows()) is not None:
        with storage_failures(tables.removals.table.identifier):
            counts |= dict(map(tuple, rows.groupBy("place").agg(F.sum(F.expr("high - low"))).collect()))
    return PipelinePart(
        records.name,
        counts["table"],
        counts["quarantine"],
        records.unreadable,
        not records.is_condition,
        tuple(
            TablePart(
                table.identifier,
                TableHistory(table).newest(),
                due.replace(microsecond=0),
                table in vacuumed,
                vacuumed[table].files if table in vacuumed else None,
                objects.versions(endpoints.storage(tables.config), table),
            )
            for table in _tables(tables)
        ),
        tuple(objects.beyond_reach(records, share)),
    )


def _without_table(context: RunContext) -> PipelinePart:
    """A pipeline that has not run yet has no list either."""
    source = f"{context.source.address}: this pipeline has no table yet; forget once more when it has run"
    return PipelinePart(context.config.name, 0, 0, 0, False, (), (source,))


def _hits(
    every: Iterable[PipelineRecords], request: ErasureRequest, say: Callable[[str], None]
) -> Iterator[objects.Hit]:
    for records in every if request.search else ():
        for place in objects.places(records.tables):
            say(f"{records.name}: searching every object below {place} …")
            yield from objects.search(place, endpoints.storage(records.tables.config), request.search)
