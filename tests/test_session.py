"""What is said of a Spark session that somebody else started."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from lakeingest import session


def started_with(**options: str) -> SparkSession:
    """Somebody's session, as far as it is asked for its options."""
    found = {name.replace("_", "."): value for name, value in options.items()}
    return cast(SparkSession, SimpleNamespace(conf=SimpleNamespace(get=found.get)))


@pytest.mark.parametrize("options", [{}, {"spark_executor_extraJavaOptions": "-XX:+UseG1GC"}])
def test_a_session_that_does_not_bound_avro_is_told_how(options: dict[str, Any]) -> None:
    """A damaged record would end an executor; the warning has the options to paste."""
    with pytest.warns(UserWarning, match=r"-Dorg\.apache\.avro\.limits\.collectionItems\.maxLength=10000000"):
        session.warn_of_avro(started_with(**options))


def test_a_session_that_bounds_avro_is_left_alone() -> None:
    """The options are there, so nothing is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.warn_of_avro(
            started_with(spark_executor_extraJavaOptions="-Dorg.apache.avro.limits.bytes.maxLength=1000")
        )
