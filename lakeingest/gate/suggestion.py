"""A suite to begin with: what every row of a sample meets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeingest.schema import ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FEW = 20
"""A column of at most that many different texts is taken for one of a fixed set."""


def of_rows(name: str, rows: DataFrame) -> dict[str, Any]:
    """Expectations that every row meets: nulls, ranges of numbers, sets of few texts."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    plain = [
        f for f in rows.schema if not f.name.startswith("_") and isinstance(f.dataType, T.NumericType | T.StringType)
    ]
    metric_columns = []
    for f in plain:
        column = F.col(ddl.quoted(f.name))
        metric_columns += [F.count_if(column.isNull()), F.min(column), F.max(column), F.approx_count_distinct(column)]
    values = iter(rows.agg(*metric_columns).collect()[0]) if metric_columns else iter(())
    expectations: list[dict[str, Any]] = []
    for f in plain:
        nulls, least, most, distinct = (next(values) for _ in range(4))
        if not nulls:
            expectations.append(_expect("values_to_not_be_null", column=f.name))
        if least is None:
            continue
        if isinstance(f.dataType, T.StringType):
            if distinct <= _FEW:
                some = rows.select(ddl.quoted(f.name)).distinct().limit(2 * _FEW).collect()
                listed = sorted(row[0] for row in some if row[0] is not None)
                expectations.append(_expect("values_to_be_in_set", column=f.name, value_set=listed))
        else:
            low, high = (value if isinstance(value, int) else float(value) for value in (least, most))
            expectations.append(_expect("values_to_be_between", column=f.name, min_value=low, max_value=high))
    return {"name": name, "expectations": expectations}


def _expect(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": f"expect_column_{kind}", "kwargs": kwargs}
