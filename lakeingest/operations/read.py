"""Records of a pipeline by their coordinates, time or key, out of the table and its quarantine, without Spark.

Only the files are opened that may hold one of them: their statistics, and their partitions, say which.
"""

from __future__ import annotations

import base64
import heapq
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from lakeingest.config import PipelineConfig, Storage
from lakeingest.delta.reader import rows
from lakeingest.delta.reader.log import CUT, DataFile, NoTable, OfflineLog, Unreadable, reading
from lakeingest.errors import UsageError
from lakeingest.operations import sql
from lakeingest.record import COORDINATES, HEADERS, KEY, OFFSET, PARTITION, TIMESTAMP, TOPIC
from lakeingest.schema.time_patterns import DAY
from lakeingest.spark import s3a

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 5_000
"""Rows that become records at once."""
_KEYS = ("string", "binary", "int8", "int16", "int32", "int64")
_CLOCK = r"[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{3}))?)?)?"
_TIME = re.compile(rf"({DAY})(?:{_CLOCK})?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_UNITS = ("days", "hours", "minutes", "seconds", "milliseconds")

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class RecordSelection:
    """Which records are asked for; what is None is not asked.

    Attributes:
        first, end: offsets, from the first one up to but without `end`.
        since, until: times of records in Kafka, without `until`.
        key: the record's key, as text.

    Raises:
        UsageError: no record can be meant.
    """

    topic: str | None = None
    partition: int | None = None
    first: int | None = None
    end: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if self.first is not None and self.end is not None and self.end <= self.first:
            raise UsageError(
                f"--to-offset {self.end} is not behind --from-offset {self.first}",
                cure="--to-offset is the first offset that is not read",
            )


@dataclass(frozen=True)
class Records:
    """What was found.

    Attributes:
        records: to be iterated over once.
        files: table and quarantine → how many of its files are opened, and how many there are.
    """

    records: Iterator[Json]
    files: dict[str, tuple[int, int]]


def within(text: str) -> tuple[datetime, datetime]:
    """The time that a text names: a day, an hour, a minute, a second or a millisecond, in UTC unless it has a zone.

    Returns:
        Its beginning, and its end.

    Raises:
        UsageError: it names none.
    """
    try:
        match = _TIME.fullmatch(text.strip())
        if match is None:
            raise ValueError
        day, hour, minute, second, millisecond, zone = match.groups()
        parts = sum(part is not None for part in (hour, minute, second, millisecond))
        clock = f"{hour or '00'}:{minute or '00'}:{second or '00'}.{millisecond or '000'}"
        begin = datetime.fromisoformat(f"{day}T{clock}{zone or 'Z'}").astimezone(UTC)
        return begin, begin + timedelta(**{_UNITS[parts]: 1})
    except (ValueError, OverflowError):
        raise UsageError(
            f"--at {text!r} is no time",
            cure="write a day, an hour, a minute or a second, as in 2026-11-23 or 2026-11-23T14:05+01:00",
        ) from None


@contextmanager
def records(config: PipelineConfig, storage: Storage, selection: RecordSelection) -> Iterator[Records]:
    """The records, in the order of topic, partition and offset; they are read within the block.

    Each has _topic, _partition, _offset, _timestamp, _key, _headers and the columns of the table; one in quarantine has
    in their place _value and _refused: stage, reason, message. Bytes are text where they are UTF-8, else {"base64": …}.
    What JSON has no number for is text: decimals, NaN, times (ISO 8601, in UTC).

    Raises:
        UsageError: there is no table yet, it cannot be read without Spark, or its keys are no text, bytes or number.
        StorageUnreachable: the store does not answer.
        SetupError: pyarrow is missing.
    """
    rows.check_installed()
    s3a.check_listens(storage, config.paths)
    identifier = config.table.identifier
    try:
        sources = {"table": _FilesOfTable(OfflineLog(identifier, storage), KEY, selection)}
        streams = [sources["table"].records(_record)]
        identifier = config.quarantine.identifier
        with suppress(NoTable):
            sources["quarantine"] = _FilesOfTable(OfflineLog(identifier, storage), "key", selection)
            streams.append(sources["quarantine"].records(_refused, config.known_as))
        merged = heapq.merge(*streams, key=lambda record: [record[name] for name in COORDINATES])
        yield Records(merged, {name: (source.opened, source.standing) for name, source in sources.items()})
    except Unreadable as failed:
        raise sql.unreadable(identifier, failed) from failed


class _FilesOfTable:
    """One of the tables, of which some files may hold what is wanted.

    Args:
        key: its column with the records' keys.

    Raises:
        Unreadable: from every method; of it NoTable where there is none.
    """

    def __init__(self, log: OfflineLog, key: str, selection: RecordSelection) -> None:
        self.identifier, self.key, self.selection = log.identifier, key, selection
        files = [file for file in log.state.files if may_hold(file, selection, key)]
        self.opened, self.standing = len(files), len(log.state.files)
        self.table = rows.dataset(log, files)
        self.condition = self._condition()

    def records(self, make: Callable[[Json], Json], pipeline: str | None = None) -> Iterator[Json]:
        """The records in the order of their coordinates.

        Args:
            make: a row, with its values as JSON has them, as a record.
            pipeline: only the rows of this one that no replay has moved into the table.
        """
        from pyarrow import dataset as ds

        schema, condition = self.table.schema, self.condition
        if pipeline is not None:
            condition = condition & (ds.field("pipeline") == pipeline)
            if "moved" in schema.names:
                condition = condition & ds.field("moved").is_null()
        plain = {name: _nullable(kind) for name, kind in zip(schema.names, schema.types, strict=True)}
        with reading(self.identifier):
            rows = self.table.to_table(filter=condition).sort_by([(name, "ascending") for name in COORDINATES])
            for batch in rows.to_batches(_BATCH):
                for row in batch.to_pylist():
                    yield make({name: plain[name](value) for name, value in row.items()})

    def _condition(self) -> Any:
        """What holds of a wanted row."""
        from pyarrow import dataset as ds

        selection = self.selection
        each: list[tuple[Any, Callable[[Any], Any]]] = [
            (selection.topic, lambda value: ds.field(TOPIC) == value),
            (selection.partition, lambda value: ds.field(PARTITION) == value),
            (selection.first, lambda value: ds.field(OFFSET) >= value),
            (selection.end, lambda value: ds.field(OFFSET) < value),
            (selection.since, lambda value: ds.field(TIMESTAMP) >= value),
            (selection.until, lambda value: ds.field(TIMESTAMP) < value),
            (selection.key, self._has_key),
        ]
        # A row that was there before the table was adopted is no record that is known.
        condition = ds.field(TOPIC).is_valid() & ds.field(PARTITION).is_valid() & ds.field(OFFSET).is_valid()
        for value, says in each:
            if value is not None:
                condition = condition & says(value)
        return condition

    def _has_key(self, key: str) -> Any:
        from pyarrow import dataset as ds

        kind = str(self.table.schema.field(self.key).type) if self.key in self.table.schema.names else "left out"
        if kind not in _KEYS:
            raise UsageError(
                f"the keys of this table are {kind}, not text, bytes or a whole number: --key cannot name one",
                cure='ask in SQL, as in lakeingest sql FILE "SELECT * FROM … WHERE _key.id = 7"',
            )
        if kind == "binary":
            return ds.field(self.key) == key.encode()
        return ds.field(self.key).cast("string") == key


def may_hold(file: DataFile, selection: RecordSelection, key: str) -> bool:
    """Whether a file may hold a wanted record, by its partition and its statistics; without these it may."""
    for name, value in ((TOPIC, selection.topic), (PARTITION, selection.partition)):
        if value is not None and file.partition.get(name, str(value)) != str(value):
            return False
    try:
        statistics = file.statistics
    except Unreadable:
        return True
    least, most = statistics.get("minValues", {}), statistics.get("maxValues", {})

    def beyond(name: str, first: Any, last: Any, read: Callable[[Any], Any]) -> bool:
        """Whether all values of a column lie before the first, or behind the last, that is wanted."""
        try:
            low, high = read(least[name]), read(most[name])
        except (KeyError, TypeError, ValueError):
            return False
        return (first is not None and high < first) or (last is not None and low > last)

    def beginning(value: str) -> str:
        # What is cut off may be less or more than anything.
        return value[: CUT - 1]

    last = None if selection.end is None else selection.end - 1
    # Statistics have whole milliseconds, and times have three digits more.
    since = None if selection.since is None else selection.since - timedelta(milliseconds=1)
    # The bytes of keys have no statistics, and numbers are not in the order of their texts.
    texts = {TOPIC: selection.topic, **({key: selection.key} if isinstance(least.get(key), str) else {})}
    return not (
        beyond(PARTITION, selection.partition, selection.partition, int)
        or beyond(OFFSET, selection.first, last, int)
        or beyond(TIMESTAMP, since, selection.until, lambda value: datetime.fromisoformat(value).astimezone(UTC))
        or any(
            beyond(name, beginning(value), beginning(value), beginning)
            for name, value in texts.items()
            if value is not None
        )
    )


def _record(row: Json) -> Json:
    """A row of the table: what is of the record itself comes first."""
    of_record = {name: row.pop(name) for name in (*COORDINATES, TIMESTAMP, KEY, HEADERS) if name in row}
    return {**of_record, **row}


def _refused(row: Json) -> Json:
    """A row of quarantine, named as in the table, with the bytes of its value and why it was refused."""
    of_record = {name: row[name] for name in (*COORDINATES, TIMESTAMP)}
    # `bytes` says that the value is not as it came: encrypted, or left out.
    why = {name: row[name] for name in ("stage", "reason", "message")}
    why |= {name: row[name] for name in ("bytes", "discarded") if row.get(name) is not None}
    return {**of_record, KEY: row["key"], HEADERS: row["headers"], "_value": row["value"], "_refused": why}


def _plain(kind: pa.DataType) -> Callable[[Any], Any]:
    """What makes a value of this type one that JSON has; it is never asked of None."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        fields = {child.name: _nullable(child.type) for child in kind}
        return lambda value: {name: fields[name](item) for name, item in value.items()}
    if pa.types.is_map(kind):
        names, items = _plain(kind.key_type), _nullable(kind.item_type)
        # Pairs: an older table may have a key twice, and the last one holds.
        return lambda value: {str(names(name)): items(item) for name, item in value}
    if pa.types.is_list(kind):
        each = _nullable(kind.value_type)
        return lambda value: [each(item) for item in value]
    return _scalar


def _nullable(kind: pa.DataType) -> Callable[[Any], Any]:
    plain = _plain(kind)
    return lambda value: None if value is None else plain(value)


def _scalar(value: Any) -> Any:
    match value:
        case bytes():
            return _text(value)
        case float() if not math.isfinite(value):
            # Spark's words, which an export writes too.
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case Decimal():
            return format(value, "f")
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
    return value


def _text(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
