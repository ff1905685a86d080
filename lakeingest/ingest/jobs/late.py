"""Records that came into a bronze table below the frontier of the pipeline that reads it: batches of its run.

What came in, a source tells commit by commit (`bronze.Late`); what one of the tables has already is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeingest.delta import coordinates
from lakeingest.delta.receipt import Receipt
from lakeingest.errors import StorageError
from lakeingest.ingest.attempt import Attempt
from lakeingest.ingest.batch_reader import BatchReader
from lakeingest.ingest.bronze import Late
from lakeingest.ingest.context import RunContext
from lakeingest.record import OffsetRanges
from lakeingest.spark.failures import storage_failures


class LateRecords:
    """The late records that a run has still to take."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._waiting: list[Late] = []
        self._read_from: Mapping[str, Any] | None = None

    def begin(self, last: Receipt | None) -> None:
        """Begin behind what the pipeline's newest receipt says that was read."""
        self._waiting = []
        self._read_from = None if last is None else last.job.read_from

    def next(self, attempt: Attempt) -> Late | None:
        """The next batch of them, its ranges as narrow as can be; None if there is none."""
        read_from = attempt.topics.read_from
        if self._read_from is None:
            # Before the first batch of all nothing is late: it begins where the source does.
            self._read_from = read_from
        while read_from:
            while self._waiting:
                late = self._waiting.pop(0)
                try:
                    ranges = self._new_ranges(late)
                except StorageError:
                    # A VACUUM took files of the older version, or clean-up its log; on S3 none of them is logged.
                    if (inexact := late.inexact) is None:
                        raise
                    self._waiting.insert(0, inexact)
                    continue
                if ranges.ranges:
                    return Late(ranges, late.read_from)
            if self._read_from == read_from or not attempt.frontier:
                break
            self._waiting = [*self._context.source.late(self._read_from, attempt.frontier)]
            self._read_from = read_from
        return None

    def _new_ranges(self, late: Late) -> OffsetRanges:
        """Between which offsets those of the records lie that neither table has yet."""
        context, reader = self._context, BatchReader(self._context)
        frame = context.source.frame(context.spark, late.ranges, read_from=late.read_from)
        with storage_failures(context.source.address):
            return coordinates.extent(reader.without_existing(frame, late.ranges))
