"""The command that writes a page about pipelines."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeingest.cli import each_topic
from lakeingest.cli.arguments import FilesOrFolders, Format
from lakeingest.cli.output import Output
from lakeingest.errors import LakeingestError, SetupError

if TYPE_CHECKING:
    from lakeingest.config import PipelineConfig
    from lakeingest.config.per_topic import PerTopic

_PAGE = Path("report.html")
WITHIN_S = 120
"""Seconds in which the tables of running pipelines are read for a page."""
_NICE = 10
_REFUSED = 4
"""Exit code of the process that makes the page, if it says why there is none."""


def report(
    files: FilesOrFolders,
    *,
    to: Annotated[
        Path | None, typer.Option("--to", help=f"The page. [default: {_PAGE}; none as JSON]", show_default=False)
    ] = None,
    samples: Annotated[int, typer.Option(help="Refused records to show of each reason, with their values.", min=0)] = 3,
    audit: Annotated[
        bool, typer.Option("--audit/--no-audit", help="Prove that no record is missing or double.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is no report.")] = False,
    output: Format = "text",
) -> None:
    """Write one page that shows how pipelines stand: no server, no network, to be sent, kept or printed.

    It is told from the tables, and from Kafka, which knows the lag: throughput and delay, refused records with samples,
    the schema's history, the gate, files, what a maintenance would do, and the audit. The page shows values of refused
    records; with --samples 0 it shows none.

    Examples:

        lakeingest report pipelines/flights.yaml --to report.html

        lakeingest report pipelines/ --no-audit

        lakeingest report pipelines/flights.yaml --output json
    """
    import lakeingest
    from lakeingest.config import file as pipeline_file
    from lakeingest.operations.report import charts

    out = Output.of(output)
    chosen = to or (None if out.is_json else _PAGE)
    if chosen is not None:
        charts.need()
    pipelines = [
        lakeingest.Pipeline(config) for config in each_topic.configs(pipeline_file.read_all(files, os.environ))
    ]
    # Behind what says that Spark is not installed.
    from lakeingest.operations.report import facts, page

    if chosen is not None:
        page.check(chosen, force=force)
    with out.progress("reading the tables …") as say:
        all_facts = facts.gather(pipelines, samples=samples, audited=audit, say=say)
        size = page.write(all_facts, chosen) if chosen is not None else 0
    for one in all_facts:
        out.line(f"{one.pipeline}: {one.verdict.label}. {one.verdict.sentence}")
    if chosen is not None:
        out.line(f"open {chosen} ({size / 1e6:.1f} MB)")
    out.result({"pipelines": [one.to_json() for one in all_facts], "page": None if chosen is None else str(chosen)})


def page_of(files: Sequence[PipelineConfig | PerTopic]) -> str:
    """The page of pipelines that run in this process, made by another one: what draws would keep Python's lock for
    seconds, and 150 MB, and what is no Python could end a run with it.

    Raises:
        LakeingestError: why there is no page.
        RuntimeError: a fault of ours.
    """
    # Neither a module of the current folder in place of ours, nor a Ctrl-C that is the run's.
    command = [sys.executable, "-P", "-c", "from lakeingest.cli import report; report.answer()"]
    process = subprocess.run(
        command, input=pickle.dumps(list(files)), capture_output=True, check=False, start_new_session=True
    )
    if process.returncode == _REFUSED:
        raise SetupError(**json.loads(process.stdout))
    if process.returncode == -signal.SIGALRM:
        raise SetupError(
            f"the tables, or Kafka, did not answer within {WITHIN_S} seconds",
            cure="run `lakeingest doctor`, which says who does not",
        )
    if process.returncode:
        raise RuntimeError(process.stderr.decode(errors="replace")[-4000:] or f"it ended with {process.returncode}")
    return process.stdout.decode()


def answer() -> None:
    """The process that `page_of` starts: pipelines from stdin; the page, or what is wrong, to stdout."""
    signal.alarm(WITHIN_S)
    os.nice(_NICE)
    try:
        sys.stdout.buffer.write(page_text(pickle.load(sys.stdin.buffer)).encode())
    except LakeingestError as failed:
        sys.stdout.write(json.dumps({"what": failed.what, "cure": failed.cure}))
        sys.exit(_REFUSED)


def page_text(files: Sequence[PipelineConfig | PerTopic]) -> str:
    """The page of pipelines: without Spark, without an audit, without values of records.

    Raises:
        SetupError: what draws is not installed.
        SourceUnreachable: see `each_topic.configs`.
    """
    from lakeingest.operations.report import charts, facts, page
    from lakeingest.operations.report.running import Running

    charts.need()
    running = [Running(config) for config in each_topic.configs(files)]
    return page.html(facts.gather(running, samples=0, audited=False))
