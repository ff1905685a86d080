"""Where the tables of a pipeline lie, and what their places must agree on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from lakeingest.config import location, parts
from lakeingest.config.base import Mistake
from lakeingest.config.contract import Contract
from lakeingest.config.source import Source
from lakeingest.config.storage import Storage

_GLUE_NAME = re.compile(r"[a-z0-9_]{1,255}\.[a-z0-9_]{1,255}")
"""database.table: Athena knows names of these characters, and Glue folds upper case."""


def aside(table: parts.Table, quarantine: parts.Quarantine) -> str:
    """Path or name of the quarantine."""
    return quarantine.identifier or table.identifier.rstrip("/") + "_quarantine"


def results(table: parts.Table, gate: parts.Gate | None) -> str:
    """Path or name of the table of the gate's results."""
    return (gate.results if gate else None) or table.identifier.rstrip("/") + "_expectations"


def deletes(table: parts.Table) -> str:
    """Path or name of the table of deleted keys; empty where no record takes a row away."""
    return table.identifier.rstrip("/") + "_deletes" if table.removes else ""


def removals(table: parts.Table) -> str:
    """Path or name of the list of records that were taken out."""
    return table.identifier.rstrip("/") + "_removed"


def completeness(table: parts.Table, contract: Contract | None) -> str:
    """Path or name of the completeness table."""
    followed = contract.completeness if contract else None
    return (followed.table if followed else None) or table.identifier.rstrip("/") + "_completeness"


def catalog(table: parts.Table, quarantine: parts.Quarantine | None, contract: Contract | None) -> Iterator[Mistake]:
    """Contradictions between table.catalog and the names of tables."""
    # The default is no contradiction, only what the file itself says.
    if "catalog" in table.model_fields_set and not table.name:
        yield Mistake(
            ("table", "catalog"),
            "needs table.name, by which a catalog knows the table; write it, or drop table.catalog",
        )
    if table.catalog != "glue":
        return
    for part, name in ("table", table.name), ("quarantine", quarantine and quarantine.name):
        if name and not _GLUE_NAME.fullmatch(name):
            yield Mistake(
                (part, "name"), f'"{name}" is no name in Glue; write database.table, in lower case, as in lake.flights'
            )
    if not (table.path and location.place(table.path).on_s3):
        yield Mistake(
            ("table", "catalog"),
            'glue knows tables on S3 alone; write table.path as in "s3a://lake/flights", or drop table.catalog',
        )
    if contract and contract.completeness and not location.is_path(completeness(table, contract)):
        yield Mistake(
            ("contract", "completeness", "table"),
            "a name is one of Spark's catalog, and table.catalog is glue; write a path, as in s3a://lake/complete",
        )
    if quarantine and quarantine.name and quarantine.path and not location.place(quarantine.path).on_s3:
        yield Mistake(
            ("quarantine", "name"),
            "glue knows tables on S3 alone; drop it, or write quarantine.path as in s3a://lake/q",
        )


def overlaps(
    table: parts.Table | None,
    quarantine: parts.Quarantine | None,
    gate: parts.Gate | None,
    contract: Contract | None,
    source: Source | None,
) -> Iterator[Mistake]:
    """Two tables in one place: Delta's vacuum deletes whatever it does not know within a table's folder."""
    tables: dict[tuple[str, ...], str] = {}
    if source and source.table:
        tables["source", "table"] = source.table
    if table:
        tables["table", "path" if table.path else "name"] = table.identifier
        if table.removes:
            tables["table", "on_tombstone"] = deletes(table)
        tables["table", "removals"] = removals(table)
    if gate and table and gate.results is None:
        tables["gate", "results"] = results(table, gate)
    if quarantine and (table or quarantine.identifier):
        place = aside(table, quarantine) if table else quarantine.identifier
        tables["quarantine", "path" if location.is_path(place) else "name"] = place
    if gate and gate.results is not None:
        tables["gate", "results"] = gate.results
    if contract and contract.completeness and (table or contract.completeness.table):
        place = completeness(table, contract) if table else str(contract.completeness.table)
        tables["contract", "completeness", "table"] = place
    for (one, place), (other, other_place) in combinations(tables.items(), 2):
        if location.one_place(place, other_place):
            yield Mistake(
                other,
                f'"{other_place}" and {".".join(one)} "{place}" are the same or lie within each other; '
                f"write a {'path beside it' if location.is_path(place) else 'name'}, "
                f'as in "{place.rstrip("/")}_{other[-2]}"',
            )


def buckets(
    storage: Storage, table: parts.Table, quarantine: parts.Quarantine, gate: parts.Gate | None
) -> Iterator[Mistake]:
    """Parts of `storage` that no table needs."""
    tables = [each for each in (table.identifier, quarantine.identifier, gate and gate.results) if each]
    if table.name and not any(map(location.is_path, tables)):
        yield Mistake(
            ("storage",),
            "says how the buckets of paths are reached, and the tables have names alone; drop it, and let the "
            "Spark session reach the buckets of its catalog (spark.hadoop.fs.s3a.…)",
        )
    if strange := sorted(storage.access_points.keys() - {location.place(each).bucket for each in tables}):
        yield Mistake(
            ("storage", "access_points"),
            f"names {', '.join(strange)}, which is the bucket of no table; its keys are the buckets of table.path, "
            "quarantine.path and gate.results",
        )
