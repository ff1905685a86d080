"""The matrix of readers: what each is run in, what it was expected to read, and what it read."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import canonical
import environments
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import VariantType, VariantVal
from support.pipelines import World
from written import TABLES

from lakeingest.local import Addresses
from lakeingest.local.loopback import direct

HERE = Path(__file__).parent
EXPECTED: dict[str, dict[str, str]] = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))["reads"]
"""Reader → table → what it reads of it."""
REQUIREMENTS = {"daft": "requirements-daft.txt"}
READERS = ("delta-rs", "polars", "duckdb", "chdb", "daft", "trino")
READ = pytest.StashKey[dict[str, dict[str, str]]]()
"""What was read in this run, in the form of EXPECTED."""
_WORDS = 110
_VARYING = re.compile(r"\S*\w/\S+|\(offset=.*?\)|[0-9.]+[mµ]s\b")
"""Places and numbers in what a reader says."""


@dataclass(frozen=True)
class Written:
    """The tables as they lie in S3, and what Spark reads of them."""

    stack: Addresses
    places: Mapping[str, str]
    rows: Mapping[str, dict[str, list[Any]]]


def write(stack: Addresses, spark: SparkSession, folder: Path) -> Written:
    """Let lakeingest write every table."""
    worlds: dict[Any, World] = {}
    places, rows = {}, {}
    for name, (make, end, key) in TABLES.items():
        if make not in worlds:
            worlds[make] = World(stack, spark, f"readers_{make.__name__}")
            make(worlds[make], folder)
        path = worlds[make].path(end)
        places[name], rows[name] = path.replace("s3a://", "s3://"), reference(spark, path, key)
    return Written(stack, places, rows)


def reference(spark: SparkSession, path: str, key: list[str]) -> dict[str, list[Any]]:
    """What Spark reads of a table; a VARIANT as JSON."""
    frame = spark.read.format("delta").load(path).orderBy(*key)
    variants = {f.name: F.to_json(f.name) for f in frame.schema if isinstance(f.dataType, VariantType)}
    return canonical.rows(frame.withColumns(variants).toArrow())


def read(reader: str, written: Written, **more: Any) -> dict[str, str]:
    """Table → what this reader reads of it: `all`, what is missing or other, or how it refuses."""
    stack = written.stack
    keys = {"endpoint": stack.s3, "access_key": stack.s3_access_key, "secret_key": stack.s3_secret_key}
    asked = json.dumps({**keys, "tables": written.places, **more})
    command = [environments.python(REQUIREMENTS.get(reader, "requirements.txt")), HERE / "read.py", reader]
    with direct(stack.s3):
        process = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=600, check=False)
    found = {line["table"]: line for line in map(json.loads, process.stdout.splitlines())}
    assert found.keys() == TABLES.keys(), process.stderr[-3000:]
    return {name: outcome(found[name], written.rows[name], key) for name, (_, _, key) in TABLES.items()}


def outcome(found: dict[str, Any], wanted: dict[str, list[Any]], key: list[str]) -> str:
    if "error" in found:
        return f"refused: {shortened(found['error'])}"
    columns = {name: [_json_of_variant(value) for value in values] for name, values in found["columns"].items()}
    return canonical.compared(wanted, columns, key)


def _json_of_variant(value: Any) -> Any:
    """A VARIANT as JSON where it comes as its two binary parts."""
    if not isinstance(value, dict) or value.keys() != {"metadata", "value"}:
        return value
    parts = (value[name].encode("utf-8", "surrogateescape") for name in ("value", "metadata"))
    return VariantVal(*parts).toJson()


def shortened(error: str) -> str:
    """An error's own words, without what is other each time."""
    text = _VARYING.sub("…", error.strip().splitlines()[0])
    return text if len(text) <= _WORDS else f"{text[:_WORDS].rpartition(' ')[0]} …"
