"""The command that lets a pipeline go on in a table that something else wrote."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeingest.cli.arguments import AllowCode, File, Format
from lakeingest.cli.output import Output
from lakeingest.errors import UsageError

_PARTS = ("topic", "partition", "offset")


def adopt(
    file: File,
    *,
    coordinates: Annotated[
        str | None,
        typer.Option(
            metavar="topic=…,partition=…,offset=…",
            help="The columns with the rows' coordinates; topic='flights' is that topic. Default: lakeingest's own.",
            show_default=False,
        ),
    ] = None,
    frontier: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC:PARTITION=OFFSET,…",
            help="The first offset of each partition that is not in the table, where its rows bear none.",
            show_default=False,
        ),
    ] = None,
    from_group: Annotated[
        str | None,
        typer.Option(
            "--from-group",
            metavar="GROUP",
            help="The same: the offsets that a consumer group has committed.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look only, and write nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Adopt it although there are doubts, which are told.")] = False,
    allow_code: AllowCode = False,
    output: Format = "text",
) -> None:
    """Let a pipeline go on, exactly once, in a table that something else wrote: another job, a loader, a copy of ours.

    Stop that job first. Nothing is read from Kafka and no row is changed: a first receipt says where the pipeline goes
    on, with the columns that the table lacks. What is in the table already is not proved by it; what lakeingest cannot
    know is told.

    Examples:

        lakeingest adopt pipelines/flights.yaml --dry-run

        lakeingest adopt pipelines/flights.yaml --coordinates "topic='flights',partition=part,offset=off"

        lakeingest adopt pipelines/flights.yaml --frontier flights:0=336776,flights:1=336002

        lakeingest adopt pipelines/flights.yaml --from-group connect-flights-sink
    """
    ways = {"--coordinates": coordinates, "--frontier": frontier, "--from-group": from_group}
    if len(names := [name for name, value in ways.items() if value is not None]) > 1:
        raise UsageError(f"{' and '.join(names)} exclude each other", cure="say in one way where the pipeline goes on")
    columns = None if coordinates is None else _coordinates(coordinates)
    offsets = None if frontier is None else _frontier(frontier)
    import lakeingest

    out = Output.of(output)
    pipeline = lakeingest.load(file, allow_code=allow_code)
    with out.progress("looking at the table …"):
        result = pipeline.adopt(coordinates=columns, frontier=offsets, group=from_group, dry_run=dry_run, yes=yes)
    out.show(result)
    if result.version is not None:
        out.line(f"adopted in version {result.version}; go on with: lakeingest run {file} --until-caught-up")


def _coordinates(text: str) -> dict[str, str]:
    """topic, partition, offset → column.

    Raises:
        UsageError: it says something else.
    """
    parts = [part.partition("=") for part in text.split(",")]
    columns = {name.strip(): column.strip() for name, _, column in parts}
    if (
        len(columns) != len(parts)
        or not {"partition", "offset"} <= columns.keys() <= {*_PARTS}
        or not all(columns.values())
    ):
        raise UsageError(
            f"--coordinates {text!r} does not name the columns of partition and offset, and of nothing but topic",
            cure="write topic=COLUMN,partition=COLUMN,offset=COLUMN; a topic in quotes, topic='flights', is no column",
        )
    return columns


def _frontier(text: str) -> dict[tuple[str, int], int]:
    """(topic, partition) → offset.

    Raises:
        UsageError: it says something else.
    """
    offsets = dict[tuple[str, int], int]()
    for part in text.split(","):
        place, _, offset = part.strip().rpartition("=")
        topic, _, partition = place.rpartition(":")
        numbers = (partition, offset)
        if not (topic and all(n.isascii() and n.isdecimal() for n in numbers)) or (topic, int(partition)) in offsets:
            raise UsageError(
                f"--frontier {text!r}: {part.strip()!r} is no new partition with its offset",
                cure="write each partition once, as in flights:0=336776,flights:1=336002",
            )
        offsets[topic, int(partition)] = int(offset)
    return offsets
