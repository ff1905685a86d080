"""The command that looks at all that a pipeline needs."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output


def doctor(
    file: File,
    output: Format = "text",
    spark: Annotated[bool, typer.Option(help="Start a Spark session and look at it too: about ten seconds.")] = True,
) -> None:
    """Look at all that a pipeline needs: packages, Java, memory, brokers, topics and rights, registry, store, clock,
    and what the Spark session can do. Writes nothing but an object for a conditional PUT, which it deletes again.

    Ends with 4 if a run cannot go well, else with 0.

    Examples:

        lakeingest doctor pipelines/flights.yaml

        lakeingest doctor pipelines/flights.yaml --no-spark --output json
    """
    from lakeingest.operations.doctor.diagnosis import look
    from lakeingest.operations.results.doctor import Diagnosis

    out, diagnosis = Output.of(output), Diagnosis()
    for finding in look(file, spark=spark):
        diagnosis.append(finding)
        for line in finding.lines:
            out.line(line)
    out.show(diagnosis)
