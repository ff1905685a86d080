"""Frames that are read several times, and computed once where the platform can hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeingest.spark.platforms import capabilities

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def keep(frame: DataFrame) -> DataFrame:
    """The frame, held from its first use on; where the platform holds none, each use computes it anew."""
    return frame.persist() if capabilities.of(frame.sparkSession).keeps_frames else frame


def release(frame: DataFrame) -> None:
    """Let go what `keep` holds."""
    if capabilities.of(frame.sparkSession).keeps_frames:
        frame.unpersist()
