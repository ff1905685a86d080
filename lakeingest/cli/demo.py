"""The demo: real flights, from a real broker into a real table, with what was damaged in quarantine."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeingest.cli import ingest
from lakeingest.cli.output import Output
from lakeingest.errors import UsageError

if TYPE_CHECKING:
    from lakeingest.pipeline import Ingestion

FILE = Path("pipelines/flights.yaml")
_NEXT = (
    ("status {file}", "frontier and lag, last commits, rows and files"),
    ("audit {file} --output json", "the conservation proof, for programs"),
    ("quarantine list {file}", "what was refused, and why"),
    ("run {file}", "go on, every minute, until Ctrl-C"),
    ("describe", "all that a pipeline file can say"),
    ("stack down", "stop the servers, which keep running till then; --wipe forgets their data too"),
)


def demo(
    file: Annotated[Path, typer.Argument(help="The pipeline file of the flights.")] = FILE,
) -> None:
    """Show it all: start the embedded stack, send 336,776 flights, ingest them, show what is where, and audit.

    A second time it sends and ingests nothing twice.
    """
    import lakeingest
    from lakeingest.local import flights, stack

    if not file.exists():
        raise UsageError(f"there is no {file} here", cure="run the demo in a clone of the project")
    out = Output.of("text")
    out.line("1. Kafka, an S3 server and a schema registry, on this machine")
    with out.progress("starting the stack"):
        addresses = stack.up()
    out.line(f"   Kafka {addresses.kafka}   S3 {addresses.s3}   registry {addresses.registry}")
    out.line(f"2. {flights.RECORDS:,} flights of 2013 into topic {flights.TOPIC!r}, {flights.DAMAGED} of them damaged")
    with out.progress("sending flights"):
        sent = flights.produce(addresses.kafka)
    out.line(f"   sent {sent:,}" + ("" if sent else " (the topic holds them all)"))
    out.line(f"3. lakeingest run {file} --until-caught-up")
    sys.stdout.flush()
    ingest.run(file, until_caught_up=True, accept_dropped_topics=False, output="text")
    out.line("4. What is where")
    _show(lakeingest.load(file), out)
    out.line(f"5. lakeingest audit {file}")
    ingest.audit(file, output="text")
    out.line()
    out.line("Go on with:")
    for arguments, meaning in _NEXT:
        out.line(f"  {_command()} {arguments.format(file=file):<44} {meaning}")


def _show(ingestion: Ingestion, out: Output) -> None:
    from lakeingest import table

    rows = table.read(ingestion.spark, ingestion.config.table.path).groupBy("month").pivot("origin").count()
    airports = [name for name in rows.columns if name != "month"]
    months = [row.asDict() for row in rows.orderBy("month").collect()]
    out.table(
        f"rows of {ingestion.config.table.path}, by partition",
        ("month", *airports, "all"),
        [[m["month"], *(f"{m[a] or 0:,}" for a in airports), f"{sum(m[a] or 0 for a in airports):,}"] for m in months],
    )
    out.table(
        f"refused records, in {ingestion.config.quarantine.path}",
        ("reason", "records", "for example"),
        [[g["reason"], g["count"], g["samples"][0]["message"]] for g in ingestion.quarantined(1)],
    )


def _command() -> str:
    """How this command line was called: by its name, or by a path as in a virtual environment that is not active."""
    called = Path(sys.argv[0])
    found = shutil.which(called.name)
    return called.name if found and Path(found).samefile(called) else os.path.relpath(called)
