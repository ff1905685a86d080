"""Numbers of a sample that would be times of another unit than the pipeline file says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lakeingest.config import JsonValue, PipelineConfig
from lakeingest.errors import number_of
from lakeingest.record import RAW_VALUE
from lakeingest.schema import ddl
from lakeingest.schema.time_patterns import EPOCH_UNITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_USUAL = (631_152_000, 4_133_980_800)
"""Seconds since 1970: the beginning of 1990, and that of 2101."""


def warnings(config: PipelineConfig, kafka: DataFrame) -> Iterator[str]:
    """About each TIMESTAMP whose numbers are usual times, 1990 to 2100, in another unit than `decode.value.epoch`.

    Args:
        kafka: the sample as Kafka holds it.
    """
    from pyspark.sql import functions as F

    value = config.decode.value
    columns = ddl.parse(config.schema_.columns or "") if isinstance(value, JsonValue) else ()
    paths = list(_timestamps(columns))
    if not isinstance(value, JsonValue) or not paths:
        return
    counts = []
    for n, path in enumerate(paths):
        steps = "".join(f"['{name}']" for name in path)
        text = F.get_json_object(F.col(RAW_VALUE).cast("string"), f"${steps}")
        for unit, (per_second, shape, _) in EPOCH_UNITS.items():
            number = F.when(text.rlike(rf"\A(?:{shape})\z"), text.try_cast("decimal(38,9)"))
            usual = number.between(*(F.lit(second * per_second).cast("decimal(38,9)") for second in _USUAL))
            counts.append(F.count(F.when(usual, 1)).alias(f"{unit} {n}"))
    (row,) = kafka.agg(*counts).collect()
    for n, path in enumerate(paths):
        for unit, (_, _, name) in EPOCH_UNITS.items():
            if unit != value.epoch and (count := row[f"{unit} {n}"]):
                yield (
                    f"{number_of(count, 'number')} in {'.'.join(path)} would be a time of 1990 to 2100 as {name} since "
                    f"1970, and none as {EPOCH_UNITS[value.epoch][2]}: if so, write decode.value.epoch: {unit}"
                )


def _timestamps(columns: Sequence[ddl.Column], around: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The places of TIMESTAMPs, in structs too, whose names a path can quote."""
    for column in columns:
        path = (*around, column.field_name)
        if set(column.field_name) & set("'?*"):
            continue
        match column.type:
            case ddl.Struct(fields):
                yield from _timestamps(fields, path)
            case ddl.Atomic("timestamp"):
                yield path
