"""Which readers read what lakeingest writes: columns and values, compared with Spark's."""

from __future__ import annotations

from pathlib import Path

import canonical
import environments
import matrix
import pytest
import read
import written
from matrix import EXPECTED, READ, READERS, Written
from pyspark.sql import SparkSession
from support.pipelines import World

from lakeingest.local import Addresses


@pytest.fixture(scope="module")
def tables(stack: Addresses, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Written:
    return matrix.write(stack, spark, tmp_path_factory.mktemp("tables"))


@pytest.mark.readers
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_reads_what_is_expected(
    reader: str, tables: Written, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """No less, and no more: a new version that reads more is noticed too."""
    if reader != "trino":
        found = matrix.read(reader, tables)
    elif (java := environments.java()) is None:
        pytest.skip(f"Trino needs Java {environments.OLDEST_JAVA} or newer, and this machine has none")
    else:
        with environments.trino(java, tables.stack, tmp_path) as port:
            found = matrix.read(reader, tables, port=port)
    request.config.stash.setdefault(READ, {})[reader] = found
    assert found == EXPECTED[reader]


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
