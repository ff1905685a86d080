"""The command that waits until a period of a pipeline's table is complete."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lakeingest.cli.arguments import File, Format, waiting_time
from lakeingest.cli.output import Output


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
    from lakeingest.delta.reader import rows
    from lakeingest.operations import wait as operation

    out = Output.of(output)
    rows.check_installed()
    timeout_s = None if timeout is None else waiting_time("--timeout", timeout).total_seconds()
    config = pipeline_file.read(file, os.environ)
    with out.progress("waiting:") as says:
        result = operation.wait(config, complete, timeout_s, says)
    out.show(result)
