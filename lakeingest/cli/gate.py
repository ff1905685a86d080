"""Commands about the gate: what the expectations found in the batches."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakeingest.cli.ingest import File, Format
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
    ingestion = lakeingest.load(file)
    rows = [row for row in ingestion.results(batches) if not (failed and row["success"])]
    out.table(
        f"{ingestion.config.name}: results in {ingestion.config.results}",
        ("batch", "time", "outcome", "expectation", "on failure", "met", "broken", "of", "found"),
        [
            [
                row["sequence"],
                f"{row['time']:%Y-%m-%d %H:%M:%S}",
                row["outcome"],
                row["expectation"],
                row["action"],
                "yes" if row["success"] else "no",
                _number(row["unexpected"]),
                _number(row["evaluated"]),
                _found(row),
            ]
            for row in rows
        ],
    )
    out.result({"pipeline": ingestion.config.name, "results": rows})


def _number(value: int | None) -> str:
    return "—" if value is None else f"{value:,}"


def _found(row: dict[str, Any]) -> str:
    return row["observed"] or ", ".join(row["sample"] or ())
