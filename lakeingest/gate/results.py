"""The results of a gate: a Delta table with a row for each expectation of each batch.

pipeline STRING, sequence BIGINT                   whose batch it was
time TIMESTAMP                                     when it ran
outcome STRING                                     committed, held, accepted (a held one, let through) or set aside
suite STRING, fingerprint STRING                   what was asked: the suite's name, and a digest of its expectations
expectation STRING                                 its name, as quarantine has it
asked STRING                                       what it asks, as JSON: type and kwargs
action STRING                                      warn, quarantine, hold or fail
success BOOLEAN                                    whether it was met
evaluated BIGINT, unexpected BIGINT                records that could be decoded, and those of them that break it
observed STRING                                    a statistic of the batch, as JSON
sample ARRAY<STRING>                               some values that break it
offsets STRING                                     the batch's offsets: {topic: {partition: [start, end]}}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lakeingest.gate.evaluate import Result
from lakeingest.gate.suite import Suite
from lakeingest.record import OffsetRanges

COLUMNS = (
    "pipeline STRING, sequence BIGINT, time TIMESTAMP, outcome STRING, suite STRING, fingerprint STRING, "
    "expectation STRING, asked STRING, action STRING, success BOOLEAN, evaluated BIGINT, unexpected BIGINT, "
    "observed STRING, sample ARRAY<STRING>, offsets STRING"
)
"""The shape of the table, as DDL."""


def rows(
    suite: Suite,
    results: Sequence[Result],
    *,
    pipeline: str,
    sequence: int,
    ranges: OffsetRanges,
    now: datetime,
    outcome: str,
) -> list[tuple[Any, ...]]:
    """The results of one batch, as rows of the table."""
    offsets = json.dumps(ranges.to_json())
    return [
        (pipeline, sequence, now, outcome, suite.name, suite.fingerprint, *each.to_json().values(), offsets)
        for each in results
    ]
