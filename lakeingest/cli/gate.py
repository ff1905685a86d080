"""Commands about the gate: what the expectations found in the batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Annotated, Any

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
        rows = [row for row in pipeline.results(batches) if not (failed and row["success"])]
    out.line(f"{pipeline.config.name}: results in {pipeline.config.results}")
    for sequence, time, outcome in dict.fromkeys(map(itemgetter("sequence", "time", "outcome"), rows)):
        out.line(f"  batch {sequence} at {time:%Y-%m-%d %H:%M:%S}: {outcome}")
    columns = ("batch", *_COLUMNS)
    out.table("", columns, [[row["sequence"], *_cells(row)] for row in rows], spare=_SPARE, longest=_LONGEST)
    out.result({"pipeline": pipeline.config.name, "results": rows})


_COLUMNS = ("expectation", "on failure", "met", "broken", "of", "found")
_SPARE = ("of", "on failure")
_LONGEST = 80


def show(out: Output, title: str, results: Iterable[Mapping[str, Any]]) -> None:
    """A table of what expectations found, each by its name: its type and columns."""
    out.table(title, _COLUMNS, map(_cells, results), spare=_SPARE, longest=_LONGEST)


def _cells(result: Mapping[str, Any]) -> list[str]:
    return [
        result["expectation"],
        result["action"],
        "yes" if result["success"] else "no",
        *("—" if result[name] is None else f"{result[name]:,}" for name in ("unexpected", "evaluated")),
        result["observed"] or ", ".join(result["sample"] or ()),
    ]
