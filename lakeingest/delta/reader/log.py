"""The log of a Delta table, read without Spark: its newest state, and the history of its newest commits.

It begins at the checkpoint that `_delta_log/_last_checkpoint` names, and reads the commits behind it, whose versions
have no gap: no list of the log is needed, which takes a request for each thousand commits. What it does not know for
certain, it does not answer (`Unreadable`): then Spark is asked.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urlparse

from lakeingest.config import Storage, location
from lakeingest.delta.history import entry_of, increasing, named_version
from lakeingest.spark.failures import check_managed

_AHEAD = 32
"""Commits that are asked for at once. It is also how far a gap in the versions is noticed."""
_FEATURES = frozenset(
    {"columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "vacuumProtocolCheck", "variantType"}
)
"""What a reader of Delta must know, and that changes nothing about which files a table has."""
_PROTOCOL = 3
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Variables by which Arrow's client is led to another store than Spark's."""
_TIMEOUT_S = 10.0
CUT = 32
"""Characters that Delta's statistics keep of a text."""
_OF_FILE = ("path", "size", "partitionValues", "modificationTime", "stats", "deletionVector")
_COMMIT = re.compile(r"\d{20}\.json")
_ELSEWHERE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
"""How a path begins that is not within the table's folder."""


class Unreadable(Exception):
    """What cannot be read without Spark, or not for certain, and why."""


class ReadFailed(Unreadable):
    """The store fails, or what it gives is damaged."""


class NoTable(Unreadable):
    """There is no table, or its store does not show it."""


@dataclass(frozen=True)
class DataFile:
    """A file of the table as it stands now.

    Attributes:
        path: within the table's folder.
        partition: column → the value as text; None stands for null.
        stats: what Delta knows of its rows, as JSON; None where the writer did not say.
        masked: whether a deletion vector leaves out some of its rows.
        modified: when it was written, in milliseconds since 1970.
    """

    path: str
    size: int
    partition: Mapping[str, str | None]
    stats: str | None
    masked: bool = False
    modified: int = 0

    @cached_property
    def statistics(self) -> Mapping[str, Any]:
        """numRecords, minValues, maxValues, nullCount.

        Raises:
            Unreadable: there are none.
        """
        tree: dict[str, Any] = json.loads(self.stats or "{}")
        if self.masked or "numRecords" not in tree:
            raise Unreadable(f"{self.path} has no statistics of all its rows")
        return tree

    def only(self, column: str) -> str | None:
        """The text that all rows have in a column; None where the statistics leave that open."""
        least, most = (self.statistics.get(end, {}).get(column) for end in ("minValues", "maxValues"))
        whole = isinstance(least, str) and least == most and len(least) < CUT
        return least if whole and self.statistics.get("nullCount", {}).get(column) == 0 else None

    def lacks(self, column: str) -> bool:
        """Whether a column is null in all rows, as the statistics say."""
        nulls = self.statistics.get("nullCount", {}).get(column)
        each = [*nulls.values()] if isinstance(nulls, dict) else [nulls]
        return bool(each) and all(null == self.statistics["numRecords"] for null in each)


@dataclass(frozen=True)
class State:
    """A table at its newest version."""

    version: int
    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]
    files: Sequence[DataFile]

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.metadata.get("configuration") or {})

    @property
    def columns(self) -> list[str]:
        return [column["name"] for column in json.loads(self.metadata["schemaString"])["fields"]]

    @property
    def features(self) -> set[str]:
        """The features of Delta's protocol that a reader must know."""
        mapped = self.properties.get("delta.columnMapping.mode", "none") != "none"
        return (_features(self.protocol) - {"columnMapping"}) | ({"columnMapping"} if mapped else set())


class OfflineLog:
    """The log of one table.

    Args:
        identifier: the table's path; a name needs a catalog, and that Spark.

    Raises:
        Unreadable: from every method.
        TableMismatch: from every method: a catalog keeps the table's newest commits.
    """

    def __init__(self, identifier: str, storage: Storage) -> None:
        self.identifier = identifier
        if not location.is_path(identifier):
            raise Unreadable(f"{identifier} is a name, which a catalog of Spark's knows")
        with reading(identifier):
            self.filesystem, self.folder = store(identifier, storage)

    @cached_property
    def state(self) -> State:
        """The table as it stands when this is first asked for."""
        with reading(self.identifier):
            version, protocol, metadata, files = self._checkpoint()
            for text in self.texts_behind(version):
                version += 1
                for kind, action in actions(text):
                    match kind:
                        case "add":
                            files[_key(action)] = file_of(action)
                        case "remove":
                            files.pop(_key(action), None)
                        case "protocol":
                            protocol = action
                        case "metaData":
                            metadata = action
            if not protocol or not metadata:
                raise NoTable("there is no Delta table")
            _check_protocol(self.identifier, protocol)
            if metadata["format"]["provider"] != "parquet":
                raise Unreadable("its files are not Parquet")
            return State(version, protocol, metadata, tuple(files.values()))

    def history(self, limit: int | None) -> list[dict[str, Any]]:
        """The newest commits, or all that the log has, as `TableHistory.history` gives them.

        Args:
            limit: how many.
        """
        with reading(self.identifier):
            entries = [_entry(*each) for each in self._newest(limit)]
        if limit is not None and len(entries) < min(limit, self.state.version + 1):
            raise Unreadable("clean-up took commits")
        return entries

    def recent(self, limit: int) -> list[dict[str, Any]]:
        """The newest commits as `history` gives them, so many at most, each with `added`: the files that it added.

        Of a log whose older commits were cleaned up, those that are left.
        """
        with reading(self.identifier):
            return [{**_entry(*each), "added": _added(each[2])} for each in self._newest(limit)]

    def since(self, version: int) -> list[dict[str, Any]]:
        """The commits behind a version as `history` gives them, but without their times; each with `added`, the files
        of rows that it added, and `removes`, how many it took away. What moves rows only (OPTIMIZE) has none of both.
        """
        with reading(self.identifier):
            if self._text(f"{version + 1:020}.json") is None:
                return []
            texts = [*self.texts_behind(version)]
            for protocol in (action for text in texts for kind, action in actions(text) if kind == "protocol"):
                _check_protocol(self.identifier, protocol)
            return [_change(*each) for each in enumerate(texts, version + 1)][::-1]

    def _newest(self, limit: int | None) -> list[tuple[int, datetime, str]]:
        """Version, time and text of the newest commits, the newest first, as far back as there is no gap."""
        newest = self.state.version
        if self.state.properties.get("delta.enableInCommitTimestamps", "false") != "false":
            raise Unreadable("the table's commits bear times of their own")
        written = self._written_all() if limit is None else {}
        oldest = min(written, default=0) if limit is None else max(0, newest - limit + 1)
        with ThreadPoolExecutor(_AHEAD) as pool:
            texts = self._commits(range(oldest, newest + 1), pool)
        unbroken = texts[max((at + 1 for at, text in enumerate(texts) if text is None), default=0) :]
        versions = range(newest - len(unbroken) + 1, newest + 1)
        written = written or self._written(versions)
        times = increasing(written[version] for version in versions)
        return [(v, time, text or "") for v, time, text in zip(versions, times, unbroken, strict=True)][::-1]

    def restored_to(self, restore: Mapping[str, Any], oldest: int) -> int:
        """The version that a RESTORE names; which one a time means, Spark finds."""
        if (version := named_version(restore)) is None:
            raise Unreadable("somebody has restored the table to a time")
        return version

    # ---------------------------------------------------------------------------------------------------------------

    def _checkpoint(self) -> tuple[int, Mapping[str, Any], Mapping[str, Any], dict[tuple[str, ...], DataFile]]:
        """Version, protocol, metadata and files of the newest checkpoint; of version -1 where there is none."""
        from pyarrow.parquet import ParquetFile

        hint = self._text("_last_checkpoint")
        if hint is None:
            return -1, {}, {}, {}
        pointer = json.loads(hint)
        version, parts = pointer["version"], pointer.get("parts")
        if pointer.get("v2Checkpoint") is not None:
            raise Unreadable("its checkpoint is of the second form")
        names = [f"{version:020}.checkpoint.parquet"]
        if parts is not None:
            names = [f"{version:020}.checkpoint.{part:010}.{parts:010}.parquet" for part in range(1, parts + 1)]
        columns = ["protocol", "metaData", *(f"add.{name}" for name in _OF_FILE)]
        protocol, metadata, files = {}, {}, dict[tuple[str, ...], DataFile]()
        for name in names:
            table = ParquetFile(self.filesystem.open_input_file(self._path(name))).read(columns=columns)
            for kind in ("protocol", "metaData", "add"):
                column = table[kind]
                for action in column.filter(column.is_valid()).to_pylist():
                    if kind == "add":
                        files[_key(action)] = file_of(action)
                    elif kind == "protocol":
                        protocol = action
                    else:
                        metadata = {**action, "configuration": dict(action["configuration"] or ())}
        return version, protocol, metadata, files

    def texts_behind(self, version: int) -> Iterator[str]:
        """What the commits behind a version say, the oldest first.

        Raises:
            Unreadable: a version is missing between others.
        """
        with ThreadPoolExecutor(_AHEAD) as pool:
            while True:
                texts = self._commits(range(version + 1, version + 1 + _AHEAD), pool)
                count = texts.index(None) if None in texts else len(texts)
                if any(text is not None for text in texts[count:]):
                    raise Unreadable(f"version {version + 1 + count} is missing, and later ones are there")
                yield from (text or "" for text in texts[:count])
                version += count
                if count < len(texts):
                    return

    def _commits(self, versions: Iterable[int], pool: ThreadPoolExecutor) -> list[str | None]:
        """What these commits say; None of those that are not there."""
        missing = [version for version in versions if version not in self._read]
        texts = pool.map(self._text, (f"{version:020}.json" for version in missing))
        self._read.update((v, text) for v, text in zip(missing, texts, strict=True) if text is not None)
        return [self._read.get(version) for version in versions]

    @cached_property
    def _read(self) -> dict[int, str]:
        """Version → what its commit says, of those that were read."""
        return {}

    def _written(self, versions: Sequence[int]) -> dict[int, datetime]:
        """When these commits were written, a request for each."""
        infos = self.filesystem.get_file_info([self._path(f"{version:020}.json") for version in versions])
        return {version: _time(info) for version, info in zip(versions, infos, strict=True)}

    def _written_all(self) -> dict[int, datetime]:
        """When all commits were written that are there: a request for each thousand files of the log."""
        from pyarrow import fs

        infos = self.filesystem.get_file_info(fs.FileSelector(self._path("").rstrip("/")))
        return {int(info.base_name[:20]): _time(info) for info in infos if _COMMIT.fullmatch(info.base_name)}

    def _text(self, name: str) -> str | None:
        try:
            with self.filesystem.open_input_stream(self._path(name)) as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return None

    def _path(self, name: str) -> str:
        return f"{self.folder}/_delta_log/{name}"


class reading:  # noqa: N801
    """Says of a table within the block that it is unreadable, whatever its store, or pyarrow, says."""

    def __init__(self, identifier: str) -> None:
        self.identifier = identifier

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, failed: BaseException | None, at: object) -> None:
        # Arrow's own errors are of these classes, too; what is no log of Delta's lacks keys, or has others types.
        if isinstance(failed, ImportError | OSError | ValueError | LookupError | TypeError | NotImplementedError):
            raise ReadFailed(f"{self.identifier}: {failed}") from failed


def store(identifier: str, storage: Storage) -> tuple[Any, str]:
    """The file system of a path, and the path within it.

    Raises:
        Unreadable: Arrow's client cannot be let into it as Spark is.
    """
    from pyarrow import fs

    place = location.place(identifier)
    path = "/".join((place.bucket, *place.steps))
    if not place.on_s3:
        return fs.LocalFileSystem(), path
    if storage.options:
        raise Unreadable("storage.options are Hadoop's, and nobody else knows them")
    if beyond := storage.beyond_arrow:
        raise Unreadable(beyond)
    if not storage.endpoint and (variable := next((name for name in _ENDPOINTS if os.environ.get(name)), None)):
        raise Unreadable(f"${variable} names a store, and storage.endpoint does not")
    keys = {name.removeprefix("aws_"): value for name, value in storage.aws_keys.items()}
    names = {"access_key_id": "access_key", "secret_access_key": "secret_key", "session_token": "session_token"}
    role = storage.role
    url = urlparse(storage.endpoint or "")
    endpoint = {"endpoint_override": url.netloc, "scheme": url.scheme, "region": storage.region or "us-east-1"}
    store = fs.S3FileSystem(
        **{names[name]: value for name, value in keys.items()},
        **({"role_arn": role.arn, "session_name": role.session_name, "external_id": role.external} if role else {}),
        **(endpoint if storage.endpoint else {"region": storage.region}),
        force_virtual_addressing=bool(storage.endpoint) and not storage.path_style,
        connect_timeout=_TIMEOUT_S,
        request_timeout=_TIMEOUT_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=2),
    )
    return store, path


def _time(info: Any) -> datetime:
    """When a file was written, in whole milliseconds, as the store says."""
    return datetime.fromtimestamp(info.mtime_ns // 1_000_000 / 1000)


def actions(text: str) -> Iterator[tuple[str, Any]]:
    """Kind and fields of each action of a commit."""
    for line in text.splitlines():
        if line.strip():
            action = json.loads(line)
            if not isinstance(action, dict):
                raise Unreadable("what the log says is no action")
            yield from action.items()


def _key(action: Mapping[str, Any]) -> tuple[str, ...]:
    """What a file is known by: its path, and its deletion vector."""
    vector = action.get("deletionVector")
    of_vector = [str(vector.get(name)) for name in ("storageType", "pathOrInlineDv", "offset")] if vector else ()
    return (action["path"], *of_vector)


def file_of(action: Mapping[str, Any]) -> DataFile:
    """What an `add` adds."""
    if _ELSEWHERE.match(path := action["path"]):
        raise Unreadable(f"{path} lies outside of the table")
    masked, partition = action.get("deletionVector") is not None, dict(action["partitionValues"])
    stats, modified = action.get("stats"), action.get("modificationTime", 0)
    return DataFile(unquote(path), action["size"], partition, stats, masked, modified)


def _features(protocol: Mapping[str, Any]) -> set[str]:
    return {name.removesuffix("-preview") for name in protocol.get("readerFeatures") or ()}


def _check_protocol(table: str, protocol: Mapping[str, Any]) -> None:
    """Notice that a table has what this reader does not know.

    Raises:
        TableMismatch: a catalog keeps its newest commits.
        Unreadable: it has something else.
    """
    check_managed(table, " ".join((*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ()))))
    unknown = _features(protocol) - _FEATURES
    if protocol["minReaderVersion"] > _PROTOCOL or unknown:
        raise Unreadable(f"it has {', '.join(sorted(unknown)) or 'a newer protocol'}")


def _entry(version: int, time: datetime | None, text: str) -> dict[str, Any]:
    info: Mapping[str, Any] = next((action for kind, action in actions(text) if kind == "commitInfo"), {})
    return entry_of(version, time, info)


def _change(version: int, text: str) -> dict[str, Any]:
    changes = [(kind, each) for kind, each in actions(text) if kind in ("add", "remove") and each["dataChange"]]
    added = [file_of(each) for kind, each in changes if kind == "add"]
    return {**_entry(version, None, text), "added": added, "removes": len(changes) - len(added)}


def _added(text: str) -> list[DataFile]:
    return [file_of(action) for kind, action in actions(text) if kind == "add"]
