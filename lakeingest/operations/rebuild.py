"""A table made anew out of a bronze table, under what the pipeline file says now, beside the one that is there.

1. The rebuild is the pipeline itself, with bronze as its source and another place for its tables: it runs until it is
   caught up, batch after batch, by the commit protocol of any run. What was killed goes on from the new table's log.
2. The new table's receipts have Kafka's cluster and topics, as bronze's have. So when the pipeline file names the new
   table, the pipeline goes on from Kafka at the frontier that the rebuild has reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakeingest.config import PipelineConfig, location
from lakeingest.config.values import table_place
from lakeingest.delta import commit_log, coordinates, quarantine, table_properties
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.errors import UsageError
from lakeingest.kafka.offsets import Topics
from lakeingest.operations.results.rebuild import Compared
from lakeingest.record import Frontier, OffsetRanges
from lakeingest.spark import listing
from lakeingest.spark.failures import storage_failures


def config_of(config: PipelineConfig, bronze: str | None, to: str) -> PipelineConfig:
    """The pipeline that makes the new table.

    Args:
        config: the pipeline file.
        bronze: the table that is read; None for the one that the file reads.
        to: the new table's path, or its name.

    Raises:
        UsageError: these are no tables, or not apart from each other and from the pipeline's own.
    """
    bronze = _place("--from", bronze) if bronze is not None else config.source.table
    if bronze is None:
        raise UsageError(
            f"pipeline {config.name!r} reads from Kafka, and no bronze table is named",
            cure="name one: --from s3a://lake/bronze",
        )
    to = _place("--to", to).rstrip("/")
    for other in (bronze, *config.tables):
        if location.one_place(to, other) or location.one_place(f"{to}_quarantine", other):
            raise UsageError(
                f"--to {to} and {other} are the same, or lie within each other, or their quarantines do",
                cure="name another place for the new table, as in --to s3a://lake/flights_2",
            )
    kind = "path" if location.is_path(to) else "name"
    place = {"path": None, "name": None}
    aside = {**place, kind: f"{to}_quarantine"}
    changes: dict[str, Any] = {
        "source": config.source.model_copy(update={"table": bronze, "start": "earliest"}),
        # Its name in the catalog is the old table's, as long as that is there.
        "table": config.table.model_copy(update={**place, kind: to, "catalog": "spark"}),
        "quarantine": config.quarantine.model_copy(update=aside),
    }
    if config.gate is not None:
        changes["gate"] = config.gate.model_copy(update={"results": None})
    if config.contract is not None:
        # Kafka alone knows until when it is complete; the first run from there says it.
        changes["contract"] = config.contract.model_copy(update={"completeness": None})
    return config.model_copy(update=changes)


def _place(option: str, text: str) -> str:
    try:
        return table_place(text)
    except ValueError as wrong:
        raise UsageError(f"{option} {text!r}: {wrong}", cure="write a path, as in s3a://lake/flights_2") from None


def check_place(tables: PipelineTables) -> None:
    """Notice that something else is where the new table is to be.

    Args:
        tables: the new ones.

    Raises:
        UsageError: it names what is there; nothing was written.
    """
    main, config = tables.main, tables.config
    if main.schema() is None:
        if main.by_path and _has_files(tables):
            raise _not_empty(main.identifier, "files that are no Delta table")
        return
    newest = commit_log.read(main, config.known_as).newest
    if newest is None:
        is_maker = config.known_as in table_properties.makers(main.properties())
        if not is_maker or not main.read().isEmpty():
            raise _not_empty(main.identifier, f"a table that pipeline {config.known_as!r} did not write")
        return
    read = newest.receipt.job.read_from.get("table")
    if not read or not location.same_table(read, config.source.table or ""):
        whence = f"from {read}" if read else "from Kafka"
        raise _not_empty(main.identifier, f"a table of this pipeline that is fed {whence}")


def _has_files(tables: PipelineTables) -> bool:
    """Whether there are files; those of a log alone are what a rebuild leaves that is killed at its beginning."""
    from pyspark.errors import AnalysisException

    try:
        with storage_failures(tables.main.identifier):
            return not listing.below(tables.spark, tables.main.identifier).select("path").isEmpty()
    except AnalysisException:
        return False
    except UsageError:
        return False


def _not_empty(place: str, contents: str) -> UsageError:
    return UsageError(
        f"{place} holds {contents}",
        cure="name a place for the new table that is empty, or where this rebuild has begun",
    )


def carry_removals(old: PipelineTables, new: PipelineTables) -> None:
    """List for the new table what was taken out of the old one, so that it does not come back."""
    if old.removals.exists and not (new.removals.exists and not new.removals.rows().isEmpty()):
        new.removals.append(old.removals.rows())


def waiting(tables: PipelineTables, topics: Topics) -> int:
    """How many offsets of bronze the new table has not yet."""
    has_tables = None not in (tables.main.schema(), tables.quarantine.schema())
    frontier = tables.commit_logs()[0].frontier if has_tables else {}
    return sum(max(0, end - frontier.get(tp, topics.first[tp])) for tp, end in topics.last.items())


def compare(old: PipelineTables, new: PipelineTables) -> Compared | None:
    """How many records both have of the offsets that both have consumed; None if the old table is not there."""
    if old.main.schema() is None or old.quarantine.schema() is None:
        return None
    frontiers: list[Frontier] = [tables.commit_logs()[0].frontier for tables in (old, new)]
    shared = frontiers[0].keys() & frontiers[1].keys()
    ranges = OffsetRanges.up_to({tp: min(each[tp] for each in frontiers) for tp in shared})
    (before, refused), (rebuilt, refused_anew) = (tuple(_counts(tables, ranges)) for tables in (old, new))
    return Compared(ranges, (before, rebuilt), (refused, refused_anew))


def _counts(tables: PipelineTables, ranges: OffsetRanges) -> Iterator[int]:
    with storage_failures(tables.main.identifier):
        for rows in (tables.main.read(), quarantine.unmoved(tables.refused())):
            yield coordinates.within(rows, ranges).count()


def next_steps(before: PipelineConfig, after: PipelineConfig) -> dict[str, str | None]:
    """What the pipeline file has to say so that the pipeline goes on in the new table: option → value; None for an
    option that is to be left out.
    """
    kind = "path" if after.table.path else "name"
    other = "name" if kind == "path" else "path"
    steps: dict[str, str | None] = {f"table.{kind}": after.table.identifier}
    if getattr(before.table, other) is not None:
        steps[f"table.{other}"] = None
    # Where the file leaves it out, it follows from the table's.
    for option in sorted(before.quarantine.model_fields_set & {"path", "name"}):
        if getattr(before.quarantine, option) != f"{before.table.identifier.rstrip('/')}_quarantine":
            steps[f"quarantine.{option}"] = None
    if before.gate is not None and before.gate.results is not None:
        steps["gate.results"] = None
    if before.contract is not None and before.contract.completeness and before.contract.completeness.table:
        steps["contract.completeness.table"] = None
    return steps
