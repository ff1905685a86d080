"""The demo: real flights, and weather whose schema changes twice, in the session of whatever Spark the tests run on."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.pipelines.command_line import Command

from lakeingest.local import Addresses

pytestmark = [pytest.mark.matrix, pytest.mark.slow]
PIPELINES = Path(__file__).parents[2] / "pipelines"


@pytest.mark.parametrize(
    ("file", "words"), [("flights.yaml", ()), ("weather.yaml", ("--schemas",))], ids=["flights", "weather"]
)
def test_the_demo(
    lakeingest: Command, stack: Addresses, local_spark: SparkSession, file: str, words: tuple[str, ...]
) -> None:
    """The same file as on the pinned Spark, and the same proof at the end."""
    said = lakeingest("demo", *words, PIPELINES / file)
    assert said.code == 0, said
    assert "conserved" in said.out
