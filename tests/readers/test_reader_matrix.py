"""Which readers read what lakeingest writes: columns and values, compared with Spark's."""

from __future__ import annotations

import json
from pathlib import Path

import canonical
import environments
import matrix
import pytest
import read
import written
from matrix import EXPECTED, READERS, Written
from pyspark.sql import SparkSession
from world import World

from lakeingest.local import Addresses

FOUND = Path(__file__).parents[2] / "build" / "readers.json"
"""What was read this time, in the form of expected.json."""


@pytest.fixture(scope="module")
def tables(stack: Addresses, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Written:
    return matrix.write(stack, spark, tmp_path_factory.mktemp("tables"))


@pytest.mark.readers
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_reads_what_is_expected(reader: str, tables: Written, tmp_path: Path) -> None:
    """No less, and no more: a new version that reads more is noticed too."""
    if reader != "trino":
        found = matrix.read(reader, tables)
    elif (java := environments.java()) is None:
        pytest.skip(f"Trino needs Java {environments.OLDEST_JAVA} or newer, and this machine has none")
    else:
        with environments.trino(java, tables.stack, tmp_path) as port:
            found = matrix.read(reader, tables, port=port)
    keep(reader, found)
    assert found == EXPECTED.get(reader)


def keep(reader: str, found: dict[str, str]) -> None:
    FOUND.parent.mkdir(exist_ok=True)
    others = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.exists() else {}
    text = json.dumps({**EXPECTED, **others, reader: found}, indent=2, ensure_ascii=False)
    FOUND.write_text(text + "\n", encoding="utf-8")


@pytest.mark.slow
def test_delta_rs_reads_rewritten_rows(stack: Addresses, spark: SparkSession, named: str, tmp_path: Path) -> None:
    """The short form of the matrix: widened by metadata, the table would be refused."""
    world = World(stack, spark, named)
    written.rewritten(world, tmp_path)
    asked = {"endpoint": stack.s3, "access_key": stack.s3_access_key, "secret_key": stack.s3_secret_key}
    place = world.path().replace("s3a://", "s3://")
    found = canonical.rows(read.delta_rs(asked)(place))
    wanted = matrix.reference(spark, world.path(), written.COORDINATES)
    assert canonical.compared(wanted, found, written.COORDINATES) == "all"
