"""The demo: real flights, from a real broker into a real table, with what was damaged in quarantine."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeingest.cli import audit, run, schema
from lakeingest.cli.output import Output
from lakeingest.errors import UsageError

if TYPE_CHECKING:
    from lakeingest.local import Addresses
    from lakeingest.pipeline import Pipeline

FILE = Path("pipelines/flights.yaml")
SCHEMAS = Path("pipelines/weather.yaml")
_NEXT = (
    ("status {file}", "frontier and lag, last commits, rows and files"),
    ("audit {file} --output json", "the conservation proof, for programs"),
    ("quarantine list {file}", "what was refused, and why"),
    ("schema history {file}", "how the table came to its columns"),
    ("run {file}", "go on, every minute, until Ctrl-C"),
    ("describe", "all that a pipeline file can say"),
    ("stack down", "stop the servers, which keep running till then; --wipe forgets their data too"),
)
_WIDENED = """\
wind_dir was widened from INT to DOUBLE. The table has Delta's feature typeWidening since then, which its readers must
know: Spark with Delta 4 does, deltalake 1.6 for one does not, and refuses the table."""


def demo(
    file: Annotated[
        Path | None, typer.Argument(help=f"The pipeline file. [default: {FILE}, or {SCHEMAS}]", show_default=False)
    ] = None,
    schemas: Annotated[
        bool, typer.Option("--schemas", help="Weather whose Avro schema changes twice, instead of flights.")
    ] = False,
) -> None:
    """Show it all: start the embedded stack, send 336,776 flights, ingest them, show what is where, and audit.

    With --schemas: 26,115 hours of weather, in three versions of their schema that a rolling deploy mixes, a trial of a
    fourth that the table refuses, and how the table followed. A second time it sends and ingests nothing twice.
    """
    file = file or (SCHEMAS if schemas else FILE)
    if not file.exists():
        raise UsageError(f"there is no {file} here", cure="run the demo in a clone of the project")
    out = Output.of("text")
    _need_data()
    addresses = _stack(out)
    _send_weather(out, addresses) if schemas else _send_flights(out, addresses)
    out.line(f"3. lakeingest run {file} --until-caught-up")
    sys.stdout.flush()
    run.run([file], until_caught_up=True, accept_dropped_topics=False, log_format="none", output="text")
    out.line("4. What is where")
    _show(file, out, versions=schemas)
    if schemas:
        out.line(f"5. lakeingest schema history {file}")
        schema.history(file, output="text")
        out.line(_WIDENED)
    out.line(f"{6 if schemas else 5}. lakeingest audit {file}")
    audit.audit(file, output="text")
    out.line()
    out.line("Go on with:")
    for arguments, meaning in _NEXT:
        out.line(f"  {_command()} {arguments.format(file=file):<44} {meaning}")


def _need_data() -> None:
    """Say that the data's package is missing before the servers start, which takes a minute."""
    from lakeingest.local.demo import nycflights

    nycflights.folder()


def _stack(out: Output) -> Addresses:
    from lakeingest.local import stack

    out.line("1. Kafka, an S3 server and a schema registry, on this machine")
    with out.progress("starting the stack …") as say:
        addresses = stack.up(say=say)
    out.line(f"   Kafka {addresses.kafka}   S3 {addresses.s3}   registry {addresses.registry}")
    return addresses


def _send_flights(out: Output, addresses: Addresses) -> None:
    from lakeingest.local.demo import flights

    out.line(f"2. {flights.RECORDS:,} flights of 2013 into topic {flights.TOPIC!r}, {flights.DAMAGED} of them damaged")
    with out.progress("sending flights"):
        count = flights.produce(addresses.kafka)
    _tell_count(out, count)


def _send_weather(out: Output, addresses: Addresses) -> None:
    from lakeingest.local.demo import weather

    out.line(
        f"2. {weather.RECORDS:,} hours of weather of 2013 into topic {weather.TOPIC!r}, in three versions of "
        f"{weather.SUBJECT} and a trial of a fourth, {weather.DAMAGED} of them damaged"
    )
    with out.progress("sending weather"):
        count = weather.produce(addresses.kafka, addresses.registry)
    _tell_count(out, count)


def _tell_count(out: Output, count: int) -> None:
    out.line(f"   sent {count:,}" + ("" if count else " (the topic holds them all)"))


def _show(file: Path, out: Output, *, versions: bool) -> None:
    import lakeingest
    from lakeingest.operations.results.refusals import message

    pipeline = lakeingest.load(file)
    _show_versions(pipeline, out) if versions else _show_partitions(pipeline, out)
    out.table(
        f"refused records, in {pipeline.config.quarantine.identifier}",
        ("reason", "records", "for example"),
        [[g["reason"], g["count"], message(g["samples"][0], g["reason"])] for g in pipeline.quarantined(1)],
    )


def _show_partitions(pipeline: Pipeline, out: Output) -> None:
    rows = pipeline.tables.main.read().groupBy("month").pivot("origin").count()
    airports = [name for name in rows.columns if name != "month"]
    months = [row.asDict() for row in rows.orderBy("month").collect()]
    out.table(
        f"rows of {pipeline.config.table.identifier}, by partition",
        ("month", *airports, "all"),
        [[m["month"], *(f"{m[a] or 0:,}" for a in airports), f"{sum(m[a] or 0 for a in airports):,}"] for m in months],
    )


def _show_versions(pipeline: Pipeline, out: Output) -> None:
    """Month by month, by the schema that a row was written with: a rolling deploy, as the table remembers it."""
    rows = pipeline.tables.main.read()
    counted = rows.groupBy("observed").pivot("_schema_id").count()
    ids = [name for name in counted.columns if name != "observed"]
    out.table(
        f"rows of {pipeline.config.table.identifier}, by schema id",
        ("month", *(f"id {id}" for id in ids)),
        [[row["observed"], *(f"{row[id] or 0:,}" for id in ids)] for row in counted.orderBy("observed").collect()],
    )


def _command() -> str:
    """The word that called this command line: its name, or a path as in a virtual environment that is not active."""
    called = Path(sys.argv[0])
    path = shutil.which(called.name)
    return called.name if path and Path(path).samefile(called) else os.path.relpath(called)
