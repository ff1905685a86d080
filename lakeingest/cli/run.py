"""The command that runs a pipeline, and what it shows meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeingest.cli import fleet, report, watching
from lakeingest.cli.arguments import AcceptHeld, AllowCode, FilesOrFolders, Format, LogFormat
from lakeingest.cli.live import finishing, live
from lakeingest.cli.output import Output
from lakeingest.errors import UsageError

if TYPE_CHECKING:
    from lakeingest.cli.watching import Watch
    from lakeingest.operations.results.run import RunSummary
    from lakeingest.pipeline import Pipeline


def run(
    files: FilesOrFolders,
    *,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Commit everything that is there now, then end.")
    ] = False,
    accept_dropped_topics: Annotated[
        bool,
        typer.Option(
            "--accept-dropped-topics", help="Go on although the file no longer names a topic that fed the table."
        ),
    ] = False,
    accept_gap: Annotated[
        bool,
        typer.Option("--accept-gap", help="Go on although Kafka has deleted offsets that were never read; name them."),
    ] = False,
    accept_held: AcceptHeld = None,
    accept_log_restart: Annotated[
        bool,
        typer.Option(
            "--accept-log-restart",
            help="Go on although a database's log begins anew, as its change events show: its clock was wrong.",
        ),
    ] = False,
    at_once: Annotated[
        int | None,
        typer.Option(
            "--at-once",
            min=1,
            metavar="N",
            help="How many of several pipelines compute at once, in turn. Default: two for each processor, as each "
            "waits for Kafka and the store half of the time.",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Answer there by HTTP: /metrics, /healthz, /readyz, and pages for a browser: / and /report.",
            show_default=False,
        ),
    ] = None,
    listen_name: Annotated[
        list[str] | None,
        typer.Option(
            "--listen-name",
            metavar="NAME",
            help="A host of the public DNS by which --listen is asked, as behind a proxy; may be repeated.",
            show_default=False,
        ),
    ] = None,
    log_format: LogFormat = None,
    allow_code: AllowCode = False,
    output: Format = "text",
) -> None:
    """Run a pipeline: by its trigger until stopped, or until caught up; or several side by side, on one Spark.

    Ctrl-C and SIGTERM finish the batch in hand, commit it, and end with exit code 0. A batch that takes longer than 25
    seconds then is given up: the next run takes it again, from its beginning.

    A server that fails on the way is tried again, as long as `retry.wait` in the pipeline file says.

    Of several pipelines each ends alone: one that fails, is held or is fenced off does not keep the others from going
    on. The exit code is that of the worst failure: 1 before 3, 4 and 2.

    With --listen a run that fails answers for 75 seconds more where stderr is no terminal, so that Prometheus sees why.

    Examples:

        lakeingest run pipelines/flights.yaml --until-caught-up

        lakeingest run pipelines/flights.yaml

        lakeingest run pipelines/flights.yaml --accept-held "holiday: few flights is right"

        lakeingest run pipelines/ --until-caught-up

        lakeingest run pipelines/flights.yaml --listen 127.0.0.1:9464 --log-format json
    """
    import lakeingest
    from lakeingest.config import PipelineConfig
    from lakeingest.config import file as pipeline_file

    out = Output.of(output)
    accept: dict[str, Any] = {
        "accept_dropped_topics": accept_dropped_topics,
        "accept_gap": accept_gap,
        "accept_held": accept_held,
        "accept_log_restart": accept_log_restart,
    }
    read = pipeline_file.read_all(files, os.environ)
    alone = None if len(files) > 1 or files[0].is_dir() or not isinstance(read[0], PipelineConfig) else read[0]
    if alone is None and (options := [f"--{name.replace('_', '-')}" for name, value in accept.items() if value]):
        raise UsageError(f"{options[0]} is for one pipeline", cure="run that pipeline with it, alone, once")
    with watching.watched(
        log_format, listen, [each.name for each in read], partial(report.page_of, read), listen_name or ()
    ) as watch:
        if alone is None:
            fleet.run(read, out, watch, until_caught_up=until_caught_up, at_once=at_once, allow_code=allow_code)
        else:
            pipeline = lakeingest.Pipeline(alone, allow_code=allow_code)
            out.show(of_one(pipeline, out, watch, until_caught_up=until_caught_up, accept=accept))


def of_one(
    pipeline: Pipeline, out: Output, watch: Watch, *, until_caught_up: bool, accept: Mapping[str, Any]
) -> RunSummary:
    """Run one pipeline, and show it as it goes.

    Args:
        accept: as `Pipeline.run` has it.
    """
    from lakeingest.operations import backlog
    from lakeingest.operations.results.run import RunSummary

    stop, name = threading.Event(), pipeline.config.name
    with live(out, name, watch) as display:
        display.says("starting Spark …")
        with watch.failing(name):
            pipeline.brief = until_caught_up and backlog.is_small(pipeline, pipeline.bootstrap_servers)
            _ = pipeline.spark
        with finishing(stop, display), watch.failing(name, stop):
            display.says("reading the tables' logs …")
            total = pipeline.run(until_caught_up=until_caught_up, on_event=display.heard, stop=stop, **accept)
    took = display.seconds, display.start_seconds
    return RunSummary(name, display.commits, total, display.lag, display.behind, stop.is_set(), *took)
