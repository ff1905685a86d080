"""The command that proves conservation, or says what is missing or double."""

from __future__ import annotations

from lakeingest.cli import each_topic
from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output


def audit(file: File, output: Format = "text") -> None:
    """Prove that every consumed record is in the table, in quarantine, or a declared drop, exactly once.

    Ends with exit code 1 if anything is missing or double, and names the coordinates.

    Example:

        lakeingest audit pipelines/flights.yaml --output json
    """
    each_topic.ask(file, Output.of(output), "counting records in both tables …", lambda pipeline: pipeline.audit())
