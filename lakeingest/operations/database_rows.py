"""The rows of a database's table, as the lake would hold them: read by SELECT into files of Parquet, piece by piece.

A piece is what lies behind the last one in the order of the primary key, so that each SELECT is short, and whoever was
cut off goes on behind the last file. Each sees a moment of its own: a row that changes meanwhile may be seen before or
after, and never twice, if its key stays. Whoever compares leaves out what has changed (see `operations.database`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lakeingest.errors import SetupError, SourceUnreachable, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy import Column, ColumnElement, Engine, Row, Select, Table

_ORDERED = (int, str, Decimal, date, datetime, UUID)
"""Values of keys that a database takes as it gave them."""
_LOG_ENDS = {
    "postgresql": "SELECT pg_current_wal_insert_lsn()",
    "mysql": "SHOW MASTER STATUS",
    "mariadb": "SHOW MASTER STATUS",
}
_NEWER_MYSQL = "SHOW BINARY LOG STATUS"


@contextmanager
def connected(url: str) -> Iterator[Engine]:
    """A database by the URL that SQLAlchemy has for it.

    Raises:
        SetupError: SQLAlchemy, or the database's driver, is not installed.
        UsageError: it is no such URL; or, within the block, the database has no such table.
        SourceUnreachable: within the block, the database fails.
    """
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
class DatabaseRows:
    """A table of a database.

    Attributes:
        name: as in public.orders.
        of_lake: the columns of the lake's rows, with their types.
        keys: those of the key.
        masked: those whose values the lake has not.
        piece: how many rows are read at once.
        left_out: columns that are not read, each with the reason.
    """

    engine: Engine
    name: str
    of_lake: Mapping[str, pa.DataType]
    keys: Sequence[str]
    masked: Collection[str]
    piece: int = 50_000
    left_out: dict[str, str] = field(default_factory=dict)

    @cached_property
    def columns(self) -> dict[str, pa.DataType]:
        """The columns that both sides have, keys first, with their types in the lake.

        Raises:
            UsageError: one of the key is not among them.
        """
        of_database = {column.name for column in self._table.columns}
        for name in self.of_lake.keys() | of_database:
            if name not in of_database:
                self.left_out[name] = "which the database has not"
            elif name not in self.of_lake:
                self.left_out[name] = "which the lake has not"
            elif name in self.masked:
                self.left_out[name] = "which is masked in the lake"
        names = [name for name in self.of_lake if name in of_database and name not in self.left_out]
        if absent := [name for name in self.keys if name not in names]:
            raise UsageError(
                f"{self.name} and the lake do not both have the key {', '.join(absent)} as it is",
                cure="compare by a table whose key is a column of the database",
            )
        return {name: self.of_lake[name] for name in (*self.keys, *(n for n in names if n not in self.keys))}

    def log_end(self) -> str | None:
        """Where the database's log ends now, as `database_position.parse` reads it; None where it does not say."""
        from sqlalchemy.exc import DBAPIError

        dialect = self.engine.dialect
        with self.engine.connect() as connection:
            statement = _LOG_ENDS.get(dialect.name)
            if dialect.name == "mysql" and (dialect.server_version_info or ()) >= (8, 2):
                statement = _NEWER_MYSQL
            try:
                row = None if statement is None else connection.exec_driver_sql(statement).first()
            except DBAPIError:
                # A replica of PostgreSQL writes no log, and MySQL has a privilege for it.
                return None
        return None if row is None else ":".join(map(str, row[:2]))

    def read(self, folder: Path, says: Callable[[str], None]) -> list[Path]:
        """Write the rows into files, behind those that are there already: what they are.

        Args:
            folder: has nothing but such files of the same columns.
            says: told how many rows there are by now.

        Raises:
            UsageError: the lake's column cannot hold a value.
        """
        import pyarrow.parquet as pq

        files = sorted(folder.glob("*.parquet"))
        if not self._order:
            while files:
                files.pop().unlink()
        rows = sum(pq.read_metadata(file).num_rows for file in files)
        for piece in self._pieces(pq.read_table(files[-1]) if files else None):
            # What was cut off has another name.
            part, file = folder / "part", folder / f"{len(files):08}.parquet"
            pq.write_table(piece, part, compression="zstd")
            part.replace(file)
            files.append(file)
            rows += piece.num_rows
            says(f"{rows:,} rows of the database are read")
        return files

    @cached_property
    def _table(self) -> Table:
        from sqlalchemy import MetaData, Table

        schema, _, name = self.name.rpartition(".")
        return Table(name, MetaData(), schema=schema or None, autoload_with=self.engine)

    @cached_property
    def _order(self) -> list[Column[Any]]:
        """Its primary key, if a row of a file says behind which one to go on; else nothing."""
        key = list(self._table.primary_key.columns)
        return key if all(c.name in self.columns and _is_ordered(c, self.columns[c.name]) for c in key) else []

    @cached_property
    def _select(self) -> Select[Any]:
        from sqlalchemy import select

        return select(*(self._selected(self._table.columns[name]).label(name) for name in self.columns))

    def _selected(self, column: Column[Any]) -> ColumnElement[Any]:
        import pyarrow as pa
        from sqlalchemy import Float, Integer, String, cast, func, literal_column, type_coerce
        from sqlalchemy.dialects import mysql
        from sqlalchemy.types import JSON, Enum

        kind = self.columns[column.name]
        if isinstance(column.type, JSON | Enum | mysql.SET):
            return cast(column, String)
        if isinstance(column.type, mysql.TIME):
            return func.time_format(column, "%H:%i:%s.%f", type_=String)
        if isinstance(column.type, mysql.BIT) and not pa.types.is_boolean(kind):
            return func.lpad(func.bin(type_coerce(column, Integer) + 0), column.type.length, "0")
        if self.engine.dialect.name in ("mysql", "mariadb") and pa.types.is_floating(kind):
            # It writes six digits of a FLOAT, and SQLAlchemy makes decimals of a DOUBLE.
            return type_coerce(column + literal_column("0e0"), Float(asdecimal=False))
        return column

    def _pieces(self, last: pa.Table | None) -> Iterator[pa.Table]:
        """The rows behind those of a piece, or all; the last piece alone has fewer than `piece`, or none."""
        if not self._order:
            options = {"stream_results": True, "yield_per": self.piece}
            with self.engine.connect() as connection:
                self._set_up(connection)
                yield from map(self._piece, connection.execution_options(**options).execute(self._select).partitions())
            yield self._piece([])
            return
        while last is None or last.num_rows == self.piece:
            statement = self._select.order_by(*self._order).limit(self.piece)
            if last is not None:
                (row,) = last.slice(self.piece - 1).to_pylist()
                statement = statement.where(_behind(self._order, [_of_key(row[c.name], c) for c in self._order]))
            with self.engine.connect() as connection:
                self._set_up(connection)
                last = self._piece(connection.execute(statement).all())
            yield last

    def _set_up(self, connection: Any) -> None:
        # A TIMESTAMP comes in the time zone of the session, which nothing in its value says.
        if self.engine.dialect.name in ("mysql", "mariadb"):
            connection.exec_driver_sql("SET time_zone = '+00:00'")

    def _piece(self, rows: Sequence[Row[Any]]) -> pa.Table:
        """Rows as the lake would hold them."""
        import pyarrow as pa
        from sqlalchemy.types import Numeric

        types = [self._table.columns[name].type for name in self.columns]
        # Debezium leaves out the zeros at the end of a number without a scale of its own.
        strips = [isinstance(each, Numeric) and each.scale is None for each in types]
        arrays = []
        for at, (name, kind) in enumerate(self.columns.items()):
            values = [_plain(row[at], kind, strips=strips[at]) for row in rows]
            try:
                arrays.append(pa.array(values, type=kind))
            except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as wrong:
                raise UsageError(
                    f"{self.name}.{name} has values that {kind} cannot hold: {str(wrong)[:200]}",
                    cure="compare without it: leave the column out by transform, or alter its type",
                ) from None
        return pa.table(arrays, names=list(self.columns))


def _is_ordered(column: Column[Any], kind: pa.DataType) -> bool:
    """Whether a database's order of a column's values is that by which it compares them with one of the lake's."""
    import pyarrow as pa
    from sqlalchemy.types import Enum

    try:
        of_python = column.type.python_type
    except NotImplementedError:
        return False
    return of_python in _ORDERED and not isinstance(column.type, Enum) and not pa.types.is_floating(kind)


def _of_key(value: Any, column: Column[Any]) -> Any:
    """A value of the lake's as the database's driver takes it."""
    of_python = column.type.python_type
    return value if isinstance(value, of_python) else of_python(value)


def _behind(columns: Sequence[Column[Any]], values: Sequence[Any]) -> ColumnElement[bool]:
    """Whether a row lies behind these values, as an index finds it."""
    from sqlalchemy import and_, or_

    (first, *more), (value, *rest) = columns, values
    greater: ColumnElement[bool] = first > value
    return and_(first >= value, or_(greater, _behind(more, rest))) if more else greater


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
