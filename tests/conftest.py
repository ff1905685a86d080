"""What tests share: one embedded stack and one Spark session for the whole run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeingest import session
from lakeingest.config import Storage
from lakeingest.local import Addresses
from lakeingest.local.stack import down, up


@pytest.fixture(scope="session")
def stack_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of the run: no test sees the stack that a developer has running."""
    state = tmp_path_factory.mktemp("state")
    os.environ["LAKEINGEST_STATE"] = str(state)
    return state


@pytest.fixture(scope="session")
def stack(stack_state: Path) -> Iterator[Addresses]:
    """The embedded stack: real servers, started once, wiped at the end. Name topics and keys after the test."""
    try:
        yield up(stack_state)
    finally:
        down(stack_state, wipe=True)


@pytest.fixture(scope="session")
def spark(stack: Addresses) -> Iterator[SparkSession]:
    """The one session, as lakeingest starts it for itself, with the stack's S3."""
    storage = Storage.model_validate(
        {
            "endpoint": stack.s3,
            "access_key": stack.s3_access_key,
            "secret_key": stack.s3_secret_key,
            "path_style": True,
        }
    )
    spark = session.attach(storage, "tests")
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


@pytest.fixture
def named(request: pytest.FixtureRequest) -> str:
    """The test's own name, fit for topics, tables and pipelines."""
    return re.sub(r"\W+", "_", request.node.name.removeprefix("test_")).strip("_").lower()
