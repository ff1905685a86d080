"""The command that forgets records on request, and says where they may be still."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lakeingest.cli.arguments import AllowCode, FilesOrFolders, Format
from lakeingest.cli.output import Output


def forget(
    files: FilesOrFolders,
    *,
    where: Annotated[
        str, typer.Option(help="Which records: a condition over a table's columns, in Spark SQL.", show_default=False)
    ],
    why: Annotated[
        str, typer.Option(help="The request's name, without a personal value: it is kept.", show_default=False)
    ],
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="A text that no object may hold in the end; may be given several times. Refused records that hold it "
            "are forgotten, too.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="The condition may match all rows of a table.")] = False,
    now: Annotated[
        bool,
        typer.Option(
            "--now", help="Delete files of older versions at once, not when maintenance.vacuum.after is over."
        ),
    ] = False,
    i_know: Annotated[
        bool, typer.Option("--i-know", help="With --now: nobody reads or writes these tables meanwhile.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many records there are.")] = False,
    allow_code: AllowCode = False,
    output: Format = "text",
) -> None:
    """Forget records: take them out of tables and quarantines, let no job read them again, and delete the files that
    held them. Ends with a certificate.

    Name the files of all pipelines that have the records: also of the bronze table that they came from. Records that
    were taken out are listed beside each table (`…_removed`) by topic, partition and offset, without a value.

    Files of older versions stay for queries under way until the grace is over: the same command finishes then. One that
    was killed goes on where it was, with the same words.

    Ends with exit code 1 if a data file holds a text of --search in the end.

    Examples:

        lakeingest forget pipelines/orders.yaml --where "customer_id = 7" --why "request 123" --dry-run

        lakeingest forget pipelines/ --where "customer_id = 7" --why "request 123" --search anna@example.com

        lakeingest forget pipelines/orders.yaml --where "customer_id = 7" --why "request 123" --output json > 123.json
    """
    import lakeingest
    from lakeingest.cli import each_topic
    from lakeingest.config import file as pipeline_file

    out = Output.of(output)
    of_config = lakeingest.Pipeline
    # Behind what says that Spark is not installed.
    from lakeingest.operations.erasure import job
    from lakeingest.operations.erasure.records import ErasureRequest

    job.check_now(now=now, is_known=i_know)
    configs = each_topic.configs(pipeline_file.read_all(files, os.environ))
    pipelines = [of_config(config, allow_code=allow_code) for config in configs]
    request = ErasureRequest(where, why, tuple(search or ()), every)
    with out.progress("looking at the tables …") as say:
        certificate = job.forget([each.context for each in pipelines], request, now=now, dry_run=dry_run, say=say)
    out.show(certificate)
