"""The command that looks at all that a pipeline needs."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
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
    from lakeingest.operations import doctor

    out = Output.of(output)
    findings = []
    for found in doctor.look(file, spark=spark):
        findings.append(found)
        out.line(f"{found.state:8} {found.about:20} {found.what}")
        if found.cure:
            out.line(f"{'':8} {'':20} cure: {found.cure}")
    counts = Counter(found.state for found in findings)
    out.line(", ".join(f"{counts[state]} {state}" for state in doctor.STATES if counts[state]))
    out.result({"good": not counts["bad"], "findings": [asdict(found) for found in findings]})
    if counts["bad"]:
        raise typer.Exit(4)
