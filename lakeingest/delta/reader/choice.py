"""Whether the files of tables answer, or Spark is asked. Imports no pyspark: who waits may not have it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from lakeingest.delta.reader.log import Unreadable
from lakeingest.spark import session

Answer = TypeVar("Answer")


def answer(by_files: Callable[[], Answer], by_spark: Callable[[], Answer], *, files_first: bool = False) -> Answer:
    """What files tell for certain, or else Spark, which is asked where it runs already.

    Args:
        by_files: raises Unreadable where Spark has to be asked.
        files_first: whether a Spark that runs is asked only if it must be, since it says less, or later.
    """
    if (files_first or not session.runs()) and not session.is_elsewhere(os.environ):
        with suppress(Unreadable):
            return by_files()
    return by_spark()
