"""Whether the tables' files answer without Spark, or Spark is asked. Imports no pyspark: who waits may not have it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from lakeingest.config import PipelineConfig, Storage
from lakeingest.delta.reader.log import Unreadable
from lakeingest.spark import s3a, session

Answer = TypeVar("Answer")


def answered(
    config: PipelineConfig,
    storage: Storage,
    answer: Callable[[], Answer],
    otherwise: Callable[[], Answer],
    *,
    though_it_runs: bool = False,
) -> Answer:
    """What `answer` says without Spark, or Spark, which is asked where it runs already.

    Args:
        though_it_runs: whether a Spark that runs is asked only if it must be, since it says less.

    Raises:
        StorageUnreachable: nothing listens where the store is to be.
    """
    if (though_it_runs or not session.runs()) and not session.is_elsewhere(os.environ):
        s3a.check_listens(storage, config.paths)
        with suppress(Unreadable):
            return answer()
    return otherwise()
