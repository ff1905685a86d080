"""The demo: real flights, from a real broker into a real table, with what was damaged in quarantine."""

from __future__ import annotations

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
NEXT = f"""\
Go on with:
  lakeingest status {FILE}
  lakeingest audit {FILE}
  lakeingest quarantine list {FILE}
  lakeingest run {FILE}                      until Ctrl-C, every minute
  lakeingest describe                                      what a pipeline file can say
The stack keeps running. Stop it with `lakeingest stack down`, and with --wipe to forget its data too."""


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
    out.line(NEXT)


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
