"""The command that tells beforehand what a run would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeingest.cli import gate
from lakeingest.cli.arguments import AllowCode, File, Format
from lakeingest.cli.output import Output, as_json, cut, drops
from lakeingest.cli.quarantine import LONGEST, shown
from lakeingest.errors import number_of

if TYPE_CHECKING:
    from lakeingest.operations.plan import Plan


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
        made = lakeingest.load(file, allow_code=allow_code).plan(sample, suggest=suggest_suite)
    _show(out, made)
    out.result(made.to_json())
    if made.problems:
        raise typer.Exit(made.problems)


def _change(column: dict[str, Any]) -> str:
    return "new" if column["new"] else f"was {column['was']}" if column["was"] else ""


def _verdict(made: Plan) -> str:
    """What a run would do, in a sentence."""
    sample = f"{number_of(made.counts['consumed'], 'record')} sampled"
    if made.held:
        return f"the batch would be kept back, of {sample}"
    if refused := made.counts["refused"]:
        return f"{refused:,} of {sample} would be refused"
    return f"all of {sample} would be committed" + (", and not all is as expected" if made.problems else "")


def _records(made: Plan) -> str:
    counts = made.counts
    by = f" ({drops(counts['dropped'], made.left_out)})" if made.left_out else ""
    return (
        f"{counts['accepted']:,} to the table, {counts['refused']:,} to quarantine, {counts['dropped']:,} dropped{by}"
    )


def _columns(made: Plan) -> str:
    """What becomes of the table's columns."""
    new, other = (sum(bool(each[what]) for each in made.columns) for what in ("new", "was"))
    refused = sum(each.action == "quarantine" for each in made.schemas)
    said = [
        *([f"{new:,} new"] if 0 < new < len(made.columns) else []),
        *([f"{other:,} of another type"] if other else []),
        *([f"{number_of(refused, 'schema')} refused"] if refused else []),
    ]
    if made.columns and new == len(made.columns):
        said.insert(0, f"a new table of {new:,}")
    return ", ".join(said) or f"{len(made.columns):,}, no change"


def _gate(made: Plan) -> str:
    if not made.results:
        return "the batch would be kept back" if made.held else "none"
    broken = sum(not each.success for each in made.results)
    met = f"{len(made.results) - broken:,} of {number_of(len(made.results), 'expectation')} met"
    return f"{met}; the batch would be kept back" if made.held else met


def _show(out: Output, made: Plan) -> None:
    """The verdict, and then what it is made of."""
    _lead(out, made)
    _refused(out, made)
    if made.results:
        gate.show(out, "expectations", [each.to_json() for each in made.results])
    _shape(out, made)
    forecast = made.forecast
    day = "an unknown number of" if forecast.records_per_day is None else f"{forecast.records_per_day:,}"
    size = "" if forecast.average_file_bytes is None else f" of {forecast.average_file_bytes / 2**20:.2f} MiB"
    touched = number_of(forecast.partitions, "partition")
    out.line(
        f"a day: {day} records, {number_of(forecast.commits_per_day, 'commit')}, about "
        f"{number_of(forecast.files_per_day, 'file')}{size}, "
        f"about {forecast.requests_per_day:,} S3 requests; the sample touches {touched}"
    )
    for warning in made.warnings:
        out.line(f"warning: {warning}")
    if made.suggested is not None:
        out.lines(as_json(made.suggested))


def _lead(out: Output, made: Plan) -> None:
    from lakeingest.gate import suite

    out.line(f"{made.pipeline}: {_verdict(made)}")
    for name, what in (("records", _records(made)), ("columns", _columns(made)), ("gate", _gate(made))):
        out.line(f"  {name:8} {what}")
    for why in made.held:
        out.line(f"           {cut(suite.brief(why), LONGEST)}")
    if made.committed:
        out.line("  caught up: these are the newest records, and they were committed before")
    for span in made.ranges:
        if span.end > span.start:
            out.line(f"  {span.topic}-{span.partition} offsets {span.start} to {span.end - 1}")


def _refused(out: Output, made: Plan) -> None:
    if made.refusals:
        rows = (
            [r["stage"], r["reason"], f"{r['count']:,}", shown(r["samples"][0]["message"], r["reason"])]
            for r in made.refusals
        )
        out.table("would be refused", ("stage", "reason", "records", "for example"), rows, longest=LONGEST)
    for each in made.corrections:
        but = "" if each["possible"] else ", which the table that is there cannot become"
        out.line(f"{each['records']:,} of them would pass if {each['column']} were declared as {each['type']}{but}")


def _shape(out: Output, made: Plan) -> None:
    """Schemas and columns."""
    if made.schemas:
        out.table(
            "schemas that the table has not seen",
            ("side", "id", "subject", "version", "verdict", "action", "changes"),
            [
                [e.side, e.id or "—", e.subject or "—", e.version or "—", e.verdict, e.action, ", ".join(e.changes)]
                for e in made.schemas
            ],
            spare=("side", "version", "id"),
            longest=LONGEST,
        )
    out.table(
        "columns",
        ("name", "type", ""),
        [[each["name"], each["type"], _change(each)] for each in made.columns],
        longest=300,
    )
    if made.rewrites:
        files, mib = number_of(made.rewrites["files"], "file"), made.rewrites["bytes"] / 2**20
        out.line(f"a type grows, and schema.widening is rewrite: the run would write {files} anew, {mib:,.1f} MiB")
    for name, check in made.constraints.items():
        out.line(f"the table's own constraint {name}: {check}")
