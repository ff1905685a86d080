"""The contract of a pipeline with the readers of its table, and the rights over refused records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from lakeingest.config import periods
from lakeingest.config.base import Part
from lakeingest.config.durations import duration_text
from lakeingest.config.parts import Compatibility, Partition, Trigger
from lakeingest.config.values import Duration, Kind, TablePlace, Wait

_MAIL = r"[^\s@<>,;]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
_OWNER = re.compile(rf"(?:[^<>@\x00-\x1f\x7f]*[^<>@\s\x00-\x1f\x7f] <{_MAIL}>|{_MAIL}|[A-Za-z0-9][A-Za-z0-9 ._-]*)")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9 ._@\\-]*\$?")
_LONGEST = 200
_KEPT_BY: Mapping[Compatibility, tuple[Compatibility, ...]] = {
    "NONE": ("NONE", "BACKWARD", "FORWARD", "FULL"),
    "BACKWARD": ("BACKWARD", "FULL"),
    "FORWARD": ("FORWARD", "FULL"),
    "FULL": ("FULL",),
}
"""Promise to readers → the schema.compatibility under which it holds."""


def _owner(value: str) -> str:
    if len(value) > _LONGEST or "${" in value or not _OWNER.fullmatch(value):
        raise ValueError(
            "not an owner; write an address as in data@example.com, a name as in team-flights, or both as in "
            "'Flights <data@example.com>'"
        )
    return value


def _user(value: str) -> str:
    if len(value) > _LONGEST or not _USER.fullmatch(value):
        raise ValueError("not a user's name; write it as the system has it (`id -un`), without a host")
    return value


Owner = Annotated[str, AfterValidator(_owner), Kind("name, or address")]
User = Annotated[str, AfterValidator(_user), Kind("user's name")]


class Completeness(Part):
    """Says for each period of the table since when all its records are there: a Delta table, with a row for each."""

    late: Wait = Field(
        timedelta(minutes=1),
        description="How long after the end of a period records of it may still reach Kafka: a record of the period "
        "stands before each record of its topic-partition whose Kafka timestamp is later than the end by that much. "
        "What comes later is in the table all the same, and counted as late.",
        json_schema_extra={"default": "1 minute"},
    )
    table: TablePlace | None = Field(
        None,
        description="The Delta table: a path, or a name as in lake.complete. Default: beside the table, at table.path "
        "(or table.name) with _completeness.",
        examples=["s3a://lake/flights_completeness"],
    )


class Contract(Part):
    """What those who read the table may rely on. `status` shows what is kept; who must be able to read it, see
    readers.
    """

    owners: tuple[Owner, ...] = Field(
        (), description="Who answers for the table.", examples=[["Flights <data@example.com>"]]
    )
    description: str | None = Field(
        None,
        min_length=1,
        max_length=4000,
        description="What the table holds, for whoever finds it; the table's comment, as table.comment is.",
        examples=["Departures from New York"],
    )
    freshness: Duration | None = Field(
        None,
        description="A record is in the table, or in quarantine, at most so long after its Kafka timestamp. Longer "
        "than trigger.every.",
        examples=["5 minutes"],
    )
    completeness: Completeness | None = Field(
        None,
        description="For a table that is partitioned by time: until when it is complete. Default: not followed.",
    )
    retention: Duration | None = Field(
        None,
        description="How long rows stay in the table at least: retention.table may be as long or longer.",
        examples=["365 days"],
    )
    compatibility: Compatibility | None = Field(
        None,
        description="What was promised of the columns: schema.compatibility may be as strict or stricter.",
        examples=["FORWARD"],
    )
    may_replay: tuple[User, ...] | None = Field(
        None,
        description="The users who may replay and discard refused records. Default: everybody who can write to the "
        "tables.",
        examples=[["ada"]],
    )
    may_accept: tuple[User, ...] | None = Field(
        None,
        description="The users who may accept what a run stops for (run --accept-held, --accept-gap, "
        "--accept-log-restart). Default: everybody who can write to the tables.",
        examples=[["ada"]],
    )


def mistakes(
    contract: Contract,
    partition: Mapping[int, Partition],
    *,
    trigger: Trigger | None,
    compatibility: Compatibility | None,
    comment: str | None,
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Contradictions of the contract with the rest of the file: where, and what, cure included.

    Args:
        compatibility: the one in force; None where the records have no schema that could change, or it is not known.
        comment: table.comment.
    """
    if contract.freshness and trigger and contract.freshness <= trigger.every:
        yield (
            ("contract", "freshness"),
            f"{duration_text(contract.freshness)} cannot be kept: a batch begins every {duration_text(trigger.every)} "
            "(trigger.every), and takes its time; promise more, or shorten trigger.every",
        )
    if contract.compatibility and compatibility and compatibility not in _KEPT_BY[contract.compatibility]:
        yield (
            ("contract", "compatibility"),
            f'"{contract.compatibility}" is promised, and schema.compatibility {compatibility} does not keep it; '
            f"write schema.compatibility: {contract.compatibility}, or promise less",
        )
    if contract.description and comment and contract.description != comment:
        yield (
            ("contract", "description"),
            "table.comment says something else, and a table has one comment; drop one of the two",
        )
    if contract.completeness:
        yield from periods.mistakes(partition)


def notices(contract: Contract | None, trigger: Trigger) -> Iterator[str]:
    """Notices about a contract that leaves little room."""
    if contract and contract.freshness and trigger.every < contract.freshness < 2 * trigger.every:
        yield (
            f"contract.freshness: {duration_text(contract.freshness)} leaves a batch "
            f"{duration_text(contract.freshness - trigger.every)} where trigger.every is "
            f"{duration_text(trigger.every)}; a record waits that long for its batch to begin"
        )
