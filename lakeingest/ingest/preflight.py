"""Whether table, quarantine, topics and cluster are still the ones that the pipeline's last commit names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lakeingest.config import PipelineConfig
from lakeingest.delta import commit_log, coordinates, table_properties
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.history import TableHistory
from lakeingest.delta.partitioning import PartitionColumn
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Receipt, user
from lakeingest.delta.table import Table
from lakeingest.errors import SourceChanged, TableMismatch, UsageError
from lakeingest.ingest.batch_reader import BatchReader
from lakeingest.kafka import offsets
from lakeingest.kafka.offsets import Topics
from lakeingest.record import COORDINATES, KEY, OFFSET, PARTITION, RESERVED, TIMESTAMP, TOPIC, OffsetRange, OffsetRanges
from lakeingest.schema.readers import shut_out
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.types import StructType

_NEW_NAME = "give the pipeline a new name and table for the new topic"
NEW_TABLE = (
    "make the table anew: with another name, table.path and quarantine.path the pipeline reads all that Kafka still has"
)
"""The cure that is always left."""
_PLAIN = ("json", "string", "bytes")
"""Formats of a key whose type the file alone says."""


@dataclass(frozen=True)
class Accept:
    """What whoever started the run accepts.

    Attributes:
        dropped_topics: that the file no longer names a topic which the table was fed from.
        gaps: that Kafka has deleted offsets which were never read.
        held_reason: a batch that the gate would hold: the first one is let through, for this reason.
        log_restart: that a database's log begins anew.
    """

    dropped_topics: bool = False
    gaps: bool = False
    held_reason: str | None = None
    log_restart: bool = False


def check_accept(config: PipelineConfig, accept: Accept) -> None:
    """Notice that what is accepted is for others to accept; for the errors see `check_user`."""
    if accept.gaps or accept.held_reason is not None or accept.log_restart:
        check_user(config, "accept")


def check_user(config: PipelineConfig, deed: Literal["replay", "accept"]) -> None:
    """Notice that the contract lets others decide. It is a rule for colleagues: whoever can write the tables, or
    change the file, can go round it.

    Raises:
        UsageError: it names others.
    """
    promised = config.contract
    users = getattr(promised, f"may_{deed}") if promised else None
    if users is None or (who := user()) in users:
        return
    deed_text = "replay or discard refused records" if deed == "replay" else "accept what a run stops for"
    raise UsageError(
        f"{who} may not {deed_text} of {config.name!r}: contract.may_{deed} names {', '.join(users) or 'nobody'}",
        cure=f"let one of them do it; or add {who} to contract.may_{deed}, if the table's owners agree",
    )


def check(config: PipelineConfig, log: CommitLog, refused: CommitLog, topics: Topics, accept: Accept) -> None:
    """Notice that the pipeline file was changed to another name, table, quarantine, topic or cluster.

    Raises:
        SourceChanged, TableMismatch: with what to do about it.
    """
    check_tables(config, log, refused)
    if log.newest is None:
        return
    last = log.newest.receipt
    check_topics(last, topics)
    dropped = sorted(set(last.topics) - set(topics.ids))
    if dropped and not accept.dropped_topics:
        raise SourceChanged(
            f"the table was fed from {', '.join(dropped)} too, which source.topics no longer names",
            cure="name it again, or run once with --accept-dropped-topics; its frontier stays remembered",
        )


def check_tables(config: PipelineConfig, log: CommitLog, refused: CommitLog) -> None:
    """The part of `check` that asks no broker.

    Raises:
        TableMismatch: with what to do about it.
    """
    _check_readers(config, log.properties)
    if log.newest is not None:
        commit_log.check_deleted(log.path, log.newest)
    if log.newest is None:
        _check_name(config, log)
        check_still_adopted(config, log)
        check_maker(config, log.properties)
        # A table that a RESTORE took back to its beginning still knows the sequence numbers.
        if refused.newest is not None and not log.recovered and not log.last_sequence:
            raise TableMismatch(
                f"{config.table.identifier} holds nothing of pipeline {config.name!r}, but its quarantine "
                f"{config.quarantine.identifier} does, up to sequence {refused.last_sequence}",
                cure="put table.path back as it was, or give the pipeline a new name",
            )
    elif (before := log.newest.receipt.quarantine) != config.quarantine.identifier:
        raise TableMismatch(
            f"pipeline {config.name!r} kept its refused records in {before}, "
            f"the file now says {config.quarantine.identifier}",
            cure="put quarantine.path (or table.path) back as it was, or give the pipeline a new name and table",
        )


def _check_readers(config: PipelineConfig, properties: Mapping[str, str]) -> None:
    """Notice that the table has what one of its readers cannot read.

    Raises:
        TableMismatch: it names the reader, and the features.
    """
    for who, features in shut_out(config.readers, table_properties.features(properties)).items():
        raise TableMismatch(
            f"{config.table.identifier} has {', '.join(features)}, which {who} cannot read",
            cure=f"drop it from the table (ALTER TABLE … DROP FEATURE {features[0]}), or drop {who} from readers; "
            f"or {NEW_TABLE}",
        )


def check_still_adopted(config: PipelineConfig, log: CommitLog) -> None:
    """Notice that a RESTORE took back that the table was adopted, and with it what is known of its rows.

    Raises:
        TableMismatch: it did.
    """
    if log.unadopted:
        raise TableMismatch(
            f"{config.table.identifier} was restored to what it was before pipeline {config.name!r} adopted it: "
            "which records it has now is not known",
            cure="adopt it again: `lakeingest adopt FILE --dry-run`",
        )


def check_adopted(tables: PipelineTables, log: CommitLog) -> None:
    """Notice that others have added rows since the table was looked at to adopt it, as long as that is the pipeline's
    newest commit: where it goes on was told from what was there then.

    Raises:
        TableMismatch: it names the first of their commits.
    """
    newest = log.newest
    if newest is None or not newest.receipt.job.adopted:
        return
    added = TableHistory(tables.main).adding(newest.receipt.job.adopted["version"])
    strange = [entry for entry in added if _is_strange(entry, tables.config)]
    if strange:
        first = strange[-1]
        raise TableMismatch(
            f"somebody has added rows to {tables.main} since it was looked at to adopt it (version "
            f"{newest.receipt.job.adopted['version']}): version {first['version']}, {first['operation']}, at "
            f"{first['timestamp']:%Y-%m-%d %H:%M:%S}; a run might write the same records a second time",
            cure="stop the job that writes there, then adopt the table again: `lakeingest adopt FILE --dry-run`",
        )


def check_adoptable(config: PipelineConfig, log: CommitLog, refused: CommitLog, *, by_rows: bool) -> None:
    """Notice that a table cannot become the pipeline's, whatever it holds.

    Args:
        by_rows: whether lakeingest wrote its rows, so that the quarantine may be theirs.

    Raises:
        TableMismatch: with what to do about it.
    """
    _check_readers(config, log.properties)
    if log.newest is None:
        _check_name(config, log)
    if refused.newest is not None and not log.last_sequence and not by_rows:
        raise TableMismatch(
            f"{config.quarantine.identifier} has commits of pipeline {config.name!r}, up to sequence "
            f"{refused.last_sequence}, and {config.table.identifier} has none: it is the quarantine of another table",
            cure="name another quarantine.path, or give the pipeline a new name",
        )


def _is_strange(entry: Mapping[str, Any], config: PipelineConfig) -> bool:
    """Whether an entry of the table's history may have records of the pipeline's topics, and is not its own."""
    receipt = Receipt.from_json(entry["userMetadata"])
    if receipt is None:
        return True
    return receipt.pipeline != config.known_as and any(s.topic in config.source.topics for s in receipt.ranges)


def _check_name(config: PipelineConfig, log: CommitLog) -> None:
    """Notice that another pipeline has written these topics to the table: this one would write all of them again.

    Raises:
        TableMismatch: it names the other one.
    """
    for name, receipt in log.others_of(config.source.topics).items():
        topics = sorted({s.topic for s in receipt.ranges}.intersection(config.source.topics))
        raise TableMismatch(
            f"{config.table.identifier} has records of {', '.join(topics)} by pipeline {name!r}, "
            f"batch {receipt.sequence}, and none by {config.known_as!r}, which would write them a second time",
            cure=f"if {name!r} was this pipeline's name before, write renamed_from: {name} beneath name in its file; "
            "else give this one a table of its own",
        )


def check_maker(config: PipelineConfig, properties: Mapping[str, str]) -> None:
    """Notice that the table was made for another pipeline of these topics, which may be at its first batch now.

    Args:
        properties: the table's, read after it was made: of two pipelines that start at once, one has made it.

    Raises:
        TableMismatch: it names the other one.
    """
    for name, fed in table_properties.makers(properties).items():
        topics = sorted(set(fed).intersection(config.source.topics))
        if topics and name != config.known_as:
            raise TableMismatch(
                f"{config.table.identifier} was made for {', '.join(topics)} of pipeline {name!r}, whose first batch "
                f"may be under way; {config.known_as!r} would write the same records a second time",
                cure=f"if {name!r} was this pipeline's name before, write renamed_from: {name} beneath name in its "
                "file; if the table is a clone, adopt it: `lakeingest adopt FILE --dry-run`; else give this one a "
                "table of its own",
            )


def check_exists(tables: PipelineTables) -> None:
    """Notice that the table is gone, while its quarantine still has the pipeline's commits. A run says the same.

    Raises:
        TableMismatch: with what to do about it.
        StorageUnreachable: a table cannot be read.
    """
    missing = {table for table in (tables.main, tables.quarantine) if table.schema() is None}
    if tables.main in missing:
        check_tables(tables.config, *tables.commit_logs(new=missing))


def check_columns(
    tables: PipelineTables,
    columns: StructType,
    properties: Mapping[str, str],
    target_columns: StructType,
    partitions: Sequence[PartitionColumn],
) -> None:
    """Hold the table to the file: its partitions, and the types of the columns that are not the value's.

    What the value's columns may become is decided where schemas are (see `Evolution`).

    Args:
        columns, properties: what the table has.
        target_columns, partitions: the columns that a batch has, and those that it is partitioned by.

    Raises:
        TableMismatch: with what to do about it.
    """
    table, config = tables.main, tables.config
    existing_partitions, partition_names = table.partition_columns(), [partition.name for partition in partitions]
    if existing_partitions != partition_names:
        raise _otherwise(
            table,
            f"partitioned by {', '.join(existing_partitions) or 'nothing'}",
            ", ".join(partition_names) or "nothing",
        )
    was = table_properties.partitions(properties, config.known_as) or ()
    for before, now in zip(was, table_properties.options(config), strict=False):
        for name in (name for name in now if now[name] != before.get(name, now[name])):
            before_text, now_text = (
                f"{name} {'left out' if value is None else value}" for value in (before[name], now[name])
            )
            raise _otherwise(table, f"partitioned by {before['by']} with {before_text}", now_text)
    _check_rows(table, config, properties)
    # A key's column takes whatever its schemas say.
    fixed = RESERVED if config.decode.key.format in _PLAIN else RESERVED - {KEY}
    for column in target_columns:
        if column.name in fixed and column.name in columns.names:
            kind = columns[column.name].dataType.simpleString()
            if kind != column.dataType.simpleString():
                raise _otherwise(table, f"made with {column.name} {kind}", column.dataType.simpleString())


def _check_rows(table: Table, config: PipelineConfig, properties: Mapping[str, str]) -> None:
    """Notice that the table was made for another mode, key or order, or is another pipeline's too.

    Raises:
        TableMismatch: so it is.
    """
    was, now = table_properties.rows_of(properties, config.known_as), table_properties.row_options(config)
    is_made = config.known_as in table_properties.makers(properties) or not config.table.keyed
    for name in (name for name in now if is_made and now[name] != was[name]):
        before, after = (
            each if isinstance(each, str) else ", ".join(each) or "none" for each in (was[name], now[name])
        )
        raise TableMismatch(
            f"{table} was made with table.{name} {before}, the pipeline file says {after}",
            cure="put it back as it was; or make the table anew: `lakeingest rebuild` from a bronze table, or give the "
            "pipeline another table.path and let it read its topics from the beginning",
        )
    makers = sorted(table_properties.makers(properties).keys() - {config.known_as})
    if makers and config.table.alters:
        raise TableMismatch(
            f"{table} is written by pipeline {makers[0]!r} too, and table.mode is {config.table.mode}: which of two "
            "rows is the latest only one pipeline can tell",
            cure="give this pipeline a table of its own, or let one pipeline read all topics",
        )


def _otherwise(table: Table, actual: str, expected: str) -> TableMismatch:
    return TableMismatch(
        f"{table} is {actual}, the pipeline file says {expected}", cure=f"put it back as it was, or {NEW_TABLE}"
    )


def check_topics(last: Receipt | None, topics: Topics) -> None:
    """Notice that the cluster or a topic is another one than in the pipeline's last commit, if there is one.

    Raises:
        SourceChanged: the coordinates of the table mean other records there.
    """
    if last is None:
        return
    where = "source.table" if topics.read_from else "source.bootstrap_servers"
    if last.cluster != topics.cluster:
        raise SourceChanged(
            f"the table was fed from Kafka cluster {last.cluster}, {where} now leads to "
            f"{topics.cluster}: the same offsets are other records there",
            cure=f"correct {where}, or give the pipeline a new name and table",
        )
    ids = last.all_topics
    for name, identity in topics.ids.items():
        # A cluster may get ids by an upgrade; see `check_records` for those without.
        if identity and offsets.topic_id(ids.get(name)) not in ("", identity):
            raise SourceChanged(
                f"topic {name!r} was deleted and made again (id {identity}, it was {ids[name]}): "
                "its offsets begin anew",
                cure=_NEW_NAME,
            )


def check_records(tables: PipelineTables, reader: BatchReader, log: CommitLog, topics: Topics) -> None:
    """Notice that a topic was made again where no topic id tells it: the cluster gives none, or has given none before.

    The newest record of each topic-partition that the last commit wrote is read again: it has its time.

    Raises:
        SourceChanged: it has another one.
    """
    if log.newest is None:
        return
    last = log.newest.receipt
    ids = last.all_topics
    blind = [name for name, identity in topics.ids.items() if not (identity and offsets.topic_id(ids.get(name)))]
    ranges = OffsetRanges(tuple(s for s in last.ranges if s.topic in blind and s.topic in ids))
    if not ranges.offsets:
        return
    check_times(tables, reader, topics, ranges)


def check_times(tables: PipelineTables, reader: BatchReader, topics: Topics, ranges: OffsetRanges) -> None:
    """Notice that the newest record of each range has another time in Kafka than in the table.

    Raises:
        SourceChanged: it has.
    """
    from pyspark.sql import functions as F

    from lakeingest.spark import timestamps

    # What wrote an adopted table may have taken times that Python does not hold.
    time = timestamps.within_years(F.col(TIMESTAMP)).alias(TIMESTAMP)
    with storage_failures(tables.main.identifier):
        rows = coordinates.within(tables.main.read(), ranges)
        newest = rows.groupBy(TOPIC, PARTITION).agg(F.max(F.struct(OFFSET, time)).alias("row"))
        in_table = {(r[0], r[1], r["row"][0]): r["row"][1] for r in newest.collect()}
    places = [place for place in in_table if place[:2] in topics.last]
    last_records = (OffsetRange(t, p, o, o + 1) for t, p, o in places if topics.first[t, p] <= o < topics.last[t, p])
    records = OffsetRanges(tuple(last_records))

    def read() -> list[Row]:
        with reader.failures():
            return reader.frame(records).select(*COORDINATES, TIMESTAMP).collect()

    in_kafka = {tuple(row)[:3]: row[3] for row in reader.readable(read)}
    for place, at in in_kafka.items():
        if at != in_table[place]:
            raise SourceChanged(
                f"topic {place[0]!r} was deleted and made again: the record at {place[0]}-{place[1]} offset {place[2]} "
                f"is of {at}, and the table has it as of {in_table[place]}",
                cure=_NEW_NAME,
            )
