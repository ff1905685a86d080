"""A secret that Spark computes with. As a literal it would stand in each plan, and so in the UI and in event logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


def column(session: SparkSession, text: str) -> Column:
    """STRING: the secret, as the one value of a table of one row, of which plans show the name alone."""
    import pyarrow as pa

    return session.createDataFrame(pa.table({"secret": [text]})).scalar()
