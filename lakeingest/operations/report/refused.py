"""What a report shows of the quarantine: reasons with samples and their values, and when records were refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakeingest.config import PipelineConfig, Storage
from lakeingest.delta.reader import duck, rows
from lakeingest.delta.reader.log import OfflineLog
from lakeingest.operations import offline_refused
from lakeingest.operations.results.words import cut

REASONS = 50
"""Most reasons that are shown with samples, the most frequent first."""
_POINTS = 5000
"""Most batches by reason that are given, the newest first."""
_LONGEST = 300
"""Characters of a value, or of a message, that are given."""
_OVER_TIME = """
    SELECT moment, reason, count(*) FROM (
        SELECT epoch_ms(refused_at) AS moment, unnest(coalesce(expectations, [reason])) AS reason
        FROM quarantine WHERE pipeline = $pipeline AND moved.replay IS DISTINCT FROM -1
    ) GROUP BY ALL ORDER BY moment DESC, reason
"""
_TOTALS = """
    SELECT count(*), count(*) FILTER (moved IS NULL AND discarded IS NULL), count(*) FILTER (moved IS NOT NULL),
        count(*) FILTER (moved IS NULL AND discarded IS NOT NULL)
    FROM quarantine WHERE pipeline = $pipeline AND moved.replay IS DISTINCT FROM -1
"""
_VALUES = """
    SELECT _topic || '-' || _partition || ':' || _offset AS coordinates, value, {kept} AS kept
    FROM quarantine WHERE pipeline = $pipeline AND _offset IN ({offsets})
    AND list_contains($wanted, _topic || '-' || _partition || ':' || _offset)
"""


def summary(config: PipelineConfig, storage: Storage, samples: int) -> dict[str, Any]:
    """The quarantine of a pipeline, without Spark.

    Returns:
        total, open, moved, discarded: records; reasons: of those that are open, as `quarantine list` has them, the
        most frequent, each sample with its value as text; reasons_left_out: how many more; over_time: at
        (milliseconds since 1970), reason, count for each batch, of all records; a record that breaks several
        expectations is counted for each of them; over_time_left_out: records of older batches.

    Raises:
        Unreadable: Spark has to be asked.
    """
    found = offline_refused.reasons(config, storage, samples)
    table = rows.dataset(OfflineLog(config.quarantine.identifier, storage))
    wanted = [sample["coordinates"] for group in found[:REASONS] for sample in group["samples"]]
    # By its offset alone a file, or a part of one, is left out: values may be large.
    offsets = ", ".join(sorted({each.rpartition(":")[2] for each in wanted}))
    query = _VALUES.format(kept="bytes" if "bytes" in table.schema.names else "NULL", offsets=offsets)
    with duck.connected({"quarantine": table}) as connection:
        mine = {"pipeline": config.known_as}
        points = connection.execute(_OVER_TIME, mine).fetchall()
        totals = connection.execute(_TOTALS, mine).fetchall()[0]
        told = connection.execute(query, {**mine, "wanted": wanted}).fetchall() if wanted else []
    values = {coordinates: _text(value, kept) for coordinates, value, kept in told}
    over_time = [{"at": at, "reason": reason, "count": count} for at, reason, count in points[:_POINTS]]
    return {
        **dict(zip(("total", "open", "moved", "discarded"), totals, strict=True)),
        **_reasons(found, values),
        "over_time": over_time[::-1],
        "over_time_left_out": sum(count for _, _, count in points[_POINTS:]),
    }


def without_times(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The same of what Spark says of open records alone."""
    return {
        "total": None,
        "open": None,
        "moved": None,
        "discarded": None,
        **_reasons(found, {}),
        "over_time": [],
        "over_time_left_out": 0,
    }


def _reasons(found: Sequence[dict[str, Any]], values: dict[str, str]) -> dict[str, Any]:
    shown = [
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
        for group in found[:REASONS]
    ]
    return {"reasons": shown, "reasons_left_out": max(0, len(found) - REASONS)}


def _text(value: bytes | None, kept: str | None) -> str:
    """A value as it is shown: as text where it is some, cut; or why it is not there."""
    if kept:
        return f"({kept})"
    if value is None:
        return "(no value)"
    return cut(bytes(value[: 4 * _LONGEST]).decode("utf-8", errors="backslashreplace"), _LONGEST)
