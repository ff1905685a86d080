"""How a pipeline's tables are kept in shape, and how long rows stay: the parts `maintenance` and `retention`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from lakeingest.config.base import Mistake, Part
from lakeingest.config.contract import Contract
from lakeingest.config.durations import duration_text
from lakeingest.config.values import Duration, FieldPath, Kind, Location, Size

TARGET = 128 * 2**20
"""About how large the files become that a compaction makes, in bytes."""
SAFE = timedelta(days=7)
"""How long a table keeps the files of older versions, if nobody says otherwise."""
_SHORTEST = timedelta(hours=1)


def _retention(value: timedelta) -> timedelta:
    if value < _SHORTEST:
        raise ValueError(
            "shorter than 1 hour: a batch that is being written has files that no version names yet, and they would be "
            "deleted; write '1 hour' or longer"
        )
    return value


Retention = Annotated[Duration, AfterValidator(_retention), Kind("duration of 1 hour or longer")]


class CompactionOptions(Part):
    """How small files become large ones."""

    target: Size = Field(
        TARGET,
        description="About how large the new files become. A file of that size or larger is left alone.",
        json_schema_extra={"default": "128 MiB"},
    )
    after: Duration = Field(
        timedelta(hours=1),
        description="How long no file must have come to a partition that is cut by time: then it is finished, and "
        "compacted. A table without such partitions has none that are finished, and is compacted as it is.",
        json_schema_extra={"default": "1 hour"},
    )
    order_by: tuple[FieldPath, ...] = Field(
        (),
        description="Columns of the table by which a compaction sorts the rows (Z-order), so that queries on them open "
        "few files. Each partition is written anew as a whole then. A table with liquid clustering has its own order.",
        examples=[["customer_id"]],
    )


class VacuumOptions(Part):
    """How long the files of older versions stay."""

    after: Retention = Field(
        SAFE,
        description="How old a file is that no version names any more when it is deleted. Less than 7 days needs "
        "`maintain --i-know`, and goes not with maintenance.every.",
        json_schema_extra={"default": "7 days"},
    )
    exports: tuple[Location, ...] = Field(
        (),
        description="Places into which `lakeingest export` writes the table's rows: the files stay that the next "
        "export into each is compared with.",
        examples=[["s3a://lake/handed-on/flights"]],
    )


class MaintenanceLimits(Part):
    """The most that one maintenance does; what is left is due the next time."""

    time: Duration = Field(
        timedelta(minutes=30),
        description="How long it takes at most: no partition is begun later. One that is under way is finished.",
        json_schema_extra={"default": "30 minutes"},
    )
    bytes: Size = Field(
        50 * 2**30,
        description="How many bytes of data files it reads and writes anew at most.",
        json_schema_extra={"default": "50 GiB"},
    )


class Maintenance(Part):
    """How the tables are kept in shape: the pipeline's own, and those beside it."""

    every: Duration | None = Field(
        None,
        description="How often the run itself does it, at quiet moments: when it has taken all that the source holds. "
        "Default: never; `lakeingest maintain` does it then.",
        examples=["1 day"],
    )
    compact: CompactionOptions = Field(
        default_factory=CompactionOptions, description="How small files become large ones."
    )
    vacuum: VacuumOptions = Field(
        default_factory=VacuumOptions, description="How long the files of older versions stay."
    )
    most: MaintenanceLimits = Field(
        default_factory=MaintenanceLimits, description="The most that is done at once; what is left is due next time."
    )


class RetentionOptions(Part):
    """How long rows stay. `lakeingest maintain` takes out those that are older; an audit counts them as expired."""

    table: Duration | None = Field(
        None,
        description="How long rows stay in the table: whole partitions, from the end of their period on, where the "
        "table is cut by one time; else rows by the record's Kafka timestamp. At least contract.retention. Default: "
        "for ever.",
        examples=["365 days"],
    )
    quarantine: Duration | None = Field(
        None,
        description="How long refused records stay in quarantine, whatever became of them. Default: for ever.",
        examples=["90 days"],
    )
    results: Duration | None = Field(
        None, description="How long the gate's results of a batch stay. Default: for ever.", examples=["90 days"]
    )


def mistakes(
    maintenance: Maintenance | None, retention: RetentionOptions | None, contract: Contract | None
) -> Iterator[Mistake]:
    """Where options disagree, and where rows would go sooner than the contract promises."""
    longest, promised = retention and retention.table, contract and contract.retention
    if longest and promised and longest < promised:
        yield Mistake(
            ("retention", "table"),
            f"{duration_text(longest)} is less than contract.retention promises, {duration_text(promised)}; write "
            f"'{duration_text(promised)}' or longer, or promise less",
        )
    if maintenance and maintenance.every and maintenance.vacuum.after < SAFE:
        yield Mistake(
            ("maintenance", "vacuum", "after"),
            f'"{duration_text(maintenance.vacuum.after)}" is less than 7 days, and with maintenance.every nobody says '
            "that he knows who reads older versions; write '7 days' or longer, or drop maintenance.every and run "
            "`lakeingest maintain FILE --i-know`",
        )
