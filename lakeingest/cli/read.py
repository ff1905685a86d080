"""The command that prints records of a pipeline's tables as JSON lines."""

from __future__ import annotations

import os
from itertools import islice
from typing import Annotated

import typer

from lakeingest.cli.arguments import File
from lakeingest.cli.output import Output
from lakeingest.errors import number_of


def read(
    file: File,
    *,
    topic: Annotated[str | None, typer.Option(help="Records of this topic.", show_default=False)] = None,
    partition: Annotated[
        int | None, typer.Option(help="Records of this Kafka partition.", min=0, show_default=False)
    ] = None,
    from_offset: Annotated[
        int | None, typer.Option("--from-offset", help="The first offset.", min=0, show_default=False)
    ] = None,
    to_offset: Annotated[
        int | None,
        typer.Option("--to-offset", help="The first offset that is not read.", min=0, show_default=False),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="Records with a time on this day, in this hour, minute or second; in UTC unless it has a zone.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Records with this key.", show_default=False)] = None,
    limit: Annotated[int | None, typer.Option(help="Most records to print.", min=1, show_default=False)] = None,
) -> None:
    """Print records as JSON, one a line: from the table, and those that were refused from quarantine. No Spark.

    They come in the order of topic, partition and offset. A refused record has its bytes in _value, and why in
    _refused. Only the files are opened that may hold one; how many is said on stderr.

    Examples:

        lakeingest read pipelines/flights.yaml --partition 0 --from-offset 1500 --to-offset 1510

        lakeingest read pipelines/flights.yaml --at 2026-11-23T14:05 --limit 10

        lakeingest read pipelines/orders.yaml --key 4711

    \f
    Raises:
        UsageError: no record can be meant, there is no table yet, or it cannot be read without Spark.
        SetupError: pyarrow is missing.
    """
    from lakeingest.config import file as pipeline_file
    from lakeingest.ingest import endpoints
    from lakeingest.operations import read as operation

    config = pipeline_file.read(file, os.environ)
    since, until = operation.within(at) if at is not None else (None, None)
    selection = operation.RecordSelection(topic, partition, from_offset, to_offset, since, until, key)
    out, count = Output(), 0
    with operation.records(config, endpoints.storage(config), selection) as reading:
        for record in islice(reading.records, limit):
            out.record(record)
            count += 1
        files = (
            f"{opened:,} of {number_of(standing, 'file')} of {name}"
            for name, (opened, standing) in reading.files.items()
        )
        out.aside(f"{number_of(count, 'record')}; opened {', '.join(files)}")
