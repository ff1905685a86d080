"""The rows that came to the table since the last export, as objects of a format that needs no Delta to be read.

How far a place has come stands in the place itself (`log`), which makes each export happen once:

1. The place tells its newest export; the table's newest version is taken, and stays the one that is read.
2. The rows that came since are written into a folder of this run's own. Nobody reads it yet.
3. The objects are listed, and their rows counted, from what is written.
4. One commit makes them count. Of two exports at once one is refused here.
5. Folders that no export names, and that none can name any more, are deleted: a run was ended before its commit.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakeingest.config import Storage
from lakeingest.delta import additions, latest
from lakeingest.delta.additions import Additions
from lakeingest.delta.history import TableHistory
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Run, somebody
from lakeingest.errors import LakeingestError, StorageError, UsageError, number_of
from lakeingest.operations.export.objects import ObjectWriter
from lakeingest.operations.export.place import ExportPlace
from lakeingest.operations.export.request import ExportRequest
from lakeingest.operations.results.export import Exported
from lakeingest.record import DELETE, OPERATION, UPSERT
from lakeingest.spark import s3a

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def export(tables: PipelineTables, storage: Storage, request: ExportRequest, *, dry_run: bool = False) -> Exported:
    """See `Pipeline.export`."""
    s3a.check_listens(storage, [request.place])
    s3a.let_in(tables.spark, storage, [request.place])
    tables.main.existing()
    # 1.
    history, place = TableHistory(tables.main), ExportPlace(tables, request)
    until = history.newest()
    writer = ObjectWriter(tables, request, _columns(tables, until))
    last = place.newest(history)
    since = int(last["to_version"]) if last else None
    new = _additions(place, since, until)
    result = Exported(
        pipeline=tables.config.name,
        place=request.place,
        format=request.format,
        from_version=since,
        to_version=until,
        rows=0,
        files=new.files,
        bytes=new.bytes,
        dry_run=dry_run,
    )
    if since == until:
        return result
    rows = _rows(tables, since, until, new)
    request.tell("counting rows")
    with writer.compared(since):
        result = replace(result, rows=writer.count(rows))
    if dry_run:
        return result
    result = _committed(place, writer, rows, result, int(last["sequence"]) + 1 if last else 1)
    # 5.
    return replace(result, removed=place.clean(storage))


def _committed(place: ExportPlace, writer: ObjectWriter, rows: DataFrame, result: Exported, sequence: int) -> Exported:
    """Write the rows, and make them count.

    Raises:
        Fenced: another export has this number.
        FilesLost: what is written has not as many rows.
    """
    run = Run()
    folder, tell = f"export={sequence:010}-{run.id[:8]}", place.request.tell
    try:
        if result.rows:
            # 2.
            tell(f"writing {number_of(result.rows, 'row')}")
            with writer.compared(result.from_version):
                writer.write(rows, folder)
            # 3.
            tell("counting what is written")
            result = replace(result, sequence=sequence, objects=writer.written(folder, result.rows))
        # 4. An export of no rows is noted too: else the versions that are compared may be gone one day.
        place.log.commit(_row(place, result, sequence, run, folder), run)
    except LakeingestError:
        # The export that has this number by now may have deleted what was written.
        with suppress(StorageError):
            place.log.check_free(sequence, run.id[:8])
        raise
    return result


def _additions(place: ExportPlace, since: int | None, until: int) -> Additions:
    """The files that came since the place's newest export, as far as the table's log tells."""
    if since is None:
        return Additions(int(place.detail["numFiles"]), int(place.detail["sizeInBytes"]), None)
    return Additions(0, 0, ()) if since == until else additions.added(place.table, since, until)


def _columns(tables: PipelineTables, until: int) -> StructType:
    """Those of an object: the table's; and _op, where rows may be gone from it.

    Raises:
        UsageError: the table has a column of that name.
    """
    columns = tables.main.existing(until).schema
    if not tables.config.table.removes:
        return columns
    if any(name.lower() == OPERATION for name in columns.names):
        raise UsageError(
            f"{tables.main.identifier} has a column {OPERATION}, and so has what is exported of it: it says which rows "
            "are gone",
            cure=f"give the table's another name (schema: {{names: {{{OPERATION}: operation}}}}), and rebuild it",
        )
    return columns.add(OPERATION, "string")


def _rows(tables: PipelineTables, since: int | None, until: int, new: Additions) -> DataFrame:
    """The rows that came; where rows may be gone, also those whose key has none any more, as they were, and _op says
    which is which.
    """
    rows, table = additions.rows(tables.main, since, until, new.offsets), tables.config.table
    if not table.removes:
        return rows
    rows = rows.withColumn(OPERATION, F.lit(UPSERT))
    if since is None:
        return rows
    before, after = tables.main.existing(since), tables.main.existing(until)
    by = latest.of(table, before.schema)
    deleted = before.join(after.select(*by.renamed_keys), by.same_keys, "left_anti").withColumn(
        OPERATION, F.lit(DELETE)
    )
    return rows.unionByName(deleted, allowMissingColumns=True)


def _row(place: ExportPlace, result: Exported, sequence: int, run: Run, folder: str) -> dict[str, Any]:
    """What the place's log says of an export; see `ExportLog.table`."""
    return {
        "sequence": sequence,
        "run": run.id[:8],
        "pipeline": result.pipeline,
        "table": place.table.identifier,
        "table_id": place.detail["id"],
        "from_version": result.from_version,
        "to_version": result.to_version,
        "format": result.format,
        "exported_at": datetime.now(UTC),
        "writer": somebody(),
        "folder": folder,
        "rows": result.rows,
        "bytes": sum(each.bytes for each in result.objects),
        "objects": [asdict(each) for each in result.objects],
    }
