"""A bronze table as the source of a pipeline: a log like Kafka's, since it keeps each record under its coordinates.

1. What it holds, the receipts of its log say: the frontier of each pipeline that writes it is where it ends, and the
   cluster and the topics are theirs. So a pipeline that was fed from bronze can go on from Kafka, and the other way
   round: the same offsets are the same records.
2. A batch reads the rows of its offsets, at the version that was looked at. An offset without a row is a hole, as of a
   compacted topic: bronze has refused or dropped that record.
3. Records may come in below the frontier: a replay out of bronze's quarantine, a backfill, a RESTORE. Each commit
   since the version that the newest receipt names is looked at, and what it added there is a batch of its own (`Late`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from lakeingest.config import Storage, location
from lakeingest.delta import commit_log, coordinates, table_properties
from lakeingest.delta.history import RECENT
from lakeingest.delta.reader import choice
from lakeingest.delta.reader.contract import TableReader
from lakeingest.delta.reader.files import FileTable
from lakeingest.delta.reader.log import Unreadable
from lakeingest.delta.receipt import Receipt
from lakeingest.delta.table import Table
from lakeingest.errors import LakeingestError, OffsetsLost, SourceChanged, TableMismatch, UsageError
from lakeingest.kafka import offsets
from lakeingest.kafka.offsets import Topics
from lakeingest.record import (
    COORDINATES,
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    RAW_KEY,
    RAW_VALUE,
    RESCUED,
    SCHEMA_ID,
    TIMESTAMP,
    TOPIC,
    Frontier,
    OffsetRange,
    OffsetRanges,
)
from lakeingest.spark import failures
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Answer = TypeVar("Answer")
Entry = Mapping[str, Any]
_VALUE = "value"
_KINDS = {TOPIC: ("string",), PARTITION: ("int",), OFFSET: ("bigint",), TIMESTAMP: ("timestamp",)}
_BYTES = ("binary", "string")
_HEADERS = "array<struct<key:string,value:binary>>"
_TAKES_AWAY = frozenset({"DELETE", "UPDATE", "MERGE", "RESTORE", "TRUNCATE"})
"""Operations that may take rows away, or change them; a WRITE does so if it overwrites."""
_APPENDS = frozenset({"WRITE", "STREAMING UPDATE"})


@dataclass(frozen=True)
class Late:
    """Where records may have come into a table below the frontier of a pipeline that reads it.

    Attributes:
        ranges: offsets, all below the frontier; it need not be said of each that its record came in.
        read_from: what the receipt of their batch says: table and version; and `since`, where what was added is told
            exactly: the rows that `version` has and `since` has not. Else what the pipeline's tables lack is taken.
    """

    ranges: OffsetRanges
    read_from: Mapping[str, Any]

    @property
    def inexact(self) -> Late | None:
        """The same where the older version can no longer be read; None if it was not to be."""
        if "since" not in self.read_from:
            return None
        return replace(self, read_from={name: value for name, value in self.read_from.items() if name != "since"})


@dataclass(frozen=True)
class _Look:
    """What the table's log said.

    Attributes:
        receipts: the newest receipt of each pipeline that writes to the table.
        id: the table's, as its metadata has it; empty where Spark was asked, which tells it dearly.
    """

    version: int
    receipts: Mapping[str, Receipt]
    id: str = ""


class BronzeSource:
    """A table that lakeingest wrote, with the values of records as bytes, and their coordinates.

    Its log is read without Spark where its files tell it for certain.

    Args:
        table: its path or name.
        wanted: the topics that are read; empty for all that it has.
        spark: gives a session, if one is needed.

    Raises:
        TableMismatch: from every method: lakeingest did not write the table, or not as bytes with coordinates.
        StorageError, UsageError: from every method: it cannot be read, or is not there.
    """

    def __init__(self, table: str, topics: Sequence[str], storage: Storage, spark: Callable[[], SparkSession]) -> None:
        self.address, self._topics, self._storage, self._spark = table, tuple(topics), storage, spark
        self._look: _Look | None = None
        self._first: dict[tuple[str, int], int] = {}
        self._has_warned = False

    # What it holds -----------------------------------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        """The topics that are read."""
        return tuple(sorted(self.topics().ids))

    def topics(self) -> Topics:
        """Ids, first and last offsets of every partition of the topics, as bronze stands now. The first ones may be
        lower than the first record that is there.
        """
        look = self._look = self._looked()
        receipts = [*look.receipts.values()]
        clusters = {receipt.cluster for receipt in receipts}
        if len(clusters) > 1:
            raise SourceChanged(
                f"{self.address} has records of {len(clusters)} Kafka clusters ({', '.join(sorted(clusters))}): the "
                "same offsets are other records there",
                cure="read a table that was fed from one cluster",
            )
        ids = self._ids(receipts)
        last = dict[tuple[str, int], int]()
        for tp, end in (each for receipt in receipts for each in receipt.ranges.frontier.items() if each[0][0] in ids):
            # Several pipelines may have fed one topic-partition: each one's rows end where its newest receipt does.
            last[tp] = max(end, last.get(tp, end))
        if missing := [name for name in self._topics if name not in ids]:
            raise UsageError(
                f"{self.address} has no records of {', '.join(missing)}; it has those of {', '.join(sorted(ids))}",
                cure="correct source.topics, or leave them out to read all",
            )
        if self._topics:
            ids = {name: ids[name] for name in self._topics}
            last = {tp: end for tp, end in last.items() if tp[0] in ids}
        if last.keys() - self._first.keys():
            self._first = self._first_offsets(last)
        first = {tp: min(self._first[tp], end) for tp, end in last.items()}
        return Topics(clusters.pop(), ids, first, last, self._read_from(look))

    def _ids(self, receipts: Sequence[Receipt]) -> dict[str, str]:
        """The topics of all receipts, each with its id; a cluster that was upgraded since may have given none before.

        Raises:
            SourceChanged: a topic has two ids.
        """
        ids = dict[str, str]()
        for name, id_ in (each for receipt in receipts for each in receipt.all_topics.items()):
            before = offsets.topic_id(ids.get(name))
            if before and offsets.topic_id(id_) not in ("", before):
                raise SourceChanged(
                    f"{self.address} has records of two topics called {name!r} (ids {before} and {id_}): one was "
                    "deleted and made again, and the same offsets are other records there",
                    cure="read a table that was fed from one of them",
                )
            ids[name] = before or id_
        return ids

    def _read_from(self, look: _Look) -> dict[str, Any]:
        return {"table": self.address, "version": look.version, **({"id": look.id} if look.id else {})}

    def _looked(self) -> _Look:
        """What the log says now; where it was read before, from there on."""
        before = self._look
        if before is None:
            return self._answer(self._newest)
        entries = self._behind(before.version)
        if entries is None or any(entry["operation"] == "RESTORE" for entry in entries):
            self._first = {}
            return self._answer(self._newest)
        if any(not _regular(entry) and _may_begin_earlier(entry) for entry in entries):
            self._first = {}
        newest = {receipt.pipeline: receipt for entry in reversed(entries) if (receipt := _regular(entry))}
        version = entries[0]["version"] if entries else before.version
        return _Look(version, {**before.receipts, **newest}, before.id)

    def _newest(self, table: TableReader) -> _Look:
        makers = table_properties.makers(table.properties).keys()
        for limit in (RECENT, None):
            history = table.history(limit)
            # Nobody has the empty name: so all of them are others.
            newest = commit_log.of_history("", history, table).other_pipelines
            receipts = {name: receipt for name, receipt in newest.items() if _is_regular(receipt)}
            if history[-1]["version"] == 0 or (makers and makers <= receipts.keys()):
                break
        if not receipts:
            raise TableMismatch(
                f"the log of {self.address} has no receipt of lakeingest's: another program wrote the table, or no "
                "pipeline has written to it for so long that clean-up took the receipts",
                cure="let source.table name one that a pipeline of yours writes (decode.value.format: bytes); if it "
                "is, run that pipeline: its next commit says how far it has come",
            )
        return _Look(history[0]["version"], receipts, table.id)

    def _behind(self, version: int) -> Sequence[Entry] | None:
        """The history behind a version, the newest first; without Spark, also what each commit added (`added`), and
        whether it took rows away (`removes`). None where the log does not reach back so far.
        """
        entries = self._answer(lambda table: table.since(version))
        whole = not entries or entries[-1]["version"] == version + 1
        newest = entries[0]["version"] if entries else version
        return entries if whole and (self._look is None or newest >= self._look.version) else None

    def _answer(self, ask: Callable[[TableReader], Answer]) -> Answer:
        """What the table tells, without Spark if possible."""
        return choice.answer(
            lambda: ask(FileTable(self.address, self._storage)), lambda: ask(self._by_spark()), files_first=True
        )

    def _by_spark(self) -> TableReader:
        from lakeingest.delta.reader.spark import SparkTable

        table = SparkTable(self._table())
        if not table.exists:
            raise UsageError(
                f"there is no Delta table at {self.address}, which source.table names",
                cure="run the pipeline that writes it first, or correct source.table",
            )
        return table

    def _table(self) -> Table:
        return Table(self._spark(), self.address)

    def _first_offsets(self, last: Frontier) -> dict[tuple[str, int], int]:
        """Where each topic-partition begins, or somewhat lower: files may have rows of several."""

        def ask(table: TableReader) -> dict[tuple[str, int], int]:
            if table.files is None:
                return {**last, **self._first_of_rows()}
            boxes = [_box(file) for file in table.files]
            if None in boxes:
                raise Unreadable("a file does not say which offsets it has")
            exact = [*filter(None, boxes)]
            return {tp: min((b[2] for b in exact if b[0] <= tp[0] <= b[1]), default=end) for tp, end in last.items()}

        return self._answer(ask)

    def _first_of_rows(self) -> dict[tuple[str, int], int]:
        with storage_failures(self.address):
            return {(s.topic, s.partition): s.start for s in coordinates.extent(self._rows(self._spark()))}

    def reach(self, moment: datetime) -> NoReturn:
        """Nothing can be said: what Kafka has beyond bronze is not known.

        Raises:
            UsageError: always; a file that asks for it is refused before.
        """
        raise UsageError(
            f"{self.address} does not tell what Kafka holds at {moment}",
            cure="ask the pipeline that writes that table",
        )

    def times(self, starts: Frontier, ends: Frontier) -> dict[tuple[str, int], datetime]:
        """The timestamps of the first records from these offsets on."""
        from pyspark.sql import functions as F

        ranges = OffsetRanges(tuple(OffsetRange(*tp, start, ends[tp]) for tp, start in starts.items()))
        millis = F.unix_millis(F.min_by(TIMESTAMP, OFFSET))
        with storage_failures(self.address):
            rows = coordinates.within(self._rows(self._spark()), ranges).groupBy(TOPIC, PARTITION).agg(millis).collect()
        return {(t, p): datetime.fromtimestamp(at / 1000, UTC) for t, p, at in rows if at is not None and at >= 0}

    # What came in below the frontier -----------------------------------------------------------------------------

    def late(self, read_from: Mapping[str, Any], frontier: Frontier) -> Sequence[Late]:
        """See `RecordSource.late`: a batch for each commit that has added rows below the frontier, the oldest first.

        Where the log does not tell what was added since (clean-up, another table than the one that was read before),
        all that lies below the frontier is looked at once.

        Raises:
            OffsetsLost: the table begins behind the frontier, and was not the one that was read before.
        """
        assert self._look is not None, "topics() comes first"
        # From 0 on: what is brought in may lie before all that was there.
        below = OffsetRanges.up_to(frontier)
        whole = Late(below, self._read_from(self._look))
        since = self._last_version(read_from, self._look)
        entries = None if since is None else self._behind(since)
        if entries is None:
            self._check_begins(frontier)
            return (whole,) if below.offsets else ()
        batches, vacuumed = list[Late](), False
        for entry in entries:
            version = entry["version"]
            # What a look before the last one has not seen is for the next batch.
            if version > self._look.version:
                continue
            self._tell_of(entry)
            ranges = self._added(entry, frontier, below)
            if ranges.offsets:
                exact = {} if vacuumed else {"since": version - 1}
                batches.append(Late(ranges, {**self._read_from(self._look), "version": version, **exact}))
            vacuumed = vacuumed or entry["operation"].startswith("VACUUM")
        return batches[::-1]

    def _last_version(self, read_from: Mapping[str, Any], look: _Look) -> int | None:
        """The version that was seen last; None where it was another table's, as of one that was made anew."""
        other = look.id and read_from.get("id", look.id) != look.id
        same = location.same_table(read_from.get("table", ""), self.address)
        if other or not same or read_from["version"] > look.version:
            return None
        return int(read_from["version"])

    def _added(self, entry: Entry, frontier: Frontier, below: OffsetRanges) -> OffsetRanges:
        """Where below the frontier a commit may have added rows."""
        if receipt := _regular(entry):
            # As a rule these lie beyond the frontier; behind a RESTORE bronze takes them anew.
            return receipt.ranges.before(frontier)
        if "added" not in entry:
            return below if _may_add(entry) else OffsetRanges(())
        boxes = [_box(file) for file in entry["added"]]
        if None in boxes:
            return below
        ranges = [
            OffsetRange(s.topic, s.partition, max(s.start, low), min(s.end, high))
            for s in below
            for least, most, low, high in filter(None, boxes)
            if least <= s.topic <= most
        ]
        return OffsetRanges(tuple(ranges)).merged

    def _tell_of(self, entry: Entry) -> None:
        """Say that somebody has taken rows away, or may have: that is never taken over."""
        if not _takes_away(entry):
            return
        warnings.warn(
            f"version {entry['version']} of {self.address} ({entry['operation']}) has taken rows away or changed them: "
            "what was read of them before stays as it is. To take that over, rebuild the table (`lakeingest rebuild`)",
            stacklevel=2,
        )

    def _check_begins(self, frontier: Frontier) -> None:
        """Notice that a table that was not read before lacks what comes next."""
        first = self._first_of_rows()
        for tp, end in sorted(frontier.items()):
            if end < (begins := first.get(tp, end)):
                raise OffsetsLost(
                    f"{tp[0]}-{tp[1]}: offsets {end} to {begins - 1} were never read, and {self.address} begins behind "
                    "them",
                    cure="read them from Kafka first (source.bootstrap_servers instead of source.table), or bring them "
                    "into that table; or rebuild this one from it (`lakeingest rebuild`)",
                )

    # Its records -------------------------------------------------------------------------------------------------

    def frame(
        self, spark: SparkSession, ranges: OffsetRanges, *, read_from: Mapping[str, Any] | None = None, **_: object
    ) -> DataFrame:
        """See `RecordSource.frame`."""
        if not read_from or "since" not in read_from:
            return coordinates.within(self._rows(spark), ranges)
        rows = coordinates.within(self._rows(spark, read_from["version"]), ranges)
        with storage_failures(self.address):
            before = coordinates.of(Table(spark, self.address).read(read_from["since"]), ranges)
            return rows.join(before, list(COORDINATES), "left_anti")

    def _rows(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        """All records, as `kafka.reader.frame` has them, at the version that was looked at or another one.

        Raises:
            TableMismatch: its columns are no records as bytes.
        """
        from pyspark.sql import functions as F

        at = self._look.version if version is None and self._look else version
        with storage_failures(self.address):
            rows = Table(spark, self.address).read(at)
            kinds = dict(rows.dtypes)
        self._check_columns(kinds)

        def column_or_null(name: str, kind: str, like: Sequence[str]) -> Column:
            return (F.col(name) if kinds.get(name) in like else F.lit(None)).cast(kind)

        return rows.select(
            *COORDINATES,
            TIMESTAMP,
            column_or_null(KEY, "binary", _BYTES).alias(RAW_KEY),
            F.col(_VALUE).cast("binary").alias(RAW_VALUE),
            column_or_null(HEADERS, _HEADERS, (_HEADERS,)).alias(HEADERS),
        )

    def _check_columns(self, kinds: Mapping[str, str]) -> None:
        wrong = [f"{n} {kinds.get(n, 'is missing')}" for n, like in _KINDS.items() if kinds.get(n) not in like]
        if wrong:
            raise TableMismatch(
                f"{self.address} has no coordinates of Kafka's records: {', '.join(wrong)}",
                cure="let source.table name a table that lakeingest wrote, whose columns _topic, _partition, _offset "
                "and _timestamp nobody has changed",
            )
        if "refused_at" in kinds:
            raise TableMismatch(
                f"{self.address} is a quarantine, whose records are refused ones",
                cure="replay them (`lakeingest quarantine replay`): what passes is in the table then",
            )
        if RESCUED in kinds or SCHEMA_ID in kinds:
            raise TableMismatch(
                f"{self.address} has the decoded fields of records, and not their bytes",
                cure="let source.table name a table whose pipeline says decode.value.format: bytes",
            )
        if kinds.get(_VALUE) not in _BYTES:
            raise TableMismatch(
                f"{self.address} does not keep the values of records as bytes: its column value "
                f"{'is ' + kinds[_VALUE] if _VALUE in kinds else 'is missing'}",
                cure="let source.table name a table whose pipeline says decode.value.format: bytes (or string)",
            )
        if self._has_warned:
            return
        self._has_warned = True
        lacks = [n for n, like in ((KEY, _BYTES), (HEADERS, (_HEADERS,))) if kinds.get(n) not in like]
        if lacks:
            warnings.warn(
                f"{self.address} does not keep {' and '.join(lacks)} as they came: "
                f"{'it is' if len(lacks) == 1 else 'they are'} null in what is read from it. A bronze table keeps both "
                "with decode.key.format: bytes and decode.headers: true",
                stacklevel=2,
            )

    def commit(self, group: str, frontier: Frontier) -> None:
        """Nothing: the pipeline file names no group where it names a table."""

    def unreadable(self, failed: Exception) -> LakeingestError:
        """See `RecordSource.unreadable`."""
        return failures.translate(self.address, failed)


def _is_regular(receipt: Receipt) -> bool:
    """Whether it is one of a run: replays and whatever else commits beside it have a name with a colon."""
    return ":" not in receipt.pipeline


def _regular(entry: Entry) -> Receipt | None:
    receipt = Receipt.from_json(entry["userMetadata"])
    return receipt if receipt is not None and _is_regular(receipt) else None


def _box(file: Any) -> tuple[str, str, int, int] | None:
    """Of the rows of a data file: least and greatest topic, least offset, and the one behind the greatest; None where
    its statistics do not say.
    """
    try:
        ends = [file.statistics[name] for name in ("minValues", "maxValues")]
        (least, low), (most, high) = ((str(end[TOPIC]), int(end[OFFSET])) for end in ends)
    except (Unreadable, KeyError, TypeError, ValueError):
        return None
    return least, most, low, high + 1


def _mode(entry: Entry) -> str:
    parameters = entry["operationParameters"] or {}
    return str(parameters.get("mode") or parameters.get("outputMode") or "").strip('"')


def _may_add(entry: Entry) -> bool:
    """Whether a commit may have added rows, as far as the name of its operation tells."""
    return entry["operation"] in _APPENDS | _TAKES_AWAY or "TABLE AS SELECT" in entry["operation"]


def _may_begin_earlier(entry: Entry) -> bool:
    """Whether a commit that is none of a run may have added rows before all others."""
    return bool(entry["added"]) if "added" in entry else _may_add(entry)


def _takes_away(entry: Entry) -> bool:
    """Whether a commit has taken rows away or changed some."""
    if "removes" in entry:
        return bool(entry["removes"])
    replaces = entry["operation"] in _APPENDS and _mode(entry) != "Append"
    return entry["operation"] in _TAKES_AWAY or replaces or "REPLACE TABLE" in entry["operation"]
