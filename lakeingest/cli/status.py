"""The command that shows where a pipeline stands."""

from __future__ import annotations

from lakeingest.cli import each_topic
from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output


def status(file: File, output: Format = "text") -> None:
    """Show where a pipeline stands: frontier and lag per partition, last commits, rows, files and their average size,
    and whether its contract is kept.

    Example:

        lakeingest status pipelines/flights.yaml --output json
    """
    doing = "reading the tables, and asking Kafka …"
    each_topic.ask(file, Output.of(output), doing, lambda pipeline, _: pipeline.status())
