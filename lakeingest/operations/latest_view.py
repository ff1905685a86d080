"""The latest row of each key where deletes are rows: a query for Spark, Trino, Athena, Databricks and DuckDB."""

from __future__ import annotations

from collections.abc import Sequence

from lakeingest.config import PipelineConfig
from lakeingest.record import COORDINATES, DELETE, OPERATION, VALID_TO
from lakeingest.schema import ddl


def query(config: PipelineConfig, table: str, quote: str) -> str:
    """The query.

    Keys and order alone are sorted: their coordinates then find the rows, with all their columns.

    Args:
        table: as the query names it.
        quote: what stands around a name.
    """

    def quoted(path: str) -> str:
        steps = path_names(config.columns, path)
        return ".".join(f"{quote}{step.replace(quote, 2 * quote)}{quote}" for step in steps)

    stays = f"c.{OPERATION} <> '{DELETE}'"
    if config.table.upserts:
        return f"SELECT c.* FROM {table} AS c WHERE {stays}"
    if config.table.dated:
        return f"SELECT c.* FROM {table} AS c WHERE c.{VALID_TO} IS NULL"
    keys = ", ".join(map(quoted, config.table.key_paths))
    order = ", ".join(f"{quoted(path)} DESC" for path in (*config.table.order_by, *COORDINATES))
    same = " AND ".join(f"c.{name} = l.{name}" for name in COORDINATES)
    return (
        f"SELECT c.* FROM {table} AS c JOIN (\n"
        f"  SELECT {', '.join(COORDINATES)}, row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS place\n"
        f"  FROM {table}\n"
        f") AS l ON {same}\n"
        f"WHERE l.place = 1 AND {stays}"
    )


def path_names(columns: Sequence[ddl.Column], path: str) -> tuple[str, ...]:
    """The names of a dotted path, some of which may have dots themselves; of columns that are not known, none has."""
    column = next((c for c in columns if path == c.name or path.startswith(f"{c.name}.")), None)
    name = column.name if column else path.partition(".")[0]
    fields = column.type.fields if column and isinstance(column.type, ddl.Struct) else ()
    rest = path[len(name) + 1 :]
    return (name, *path_names(fields, rest)) if rest else (name,)
