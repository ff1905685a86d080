"""Declares deletes of others: the records that these took away are listed, so that an audit counts them as deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lakeingest.delta import commit_log, quarantine
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.removals import Place, taken_places
from lakeingest.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeingest.delta.table import Table


def accept(tables: PipelineTables, why: str) -> dict[str, int]:
    """List what the deletes of others took away that are in the logs, and were not accepted before: what each took.

    The rows are told by two versions of the table, the one before the delete and the delete itself.

    Returns:
        `table: version 7 is a DELETE …` → the pipeline's records.

    Raises:
        UsageError: there is no such delete; `why` is empty; or a VACUUM took the files of a version that is needed.
        StorageUnreachable: a table cannot be read.
    """
    if not why.strip():
        raise UsageError("--accept-deletes needs a reason", cure="write one, as in --accept-deletes 'ticket 4711'")
    accepted = dict(_accepted(tables, why))
    if not accepted:
        raise UsageError(
            "the tables' logs have no delete of anybody else that was not accepted before",
            cure="run `lakeingest audit FILE` without it; what that calls missing, no commit of the log took away",
        )
    return accepted


def _accepted(tables: PipelineTables, why: str) -> Iterator[tuple[str, int]]:
    name = tables.config.known_as
    each: tuple[tuple[Place, Table, Callable[[DataFrame], DataFrame]], ...] = (
        ("table", tables.main, tables.of_topics),
        ("quarantine", tables.quarantine, lambda rows: quarantine.unmoved(quarantine.of(rows, name))),
    )
    for place, table, own_rows in each:
        declared = tables.removals.declared(place)
        for deletion in reversed(commit_log.read(table, name, back=None).deletes):
            if deletion.version not in declared:
                places = taken_places(table, deletion.version, own_rows)
                count = tables.removals.add(places, "deleted", place, deletion.version, why)
                if count:
                    yield f"{table}: {deletion}", count
