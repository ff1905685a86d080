"""The command that holds a database's table against the lake's."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeingest.cli import each_topic
from lakeingest.cli.arguments import File, Format, waiting_time
from lakeingest.cli.output import Output


def compare(
    file: File,
    *,
    database: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="LAKEINGEST_DATABASE",
            help="The database, as SQLAlchemy has it: postgresql+psycopg://user:password@host/shop. The variable keeps "
            "a password out of the list of processes.",
        ),
    ],
    table: Annotated[
        str | None,
        typer.Option(
            metavar="SCHEMA.TABLE",
            help="Its table; by default what stands behind the prefix of the topic's name.",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="A place in the database's log, as `wait --position` takes it: what changed behind is not compared, "
            "and the same command goes on where one was cut off. Default: the end of the log.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[
        str,
        typer.Option(metavar="DURATION", help="How long keys that differ are looked at: a change may be on its way."),
    ] = "1 minute",
    output: Format = "text",
) -> None:
    """Compare each row of a database's table with the row of its key in the lake.

    The database is asked SELECT alone. Keys that change meanwhile are counted, and not compared. Ends with exit code 1
    if a key differs, and names it with the columns.

    Examples:

        lakeingest compare pipelines/orders.yaml --database postgresql+psycopg://reader@localhost/shop

        lakeingest compare pipelines/orders.yaml --table sales.orders --wait "0 seconds" --output json

        lakeingest compare pipelines/orders.yaml --at 0/16B3748

    \f
    Raises:
        UsageError: there is no such place, or database, or the pipeline has no rows of keys.
        NotComplete: the table does not hold the database's log up to that place.
        SourceUnreachable, StorageUnreachable, SetupError: the database or the table cannot be read.
    """
    most = waiting_time("--wait", wait)
    each_topic.ask(
        file,
        Output.of(output),
        "reading the database, and the table …",
        lambda pipeline, say: pipeline.compare_database(database, table, most, at=at, on_step=say),
    )
