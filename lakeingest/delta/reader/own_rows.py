"""The sums of the rows that one commit wrote: of its own files, whatever was done to the table since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeingest.delta import sums
from lakeingest.delta.reader import duck
from lakeingest.delta.reader.log import OfflineLog, Unreadable, reading
from lakeingest.delta.sums import Sums
from lakeingest.record import COORDINATES

if TYPE_CHECKING:
    import pyarrow as pa

_SUMS = f"""
    SELECT count(*) AS rows, bit_xor(number) AS mixed, bit_xor(number % {sums.PART} * factor) AS placed
    FROM (
        SELECT {sums.number("_offset", "first", "second")} AS number, factor
        FROM {{rows}} AS r JOIN {{places}} AS p ON r._topic = p._topic AND r._partition = p._partition
    ) AS numbered
"""


def of_commit(log: OfflineLog, version: int) -> Sums:
    """The sums of the rows that a commit wrote. The table's state is not asked, however large it is.

    Raises:
        Unreadable: its files, or the log, are there no more; or they have not all coordinates as columns.
    """
    commit = next((each for each in log.since(version - 1) if each["version"] == version), None)
    if commit is None or commit["removes"] or any(file.masked for file in commit["added"]):
        raise Unreadable(f"version {version} of {log.identifier} is no commit that can be read by itself")
    if not commit["added"]:
        return Sums()
    from pyarrow import dataset as ds

    with reading(log.identifier):
        paths = [f"{log.folder}/{file.path}" for file in commit["added"]]
        rows = ds.dataset(paths, filesystem=log.filesystem, format="parquet").to_table(columns=[*COORDINATES])
        if any(rows[name].null_count for name in COORDINATES):
            raise Unreadable(f"version {version} of {log.identifier} has rows without coordinates")
    return of_rows(rows)


def of_rows(rows: pa.Table) -> Sums:
    """The sums of rows with coordinates."""
    import pyarrow as pa

    topic, partition = COORDINATES[:2]
    places = rows.group_by([topic, partition]).aggregate([]).to_pylist()
    first, second = zip(*(sums.seeds(*place.values()) for place in places), strict=True) if places else ((), ())
    columns = {
        topic: pa.array([place[topic] for place in places], pa.string()),
        partition: pa.array([place[partition] for place in places], pa.int32()),
        "first": pa.array(first, pa.int64()),
        "second": pa.array(second, pa.int64()),
        "factor": pa.array([sums.factor(place[partition]) for place in places], pa.int64()),
    }
    (metrics,) = duck.query(_SUMS, {"rows": rows, "places": pa.table(columns)})
    return sums.observed(metrics, metrics["rows"])
