"""What the rate of a sample and the layout of the table make of a day: records, commits, files and requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from lakeingest.config import PipelineConfig
from lakeingest.errors import number_of
from lakeingest.ingest.batch_plan import BatchPlan
from lakeingest.operations.merge_forecast import MergeForecast
from lakeingest.record import RAW_VALUE, TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DAY_S = 86_400
_SMALL = 16 * 2**20
"""A data file below that many bytes costs readers more requests than it saves them reading."""
_MANY_PARTITIONS = 1_000
_OF_A_FILE, _OF_A_COMMIT = 5, 35
"""Requests to S3; most are HEAD and GET."""
_PACKED = 0.1
"""Bytes in Parquet for a byte of a value, roughly; the demo's flights take less, text without repetition takes more."""


@dataclass(frozen=True)
class Forecast:
    """What the rate and the layout make of a day.

    Attributes:
        records_per_day: at the rate of the sample's timestamps; None where they tell no time.
        commits_per_day: at `trigger.every` and `trigger.max_records`.
        partitions: the table's partitions that the sample touches.
        files_per_day: one for each partition that a commit touches, at least.
        average_file_bytes: estimated.
        requests_per_day: of all kinds, to write the table, roughly: `benchmarks/s3_requests.py` counts them.
    """

    records_per_day: int | None
    commits_per_day: int
    partitions: int
    files_per_day: int
    average_file_bytes: int | None
    requests_per_day: int

    @property
    def sentence(self) -> str:
        """The day, as a terminal shows it."""
        day = "an unknown number of" if self.records_per_day is None else f"{self.records_per_day:,}"
        size = "" if self.average_file_bytes is None else f" of {self.average_file_bytes / 2**20:.2f} MiB"
        return (
            f"a day: {day} records, {number_of(self.commits_per_day, 'commit')}, about "
            f"{number_of(self.files_per_day, 'file')}{size}, about {self.requests_per_day:,} S3 requests; the sample "
            f"touches {number_of(self.partitions, 'partition')}"
        )


def of_sample(config: PipelineConfig, batch: BatchPlan, kafka: DataFrame, rows: DataFrame) -> Forecast:
    """A day at the rate of the sample.

    Args:
        kafka: the sample as Kafka holds it.
        rows: the rows that its accepted records become.
    """
    from pyspark.sql import functions as F

    stamp = F.col(TIMESTAMP).cast("double")
    count, begin, end, size = kafka.agg(
        F.count(F.lit(1)), F.min(stamp), F.max(stamp), F.avg(F.length(RAW_VALUE))
    ).collect()[0]
    # Delta makes some of them by itself, when it writes.
    places = [F.col(c.name) if c.name in rows.columns else F.expr(c.generated or "NULL") for c in batch.layout.columns]
    partitions = rows.select(*places).distinct().count() if places else 1
    # Records that came at one moment tell no rate.
    seconds = end - begin if count > 1 and end - begin >= 1 else None
    per_day = int(count / seconds * _DAY_S) if seconds else None
    commits = _commits(per_day, config.trigger.every, config.trigger.max_records)
    # A commit of fewer records than the sample touches as many partitions at most.
    files = commits * max(1, min(partitions, (per_day or count) // commits or 1))
    average = int(per_day * (size or 0) * _PACKED / files) if per_day else None
    return Forecast(per_day, commits, partitions, files, average, files * _OF_A_FILE + commits * _OF_A_COMMIT)


def _commits(per_day: int | None, every: timedelta, most: int) -> int:
    by_trigger = int(_DAY_S / max(every.total_seconds(), 1))
    return max(by_trigger, -(-(per_day or 0) // most), 1)


def warnings(config: PipelineConfig, forecast: Forecast, merge: MergeForecast | None) -> Iterator[str]:
    """About files that would be small, partitions that would be many, and keys that are spread, with numbers."""
    if merge is not None:
        yield from merge.warnings(config)
    size = forecast.average_file_bytes
    if size is not None and size < _SMALL:
        yield (
            f"small files: {forecast.files_per_day:,} a day of {size / 2**20:.2f} MiB on average (16 MiB and more are "
            f"good to read); a longer trigger.every than {config.trigger.every} or fewer partitions make them larger"
        )
    if forecast.partitions > _MANY_PARTITIONS:
        yield (
            f"many partitions: the sample alone touches {forecast.partitions:,}; partition by a field with fewer "
            "values, or by a longer period"
        )
