"""How a table came to its columns: the ledger of schemas, and what each writer's schema has brought so far.

The ledger rides in the table's commits and says what was decided, and when. How many records a schema has brought, and
where the last of them lies, is asked of the rows: each says in _schema_id what it was written with, and a refused one
still has the bytes that begin with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeingest.config import uses_registry
from lakeingest.decode import framing
from lakeingest.delta import quarantine
from lakeingest.operations.readers import PipelineReader
from lakeingest.operations.results.schema_history import LedgerStep, SchemaHistory, WriterSummary
from lakeingest.schema.formats.wire import RECORD_HEADER
from lakeingest.schema.ledger import Entry, SchemaId, SchemaLedger, Side
from lakeingest.schema.model import type_text

_SIDES: tuple[Side, ...] = ("key", "value")
_LAST = "count(*) AS count, max(struct(_timestamp, _topic, _partition, _offset)) AS last"
_ACCEPTED = f"SELECT _schema_id AS id, {_LAST} FROM {{rows}} WHERE _schema_id IS NOT NULL GROUP BY _schema_id"
_REFUSED = f"""
    SELECT head, {_LAST} FROM (
        SELECT CASE {{heads}} END AS head, _timestamp, _topic, _partition, _offset FROM (
            SELECT coalesce(hex(value_of(headers, :header)), hex({{side}})) AS reference,
                _timestamp, _topic, _partition, _offset FROM {{rows}}
            WHERE pipeline = :pipeline AND moved.replay IS DISTINCT FROM {quarantine.WITHDRAWN}
            AND {{side}} IS NOT NULL
        ) AS records
    ) AS heads WHERE head IS NOT NULL GROUP BY head
"""


def schema_history(reader: PipelineReader) -> SchemaHistory:
    """Ask both tables; reads two columns' worth of every row where the registry has the schemas.

    Raises:
        UsageError: there is no table yet.
        StorageUnreachable: a table cannot be read.
    """
    log, _ = reader.commit_logs(1)
    config, ledger = reader.config, log.schemas
    return SchemaHistory(
        config.name,
        config.compatibility,
        tuple(steps(ledger)),
        tuple(_writers(ledger, _of_rows(reader))),
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
    place = "the table" if entry.side == "value" else "the column _key"
    match entry.action:
        case "evolve" if _adds(entry, current):
            return f"{place} gets the columns that this version alone has"
        case "evolve":
            return f"{place} follows" if current else f"{place} begins with it"
        case "project" if current and current.version and entry.version and current.version != entry.version:
            return f"projected {'up' if entry.version < current.version else 'down'} to version {current.version}"
        case "project":
            return "projected to what the table has"
        case "write":
            return "written as it is"
        case _:
            return "refused, to quarantine"


def _writers(ledger: SchemaLedger, records: Mapping[tuple[Side, SchemaId], _SchemaRecords]) -> Iterator[WriterSummary]:
    entries = {(entry.side, entry.id): entry for entry in reversed(ledger.entries) if entry.id is not None}
    for entry in ledger.entries:
        if entry.id is None or entries[entry.side, entry.id] is not entry:
            continue
        of_id = records.get((entry.side, entry.id), _SchemaRecords())
        yield WriterSummary(
            entry.side,
            entry.id,
            entry.subject,
            entry.version,
            entry.name,
            of_id.rows if entry.side == "value" else None,
            of_id.refused,
            entry.first,
            of_id.last[1:] or None,
        )


@dataclass(frozen=True)
class _SchemaRecords:
    """What a schema has brought: rows, refused records, and time and coordinates of the last one."""

    rows: int = 0
    refused: int = 0
    last: tuple[Any, ...] = ()

    def __add__(self, other: _SchemaRecords) -> _SchemaRecords:
        return _SchemaRecords(self.rows + other.rows, self.refused + other.refused, max(self.last, other.last))


def _of_rows(reader: PipelineReader) -> dict[tuple[Side, SchemaId], _SchemaRecords]:
    """What each schema has brought: one pass over the ids of each table, and of each side of quarantine."""
    config, records = reader.config, dict[tuple[Side, SchemaId], _SchemaRecords]()
    by, sides = (
        framing.of_registry(config.registry),
        [side for side in _SIDES if uses_registry(config.decode.side(side))],
    )
    for side in sides:
        heads = (
            f"WHEN reference LIKE '{prefix.hex()}%' AND length(reference) >= {2 * size} "
            f"THEN left(reference, {2 * size})"
            for prefix, size in by.sizes.items()
        )
        text = _REFUSED.format(side=side, heads=" ".join(heads), rows="{rows}")
        header = RECORD_HEADER[side]
        for row in reader.quarantine.scan(text, pipeline=config.known_as, header=header):
            place = side, by.id(bytes.fromhex(row["head"]))
            more = _SchemaRecords(refused=row["count"], last=tuple(row["last"].values()))
            records[place] = records.get(place, _SchemaRecords()) + more
    for row in reader.main.scan(_ACCEPTED) if "value" in sides else ():
        place = "value", row["id"]
        records[place] = records.get(place, _SchemaRecords()) + _SchemaRecords(
            row["count"], 0, tuple(row["last"].values())
        )
    return records
