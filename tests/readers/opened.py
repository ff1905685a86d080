"""Runs the code that `lakeingest sql FILE` prints for a tool, in the environment of the tools.

    python opened.py TOOL [PORT] < code

PORT is Trino's. Out come the rows as JSON: [_offset, n, text].
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from typing import Any

Rows = list[list[Any]]
COLUMNS = ["_offset", "n", "text"]


def of_python(code: str) -> Any:
    """The value of the last line."""
    *before, last = code.splitlines()
    names: dict[str, Any] = {}
    exec("\n".join([*before, f"found = {last}"]), names)
    return names["found"]


def duckdb(code: str) -> Rows:
    """Its extensions come as packages here: INSTALL would fetch them from DuckDB's own server."""
    from importlib import resources

    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    loads = re.findall(r"INSTALL (\w+); LOAD \1;", code)
    # It loads this one by itself.
    for name in ("httpfs", *loads):
        folder = resources.files(f"duckdb_extension_{name}").joinpath("extensions", f"v{duckdb.__version__}")
        connection.execute(f"LOAD '{folder.joinpath(f'{name}.duckdb_extension')}'")
    answer = connection.execute(re.sub(r"INSTALL (\w+); LOAD \1;", "", code))
    return _named(answer)


def _named(cursor: Any) -> Rows:
    names = [each[0] for each in cursor.description]
    return [[row[names.index(name)] for name in COLUMNS] for row in cursor.fetchall()]


def trino(code: str) -> Rows:
    """Each statement in turn; comments are settings of the server."""
    from trino.dbapi import connect
    from trino.exceptions import TrinoQueryError

    cursor = connect("127.0.0.1", int(sys.argv[2]), "somebody").cursor()
    found: Rows = []
    for statement in filter(None, re.split(r";\n?", re.sub(r"--.*\n", "", code))):
        # The server answers seconds before it knows a node to run a query on, its own.
        for _ in range(100):
            try:
                cursor.execute(statement)
                found = _named(cursor) if statement.startswith("SELECT") else cursor.fetchall()
                break
            except TrinoQueryError as refused:
                if "No nodes available" not in str(refused):
                    raise
                time.sleep(0.5)
    return found


def polars(code: str) -> Rows:
    return [list(row) for row in of_python(code).select(COLUMNS).rows()]


def delta_rs(code: str) -> Rows:
    return [[row[name] for name in COLUMNS] for row in of_python(code).to_pylist()]


def pandas(code: str) -> Rows:
    rows: Rows = json.loads(of_python(code)[COLUMNS].to_json(orient="values"))
    return rows


TOOLS: dict[str, Callable[[str], Rows]] = {
    "DuckDB": duckdb,
    "Trino": trino,
    "polars": polars,
    "delta-rs": delta_rs,
    "pandas": pandas,
}

if __name__ == "__main__":
    print(json.dumps(sorted(TOOLS[sys.argv[1]](sys.stdin.read()))))
