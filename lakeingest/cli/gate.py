"""Commands about the gate: what the expectations found in the batches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output
from lakeingest.errors import UsageError

app = typer.Typer(name="gate", help="Expectations: what they found, and suites of old.", no_args_is_help=True)


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


@app.command()
def convert(
    suite: Annotated[Path, typer.Argument(help="The suite: JSON of Great Expectations.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to write. Left out: the suite is printed.")
    ] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
    output: Format = "text",
) -> None:
    """Make a suite of Great Expectations 1.x of one of 0.x, or of one whose row_condition is a text.

    A text is converted where 1.x asks exactly the same. Where anything is refused, nothing is written, and the exit
    code is 1.

    Examples:

        lakeingest gate convert expectations/old.json

        lakeingest gate convert expectations/old.json --out expectations/flights.json

    \f
    Raises:
        UsageError: the file exists, or cannot be written; or there is no suite in the first one.
        PipelineFileError: the suite cannot be read, or is no JSON.
    """
    from lakeingest.gate.convert import Converted
    from lakeingest.gate.suite import read
    from lakeingest.operations.results.gate_conversion import GateConversion

    document = read(suite)
    if not isinstance(document, dict):
        raise UsageError(f"{suite} holds no suite", cure="name a suite that Great Expectations wrote")
    conversion = GateConversion(suite, Converted(document), out)
    if out is not None and not conversion.converted.refused:
        if out.exists() and not force:
            raise UsageError(f"{out} exists", cure="name another file, or overwrite it with --force")
        try:
            out.write_text(conversion.document, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{out} cannot be written ({error.strerror})", cure="check the path") from None
    Output.of(output).show(conversion)
