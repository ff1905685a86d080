"""Looks into every object of a table's place for texts: data files, the log, its statistics, and its checkpoints.

Files of Parquet are decoded: their pages are compressed, so that their bytes tell nothing. What it searches are texts,
bytes, and the text of numbers and times; the statistics of a file's footer too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from lakeingest.config import Storage, location
from lakeingest.delta.reader.log import Unreadable, reading, store
from lakeingest.delta.sums import Place
from lakeingest.errors import LakeingestError, StorageUnreachable
from lakeingest.operations.doctor.store import s3_client

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeingest.delta.pipeline_tables import PipelineTables
    from lakeingest.delta.table import Table
    from lakeingest.operations.erasure.records import PipelineRecords

SHORTEST = 3
"""Characters of a text that is searched for."""
_AT_ONCE = 8
"""Objects that are read at once."""
_POINTERS = ("/_delta_log/_last_checkpoint", "/_delta_log/_last_vacuum_info")
"""Objects that Delta overwrites, and that hold numbers of versions alone."""
_ROWS = 65_536
"""Rows of a file that are decoded at once."""


@dataclass(frozen=True)
class Hit:
    """An object that holds a text.

    Attributes:
        object: its path.
        kind: data: a file of rows; log: of `_delta_log`, its statistics, partition values and checkpoints.
        text: which text, counted from 1 in the order of the request. It is not named: a certificate is kept.
    """

    object: str
    kind: Literal["data", "log"]
    text: int


def places(tables: PipelineTables) -> list[str]:
    """Where the tables of a pipeline lie that are there."""
    every = [tables.main, tables.quarantine, tables.removals.table]
    every += [tables.results] if tables.config.gate else []
    every += [tables.deleted_keys.table] if tables.deleted_keys else []
    every += [tables.completeness.table] if tables.completeness else []
    return [table.location for table in every if table.schema() is not None]


def search(place: str, storage: Storage, texts: Sequence[str]) -> Iterator[Hit]:
    """The objects below a place that hold one of the texts.

    Raises:
        StorageUnreachable: an object cannot be read: then nothing is known of it.
    """
    from pyarrow import fs

    try:
        with reading(place):
            filesystem, folder = store(place, storage)
            infos = filesystem.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
            paths = sorted(info.path for info in infos if info.is_file)
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                every = pool.map(lambda path: _texts_in(filesystem, path, texts), paths)
                for path, numbers in zip(paths, every, strict=True):
                    kind: Literal["data", "log"] = "log" if "/_delta_log/" in path else "data"
                    yield from (Hit(path, kind, number) for number in numbers)
    except Unreadable as failed:
        raise StorageUnreachable(
            f"not every object below {place} could be searched: {failed}",
            cure="let this user read them all, and forget once more: what is done stays done",
        ) from failed


def _texts_in(filesystem: Any, path: str, texts: Sequence[str]) -> list[int]:
    """Which of the texts an object holds, counted from 1; in its name, too."""
    from pyarrow import parquet

    remaining, numbers = dict(enumerate(texts, 1)), list[int]()

    def look(holds: Callable[[str], bool]) -> None:
        """Whether a part of the object holds a text; one that was met is looked for no more."""
        for number in [number for number, text in remaining.items() if holds(text)]:
            numbers.append(number)
            del remaining[number]

    look(lambda text: text in path)
    if not path.endswith(".parquet"):
        with filesystem.open_input_stream(path) as stream:
            content = bytes(stream.read())
        look(lambda text: any(form in content for form in _forms(text)))
        return sorted(numbers)
    with filesystem.open_input_file(path) as stream:
        file = parquet.ParquetFile(stream)
        ends = b"\xff".join(_ends(file.metadata))
        look(lambda text: text.encode() in ends)
        for rows in file.iter_batches(_ROWS):
            for values in chain.from_iterable(map(_values, rows.columns)):
                look(partial(_stands_in, values))
    return sorted(numbers)


def _forms(text: str) -> set[bytes]:
    """A text as it may stand in a file of the log: in JSON, and in JSON within JSON, as statistics are."""
    once = json.dumps(text)[1:-1]
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    twice = (json.dumps(each)[1:-1] for each in (once, plain))
    return {each.encode() for each in (text, once, plain, *twice, json.dumps(plain, ensure_ascii=False)[1:-1])}


def _stands_in(values: pa.Array, text: str) -> bool:
    from pyarrow import compute

    return bool(compute.any(compute.match_substring(values, text)).as_py())


def _ends(metadata: Any) -> Iterator[bytes]:
    """The least and the greatest values that a file's footer has of its columns."""
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            statistics = metadata.row_group(group).column(column).statistics
            if statistics is not None and statistics.has_min_max:
                for value in (statistics.min, statistics.max):
                    yield value if isinstance(value, bytes) else str(value).encode()


def _values(column: pa.Array) -> Iterator[pa.Array]:
    """The texts and bytes of a column, and of what lies within its values; numbers and times as texts."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_struct(kind):
        for child in column.flatten():
            yield from _values(child)
    elif types.is_map(kind):
        yield from _values(column.keys)
        yield from _values(column.items)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        yield from _values(column.flatten())
    elif types.is_dictionary(kind):
        yield from _values(column.dictionary)
    elif types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        yield column
    elif not types.is_null(kind) and not types.is_boolean(kind):
        try:
            yield column.cast(pa.string())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            yield pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())


# What lies beyond the tables ------------------------------------------------------------------------------------------


def versions(storage: Storage, table: Table) -> Mapping[str, Any]:
    """What a bucket keeps of objects that were deleted or overwritten below a table's place: `versioning` (Enabled,
    Suspended, none, or unknown), `versions` that are no newest one, and `locked`: whether Object Lock is on.
    """
    place = location.place(table.location)
    if not place.on_s3:
        return {}
    try:
        client = s3_client(storage)
    except ImportError:
        return {"versioning": "unknown", "because": "boto3 is not installed"}
    return _versions(client, storage.access_points.get(place.bucket, place.bucket), "/".join(place.steps))


def _versions(client: Any, bucket: str, prefix: str) -> Mapping[str, Any]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        versioning = client.get_bucket_versioning(Bucket=bucket).get("Status", "none")
        count = 0
        if versioning != "none":
            pages = client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=f"{prefix}/")
            old = (each["Key"] for page in pages for each in page.get("Versions", ()) if not each["IsLatest"])
            count = sum(not key.endswith(_POINTERS) for key in old)
    except (BotoCoreError, ClientError) as refused:
        return {"versioning": "unknown", "because": str(refused)}
    try:
        lock = client.get_object_lock_configuration(Bucket=bucket)
        locked = lock["ObjectLockConfiguration"].get("ObjectLockEnabled") == "Enabled"
    except (BotoCoreError, ClientError):
        locked = False
    return {"versioning": versioning, "versions": count, "locked": locked}


def beyond_reach(records: PipelineRecords, share: Mapping[str, set[Place]]) -> Iterator[str]:
    """Where copies may be that no table's log knows of."""
    source = records.context.source
    records_of_share = set[Place]().union(*share.values())
    try:
        first = source.topics().first
    except LakeingestError as failed:
        yield f"{source.address}: could not be asked whether it has the records still ({failed})"
    else:
        remaining = sum(first.get((topic, partition), 0) <= offset for topic, partition, offset in records_of_share)
        if remaining:
            yield f"{source.address}: has up to {remaining:,} of the records until its own retention takes them"
    for place in records.tables.config.maintenance.vacuum.exports:
        yield f"{place}: what was exported there was handed on"
    yield "other exports, clones and copies of the tables: no log tells where they are"
