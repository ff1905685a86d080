"""Random changes of a table in a real database, and what a table of the lake has to hold behind them."""

from __future__ import annotations

import json
import random
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from support.servers.databases import Database

Made = Callable[[random.Random], Any]
"""Makes a value as the driver takes it."""
Canonical = Callable[[Any], Any]
"""Makes of a value as the driver gives it what the lake's column holds."""

_LARGE = 12_000
"""Characters of a text that PostgreSQL stores apart."""
_EPOCH, _YEARS = datetime(1970, 1, 1), timedelta(days=365 * 60)


@dataclass(frozen=True)
class DatabaseColumn:
    """A column of the database.

    Attributes:
        type: its type in SQL.
        shown: SQL of what is asked of it, with {} for its name.
        casts: whether a text has to be cast to its type.
        is_large: whether PostgreSQL stores its values apart.
    """

    type: str
    make: Made
    canonical: Canonical = lambda value: value
    shown: str = "{}"
    casts: bool = False
    is_large: bool = False

    @property
    def placed(self) -> str:
        """The place of a value in a statement."""
        return f"%s::{self.type}" if self.casts else "%s"


def _text(dice: random.Random, length: int) -> str:
    return "".join(dice.choice("abcdefghij éß€𝄞'\"\\${}\n") for _ in range(length))


def _large(dice: random.Random) -> str:
    """It does not compress."""
    return dice.randbytes(_LARGE // 2).hex()


def _moment(dice: random.Random) -> datetime:
    return _EPOCH + timedelta(microseconds=dice.randrange(-(10**15), 2 * 10**15))


def _clock(value: time) -> str:
    return value.strftime("%H:%M:%S.%f")


def _duration(value: timedelta) -> str:
    """A TIME of MariaDB, which may be below 0 and beyond a day."""
    size = abs(value)
    seconds = size // timedelta(seconds=1)
    sign = "-" if value < timedelta(0) else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{size.microseconds:06}"


def _digits(value: Decimal) -> str:
    """Without zeros at the end: Debezium leaves them out where a column has no scale of its own."""
    return format(value.normalize(), "f")


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _whole(bits: int) -> Made:
    limit = 1 << (bits - 1)
    return lambda dice: dice.choice([-limit, limit - 1, 0, dice.randrange(-limit, limit)])


POSTGRES: Mapping[str, DatabaseColumn] = {
    "small": DatabaseColumn("smallint", _whole(16)),
    "big": DatabaseColumn("bigint", _whole(64)),
    "single": DatabaseColumn("real", lambda dice: _single(dice.uniform(-1e6, 1e6)), _single),
    "double": DatabaseColumn("double precision", lambda dice: dice.choice([0.1, -1e300, dice.uniform(-1, 1)])),
    "price": DatabaseColumn("numeric(10,2)", lambda dice: Decimal(dice.randrange(-(10**10) + 1, 10**10)).scaleb(-2)),
    "any_scale": DatabaseColumn(
        "numeric", lambda dice: Decimal(dice.randrange(10**20)).scaleb(-dice.randrange(9)), _digits
    ),
    "yes": DatabaseColumn("boolean", lambda dice: dice.random() < 0.5),
    "word": DatabaseColumn("varchar(40)", lambda dice: _text(dice, dice.randrange(40))),
    "raw": DatabaseColumn("bytea", lambda dice: dice.randbytes(dice.randrange(20)), bytes),
    "day": DatabaseColumn("date", lambda dice: date(1970, 1, 1) + timedelta(days=dice.randrange(-90_000, 90_000))),
    "clock": DatabaseColumn("time", lambda dice: time(*(dice.randrange(n) for n in (24, 60, 60, 10**6))), _clock),
    "at": DatabaseColumn("timestamp", _moment),
    "at_millis": DatabaseColumn("timestamp(3)", _moment),
    "instant": DatabaseColumn(
        "timestamptz", lambda dice: _moment(dice).replace(tzinfo=UTC), lambda value: value.astimezone(UTC)
    ),
    "guid": DatabaseColumn("uuid", lambda dice: uuid.UUID(int=dice.getrandbits(128)), str),
    "tree": DatabaseColumn(
        "jsonb", lambda dice: json.dumps({"a": dice.randrange(9), "b": [None, "é"]}), shown="{}::text", casts=True
    ),
    "flags": DatabaseColumn("bit(12)", lambda dice: f"{dice.randrange(4096):012b}", casts=True),
    "numbers": DatabaseColumn("integer[]", lambda dice: [dice.randrange(9), None] * dice.randrange(3)),
    "words": DatabaseColumn("text[]", lambda dice: ["a", "", _text(dice, 3)][: dice.randrange(4)]),
    "mood": DatabaseColumn("mood", lambda dice: dice.choice(["sad", "ok", "happy"]), casts=True),
    "doc": DatabaseColumn("text", _large, is_large=True),
    "other_doc": DatabaseColumn("text", _large, is_large=True),
}
"""Columns of PostgreSQL, each of another type, beside the key `id`."""

_UTC_YEARS = 2**31 - 86_400
"""Seconds since 1970 that a TIMESTAMP of MariaDB has."""

MARIADB: Mapping[str, DatabaseColumn] = {
    "tiny": DatabaseColumn("tinyint", _whole(8)),
    "medium": DatabaseColumn("mediumint", _whole(24)),
    "whole_unsigned": DatabaseColumn("int unsigned", lambda dice: dice.randrange(2**32)),
    "big": DatabaseColumn("bigint", _whole(64)),
    # The driver gets six digits of a float, which the log has whole.
    "single": DatabaseColumn("float", lambda dice: dice.randrange(-9999, 9999) / 4),
    "double_value": DatabaseColumn("double", lambda dice: dice.choice([0.1, -1e300, dice.uniform(-1, 1)])),
    "price": DatabaseColumn("decimal(10,2)", lambda dice: Decimal(dice.randrange(-(10**10) + 1, 10**10)).scaleb(-2)),
    "word": DatabaseColumn("varchar(40)", lambda dice: _text(dice, dice.randrange(40))),
    "raw": DatabaseColumn("varbinary(20)", lambda dice: dice.randbytes(dice.randrange(20)), bytes),
    "day": DatabaseColumn("date", lambda dice: date(1970, 1, 1) + timedelta(days=dice.randrange(-90_000, 90_000))),
    "clock": DatabaseColumn(
        "time(6)",
        lambda dice: timedelta(microseconds=dice.randrange(-3_000_000_000_000, 3_000_000_000_000)),
        _duration,
    ),
    "at": DatabaseColumn("datetime(6)", _moment),
    "at_millis": DatabaseColumn("datetime(3)", _moment),
    "instant": DatabaseColumn(
        "timestamp(6) NULL",
        lambda dice: _EPOCH + timedelta(seconds=dice.randrange(1, _UTC_YEARS), microseconds=dice.randrange(10**6)),
        lambda value: value.replace(tzinfo=UTC),
    ),
    "tree": DatabaseColumn("json", lambda dice: json.dumps({"a": dice.randrange(9), "b": [None, "é"]})),
    "flags": DatabaseColumn("bit(12)", lambda dice: dice.randrange(4096), shown="lpad(bin({} + 0), 12, '0')"),
    "mood": DatabaseColumn("enum('sad','ok','happy')", lambda dice: dice.choice(["sad", "ok", "happy"])),
    "tags": DatabaseColumn("set('a','b','c')", lambda dice: dice.choice(["", "a", "a,c", "a,b,c"])),
    "made_in": DatabaseColumn("year", lambda dice: dice.randrange(1901, 2156)),
    "doc": DatabaseColumn("mediumtext", _large),
}
"""Columns of MariaDB, each of another type, beside the key `id`."""


class Workload:
    """Changes one table at random, in transactions of which some are rolled back.

    Attributes:
        columns: those that the table has by now, beside the key.
    """

    def __init__(self, database: Database, table: str, columns: Mapping[str, DatabaseColumn], seed: int) -> None:
        self.columns, self.table = dict(columns), table
        self._database, self._dice = database, random.Random(seed)

    def create(self, *before: str) -> None:
        """Make the table; `before`: what is done first."""
        columns = ", ".join(f"{name} {column.type}" for name, column in self.columns.items())
        self._database.execute(*before, f"CREATE TABLE {self.table} (id integer PRIMARY KEY, {columns})")

    def add(self, name: str, column: DatabaseColumn) -> None:
        """A column more."""
        self._database.execute(f"ALTER TABLE {self.table} ADD COLUMN {name} {column.type}")
        self.columns[name] = column

    def run(self, transactions: int, *, empties: bool = False) -> None:
        """Do some transactions of one to five changes; `empties`: whether one of them may be a TRUNCATE."""
        connection = self._database.connect()
        try:
            for _ in range(transactions):
                with connection.cursor() as cursor:
                    for _ in range(self._dice.randint(1, 5)):
                        self._change(cursor, empties=empties)
                if self._dice.random() < 0.2:
                    connection.rollback()
                else:
                    connection.commit()
        finally:
            connection.close()

    def rows(self) -> dict[int, dict[str, Any]]:
        """What is there now, by keys, as the lake has to hold it."""
        shown = ", ".join(column.shown.format(name) for name, column in self.columns.items())
        return {
            id: {
                name: None if value is None else column.canonical(value)
                for (name, column), value in zip(self.columns.items(), values, strict=True)
            }
            for id, *values in self._database.rows(f"SELECT id, {shown} FROM {self.table}")
        }

    def _change(self, cursor: Any, *, empties: bool) -> None:
        dice, id = self._dice, self._dice.randrange(40)
        kind = dice.choices(("insert", "update", "key", "delete", "empty"), (30, 45, 8, 16, empties))[0]
        cursor.execute(f"SELECT count(*) FROM {self.table} WHERE id = %s", [id])
        (exists,) = cursor.fetchone()
        if kind == "empty":
            cursor.execute(f"TRUNCATE TABLE {self.table}")
        elif not exists:
            self._set(
                cursor, list(self.columns), f"INSERT INTO {self.table} ({{names}}, id) VALUES ({{values}}, %s)", id
            )
        elif kind == "delete":
            cursor.execute(f"DELETE FROM {self.table} WHERE id = %s", [id])
        elif kind == "key":
            # The event of the new key has no large value that stayed: it is with the old one.
            large = [name for name, column in self.columns.items() if column.is_large]
            free = f"SELECT max(id) + 1 FROM (SELECT id FROM {self.table}) AS ids"
            more = ", {assignments}" if large else ""
            self._set(cursor, large, f"UPDATE {self.table} SET id = ({free}){more} WHERE id = %s", id)
        else:
            names = dice.sample(list(self.columns), dice.randint(1, 3))
            self._set(cursor, names, f"UPDATE {self.table} SET {{assignments}} WHERE id = %s", id)

    def _set(self, cursor: Any, names: list[str], statement: str, id: int) -> None:
        places = {name: self.columns[name].placed for name in names}
        values = [None if self._dice.random() < 0.15 else self.columns[name].make(self._dice) for name in names]
        text = statement.format(
            names=", ".join(names),
            values=", ".join(places.values()),
            assignments=", ".join(f"{name} = {place}" for name, place in places.items()),
        )
        cursor.execute(text, [*values, id])
