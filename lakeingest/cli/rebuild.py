"""The command that makes a table anew out of a bronze table."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from lakeingest.cli import run, watching
from lakeingest.cli.arguments import AcceptHeld, AllowCode, File, Format
from lakeingest.cli.output import Output

if TYPE_CHECKING:
    from lakeingest.config import PipelineConfig
    from lakeingest.delta.pipeline_tables import PipelineTables
    from lakeingest.operations.results.rebuild import Compared
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
    from lakeingest.operations import rebuild as operation
    from lakeingest.operations.results import rebuild as results

    new = operation.config_of(config, bronze, to)
    pipeline = of_config(new, allow_code=allow_code)
    with out.progress("looking at the tables …"):
        operation.check_place(pipeline.tables)
    places = new.source.table, new.table.identifier
    if dry_run:
        with out.progress("looking at what there is …"):
            offsets = operation.waiting(pipeline.tables, pipeline.source.topics())
            plan = pipeline.plan(_SAMPLE)
        out.show(results.RebuildPlan(*places, offsets, plan))
        return
    with out.progress("looking at what was taken out of the old table …"):
        operation.carry_removals(_old_tables(config, pipeline), pipeline.tables)
    with watching.watched(None, None, [new.name]) as watch:
        summary = run.of_one(pipeline, out, watch, until_caught_up=True, accept={"accept_held": accept_held})
    out.text(summary)
    result = results.Rebuild(str(file), *places, summary)
    if not summary.stopped:
        with out.progress("proving the new table …"):
            audit, compared = pipeline.audit(), _compared(config, pipeline)
        steps = operation.next_steps(config, new)
        result = replace(result, audit=audit, compared=compared, steps=steps)
    out.show(result)


def _compared(config: PipelineConfig, pipeline: Pipeline) -> Compared | None:
    from lakeingest.operations import rebuild as of

    return of.compare(_old_tables(config, pipeline), pipeline.tables)


def _old_tables(config: PipelineConfig, pipeline: Pipeline) -> PipelineTables:
    from lakeingest.delta.pipeline_tables import PipelineTables
    from lakeingest.spark import session

    if config.source.table is not None:
        config = config.reading(pipeline.tables.config.source.topics)
    # The old table may be in another bucket.
    spark = session.attach(pipeline.storage, config.name, config.paths, config.names)
    return PipelineTables(spark, config)
