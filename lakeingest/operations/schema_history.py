"""How a table came to its columns: the ledger of schemas, and what each writer's schema has brought so far.

The ledger rides in the table's commits and says what was decided, and when. How many records a schema has brought, and
where the last of them lies, is asked of the rows: each says in _schema_id what it was written with, and a refused one
still has the bytes that begin with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

from lakeingest.config import uses_registry
from lakeingest.decode import framing
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.operations.results.schema_history import LedgerStep, SchemaHistory, WriterSummary
from lakeingest.record import OFFSET, PARTITION, SCHEMA_ID, TIMESTAMP, TOPIC
from lakeingest.schema.ledger import Entry, SchemaId, SchemaLedger, Side
from lakeingest.schema.model import type_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def schema_history(tables: PipelineTables) -> SchemaHistory:
    """Ask both tables; reads two columns' worth of every row where the registry has the schemas.

    Raises:
        UsageError: there is no table yet.
        StorageUnreachable: a table cannot be read.
    """
    log, _ = tables.commit_logs()
    config, ledger = tables.config, log.schemas
    return SchemaHistory(
        config.name,
        config.compatibility,
        tuple(steps(ledger)),
        tuple(_writers(ledger, _brought(tables))),
        {side: tuple((f.name, type_text(f.schema)) for f in schema.fields) for side, schema in ledger.current.items()},
    )


def steps(ledger: SchemaLedger) -> Iterator[LedgerStep]:
    """Each entry with its meaning, which depends on the version that was current before it."""
    before: dict[Side, tuple[int, Entry]] = {}
    meanings = []
    for number, entry in enumerate(ledger.entries):
        _, current = before.get(entry.side, (None, None))
        meanings.append(_meaning(entry, current))
        if entry.action == "evolve" and not _adds(entry, current):
            before[entry.side] = number, entry
    numbers = {number for number, _ in before.values()}
    for number, (entry, meaning) in enumerate(zip(ledger.entries, meanings, strict=True)):
        yield LedgerStep(entry, meaning, current=number in numbers)


def _adds(entry: Entry, current: Entry | None) -> bool:
    """Whether a version that changed the table left the newer one current: it only had columns besides."""
    versions = (entry.version, current.version) if current else (None, None)
    return entry.verdict == "OK" and versions[0] is not None and versions[1] is not None and versions[0] <= versions[1]


def _meaning(entry: Entry, current: Entry | None) -> str:
    what = "the table" if entry.side == "value" else "the column _key"
    match entry.action:
        case "evolve" if _adds(entry, current):
            return f"{what} gets the columns that this version alone has"
        case "evolve":
            return f"{what} follows" if current else f"{what} begins with it"
        case "project" if current and current.version and entry.version and current.version != entry.version:
            return f"projected {'up' if entry.version < current.version else 'down'} to version {current.version}"
        case "project":
            return "projected to what the table has"
        case "write":
            return "written as it is"
        case _:
            return "refused, to quarantine"


def _writers(ledger: SchemaLedger, brought: dict[tuple[str, SchemaId], dict[str, Any]]) -> Iterator[WriterSummary]:
    told: set[tuple[str, SchemaId]] = set()
    for e in ledger.entries:
        if e.id is None or (e.side, e.id) in told:
            continue
        told.add((e.side, e.id))
        found = brought.get((e.side, e.id), {})
        rows = found.get("rows", 0) if e.side == "value" else None
        last = found.get("last")
        yield WriterSummary(
            e.side, e.id, e.subject, e.version, e.name, rows, found.get("refused", 0), e.first, last and tuple(last)[1:]
        )


def _brought(tables: PipelineTables) -> dict[tuple[str, SchemaId], dict[str, Any]]:
    """(side, schema id) → rows, refused, last: one pass over the ids of both tables."""
    from pyspark.sql import functions as F

    both: tuple[Side, Side] = ("key", "value")
    sides = [side for side in both if uses_registry(tables.config.decode.side(side))]
    refused, by = tables.refused(), framing.of(tables.config.registry)
    place = F.struct(TIMESTAMP, TOPIC, PARTITION, OFFSET).alias("place")
    parts: list[DataFrame] = []
    for side in sides:
        named = refused.where(by.begins(F.col(side)) & ~framing.in_record_header(side, "headers"))
        id_ = by.id_of(F.col(side)).alias("id")
        parts.append(named.select(F.lit(side).alias("side"), id_, F.lit(False).alias("row"), place))
    if "value" in sides:
        rows = tables.main.read().where(F.col(SCHEMA_ID).isNotNull())
        parts.append(rows.select(F.lit("value"), F.col(SCHEMA_ID), F.lit(True), place))
    if not parts:
        return {}
    counted = (
        reduce(lambda one, other: one.unionAll(other), parts)
        .groupBy("side", "id")
        .agg(F.count_if("row").alias("rows"), F.count_if(~F.col("row")).alias("refused"), F.max("place").alias("last"))
    )
    return {(row["side"], row["id"]): row.asDict() for row in counted.collect()}
