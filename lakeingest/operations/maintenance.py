"""What keeps a pipeline's tables fast to read: compaction."""

from __future__ import annotations

import time
from collections.abc import Callable

from lakeingest.delta.maintenance import optimize
from lakeingest.delta.maintenance.optimize import Compacted
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.ingest.events import Maintained
from lakeingest.operations.results.compact import Compaction


def compact(
    tables: PipelineTables,
    target_bytes: int,
    where: str | None,
    *,
    dry_run: bool,
    tell: Callable[[Maintained], None],
) -> Compaction:
    """See `Pipeline.compact`."""
    every = [tables.main, tables.quarantine]
    if tables.results.schema() is not None:
        every.append(tables.results)
    if tables.completeness is not None and tables.completeness.table.schema() is not None:
        every.append(tables.completeness.table)
    if tables.deleted_keys is not None and tables.deleted_keys.table.schema() is not None:
        every.append(tables.deleted_keys.table)
    if dry_run:
        now = {table.identifier: optimize.table_files(table) for table in every}
        tables_now = (Compacted(path, files, files) for path, files in now.items())
        return Compaction(tables.config.name, tables_now, dry_run=True)
    codec, compaction = tables.config.table.compression, Compaction(tables.config.name, (), dry_run=False)
    for table in every:
        began = time.monotonic()
        compaction.append(optimize.compact(table, target_bytes, codec, where if table == tables.main else None))
        tell(Maintained(compaction[-1], time.monotonic() - began))
    return compaction
