"""What tests of whole pipelines begin with."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from support.pipelines import World

from lakeingest.local import Addresses


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> World:
    return World(stack, spark, named)
