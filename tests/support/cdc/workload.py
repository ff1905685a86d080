"""Rows before a snapshot, and changes after it: what a connector sends for each kind of change."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from support.cdc import columns
from support.servers.databases import Database

LAST = 999
"""The id of the last row that is inserted into the table `orders`: who read it has read all."""
_TOAST = "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyz", k=2100))
"""Long enough to be stored beside its row, where PostgreSQL may not compress it."""


_LARGE = {
    "words": ("text[]", f"ARRAY['{_TOAST}']"),
    "numbers": ("int[]", "ARRAY(SELECT generate_series(1, 600))"),
    "longs": ("bigint[]", "ARRAY(SELECT generate_series(1::bigint, 300))"),
    "reals": ("float8[]", "ARRAY(SELECT generate_series(1, 300) / 2.0)"),
    "doc": ("jsonb", f"""'{{"a": "{_TOAST}"}}'"""),
    "data": ("bytea", f"'{_TOAST}'"),
    "tags": ("hstore", f"hstore('a', '{_TOAST}')"),
    "plain": ("numeric", f"1{'234567890' * 500}"),
}
"""Columns of the table `large` → type, and a value that is stored beside its row."""


_POSTGRES_ALTERS = (
    ("ADD COLUMN tags text[]", "amount, tags", "1, '{a,b}'"),
    ("ALTER COLUMN amount TYPE numeric(14,4)", "amount", "1.2345"),
    ("ADD COLUMN rank int NOT NULL DEFAULT 5", "amount", "1"),
    ("DROP COLUMN customer", "amount", "1"),
    ("ALTER COLUMN id TYPE bigint", "amount", "1"),
)
"""A change of the table `orders` → columns and values of a row after it."""


def postgres_before(database: Database) -> None:
    """The tables, and the rows that a snapshot finds."""
    database.execute(
        "CREATE EXTENSION hstore",
        "CREATE EXTENSION citext",
        "CREATE EXTENSION ltree",
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'so, so')",
        "CREATE DOMAIN price AS numeric(8,2)",
        f"CREATE TABLE everything (id int PRIMARY KEY, {columns.definition(columns.POSTGRES)})",
        *columns.inserts(columns.POSTGRES, 1),
        *_orders("orders", "text"),
        *_orders("whole", "text"),
        "ALTER TABLE orders ALTER COLUMN note SET STORAGE EXTERNAL",
        "ALTER TABLE whole ALTER COLUMN note SET STORAGE EXTERNAL",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        "CREATE TABLE keyless (n int, word text)",
        "ALTER TABLE keyless REPLICA IDENTITY FULL",
        "INSERT INTO keyless VALUES (1, 'one')",
        "CREATE TABLE pairs (b int NOT NULL, a text NOT NULL, n int NOT NULL, "
        "doubled int GENERATED ALWAYS AS (n * 2) STORED, closes time, day date NOT NULL, PRIMARY KEY (a, b))",
        f"CREATE TABLE large (id int PRIMARY KEY, n int, {', '.join(' '.join((k, v[0])) for k, v in _LARGE.items())})",
        *(f"ALTER TABLE large ALTER COLUMN {name} SET STORAGE EXTERNAL" for name in _LARGE),
        f"INSERT INTO large VALUES (1, 0, {', '.join(value for _, value in _LARGE.values())})",
        "INSERT INTO pairs (b, a, n, closes, day) VALUES (1, 'x', 10, '24:00:00', '2024-02-29')",
    )


def postgres_special(database: Database, start: int = 1) -> None:
    """Rows of values that decimal.handling.mode=precise refuses, and of times without end, in a table of their own."""
    names = "f real, d double precision, n numeric, n2 numeric(10,2), day date, ts timestamp, tstz timestamptz"
    rows = [
        ["NaN", "NaN", "NaN", "NaN", "infinity", "infinity", "infinity"],
        ["Infinity", "Infinity", "Infinity", "1", "-infinity", "-infinity", "-infinity"],
        ["-Infinity", "-Infinity", "-Infinity", "1", "4713-01-01 BC", "4713-01-01 BC", "4713-01-02 BC"],
    ]
    values = (", ".join(f"'{value}'" for value in row) for row in rows)
    database.execute(
        f"CREATE TABLE IF NOT EXISTS special (id int PRIMARY KEY, {names})",
        *(f"INSERT INTO special VALUES ({at}, {row})" for at, row in enumerate(values, start)),
    )


def postgres_after(database: Database, settle: Callable[[int], None] = lambda _: None) -> None:
    """Changes of every kind; the last one is the row `LAST`.

    Args:
        settle: waits until the row of this id in `orders` was read. A connector asks the database what columns are, at
            the time when it reads a change: of a column that was dropped meanwhile it knows less.
    """
    database.execute(
        *columns.inserts(columns.POSTGRES, 11),
        "UPDATE everything SET c_int = 43 WHERE id = 11",
        *_changes("orders"),
        *_changes("whole"),
        "INSERT INTO keyless VALUES (2, 'two')",
        "UPDATE keyless SET word = 'zwei' WHERE n = 2",
        "DELETE FROM keyless WHERE n = 2",
        "INSERT INTO pairs (b, a, n, closes, day) VALUES (2, 'x', 20, '24:00:00', '2024-02-29')",
        "UPDATE pairs SET n = 21 WHERE b = 2",
        "DELETE FROM pairs WHERE b = 2",
        "UPDATE large SET n = 1",
        "UPDATE large SET n = 2, words = NULL",
    )
    _interleaved(database)
    database.transact(
        "INSERT INTO orders (id, amount) VALUES (60, 1)",
        "SELECT pg_logical_emit_message(true, 'audit', '{\"user\": \"somebody\"}')",
        "SAVEPOINT later",
        "INSERT INTO orders (id, amount) VALUES (61, 1)",
        "ROLLBACK TO SAVEPOINT later",
        "INSERT INTO whole (id, amount) VALUES (62, 1)",
    )
    database.execute(
        "SELECT pg_logical_emit_message(false, 'audit', 'outside of a transaction')",
    )
    settle(60)
    for row, (alter, names, values) in enumerate(_POSTGRES_ALTERS, 70):
        database.execute(f"ALTER TABLE orders {alter}", f"INSERT INTO orders (id, {names}) VALUES ({row}, {values})")
        settle(row)
    database.execute(
        "TRUNCATE orders, whole",
        f"INSERT INTO orders (id, amount) VALUES ({LAST}, 1)",
    )


def mariadb_before(database: Database) -> None:
    """The tables, and the rows that a snapshot finds."""
    database.execute(
        f"CREATE TABLE everything (id int PRIMARY KEY, {columns.definition(columns.MARIADB)})",
        *columns.inserts(columns.MARIADB, 1),
        *_orders("orders", "text"),
        "CREATE TABLE keyless (n int, word text)",
        "INSERT INTO keyless VALUES (1, 'one')",
        "SET STATEMENT sql_mode = '' FOR CREATE TABLE zeros (id int PRIMARY KEY, day date, at datetime, "
        "day_must date NOT NULL, at_must datetime NOT NULL, "
        "stamp_must timestamp NOT NULL DEFAULT '0000-00-00 00:00:00')",
        f"SET STATEMENT sql_mode = '' FOR {_ZEROS.format(1)}",
    )


_ZEROS = "INSERT INTO zeros VALUES ({}, '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00')"


def mariadb_after(database: Database) -> None:
    """Changes of every kind; the last one is the row `LAST`."""
    database.execute(
        *columns.inserts(columns.MARIADB, 11),
        "UPDATE everything SET c_int = 43 WHERE id = 11",
        f"SET STATEMENT sql_mode = '' FOR {_ZEROS.format(2)}",
        *_changes("orders"),
        "INSERT INTO keyless VALUES (2, 'two')",
        "UPDATE keyless SET word = 'zwei' WHERE n = 2",
        "DELETE FROM keyless WHERE n = 2",
        "INSERT INTO orders (id, amount) VALUES (30, 1), (31, 2), (32, 3)",
        "REPLACE INTO orders (id, amount) VALUES (30, 5)",
        "INSERT INTO orders (id, amount) VALUES (31, 6) ON DUPLICATE KEY UPDATE amount = 7",
    )
    _interleaved(database)
    database.execute(
        "ALTER TABLE orders ADD COLUMN tag varchar(20)",
        "INSERT INTO orders (id, amount, tag) VALUES (70, 1, 'a')",
        "ALTER TABLE orders MODIFY COLUMN amount decimal(14,4)",
        "INSERT INTO orders (id, amount) VALUES (71, 1.2345)",
        "ALTER TABLE orders ADD COLUMN `rank` int NOT NULL DEFAULT 5",
        "INSERT INTO orders (id, amount) VALUES (72, 1)",
        "ALTER TABLE orders DROP COLUMN customer",
        "INSERT INTO orders (id, amount) VALUES (73, 1)",
        "ALTER TABLE orders MODIFY COLUMN id bigint",
        "INSERT INTO orders (id, amount) VALUES (74, 1)",
        "TRUNCATE orders",
        f"INSERT INTO orders (id, amount) VALUES ({LAST}, 1)",
    )


def _orders(table: str, note: str) -> Iterable[str]:
    yield (
        f"CREATE TABLE {table} (id int PRIMARY KEY, customer varchar(20) NOT NULL DEFAULT 'nobody', "
        f"amount decimal(10,2), note {note})"
    )
    yield f"INSERT INTO {table} VALUES (1, 'ann', 1.50, 'first'), (2, 'bob', NULL, NULL)"


def _changes(table: str) -> Iterable[str]:
    """An insert, updates, one of them of a long text and one beside it, a change of the key, and a delete."""
    yield f"INSERT INTO {table} VALUES (10, 'eve', 10.00, 'short')"
    yield f"UPDATE {table} SET amount = 11.00 WHERE id = 10"
    yield f"UPDATE {table} SET note = '{_TOAST}' WHERE id = 10"
    yield f"UPDATE {table} SET amount = 12.00 WHERE id = 10"
    yield f"UPDATE {table} SET id = 20 WHERE id = 10"
    yield f"UPDATE {table} SET note = NULL WHERE id = 20"
    yield f"DELETE FROM {table} WHERE id = 20"


def _interleaved(database: Database) -> None:
    """Two transactions of which the one that began later commits first, and one that is rolled back."""
    first, second, third = (database.connect() for _ in range(3))
    with first.cursor() as early, second.cursor() as late, third.cursor() as void:
        early.execute("INSERT INTO orders (id, amount) VALUES (50, 1)")
        late.execute("INSERT INTO orders (id, amount) VALUES (51, 1)")
        void.execute("INSERT INTO orders (id, amount) VALUES (52, 1)")
        early.execute("UPDATE orders SET amount = 2 WHERE id = 50")
        late.execute("UPDATE orders SET amount = 2 WHERE id = 51")
        second.commit()
        early.execute("UPDATE orders SET amount = 3 WHERE id = 50")
        third.rollback()
        first.commit()
    for connection in (first, second, third):
        connection.close()
