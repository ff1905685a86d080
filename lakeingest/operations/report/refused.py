"""What a report shows of the quarantine: reasons with samples and their values, and when records were refused."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from lakeingest.delta import quarantine
from lakeingest.operations import refused
from lakeingest.operations.readers import PipelineReader
from lakeingest.operations.results.words import cut

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REASONS = 50
"""Most reasons that are shown with samples, the most frequent first."""
_POINTS = 5000
"""Most batches by reason that are given, the newest first."""
_LONGEST = 300
"""Characters of a value, or of a message, that are given."""
_OWN = f"WHERE pipeline = :pipeline AND moved.replay IS DISTINCT FROM {quarantine.WITHDRAWN}"
_OVER_TIME = f"""
    SELECT refused_at, reason, count(*) AS count FROM (
        SELECT refused_at, explode(coalesce(expectations, array_repeat(reason, 1))) AS reason FROM {{rows}} {_OWN}
    ) AS named GROUP BY refused_at, reason ORDER BY refused_at DESC, reason
"""
_TOTALS = f"""
    SELECT count(*) AS total, count(*) FILTER (WHERE moved IS NULL AND discarded IS NULL) AS open,
        count(*) FILTER (WHERE moved IS NOT NULL) AS moved,
        count(*) FILTER (WHERE moved IS NULL AND discarded IS NOT NULL) AS discarded
    FROM {{rows}} {_OWN}
"""
_VALUES = """
    SELECT concat(_topic, '-', _partition, ':', _offset) AS coordinates, value, bytes
    FROM {{rows}} WHERE pipeline = :pipeline AND _offset IN ({offsets})
"""


def summary(reader: PipelineReader, samples: int) -> dict[str, Any]:
    """The quarantine of a pipeline.

    Returns:
        total, open, moved, discarded: records; reasons: of those that are open, as `quarantine list` has them, the
        most frequent, each sample with its value as text; reasons_left_out: how many more; over_time: at
        (milliseconds since 1970), reason, count for each batch, of all records; a record that breaks several
        expectations is counted for each of them; over_time_left_out: records of older batches.
    """
    table, pipeline = reader.quarantine, reader.config.known_as
    reasons = refused.reasons(reader, samples)
    coordinates_shown = {sample["coordinates"] for group in reasons[:REASONS] for sample in group["samples"]}
    # By its offset alone a file, or a part of one, is left out: values may be large.
    offsets = ", ".join(sorted({each.rpartition(":")[2] for each in coordinates_shown}))
    values = table.scan(_VALUES.format(offsets=offsets), pipeline=pipeline) if coordinates_shown else []
    texts = {
        row["coordinates"]: _text(row["value"], row["bytes"])
        for row in values
        if row["coordinates"] in coordinates_shown
    }
    points = [
        {"at": _millis(row["refused_at"]), "reason": row["reason"], "count": row["count"]}
        for row in table.scan(_OVER_TIME, pipeline=pipeline)
    ]
    return {
        **table.scan(_TOTALS, pipeline=pipeline)[0],
        **_reasons(reasons, texts),
        "over_time": points[:_POINTS][::-1],
        "over_time_left_out": sum(point["count"] for point in points[_POINTS:]),
    }


def _reasons(groups: Sequence[dict[str, Any]], values: dict[str, str]) -> dict[str, Any]:
    samples = [
        {
            **group,
            "samples": [
                {
                    "coordinates": sample["coordinates"],
                    "message": cut(sample["message"] or "", _LONGEST),
                    "value": values.get(sample["coordinates"]),
                }
                for sample in group["samples"]
            ],
        }
        for group in groups[:REASONS]
    ]
    return {"reasons": samples, "reasons_left_out": max(0, len(groups) - REASONS)}


def _text(value: bytes | None, note: str | None) -> str:
    """A value as it is shown: as text where it is some, cut; or why it is not there."""
    if note:
        return f"({note})"
    if value is None:
        return "(no value)"
    return cut(bytes(value[: 4 * _LONGEST]).decode("utf-8", errors="backslashreplace"), _LONGEST)


def _millis(time: datetime | None) -> int | None:
    return None if time is None else (time - _EPOCH) // timedelta(milliseconds=1)
