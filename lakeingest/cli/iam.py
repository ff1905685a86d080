"""The command that prints which rights in AWS a pipeline needs."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output


def iam(
    file: File,
    *,
    role: Annotated[
        str, typer.Option("--role", help="writer runs it, reader reads its tables, operator maintains them too.")
    ] = "writer",
    account: Annotated[
        str | None,
        typer.Option(
            "--account", metavar="NUMBER", help="The account of Glue and MSK. Default: any.", show_default=False
        ),
    ] = None,
    export_to: Annotated[
        list[str] | None,
        typer.Option(
            "--export-to", metavar="PLACE", help="Where the operator exports to; may be repeated.", show_default=False
        ),
    ] = None,
    output: Format = "text",
) -> None:
    """Print the policy of IAM with the least rights that a role needs for this pipeline: for S3, a key in KMS, Glue and
    MSK, as far as the pipeline file names them. Nobody is asked; nothing is changed.

    Of a file for many topics it is for each topic whose name begins as the pattern does. With `storage.role` it is the
    policy of that role. What its keys need themselves is in `--output json`.

    Examples:

        lakeingest iam pipelines/flights.yaml > policy.json

        lakeingest iam pipelines/flights.yaml --role operator --account 123456789012

        lakeingest iam pipelines/flights.yaml --role reader --output json

    \\f
    Raises:
        UsageError: there is no such role, or nothing of the pipeline is in AWS.
        PipelineFileError: the pipeline file is wrong.
    """
    from lakeingest.config import file as pipeline_file
    from lakeingest.config.per_topic import PerTopic
    from lakeingest.operations import iam

    out = Output.of(output)
    config = pipeline_file.read_any(file, os.environ)
    options = (role, account, export_to or ())
    out.show(iam.policy_of_pattern(config, *options) if isinstance(config, PerTopic) else iam.policy(config, *options))
