"""Reads Delta tables with one reader, in that reader's own environment.

    python read.py READER < asked

`asked` is JSON: the store's endpoint, access_key and secret_key, the tables' places by name (s3://bucket/path), and for
trino its port. Of each table one line comes out: its name, and the columns with their types and values, or the error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import canonical
import pyarrow as pa

Asked = dict[str, Any]


def _object_store(asked: Asked) -> dict[str, str]:
    return {
        "aws_endpoint_url": asked["endpoint"],
        "aws_access_key_id": asked["access_key"],
        "aws_secret_access_key": asked["secret_key"],
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
    }


def delta_rs(asked: Asked) -> Callable[[str], pa.Table]:
    from deltalake import DeltaTable

    return lambda place: DeltaTable(place, storage_options=_object_store(asked)).to_pyarrow_table()


def polars(asked: Asked) -> Callable[[str], pa.Table]:
    import polars as pl

    return lambda place: pl.scan_delta(place, storage_options=_object_store(asked)).collect().to_arrow()


def duckdb(asked: Asked) -> Callable[[str], pa.Table]:
    from importlib import resources

    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("httpfs", "delta"):
        folder = resources.files(f"duckdb_extension_{name}").joinpath("extensions", f"v{duckdb.__version__}")
        connection.execute(f"LOAD '{folder.joinpath(f'{name}.duckdb_extension')}'")
    connection.execute(
        f"""CREATE SECRET (TYPE s3, KEY_ID '{asked["access_key"]}', SECRET '{asked["secret_key"]}', REGION 'us-east-1',
        ENDPOINT '{urlsplit(asked["endpoint"]).netloc}', URL_STYLE 'path', USE_SSL false)"""
    )

    def read(place: str) -> pa.Table:
        source = f"FROM delta_scan('{place}')"
        types = dict(connection.execute(f"SELECT column_name, column_type FROM (DESCRIBE {source})").fetchall())
        # DuckDB has the type, but cannot give it to Arrow.
        texts = [
            f"CASE WHEN {name} IS NOT NULL THEN {name}::JSON::VARCHAR END AS {name}"
            for name, kind in types.items()
            if kind == "VARIANT"
        ]
        chosen = f"* REPLACE ({', '.join(texts)})" if texts else "*"
        return connection.execute(f"SELECT {chosen} {source}").to_arrow_table()

    return read


def chdb(asked: Asked) -> Callable[[str], pa.Table]:
    import chdb

    def read(place: str) -> pa.Table:
        url = place.replace("s3://", f"{asked['endpoint']}/")
        answer = chdb.query(
            f"SELECT * FROM deltaLake('{url}', '{asked['access_key']}', '{asked['secret_key']}') "
            "SETTINGS output_format_arrow_string_as_string = 0",
            "Arrow",
        )
        return pa.ipc.open_file(answer.bytes()).read_all()

    return read


def daft(asked: Asked) -> Callable[[str], pa.Table]:
    import daft
    from daft.io import IOConfig, S3Config

    store = S3Config(
        endpoint_url=asked["endpoint"],
        key_id=asked["access_key"],
        access_key=asked["secret_key"],
        region_name="us-east-1",
        use_ssl=False,
    )
    return lambda place: daft.read_deltalake(place, io_config=IOConfig(s3=store)).to_arrow()


def trino(asked: Asked) -> Callable[[str], pa.Table]:
    from trino.dbapi import connect
    from trino.exceptions import TrinoQueryError

    connection = connect("127.0.0.1", asked["port"], "matrix", catalog="delta", schema="m", timezone="UTC")
    cursor = connection.cursor()
    # The server answers seconds before it knows a node to run a query on, its own, and that this one has the catalog.
    deadline = time.monotonic() + 60

    def ask(statement: str) -> Any:
        while True:
            try:
                return cursor.execute(statement).fetchall()
            except TrinoQueryError as refused:
                if "No nodes available" not in str(refused) or time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    ask("CREATE SCHEMA m")

    def read(place: str) -> pa.Table:
        name = place.rpartition("/")[2]
        ask(f"CALL system.register_table('m', '{name}', '{place}')")
        rows = ask(f"SELECT * FROM {name}")
        # The types as a tree are nowhere else.
        columns = cursor._query.columns
        arrays = [
            pa.array([_parts(row[at]) for row in rows], _arrow(column["typeSignature"]))
            for at, column in enumerate(columns)
        ]
        return pa.table(arrays, [column["name"] for column in columns])

    return read


_PLAIN = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double": pa.float64(),
    "varchar": pa.string(),
    "varbinary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
}


def _arrow(signature: dict[str, Any]) -> pa.DataType:
    values = [argument["value"] for argument in signature["arguments"]]
    match signature["rawType"]:
        case "decimal":
            return pa.decimal128(*values)
        case "array":
            return pa.list_(_arrow(values[0]))
        case "map":
            return pa.map_(*map(_arrow, values))
        case "row":
            return pa.struct([(v["fieldName"]["name"], _arrow(v["typeSignature"])) for v in values])
    return _PLAIN[signature["rawType"]]


def _parts(value: Any) -> Any:
    """A row's fields by position, a map as its pairs."""
    if isinstance(value, dict):
        return [(key, _parts(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple)(map(_parts, value))
    return value


READERS = {"delta-rs": delta_rs, "polars": polars, "duckdb": duckdb, "chdb": chdb, "daft": daft, "trino": trino}


def main(reader: str, asked: Asked) -> None:
    read = READERS[reader](asked)
    for name, place in asked["tables"].items():
        try:
            table = read(place)
            found = {"types": {f.name: str(f.type) for f in table.schema}, "columns": canonical.rows(table)}
        # A panic of Rust's is no Exception.
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            found = {"error": getattr(error, "message", None) or str(error)}
        print(json.dumps({"table": name, **found}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.load(sys.stdin))
    # daft's threads abort the process while Python ends.
    os._exit(0)
