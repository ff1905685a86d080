"""Whether the gate holds a pipeline's next batch, as its results tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

from lakeingest.errors import LakeingestError
from lakeingest.operations.readers import Owner, answer
from lakeingest.operations.refused import gate_results

BATCHES = 10
"""The newest ones that are looked at: each run that tries again adds one."""
CURE = "correct the data or the suite and run again, or let the batch through once: run --accept-held REASON"


def newest_results(owner: Owner) -> Sequence[Mapping[str, Any]]:
    """Rows of the gate's results; none where there are none yet, or only a Spark could tell that does not run."""
    with suppress(LakeingestError):
        return answer(owner, partial(gate_results, batches=BATCHES), files_first=True, otherwise=[])
    return ()


def of_results(newest_batch: int, lag: int, results: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The batch that is held: sequence, since and last (when it was held first and last, as far as the rows reach, in
    UTC), broken (the names of expectations), waiting (records, as offsets) and cure. None if none is.

    Args:
        newest_batch: the number of the last batch that was committed.
        lag: offsets that are not committed.
        results: see `newest_results`, the newest first.
    """
    if not results or results[0]["outcome"] != "held" or results[0]["sequence"] <= newest_batch:
        return None
    newest = results[0]
    rows = [row for row in results if (row["outcome"], row["sequence"]) == ("held", newest["sequence"])]
    broken = [row["expectation"] for row in rows if row["time"] == newest["time"] and not row["success"]]
    return {
        "sequence": newest["sequence"],
        "since": _utc(min(row["time"] for row in rows)),
        "last": _utc(newest["time"]),
        # All expectations that were asked are met: the failure budget alone can hold it then.
        "broken": broken or ["quarantine.max_refused"],
        "waiting": lag,
        "cure": CURE,
    }


def _utc(time: datetime) -> str:
    """One without a zone is of this process's zone."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
