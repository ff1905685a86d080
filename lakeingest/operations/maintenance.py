"""What keeps a pipeline's tables fast to read: compaction."""

from __future__ import annotations

from lakeingest.delta.maintenance import optimize
from lakeingest.delta.maintenance.optimize import Compacted
from lakeingest.delta.pipeline_tables import PipelineTables


def compact(tables: PipelineTables, target_bytes: int, where: str | None, *, dry_run: bool) -> list[Compacted]:
    """See `Pipeline.compact`."""
    every = [tables.main, tables.quarantine]
    if tables.results.schema() is not None:
        every.append(tables.results)
    if tables.completeness is not None and tables.completeness.table.schema() is not None:
        every.append(tables.completeness.table)
    if dry_run:
        now = {table.identifier: optimize.table_files(table) for table in every}
        return [Compacted(path, files, files) for path, files in now.items()]
    codec = tables.config.table.compression
    return [optimize.compact(table, target_bytes, codec, where if table == tables.main else None) for table in every]
