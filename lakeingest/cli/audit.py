"""The command that proves conservation, or says what is missing or double."""

from __future__ import annotations

import gc
from typing import Annotated

import typer

from lakeingest.cli import each_topic
from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output


def audit(
    file: File,
    *,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Of mode upsert: compare each key with the records themselves, too: those of a bronze table or a "
            "changelog (a path, or a name); or source, for what the pipeline reads.",
            show_default=False,
        ),
    ] = None,
    accept_deletes: Annotated[
        str | None,
        typer.Option(
            metavar="WHY",
            help="Declare what others deleted from the tables: these records are counted as deleted from now on, and "
            "no run brings them back.",
            show_default=False,
        ),
    ] = None,
    deep: Annotated[
        bool,
        typer.Option(help="Read every file, those too whose rows the tables' logs prove already."),
    ] = False,
    since: Annotated[
        bool,
        typer.Option(
            "--since",
            help="Go on from the newest verdict that is kept beside the table, for what the table's log has forgotten, "
            "and keep this one. With --deep all of them are checked.",
        ),
    ] = False,
    sign: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="The same, and sign the verdict with a private key (Ed25519, a file in PEM): those without its "
            "signature prove nothing.",
            show_default=False,
        ),
    ] = None,
    output: Format = "text",
) -> None:
    """Prove that every consumed record is in the table, in quarantine, or a declared drop, exactly once.

    Ends with exit code 1 if anything is missing or double, and names the coordinates.

    Examples:

        lakeingest audit pipelines/flights.yaml --output json

        lakeingest audit pipelines/flights.yaml --deep

        lakeingest audit pipelines/flights.yaml --since --sign audits.pem

        lakeingest audit pipelines/orders.yaml --against s3a://lake/orders_bronze

        lakeingest audit pipelines/orders.yaml --accept-deletes "ticket 4711: test orders"
    """
    # What an audit makes of a log stays to its end: to look through it again and again took a third of the time.
    gc.set_threshold(50_000)
    each_topic.ask(
        file,
        Output.of(output),
        "counting records in both tables …",
        lambda pipeline, _: pipeline.audit(against, accept_deletes, deep=deep, since=since, sign=sign),
    )
