"""The command that waits until a pipeline's table holds all records of a period, or up to a place in a log."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lakeingest.cli.arguments import File, Format, waiting_time
from lakeingest.cli.output import Output
from lakeingest.errors import UsageError


def wait(
    file: File,
    *,
    complete: Annotated[
        str | None,
        typer.Option(
            "--complete",
            metavar="PERIOD",
            help="The period, in the time zone of the partition: 2026, 2026-11, 2026-11-23, 2026-11-23T14 or "
            "2026-11-23T14:15, by how the table is partitioned.",
            show_default=False,
        ),
    ] = None,
    position: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Of change events, the place in the database's log: 0/16B3748 of PostgreSQL, mysql-bin.000003:1547 of "
            "MySQL and MariaDB, or the number that _position.commit has.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(help="How long to wait, as in 2h; 0 looks once. Default: for ever.", show_default=False),
    ] = None,
    output: Format = "text",
) -> None:
    """Wait until a period of the table is complete: no record of it follows, as contract.completeness says; or until
    the table holds everything up to a place in the database's log, of change events.

    It reads the tables without Spark, which starts only where it must, as for tables that a catalog alone knows. Exit
    code 0: it is complete; 1: the timeout came before, and what it waits for.

    Examples:

        lakeingest wait pipelines/flights.yaml --complete 2026-11-23T14

        lakeingest wait pipelines/flights.yaml --complete 2026-11-23 --timeout 2h && spark-submit daily.py

        lakeingest wait pipelines/orders.yaml --position $(psql -Atc "SELECT pg_current_wal_lsn()" shop)

    \f
    Raises:
        UsageError: there is no such period or place, or neither or both are named; the contract has no completeness.
        NotComplete: the timeout came first.
        StorageUnreachable, SetupError: the table cannot be read.
    """
    from lakeingest.config import file as pipeline_file
    from lakeingest.delta.reader import rows
    from lakeingest.operations import wait as operation

    out = Output.of(output)
    rows.check_installed()
    timeout_s = None if timeout is None else waiting_time("--timeout", timeout).total_seconds()
    if (complete is None) == (position is None):
        raise UsageError("what is to be waited for", cure="name one of --complete PERIOD and --position PLACE")
    config = pipeline_file.read(file, os.environ)
    with out.progress("waiting:") as says:
        if complete is not None:
            out.show(operation.wait(config, complete, timeout_s, says))
        elif position is not None:
            out.show(operation.wait_for_position(config, position, timeout_s, says))
