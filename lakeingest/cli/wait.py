"""The command that waits until a period of a pipeline's table is complete."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output
from lakeingest.errors import NotComplete, UsageError

if TYPE_CHECKING:
    from lakeingest.delta.pipeline_tables import PipelineTables
    from lakeingest.kafka.broker import Broker


def wait(
    file: File,
    *,
    complete: Annotated[
        str,
        typer.Option(
            "--complete",
            metavar="PERIOD",
            help="The period, in the time zone of the partition: 2026, 2026-11, 2026-11-23, 2026-11-23T14 or "
            "2026-11-23T14:15, by how the table is partitioned.",
        ),
    ],
    timeout: Annotated[
        str | None,
        typer.Option(help="How long to wait, as in 2h; 0 looks once. Default: for ever.", show_default=False),
    ] = None,
    output: Format = "text",
) -> None:
    """Wait until a period of the table is complete: no record of it follows, as contract.completeness says.

    It reads the tables without Spark, which starts only where it must, as for tables that a catalog alone knows. Exit
    code 0: it is complete; 1: the timeout came before, and what it waits for.

    Examples:

        lakeingest wait pipelines/flights.yaml --complete 2026-11-23T14

        lakeingest wait pipelines/flights.yaml --complete 2026-11-23 --timeout 2h && spark-submit daily.py

    \f
    Raises:
        UsageError: there is no such period, or the contract has no completeness.
        NotComplete: the timeout came first.
        StorageUnreachable, SetupError: the table cannot be read.
    """
    from lakeingest.config import file as pipeline_file
    from lakeingest.delta.offline import rows
    from lakeingest.ingest import endpoints
    from lakeingest.operations import completeness
    from lakeingest.operations.wait import Waiter, Waiting

    out = Output.of(output)
    rows.check_installed()
    timeout_s = _seconds(timeout)
    config = pipeline_file.read(file, os.environ)
    periods, _ = completeness.followed(config)
    try:
        start = periods.read(complete)
    except ValueError as error:
        raise UsageError(f'--complete "{complete}": {error}', cure="name a period of the table's partition") from None

    @cache
    def broker() -> Broker:
        from lakeingest.kafka.broker import Broker

        return Broker(config.source, endpoints.addresses(config)[0])

    storage = endpoints.storage(config)

    @cache
    def tables() -> PipelineTables:
        from lakeingest.delta.pipeline_tables import PipelineTables
        from lakeingest.spark import session

        return PipelineTables(session.attach(storage, config.name, config.paths, config.names), config)

    waiter = Waiter(config, storage, start, broker, tables)
    begun = time.monotonic()
    with out.progress("waiting:") as says:
        found = waiter.wait(timeout_s, says)
    told: dict[str, Any] = {
        "pipeline": config.name,
        "period": periods.text(start),
        "timezone": periods.part.timezone,
        "period_start": periods.begin(start).isoformat(),
        "period_end": periods.end(start).isoformat(),
        "waited_s": round(time.monotonic() - begun, 1),
    }
    if isinstance(found, Waiting):
        missing = [
            {"topic": topic, "partition": partition, "frontier": begin, "needed": end}
            for (topic, partition), (begin, end) in sorted(found.missing.items())
        ]
        out.result({**told, "complete": False, "waits_for": found.text, "missing": missing})
        raise NotComplete(
            found.text, cure="let the pipeline run, and wait again; `lakeingest status` shows where it stands"
        )
    out.line(f"{config.name} {periods.text(start)}: complete since {found.since:%Y-%m-%d %H:%M:%S} UTC")
    out.result({**told, "complete": True, "complete_since": found.since.isoformat()})


def _seconds(timeout: str | None) -> float | None:
    """
    Raises:
        UsageError: it is no duration.
    """
    from datetime import timedelta

    from pydantic import TypeAdapter, ValidationError

    from lakeingest.config.values import Wait

    if timeout is None:
        return None
    try:
        found: timedelta = TypeAdapter(Wait).validate_python(timeout)
    except ValidationError as wrong:
        said = wrong.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageError(f'--timeout "{timeout}": {said}', cure="write it as in 2h or 90s") from None
    return found.total_seconds()
