"""DuckDB over data sets of Arrow's. It reads nothing else, neither file nor address, and it writes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakeingest.delta.reader.log import Unreadable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    # Else a name that is no view would be looked for among the variables of this process.
    "python_enable_replacements": "false",
}

_PARAMETER = re.compile(r":(?=[a-z])")
"""How a query names a parameter, which DuckDB writes with $."""

_WORDS = """
    CREATE MACRO explode(list) AS unnest(list);
    CREATE MACRO sequence(first, last) AS generate_series(first, last);
    CREATE MACRO array_repeat(value, times) AS [value];
    CREATE MACRO struct(a, b, c, d) AS struct_pack(a := a, b := b, c := c, d := d);
    CREATE MACRO value_of(pairs, name) AS list_filter(pairs, lambda pair: pair.key = name)[-1].value;
"""
"""Functions of Spark's in the SQL that both have in common."""


@contextmanager
def connected(views: Mapping[str, Any], setup: str = "") -> Iterator[DuckDBPyConnection]:
    """A connection that has these views: name → a data set or a table of Arrow's. Its time zone is UTC.

    Raises:
        Unreadable: DuckDB is not installed; or fails within the block.
    """
    try:
        import duckdb
    except ImportError as missing:
        raise Unreadable(f"{missing.name} is not installed") from missing
    connection = duckdb.connect(":memory:", config=_CLOSED)
    try:
        for name, rows in views.items():
            connection.register(name, rows)
        connection.execute("SET TimeZone = 'UTC'")
        # In a notebook it draws one on stdout when a query takes more than two seconds.
        connection.execute("SET enable_progress_bar = false")
        connection.execute(setup)
        connection.execute("SET lock_configuration = true")
        yield connection
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException):
        # A statement of ours that is wrong is no reason to ask Spark.
        raise
    except duckdb.Error as failed:
        raise Unreadable(str(failed)) from failed
    finally:
        connection.close()


def query(text: str, views: Mapping[str, Any], **parameters: Any) -> list[dict[str, Any]]:
    """See `contract.Query`.

    Raises:
        Unreadable: see `connected`.
    """
    with connected(views, _WORDS) as connection:
        statement = _PARAMETER.sub("$", text.format(**{name: name for name in views}))
        rows: list[dict[str, Any]] = connection.sql(statement, params=parameters).to_arrow_table().to_pylist()
        return rows
