"""Refused records by reason without Spark: what the files' statistics tell, and the rows of the others.

A file whose rows were all refused for one reason tells how many they are, and where they begin, without being opened:
of a quarantine of thousands of such files no more are read than have the samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeingest.config import PipelineConfig, Storage
from lakeingest.delta.reader import duck, rows
from lakeingest.delta.reader.log import DataFile, OfflineLog, Unreadable
from lakeingest.record import COORDINATES

_REFUSED = """
    SELECT stage, reason, count(*) OVER same AS count,
        row_number() OVER (same ORDER BY _topic, _partition, _offset) AS number,
        _topic, _partition, _offset, message
    FROM (
        SELECT stage, unnest(coalesce(expectations, [reason])) AS reason, _topic, _partition, _offset, message
        FROM quarantine WHERE pipeline = $pipeline AND moved IS NULL AND discarded IS NULL
    )
    WINDOW same AS (PARTITION BY stage, reason)
    QUALIFY number <= greatest($samples, 1)
    ORDER BY number
"""


Group = tuple[str | None, str | None]
"""Stage and reason."""


@dataclass(frozen=True)
class _Told:
    """A file whose statistics tell all that a count needs.

    Attributes:
        begin: coordinates that none of its rows comes before.
    """

    file: DataFile
    group: Group
    count: int
    begin: tuple[Any, ...]


def reasons(config: PipelineConfig, storage: Storage, samples: int) -> list[dict[str, Any]]:
    """See `quarantine.reasons`."""
    log = OfflineLog(config.quarantine.identifier, storage)
    told, others = list[_Told](), list[DataFile]()
    for file in log.state.files:
        known = _told(file, config.known_as)
        told.append(known) if known else others.append(file)
    told.sort(key=lambda each: each.begin)
    if lost := log.lost([each.file for each in told]):
        raise Unreadable(f"{lost.path} is gone")
    most = samples
    while True:
        read, left = _first(told, most)
        found = _read(log, [*others, *(each.file for each in read)], config.known_as, samples)
        if not any(_may_come_first(found.get(each.group, ()), each, samples) for each in left):
            return _summed(found, left, samples)
        most *= 4


def _told(file: DataFile, pipeline: str) -> _Told | None:
    try:
        stage, reason, whose = (file.only(name) for name in ("stage", "reason", "pipeline"))
        least = file.statistics.get("minValues", {})
        begin = tuple(least.get(name) for name in COORDINATES)
        bare = all(file.lacks(name) for name in ("expectations", "moved", "discarded"))
        known = bare and stage is not None and reason is not None and whose == pipeline and None not in begin
        return _Told(file, (stage, reason), file.statistics["numRecords"], begin) if known else None
    except Unreadable:
        return None


def _first(told: Iterable[_Told], most: int) -> tuple[list[_Told], list[_Told]]:
    """The first so many files of each group, and the others."""
    read, left, count = list[_Told](), list[_Told](), dict[Group, int]()
    for each in told:
        at = count[each.group] = count.get(each.group, 0) + 1
        (read if at <= most else left).append(each)
    return read, left


def _read(log: OfflineLog, files: Sequence[DataFile], pipeline: str, samples: int) -> dict[Group, list[Any]]:
    """Of each group the number of its rows, and the first of them: count, number, coordinates and message of each."""
    table = rows.dataset(log, files)
    rows.need(table, "stage", "reason", "message", "pipeline", "expectations", "moved", "discarded")
    found: dict[Group, list[Any]] = {}
    with duck.connected({"quarantine": table}) as connection:
        for stage, reason, *row in connection.execute(_REFUSED, {"pipeline": pipeline, "samples": samples}).fetchall():
            found.setdefault((stage, reason), []).append(row)
    return found


def _may_come_first(found: Sequence[Any], left: _Told, samples: int) -> bool:
    """Whether a file that was not read may have one of the first rows of its group."""
    return samples > 0 and (len(found) < samples or left.begin <= tuple(found[-1][2:5]))


def _summed(found: Mapping[Group, list[Any]], left: Iterable[_Told], samples: int) -> list[dict[str, Any]]:
    counts = {group: each[0][0] for group, each in found.items()}
    for told in left:
        counts[told.group] = counts.get(told.group, 0) + told.count
    # The most frequent first; null before any name.
    order = sorted(counts, key=lambda group: (-counts[group], *((name is not None, name or "") for name in group)))
    return [
        {
            "stage": group[0],
            "reason": group[1],
            "count": counts[group],
            "samples": [
                {"coordinates": f"{topic}-{partition}:{offset}", "message": message}
                for _, number, topic, partition, offset, message in found.get(group, ())
                if number <= samples
            ],
        }
        for group in order
    ]
