"""A month of one-minute commits: files of the table, and how long queries take, before and after a maintenance.

    python benchmarks/maintenance.py [--days 30] [--commits 1440] [--rows 100] [--json FILE]

The table is partitioned by days. Each commit has a Parquet file of its own; files, log and checkpoint are written by
hand: Spark would need a day for them. The same queries are made by Spark, by DuckDB over the files of the log,
and by DuckDB's own Delta extension, where a Python has it; three times each, and the fastest counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from lakeingest.config import Storage, file
from lakeingest.config.maintenance import Maintenance
from lakeingest.delta.maintenance.inventory import Inventory
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.ingest import maintenance
from lakeingest.ingest.maintenance import MaintenanceRequest
from lakeingest.spark import session

STORAGE = Storage.model_validate({})
_BEGIN = date(2026, 10, 1)
_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("sensor", "integer"), ("n", "long"), ("celsius", "double"), ("day", "date"))
    ],
}
QUERIES = {
    "count, all days": "SELECT count(*) FROM {t} WHERE celsius >= 0",
    "sum by sensor, all days": "SELECT sensor, sum(celsius) FROM {t} GROUP BY sensor",
    "one day": "SELECT sensor, avg(celsius) FROM {t} WHERE day = DATE '2026-10-15' GROUP BY sensor",
}
_BY_EXTENSION = """
import sys, time, json, duckdb
from importlib import resources
folder = resources.files("duckdb_extension_delta").joinpath("extensions", f"v{duckdb.__version__}")
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
connection.execute("SET enable_progress_bar = false")
connection.execute(f"LOAD '{folder.joinpath('delta.duckdb_extension')}'")
took = {}
for name, query in json.loads(sys.argv[2]).items():
    times = []
    for _ in range(3):
        began = time.monotonic()
        connection.execute(query.format(t=f"delta_scan('{sys.argv[1]}')")).fetchall()
        times.append(time.monotonic() - began)
    took[name] = min(times)
print(json.dumps(took))
"""


def made(path: Path, arguments: argparse.Namespace) -> None:
    """The table: a file and a commit a minute, and a checkpoint behind them."""
    log = path / "_delta_log"
    log.mkdir(parents=True)
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    metadata = {
        "id": "month",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(_SCHEMA),
        "partitionColumns": ["day"],
        "configuration": {"delta.checkpointInterval": "1000000"},
        "createdTime": 0,
    }
    adds = []
    for version in range(arguments.days * arguments.commits):
        day = (_BEGIN + timedelta(days=version // arguments.commits)).isoformat()
        adds.append(_add(path, version, day, arguments.rows))
        info = {"timestamp": adds[-1]["modificationTime"], "operation": "WRITE", "operationParameters": {}}
        actions: list[dict[str, Any]] = [{"commitInfo": info}, {"add": adds[-1]}]
        if version == 0:
            actions[1:1] = [{"protocol": protocol}, {"metaData": metadata}]
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")
    _checkpoint(log, protocol, metadata, adds)


def _add(path: Path, version: int, day: str, rows: int) -> dict[str, Any]:
    """A file of some readings; what the log says of it."""
    name = f"day={day}/part-{version:08}.parquet"
    (path / name).parent.mkdir(exist_ok=True)
    numbers = range(version * rows, (version + 1) * rows)
    celsius = [n * 7919 % 400 / 10 for n in numbers]
    columns = {
        "sensor": pa.array([n * 31 % 500 for n in numbers], pa.int32()),
        "n": pa.array(numbers, pa.int64()),
        "celsius": pa.array(celsius, pa.float64()),
    }
    pq.write_table(pa.table(columns), path / name, compression="zstd")
    extent = {"minValues": {"n": numbers[0]}, "maxValues": {"n": numbers[-1]}, "nullCount": {"n": 0}}
    written = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC).timestamp()
    return {
        "path": name,
        "partitionValues": {"day": day},
        "size": (path / name).stat().st_size,
        "modificationTime": int(written * 1000),
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows, **extent}),
    }


def _checkpoint(log: Path, protocol: dict[str, Any], metadata: dict[str, Any], adds: list[dict[str, Any]]) -> None:
    texts = pa.map_(pa.string(), pa.string())
    schema = pa.schema(
        {
            "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
            "metaData": pa.struct(
                {
                    "id": pa.string(),
                    "format": pa.struct({"provider": pa.string(), "options": texts}),
                    "schemaString": pa.string(),
                    "partitionColumns": pa.list_(pa.string()),
                    "configuration": texts,
                    "createdTime": pa.int64(),
                }
            ),
            "add": pa.struct(
                {
                    "path": pa.string(),
                    "partitionValues": texts,
                    "size": pa.int64(),
                    "modificationTime": pa.int64(),
                    "dataChange": pa.bool_(),
                    "stats": pa.string(),
                }
            ),
        }
    )
    rows = [{"protocol": protocol}, {"metaData": metadata}, *({"add": each} for each in adds)]
    version = len(adds) - 1
    pq.write_table(pa.Table.from_pylist(rows, schema), log / f"{version:020}.checkpoint.parquet")
    (log / "_last_checkpoint").write_text(json.dumps({"version": version, "size": len(rows)}))


def fastest(ask: Callable[[], object]) -> float:
    """Seconds of the fastest of three."""
    times = []
    for _ in range(3):
        began = time.monotonic()
        ask()
        times.append(time.monotonic() - began)
    return min(times)


def _by_duckdb(listed: duckdb.DuckDBPyRelation, query: str) -> object:
    result = listed.query("listed", query.format(t="listed"))
    assert result is not None
    return result.fetchall()


def asked(spark: SparkSession, tables: PipelineTables, python: str | None) -> dict[str, dict[str, float]]:
    """Who → query → seconds."""
    path = tables.main.identifier
    files = [f"{path}/{each.path}" for each in Inventory.of(tables.main, STORAGE).files]
    listed = duckdb.read_parquet(files, hive_partitioning=True)
    took = {
        "spark": {
            name: fastest(lambda q=query: spark.sql(q.format(t=tables.main.sql)).collect())  # type: ignore[misc]
            for name, query in QUERIES.items()
        },
        "duckdb": {
            name: fastest(lambda q=query: _by_duckdb(listed, q))  # type: ignore[misc]
            for name, query in QUERIES.items()
        },
    }
    if python is not None:
        program = [python, "-c", _BY_EXTENSION, path, json.dumps(QUERIES)]
        took["duckdb delta"] = json.loads(
            subprocess.run(program, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
        )
    return took


def main() -> None:
    """Make the table, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--commits", type=int, default=1440, help="a day")
    parser.add_argument("--rows", type=int, default=100, help="a commit")
    parser.add_argument("--duckdb-python", help="a Python whose environment has duckdb-extension-delta")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakeingest-month-") as folder:
        path = Path(folder) / "readings"
        made(path, arguments)
        spark = session.attach(STORAGE, "month")
        values = {
            "name": "readings",
            "source": {"topics": ["t"], "bootstrap_servers": "b:1"},
            "schema": {"columns": "sensor INT"},
            "partition": [{"by": "time", "field": "at"}],
            "table": {"path": str(path)},
        }
        values["schema"] = {"columns": "sensor INT, at TIMESTAMP"}
        tables = PipelineTables(spark, file.from_mapping(values))
        before = asked(spark, tables, arguments.duckdb_python)
        began = time.monotonic()
        options = Maintenance.model_validate({"most": {"time": "6 hours"}})
        (done,) = maintenance.maintain(tables, STORAGE, MaintenanceRequest(options, "compact"), lambda _: None)
        seconds = time.monotonic() - began
        after = asked(spark, tables, arguments.duckdb_python)
    result = {
        "files": [done.before.count, done.after.count],
        "mib": [done.before.bytes / 2**20, done.after.bytes / 2**20],
        "partitions": done.partitions,
        "maintenance_s": seconds,
        "before_s": before,
        "after_s": after,
        "ratio": {
            who: {name: took / after[who][name] for name, took in times.items()} for who, times in before.items()
        },
    }
    text = json.dumps(result, indent=2)
    sys.stdout.write(text + "\n")
    if arguments.json:
        arguments.json.write_text(text)


if __name__ == "__main__":
    main()
