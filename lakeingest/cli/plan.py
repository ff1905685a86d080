"""The command that tells beforehand what a run would do."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeingest.cli.arguments import AllowCode, File, Format
from lakeingest.cli.output import Output
from lakeingest.errors import number_of


def plan(
    file: File,
    *,
    sample: Annotated[int, typer.Option(help="How many records to look at, the next ones to come.", min=1)] = 10_000,
    suggest_suite: Annotated[
        bool, typer.Option("--suggest-suite", help="Print a suite that the accepted records of the sample meet.")
    ] = False,
    allow_code: AllowCode = False,
    output: Format = "text",
) -> None:
    """Show what a run would do with the next records, from a sample. Writes nothing.

    First what would happen, in a few lines. Then what would be refused, what each expectation finds, schemas and what
    the table makes of them, its columns, and how many files and requests the layout makes of a day.

    Ends with 0 if all is fine, with 1 if something would be refused or kept back, with 2 if it cannot be told (no
    records, no columns yet).

    Examples:

        lakeingest plan pipelines/flights.yaml

        lakeingest plan pipelines/flights.yaml --sample 100000 --suggest-suite --output json
    """
    import lakeingest

    out = Output.of(output)
    with out.progress(f"deciding about {number_of(sample, 'record')} …"):
        result = lakeingest.load(file, allow_code=allow_code).plan(sample, suggest=suggest_suite)
    out.show(result)
