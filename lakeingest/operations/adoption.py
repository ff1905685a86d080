"""What a table holds that is to be adopted: where a pipeline can go on in it, what speaks against it, and what of it is
not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakeingest.delta import latest, table_properties
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.pipeline_tables import PipelineTables, without_coordinates
from lakeingest.errors import SourceChanged, UsageError, number_of
from lakeingest.kafka.offsets import Topics
from lakeingest.record import COORDINATES, OFFSET, OPERATION, PARTITION, TOPIC, Frontier, OffsetRange, OffsetRanges
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OWN = {"topic": TOPIC, "partition": PARTITION, "offset": OFFSET}
"""The columns of a table that lakeingest wrote."""
_NAMED = 5
"""Most topic-partitions that a sentence names."""


@dataclass(frozen=True)
class FrontierOrigin:
    """How it is told where the pipeline goes on: by the rows' coordinates unless a frontier is given.

    Attributes:
        coordinates: topic, partition, offset → the table's column; a topic in quotes is the topic itself. Without a
            topic it is the pipeline's only one.
        frontier: (topic, partition) → the first offset that is not in the table.
        group: the consumer group that has committed that frontier, if it was one.
    """

    coordinates: Mapping[str, str] | None = None
    frontier: Frontier | None = None
    group: str | None = None

    @property
    def how(self) -> str:
        """In a few words, for the receipt."""
        if self.frontier is not None:
            return f"the offsets of the consumer group {self.group}" if self.group else "a frontier that was given"
        coordinates = self.coordinates or OWN
        return f"the coordinates {', '.join(f'{part}={name}' for part, name in coordinates.items())}"


@dataclass(frozen=True)
class TableContents:
    """What the table holds at one version.

    Attributes:
        without: rows that have no coordinates of lakeingest's.
        places: (topic, partition) → first offset, one past the last, rows, rows too many; of the coordinates told.
        unplaced: rows without such coordinates.
    """

    version: int
    rows: int
    without: int
    places: Mapping[tuple[str, int], tuple[int, int, int, int]]
    unplaced: int


# What the table holds ------------------------------------------------------------------------------------------------


def look(tables: PipelineTables, log: CommitLog, source: FrontierOrigin) -> TableContents:
    """Count the table's rows, and those of each topic-partition.

    Raises:
        UsageError: the table has no such columns, or its rows are not the latest ones of their keys.
    """
    assert log.version is not None
    rows, config = tables.main.read(log.version), tables.config
    if config.table.keyed:
        _check_keys(tables, rows)
    with storage_failures(tables.main.identifier):
        count = rows.count()
        has_coordinates = set(COORDINATES) <= set(rows.columns)
        without = without_coordinates(rows).count() if has_coordinates else count
        if source.frontier is not None:
            return TableContents(log.version, count, without, {}, 0)
        placed = _placed(rows, source.coordinates or OWN, config.source.topics, tables.main.identifier)
        placed = placed.groupBy("topic", "partition").agg(
            F.min("offset"), F.max("offset") + 1, F.count("offset"), F.count_distinct("offset")
        )
        places, unplaced = {}, 0
        for topic, partition, first, end, rows_placed, distinct in placed.collect():
            if topic is None or partition is None or first is None:
                unplaced += rows_placed
            else:
                places[topic, partition] = (first, end, rows_placed, rows_placed - distinct)
    unplaced = count - sum(rows_placed for _, _, rows_placed, _ in places.values())
    return TableContents(log.version, count, without, places, unplaced)


def _check_keys(tables: PipelineTables, rows: DataFrame) -> None:
    """Notice that rows of a table are not the latest ones of their keys, where the pipeline keeps them so.

    Raises:
        UsageError: a key has several rows, or a row no key or no order; or deletes would have to be marked in them.
        PipelineFileError: the table has no such columns.
    """
    config = tables.config
    if config.table.marks:
        raise UsageError(
            f"{tables.main} has rows without {OPERATION}, by which the latest ones are known where deletes are rows",
            cure="adopt it with table.mode upsert and table.deletes remove, or let the pipeline make another table",
        )
    by = latest.of(config.table, rows.schema)
    absent = reduce(or_, (field.absent for field in (*by.keys, *by.order)))
    with storage_failures(tables.main.identifier):
        lacking = rows.where(absent).count()
        several = rows.groupBy(*by.renamed_keys).count().where("count > 1").count()
    if lacking or several:
        raise UsageError(
            f"{tables.main} has {number_of(several, 'key')} with several rows, and {number_of(lacking, 'row')} where "
            "a field of table.keys or table.order_by is null: these are not the latest rows of keys",
            cure="take these rows out of the table, or correct table.keys and table.order_by; nothing was written",
        )


def _placed(rows: DataFrame, coordinates: Mapping[str, str], topics: tuple[str, ...], table: str) -> DataFrame:
    """Each row's coordinates: topic STRING, partition INT, offset BIGINT, null where it has none.

    Raises:
        UsageError: there is no such column, or no topic.
    """
    from pyspark.errors import AnalysisException

    column_names = dict(coordinates)
    if "topic" not in column_names:
        if len(topics) > 1:
            raise UsageError(
                f"--coordinates names no topic, and source.topics has {len(topics)}: {', '.join(topics)}",
                cure="name the column that has it, or the topic itself in quotes, as in topic='flights'",
            )
        column_names["topic"] = f"'{topics[0]}'"
    try:
        placed = rows.select(
            _column(column_names["topic"]).cast("string").alias("topic"),
            _column(column_names["partition"]).try_cast("int").alias("partition"),
            _column(column_names["offset"]).try_cast("bigint").alias("offset"),
        )
        # Over Spark Connect nothing was asked yet.
        _ = placed.schema
    except AnalysisException as none:
        coordinates_text = ", ".join(f"{part}={name}" for part, name in coordinates.items())
        raise UsageError(
            f"{table} has no coordinates {coordinates_text}; its columns are {', '.join(rows.columns)}",
            cure="name the columns with --coordinates topic=…,partition=…,offset=…; or, where the rows bear none, say "
            "where the pipeline goes on with --frontier or --from-group",
        ) from none
    return placed


def _column(name: str) -> Column:
    return F.lit(name[1:-1]) if len(name) > 1 and name[0] == name[-1] == "'" else F.col(name)


def last_records(contents: TableContents) -> OffsetRanges:
    """The last record of each topic-partition."""
    return OffsetRanges(tuple(OffsetRange(*tp, end - 1, end) for tp, (_, end, _, _) in sorted(contents.places.items())))


# Held against Kafka --------------------------------------------------------------------------------------------------


def frontier(tables: PipelineTables, topics: Topics, source: FrontierOrigin, contents: TableContents) -> Frontier:
    """Where the pipeline goes on.

    Raises:
        UsageError: nothing tells of a topic-partition, or what is told is of others.
        SourceChanged: Kafka does not reach so far.
    """
    config = tables.config
    if source.frontier is not None:
        offsets = dict(source.frontier)
        if source.group:
            offsets = {tp: at for tp, at in offsets.items() if tp[0] in config.source.topics}
        _check_whole(topics, source, offsets)
    else:
        offsets = {tp: end for tp, (_, end, _, _) in contents.places.items() if tp[0] in config.source.topics}
        if not offsets:
            raise UsageError(
                f"{tables.main} has no row of {', '.join(config.source.topics)}: its {contents.rows:,} rows tell no "
                "offset where the pipeline could go on",
                cure="correct --coordinates or source.topics; or say where it goes on with --frontier or --from-group; "
                "an empty table needs no adoption: `lakeingest run FILE`",
            )
        if source.coordinates is None:
            offsets = tables.with_quarantine(offsets)
    for (topic, partition), at in sorted(offsets.items()):
        end = topics.last.get((topic, partition))
        if end is None or at > end:
            ends = f"it ends at {end}" if end is not None else "there is no such partition"
            raise SourceChanged(
                f"{topic}-{partition}: the table is said to have all before offset {at}, and in Kafka {ends}",
                cure="these are the offsets of another cluster, or of a topic that was made anew since: correct "
                "source.bootstrap_servers, or say with --frontier where this topic goes on",
            )
    return offsets


def _check_whole(topics: Topics, source: FrontierOrigin, offsets: dict[tuple[str, int], int]) -> None:
    """Let a frontier have each topic-partition: one that it lacks would be taken from its beginning.

    Raises:
        UsageError: it lacks one that has records, or has one that Kafka has not.
    """
    where = f"the consumer group {source.group} has committed no offset of" if source.group else "--frontier lacks"
    if not source.group and (odd := sorted(offsets.keys() - topics.last.keys())):
        raise UsageError(
            f"--frontier names {_names(odd)}, which the pipeline's topics do not have",
            cure=f"they have {_names(sorted(topics.last))}",
        )
    lacking = topics.last.keys() - offsets.keys()
    offsets.update({tp: topics.last[tp] for tp in lacking if topics.last[tp] == topics.first[tp]})
    if lacking := lacking - offsets.keys():
        raise UsageError(
            f"{where} {_names(sorted(lacking))}: from where the pipeline takes it is not known",
            cure="write all of them, as in --frontier topic:0=1041,topic:1=998; 0 takes all that Kafka has",
        )


def partitions(topics: Topics, contents: TableContents, frontier: Frontier) -> Iterable[dict[str, Any]]:
    """The topic-partitions, as `Adopted` has them."""
    for tp in sorted({*topics.last, *frontier}):
        first, _, rows, double = contents.places.get(tp, (None, None, 0, 0))
        yield {
            "topic": tp[0],
            "partition": tp[1],
            "rows": rows,
            "first": first,
            "frontier": frontier.get(tp),
            "double": double,
            "kafka_first": topics.first[tp],
            "kafka_end": topics.last[tp],
        }


# What is not known ---------------------------------------------------------------------------------------------------


def copies(tables: PipelineTables, log: CommitLog) -> Iterable[str]:
    """Whether another table may have the pipeline's name, or another pipeline write to this one."""
    config, properties = tables.config, log.properties
    if log.newest is not None or log.taken_back:
        return
    makers = {n for n, fed in table_properties.makers(properties).items() if {*fed} & {*config.source.topics}}
    if config.known_as in makers or table_properties.adoption(properties, config.known_as):
        yield (
            f"the table's properties name pipeline {config.name!r}, and its log has no commit of it: it is a copy or a "
            "clone of that pipeline's table; where the original still runs, the copy needs a pipeline of another name"
        )
    for other in sorted(makers - {config.known_as}):
        yield (
            f"the table was made for pipeline {other!r} of the same topics, or is a clone of such a one: if {other!r} "
            "writes to it, every record comes twice"
        )


def doubles(contents: TableContents) -> Iterable[str]:
    """Whether rows have the same coordinates."""
    double = {tp: many for tp, (_, _, _, many) in contents.places.items() if many}
    if double:
        yield (
            f"{sum(double.values()):,} rows are double, the same coordinates a second time, in "
            f"{_names(sorted(double))}: lakeingest does not take them out"
        )


def unknown(
    tables: PipelineTables, topics: Topics, source: FrontierOrigin, contents: TableContents, frontier: Frontier
) -> Iterable[str]:
    """What nothing tells, each in a sentence."""
    places = {tp: each for tp, each in contents.places.items() if tp in frontier}
    if source.frontier is not None:
        yield "whether the table holds every record before these offsets, and each of them once"
    else:
        if holes := sum(end - first - (rows - double) for first, end, rows, double in places.values()):
            yield (
                f"why {holes:,} offsets between the first and the last row of their partition have no row: compaction, "
                "transactions, records that were left out, or lost"
            )
        yield "whether what came before the first row of each partition was ever in the table"
    if source.group:
        yield f"whether the group {source.group} is the job's that wrote the table, and it wrote before it committed"
    if not (source.frontier is None and source.coordinates is None):
        yield f"whether these offsets are those of this Kafka cluster ({topics.cluster}): it reaches so far, no more"
    if contents.unplaced and source.frontier is None:
        yield f"which records {contents.unplaced:,} rows without coordinates are"
    other_topics = {topic for topic, _ in contents.places} - {*tables.config.source.topics}
    if other_topics:
        yield f"what writes the rows of {', '.join(sorted(other_topics))}, which are no topics of this pipeline"
    if fresh := sorted(topics.last.keys() - frontier.keys()):
        yield f"whether {_names(fresh)} was ever taken: no row is of it, and the pipeline begins there anew"
    if lost := sorted(tp for tp, at in frontier.items() if at < topics.first[tp]):
        yield (
            f"what was in {_names(lost)} between the frontier and the first offset that Kafka still has: the first run "
            "ends there unless it is told --accept-gap"
        )


def _names(places: list[tuple[str, int]]) -> str:
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return ", ".join(f"{topic}-{partition}" for topic, partition in places[:_NAMED]) + more
