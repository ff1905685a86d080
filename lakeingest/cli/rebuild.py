"""The command that makes a table anew out of a bronze table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeingest.cli import run, watching
from lakeingest.cli.arguments import AcceptHeld, AllowCode, File, Format
from lakeingest.cli.output import Output
from lakeingest.errors import number_of

if TYPE_CHECKING:
    from lakeingest.config import PipelineConfig
    from lakeingest.operations.rebuild import Compared
    from lakeingest.pipeline import Pipeline

_SAMPLE = 10_000


def rebuild(
    file: File,
    *,
    to: Annotated[
        str, typer.Option("--to", metavar="TABLE", help="The new table: a path, or a name.", show_default=False)
    ],
    bronze: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TABLE",
            help="The bronze table to read: a path, or a name. Default: source.table of the file.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; write nothing.")] = False,
    accept_held: AcceptHeld = None,
    allow_code: AllowCode = False,
    output: Format = "text",
) -> None:
    """Make a pipeline's table anew, beside the old one, out of a bronze table: by the schema, rules and partitions that
    the file has now. Kafka is not asked.

    It goes on until it has all that bronze had when it began; then it proves the new table, compares it with the old
    one, and says what to change in the file so that the pipeline goes on in the new table. The old one is not touched.

    One that was killed goes on where it was, with the same words. It refuses a place that holds something else.

    Examples:

        lakeingest rebuild pipelines/flights.yaml --from s3a://lake/bronze --to s3a://lake/flights_2 --dry-run

        lakeingest rebuild pipelines/flights.yaml --from s3a://lake/bronze --to s3a://lake/flights_2
    """
    import lakeingest
    from lakeingest.config import file as pipeline_file

    out = Output.of(output)
    config = pipeline_file.read(file, os.environ)
    of_config = lakeingest.Pipeline
    # Behind what says that Spark is not installed.
    from lakeingest.operations import rebuild as of

    made = of.config_of(config, bronze, to)
    pipeline = of_config(made, allow_code=allow_code)
    with out.progress("looking at the tables …"):
        of.check_place(pipeline.tables)
    told: dict[str, Any] = {"from": made.source.table, "to": made.table.identifier}
    if dry_run:
        _plan(pipeline, out, told)
        return
    with watching.watched(None, None, [made.name]) as watch:
        told |= run.of_one(pipeline, out, watch, until_caught_up=True, accept={"accept_held": accept_held})
    if told["stopped"]:
        out.line("the same command goes on from there")
        out.result(told)
        return
    with out.progress("proving the new table …"):
        report = pipeline.audit()
        compared = _compared(config, pipeline)
    steps = of.next_steps(config, made)
    out.line(report.headline)
    if compared is not None:
        _show(out, compared)
    if report.conserved:
        out.line(f"to go on in the new table, stop the pipeline, and change {file}:")
        for option, value in steps.items():
            out.line(f"  {option}: {value}" if value is not None else f"  leave out {option}")
        out.line(f"then: lakeingest run {file}")
    shown = compared and compared.to_json()
    out.result({**told, "audit": report.to_json(), "compared": shown, "next": steps})
    report.check()


def _plan(pipeline: Pipeline, out: Output, told: dict[str, Any]) -> None:
    from lakeingest.operations import rebuild as of

    with out.progress("looking at what there is …"):
        offsets = of.waiting(pipeline.tables, pipeline.source.topics())
        made = pipeline.plan(_SAMPLE)
    out.line(f"{told['to']} has not {number_of(offsets, 'offset')} of {told['from']} yet")
    out.line(made.headline)
    out.line("nothing was written")
    out.result({**told, "offsets": offsets, "plan": made.to_json()})


def _compared(config: PipelineConfig, pipeline: Pipeline) -> Compared | None:
    from lakeingest.delta.pipeline_tables import PipelineTables
    from lakeingest.operations import rebuild as of
    from lakeingest.spark import session

    if config.source.table is not None:
        config = config.reading(pipeline.tables.config.source.topics)
    # The old table may be in another bucket.
    spark = session.attach(pipeline.storage, config.name, config.paths, config.names)
    return of.compare(PipelineTables(spark, config), pipeline.tables)


def _show(out: Output, compared: Compared) -> None:
    pairs = {"table": compared.table, "quarantine": compared.quarantine}
    rows = [[name, f"{old:,}", f"{new:,}", f"{new - old:+,}"] for name, (old, new) in pairs.items()]
    out.table("of the offsets that both have consumed", ("", "old", "new", "more"), rows)
