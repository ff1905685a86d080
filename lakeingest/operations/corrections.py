"""The types for columns with which the records of a sample that were refused would have passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lakeingest.config import JsonValue, PipelineConfig
from lakeingest.decode.json import texts_of
from lakeingest.decode.json_columns import marked
from lakeingest.decode.least_types import fitting
from lakeingest.ingest.batch_plan import BatchPlan
from lakeingest.schema import ddl
from lakeingest.schema.compatibility.widening import delta_widens
from lakeingest.schema.observed_types import ANYTHING, join
from lakeingest.spark.types import ddl_columns, struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def of_refused(
    config: PipelineConfig, batch: BatchPlan, refused: DataFrame, table: StructType | None
) -> Iterator[dict[str, Any]]:
    """Column by column, as `plan.Plan.corrections` has them.

    Args:
        refused: the sample's records in quarantine's columns.
        table: the table's columns; None if there is no table yet.
    """
    value = config.decode.value
    if not isinstance(value, JsonValue):
        return
    types: dict[str, str] = {}
    records, texts = Counter[str](), Counter[str]()
    schema = marked(struct(config.schema_.columns or ""), batch.shape.value).jsonValue()
    as_written = texts_of(value)
    for (raw,) in refused.where("stage = 'value' and reason = 'WRONG_TYPE'").select("value").toLocalIterator():
        for column, least in (fitting(bytes(raw), schema, as_written) or {}).items():
            records[column] += 1
            # One text among thousands of numbers is no reason to make texts of all.
            if least == ANYTHING:
                texts[column] += 1
            else:
                types[column] = join(types.get(column, least), least)
    table_type = ddl.Struct(ddl_columns(table)) if table is not None else None
    for column, count in records.most_common():
        least = types.get(column, ANYTHING)
        counts_by_type = {least: count - texts[column]} if least != ANYTHING else {}
        if least == ANYTHING or texts[column]:
            counts_by_type[ANYTHING] = count
        for type, number in counts_by_type.items():
            possible = table_type is None or (config.compatibility != "FULL" and _becomes(table_type, column, type))
            yield {"column": column, "type": type, "records": number, "possible": possible}


def _becomes(table_type: ddl.Type, path: str, type: str) -> bool:
    """Whether Delta can widen what lies at the path (see `fitting`) to that type; so it can where nothing lies yet."""
    match table_type:
        case ddl.Struct(fields) if path:
            ends = ((f, path.removeprefix(".").removeprefix(f.name)) for f in fields)
            within = [(f, rest) for f, rest in ends if rest != path.removeprefix(".") and rest[:1] in ("", ".", "[")]
            return all(_becomes(f.type, rest, type) for f, rest in within)
        case ddl.Array(element) if path.startswith("[*]"):
            return _becomes(element, path[3:], type)
        case ddl.Map(_, value) if path.startswith(".*"):
            return _becomes(value, path[2:], type)
        case _:
            return not path and delta_widens(str(table_type), type.lower())
