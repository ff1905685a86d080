"""The command that writes a page about pipelines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeingest.cli import fleet
from lakeingest.cli.arguments import FilesOrFolders, Format
from lakeingest.cli.output import Output

if TYPE_CHECKING:
    from lakeingest.config import PipelineConfig
    from lakeingest.config.per_topic import PerTopic

_PAGE = Path("report.html")


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
    the schema's history, the gate, files, what a compaction would do, and the audit. The page shows values of refused
    records; with --samples 0 it shows none.

    Examples:

        lakeingest report pipelines/flights.yaml --to report.html

        lakeingest report pipelines/ --no-audit

        lakeingest report pipelines/flights.yaml --output json
    """
    import lakeingest
    from lakeingest.operations.report import charts

    out = Output.of(output)
    chosen = to or (None if out.is_json else _PAGE)
    if chosen is not None:
        charts.need()
    pipelines = [lakeingest.Pipeline(config) for config in _configs(fleet.read(files))]
    # Behind what says that Spark is not installed.
    from lakeingest.operations.report import facts, page

    if chosen is not None:
        page.check(chosen, force=force)
    with out.progress("reading the tables …") as say:
        found = facts.gather(pipelines, samples=samples, audited=audit, say=say)
        size = page.write(found, chosen) if chosen is not None else 0
    for told in found:
        out.line(f"{told.pipeline}: {told.verdict.label}. {told.verdict.sentence}")
    if chosen is not None:
        out.line(f"open {chosen} ({size / 1e6:.1f} MB)")
    out.result({"pipelines": [told.to_json() for told in found], "page": None if chosen is None else str(chosen)})


def page_of(files: Sequence[PipelineConfig | PerTopic]) -> str:
    """The page of pipelines that run in this process: without their Spark, without an audit, without values of records.

    Raises:
        SetupError: what draws is not installed.
        SourceUnreachable: see `_configs`.
    """
    from lakeingest.operations.report import charts, facts, page
    from lakeingest.operations.report.running import Running

    charts.need()
    running = [Running(config) for config in _configs(files)]
    return page.html(facts.gather(running, samples=0, audited=False))


def _configs(files: Sequence[PipelineConfig | PerTopic]) -> Iterator[PipelineConfig]:
    """A pipeline for each file, and for each topic that a file's pattern matches.

    Raises:
        SourceUnreachable: a file is for the topics of a pattern, and Kafka does not answer.
    """
    from lakeingest.config.per_topic import PerTopic
    from lakeingest.ingest import endpoints
    from lakeingest.kafka.broker import Broker

    for file in files:
        if not isinstance(file, PerTopic):
            yield file
            continue
        names = Broker(file.example.source, endpoints.addresses(file.example)[0]).names()
        yield from (file.of(name) for name in names if file.pattern.fullmatch(name))
