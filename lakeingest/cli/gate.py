"""Commands about the gate: what the expectations found in the batches."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output

app = typer.Typer(name="gate", help="Expectations: what they found, batch by batch.", no_args_is_help=True)


@app.command()
def history(
    file: File,
    batches: Annotated[int, typer.Option(help="How many batches, the newest first.", min=1)] = 5,
    failed: Annotated[bool, typer.Option("--failed", help="Only expectations that were not met.")] = False,
    output: Format = "text",
) -> None:
    """Show what each expectation found in the newest batches.

    Examples:

        lakeingest gate history pipelines/flights.yaml

        lakeingest gate history pipelines/flights.yaml --failed --output json
    """
    import lakeingest

    out = Output.of(output)
    pipeline = lakeingest.load(file)
    with out.progress("reading the results …"):
        results = pipeline.results(batches)
    out.show(results.failed() if failed else results)
