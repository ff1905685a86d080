"""Python functions that executors run, which need not have lakeingest installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T


def by_value(
    function: Callable[[Any], Any], kind: T.DataType | str, modules: Iterable[ModuleType]
) -> Callable[[Column], Column]:
    """A function of one column, record by record.

    Args:
        kind: the type of its result.
        modules: those of lakeingest that it needs: they are sent with it.
    """
    for module in modules:
        register_pickle_by_value(module)
    # Spark would look at the function's own hints, and warn that they are not Arrow's. Arrow, which Spark 4.2 uses by
    # default, needs pandas, and turns results into their type by other rules.
    return F.udf(lambda value: function(value), kind, useArrow=False)  # noqa: PLW0108
