"""Tests of what Spark computes, over local files: the session is the process's one, and no server is started."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(local_spark: SparkSession) -> SparkSession:
    """The one session, without a store."""
    return local_spark


@pytest.fixture(scope="session")
def stack() -> None:
    """No server is for tests of this folder."""
    pytest.fail("tests/spark starts no server: a test that needs the stack belongs in tests/integration")
