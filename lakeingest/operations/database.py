"""The rows of a real table in a database, held against those of a pipeline's table, key by key.

The database is asked one SELECT, in a transaction that sees one moment (REPEATABLE READ), and its rows are read piece
by piece into a local file of Parquet; nothing is written there. One join of that file and the table tells what differs:
DuckDB computes it in memory, and Spark where that does not suffice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lakeingest.delta.reader.contract import TableReader, View
from lakeingest.errors import SetupError, SourceUnreachable, UsageError
from lakeingest.operations import sql
from lakeingest.operations.readers import Owner, PipelineReader, answer
from lakeingest.operations.results.database import DatabaseComparison, DifferentKey
from lakeingest.record import RESERVED
from lakeingest.schema import ddl
from lakeingest.schema.debezium import CHANGE, CHANGED_AT, POSITION, UNAVAILABLE

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy import Connection, Engine, Table

_PIECE = 50_000
"""Rows that are read at once."""
_PAUSE_S = 2.0
_NAMED = 1000
"""Keys of a kind that are named."""
_KINDS = ("missing", "different", "extra")
_BESIDE = {*RESERVED, CHANGE, POSITION, CHANGED_AT, UNAVAILABLE}
_POSITIONS = {
    "postgresql": "SELECT pg_current_wal_lsn()",
    "mysql": "SELECT @@GLOBAL.gtid_executed",
    "mariadb": "SELECT @@GLOBAL.gtid_binlog_pos",
}
"""What a database calls the place where its log ends."""


def compare(owner: Owner, url: str, table: str | None, wait: timedelta) -> DatabaseComparison:
    """Compare each key of the database's table with the table's row.

    Keys that differ are looked at again until they agree or the time is over: what the database has just changed is on
    its way.

    Args:
        owner: whose table it is.
        url: of the database, as SQLAlchemy has it: postgresql+psycopg://user:password@host/database.
        table: its name there, as in public.orders; by default what stands behind the prefix of the topic's name.
        wait: how long keys that differ are looked at.

    Raises:
        UsageError: the table has no such key, or there is no table; or the pipeline has no rows of keys.
        SetupError: SQLAlchemy, or the database's driver, is not installed.
        SourceUnreachable: the database does not answer.
    """
    config = owner.config
    if not config.table.upserts:
        raise UsageError(
            f"{config.name!r} has table.mode {config.table.mode}, and a database has one row for each key",
            cure="compare a pipeline of mode upsert",
        )
    name, deadline = table or _table_of(config.source.topics), time.monotonic() + wait.total_seconds()
    with _connected(url) as engine:
        while True:
            comparison = answer(owner, lambda reader: _DatabaseReading(reader, engine, name).run())
            left_s = deadline - time.monotonic()
            if comparison.equal or left_s <= 0:
                return comparison
            time.sleep(min(_PAUSE_S, left_s))


def _table_of(topics: Sequence[str]) -> str:
    """The table whose events are in the topic PREFIX.SCHEMA.TABLE."""
    if len(topics) != 1 or topics[0].count(".") < 2:
        raise UsageError(
            f"the topics {', '.join(topics)} do not say which table their events are of",
            cure="name it: --table SCHEMA.TABLE",
        )
    return topics[0].split(".", 1)[1]


@contextmanager
def _connected(url: str) -> Iterator[Engine]:
    try:
        import sqlalchemy
        from sqlalchemy import exc
    except ImportError:
        raise SetupError(
            "SQLAlchemy is not installed", cure="pip install 'lakeingest[database]', and the database's driver"
        ) from None
    try:
        engine = sqlalchemy.create_engine(url)
    except (exc.ArgumentError, exc.NoSuchModuleError) as wrong:
        raise UsageError(
            f"the URL of the database is none that SQLAlchemy knows: {type(wrong).__name__}",
            cure="write it as in postgresql+psycopg://user:password@host:5432/shop or mysql+pymysql://…",
        ) from None
    except ImportError as missing:
        raise SetupError(f"the driver {missing.name} is not installed", cure=f"pip install {missing.name}") from None
    try:
        yield engine
    except exc.NoSuchTableError as missing:
        raise UsageError(f"the database has no table {missing}", cure="name it: --table SCHEMA.TABLE") from None
    except exc.DBAPIError as failed:
        # What the driver says; not the statement, which may have values.
        raise SourceUnreachable(
            f"the database fails: {str(failed.orig).strip().splitlines()[0]}",
            cure="see that it runs, and that this user may SELECT from the table",
        ) from None
    finally:
        engine.dispose()


@dataclass
class _DatabaseReading:
    """One reading of both tables."""

    reader: PipelineReader
    engine: Engine
    name: str
    _left_out: dict[str, str] = field(default_factory=dict)

    def run(self) -> DatabaseComparison:
        moment = {"isolation_level": "REPEATABLE READ"} if self.engine.dialect.name in _POSITIONS else {}
        with TemporaryDirectory(prefix="lakeingest-") as folder:
            with self.engine.connect().execution_options(**moment) as connection:
                position = self._position(connection)
                keys, database = self._written(connection, Path(folder) / "rows.parquet")
            counts, different = self._compared(database)
        return DatabaseComparison(
            pipeline=self.reader.config.name,
            database_table=self.name,
            position=position,
            keys=keys,
            counts=counts,
            different=different,
            columns=[name for name in self._columns if name not in self._keys],
            left_out=self._left_out,
        )

    @property
    def _main(self) -> TableReader:
        return self.reader.main

    @cached_property
    def _keys(self) -> list[str]:
        return list(self.reader.config.table.key_paths)

    @cached_property
    def _table(self) -> Table:
        from sqlalchemy import MetaData, Table

        schema, _, name = self.name.rpartition(".")
        return Table(name, MetaData(), schema=schema or None, autoload_with=self.engine)

    @cached_property
    def _columns(self) -> dict[str, pa.DataType]:
        """The columns that both sides have, keys first, with their types in the lake."""
        view = self._main.view
        schema = view.schema if self._main.files is not None else view.limit(0).toArrow().schema
        of_lake = {f.name: f.type for f in schema if f.name not in _BESIDE}
        of_database = {column.name: column for column in self._table.columns}
        masked = {path.partition(".")[0] for step in self.reader.config.steps for path in step.masks}
        for name in of_lake.keys() | of_database.keys():
            if name not in of_database:
                self._left_out[name] = "which the database has not"
            elif name not in of_lake:
                self._left_out[name] = "which the lake has not"
            elif name in masked:
                self._left_out[name] = "which is masked in the lake"
        names = [name for name in of_lake if name in of_database and name not in self._left_out]
        if absent := [name for name in self._keys if name not in names]:
            raise UsageError(
                f"{self.name} and the lake do not both have the key {', '.join(absent)} as it is",
                cure="compare by a table whose key is a column of the database",
            )
        return {name: of_lake[name] for name in (*self._keys, *(n for n in names if n not in self._keys))}

    def _position(self, connection: Connection) -> str | None:
        from sqlalchemy import text

        statement = _POSITIONS.get(self.engine.dialect.name)
        return None if statement is None else str(connection.execute(text(statement)).scalar())

    def _pieces(self, connection: Connection) -> Iterator[pa.Table]:
        """The database's rows, as the lake would hold them."""
        import pyarrow as pa
        from sqlalchemy import String, cast, select
        from sqlalchemy.types import JSON, Enum, Numeric

        columns = [self._table.columns[name] for name in self._columns]
        # Debezium leaves out the zeros at the end of a number without a scale of its own.
        strips = [isinstance(c.type, Numeric) and c.type.scale is None for c in columns]
        texts = (c if not isinstance(c.type, JSON | Enum) else cast(c, String).label(c.name) for c in columns)
        rows = connection.execution_options(stream_results=True, yield_per=_PIECE).execute(select(*texts))
        for piece in rows.partitions():
            arrays = []
            for at, (name, kind) in enumerate(self._columns.items()):
                values = [_plain(row[at], kind, strips=strips[at]) for row in piece]
                try:
                    arrays.append(pa.array(values, type=kind))
                except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as wrong:
                    raise UsageError(
                        f"{self.name}.{name} has values that {kind} cannot hold: {str(wrong)[:200]}",
                        cure="compare without it: leave the column out by transform, or alter its type",
                    ) from None
            yield pa.table(arrays, names=list(self._columns))

    def _written(self, connection: Connection, path: Path) -> tuple[int, View]:
        """How many rows the database has, and they as a view: written down once, since there may be many."""
        import pyarrow as pa
        import pyarrow.dataset as ds
        import pyarrow.parquet as pq

        with pq.ParquetWriter(path, pa.schema(list(self._columns.items())), compression="zstd") as writer:
            for rows in self._pieces(connection):
                writer.write_table(rows)
        database = ds.dataset(path)
        return database.count_rows(), database if self._main.files is not None else database.to_table()

    def _compared(self, database: View) -> tuple[dict[str, int], tuple[DifferentKey, ...]]:
        """How many keys differ, and the first of each kind."""
        value_columns = [name for name in self._columns if name not in self._keys]
        tests = [f"d.{name} IS DISTINCT FROM r.{name}" for name in map(self._quoted, value_columns)]
        quoted = [*map(self._quoted, self._keys)]
        keys = ", ".join(f"coalesce(d.{name}, r.{name}) AS key_{at}" for at, name in enumerate(quoted))
        # One column for all: rules of Spark take each alias of a part of WHERE with and without the others.
        marks = (f"CASE WHEN {test} THEN '{at}' END" for at, test in enumerate(tests))
        changed = f"concat_ws(',', {', '.join(marks)})" if tests else "''"
        on_database, on_lake = f"d.{quoted[0]} IS NOT NULL", "r._topic IS NOT NULL"
        text = (
            f"SELECT CASE WHEN NOT {on_lake} THEN 'missing' WHEN NOT {on_database} THEN 'extra' ELSE 'different' END "
            f"AS kind, {keys}, {changed} AS changed "
            "FROM {database} AS d FULL JOIN {rows} AS r "
            f"ON {' AND '.join(f'd.{name} = r.{name}' for name in quoted)} "
            f"WHERE NOT {on_lake} OR NOT {on_database} OR {' OR '.join(tests) or 'false'}"
        )
        order = ", ".join(f"key_{at}" for at in range(len(quoted)))
        text = (
            f"SELECT * FROM (SELECT *, count(*) OVER (PARTITION BY kind) AS of_kind, row_number() OVER (PARTITION BY "
            f"kind ORDER BY {order}) AS place FROM ({text}) AS each_key) AS numbered WHERE place <= {_NAMED}"
        )
        counts, different = dict.fromkeys(_KINDS, 0), list[DifferentKey]()
        rows = self._main.query(text, {"database": database, "rows": self._main.view})
        for row in sorted(rows, key=lambda row: (_KINDS.index(row["kind"]), row["place"])):
            counts[row["kind"]] = row["of_kind"]
            numbers = row["changed"].split(",") if row["kind"] == "different" else ()
            columns = tuple(value_columns[int(number)] for number in numbers)
            different.append(DifferentKey(self._key(row), row["kind"], columns))
        return counts, tuple(different)

    def _quoted(self, name: str) -> str:
        return ddl.quoted(name) if self._main.files is None else sql.quoted(name)

    def _key(self, row: Mapping[str, Any]) -> str:
        return ", ".join(f"{name} = {row[f'key_{at}']!r}" for at, name in enumerate(self._keys))


def _plain(value: Any, kind: pa.DataType, *, strips: bool) -> Any:
    """A value of the database's driver as the lake's column holds it.

    Args:
        strips: whether the text of a number has no zeros at its end.
    """
    import pyarrow as pa

    if value is None or isinstance(value, str | bool | int | float):
        return bool(value) if pa.types.is_boolean(kind) and value is not None else value
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text(value.normalize() if strips and isinstance(value, Decimal) else value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, bytes) and pa.types.is_boolean(kind):
        return value != bytes(len(value))
    return value


def _text(value: Any) -> str:
    match value:
        case Decimal():
            return format(value, "f")
        case clock():
            return value.strftime("%H:%M:%S.%f")
        case timedelta():
            return _of_duration(value)
        case datetime() | date():
            return value.isoformat()
    return str(value)


def _of_duration(value: timedelta) -> str:
    """As the lake has a TIME of MySQL, which may be below 0 and beyond a day."""
    size = abs(value)
    seconds, micros = divmod(size // timedelta(microseconds=1), 1_000_000)
    sign = "-" if value < timedelta(0) else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
