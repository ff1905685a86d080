"""The ledger of schemas as a table property: it outlives the log's receipts, and spares them from repeating it.

The property is the pipeline's own, under a digest of its name, and its value is in hexadecimal digits: Spark shows no
property with a word such as url, password or token in it, and puts settings and environment in the place of ${…}.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakeingest.failures import told_of
from lakeingest.schema.history import History

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def properties(pipeline: str, history: History) -> dict[str, str]:
    """The table's properties that keep a ledger; none for an empty one."""
    if not history.entries:
        return {}
    text = json.dumps(history.to_json(), separators=(",", ":"))
    return {_name(pipeline): zlib.compress(text.encode()).hex()}


def write(spark: SparkSession, path: str, pipeline: str, history: History) -> None:
    """Keep the ledger from now on; a commit of metadata alone.

    Raises:
        StorageUnreachable: the table cannot be reached.
    """
    with told_of(path):
        for name, value in properties(pipeline, history).items():
            spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{name}' = '{value}')")


def read(spark: SparkSession, path: str) -> dict[str, str]:
    """The table's properties.

    Raises:
        StorageUnreachable: the table cannot be reached.
    """
    with told_of(path):
        rows = spark.sql(f"SHOW TBLPROPERTIES delta.`{path}`").collect()
    return {row["key"]: row["value"] for row in rows}


def ledger(properties: Mapping[str, str], pipeline: str) -> History:
    """The ledger of schemas among a table's properties; empty if none is kept."""
    value = properties.get(_name(pipeline))
    return History.from_json(json.loads(zlib.decompress(bytes.fromhex(value)))) if value else History()


def _name(pipeline: str) -> str:
    return f"lakeingest.schemas.{hashlib.sha256(pipeline.encode()).hexdigest()[:16]}"
