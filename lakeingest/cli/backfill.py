"""The command that takes what lies behind a pipeline."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from lakeingest.cli import watching
from lakeingest.cli.arguments import AcceptHeld, AllowCode, File, Format, LogFormat
from lakeingest.cli.live import finishing, live
from lakeingest.cli.output import Output


def backfill(
    file: File,
    *,
    since: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="Where to begin: a time, as in 2026-11-01 or 2026-11-01T06:00+01:00; earliest; or the offset of a "
            "partition, as in flights-0:1500, once for each. Default: where Kafka begins.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="PLACE",
            help="Where to end, that record not included: a time, or offsets. Default: where the pipeline stands.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how much there is to take, and take nothing.")
    ] = False,
    max_records: Annotated[
        int | None,
        typer.Option(
            "--max-records",
            metavar="N",
            help="Most offsets of a batch. Default: trigger.max_records.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate", metavar="N", help="Most offsets in a second, on average. Default: no limit.", show_default=False
        ),
    ] = None,
    accept_gap: Annotated[
        bool,
        typer.Option("--accept-gap", help="Go on although Kafka has deleted records of a batch that was cut off."),
    ] = False,
    accept_held: AcceptHeld = None,
    log_format: LogFormat = None,
    allow_code: AllowCode = False,
    output: Format = "text",
) -> None:
    """Take what lies behind a pipeline and was never read: history before its start, an accepted gap, a topic's past.

    It may go beside the run of the pipeline, and neither disturbs the other: a backfill commits under receipts of its
    own. What was read before is left out, so nothing is double; one that was stopped or killed is called again, and
    goes on. Without --from and --to it takes all that Kafka still has.

    It never changes the table's columns: a record whose schema would do so ends it.

    Ctrl-C and SIGTERM finish the batch in hand, commit it, and end with exit code 0.

    Examples:

        lakeingest backfill pipelines/flights.yaml --dry-run

        lakeingest backfill pipelines/flights.yaml --from 2026-11-01 --to 2026-11-08 --rate 20000

        lakeingest backfill pipelines/flights.yaml --from flights-0:1500 --from flights-1:1480
    """
    import lakeingest

    out = Output.of(output)
    pipeline = lakeingest.load(file, allow_code=allow_code)
    if dry_run:
        with out.progress("reading the tables, and asking Kafka …"):
            result = pipeline.backfill(since, until, max_records=max_records, rate=rate, dry_run=True)
        out.show(result)
        return
    name = f"{pipeline.config.name}:backfill"
    stop = threading.Event()
    with watching.watched(log_format, None, [name]) as watch, live(out, name, watch, "left") as display:
        display.says("reading the tables' logs …")
        with finishing(stop, display), watch.failing(name, stop):
            result = pipeline.backfill(
                since,
                until,
                max_records=max_records,
                rate=rate,
                on_event=display.heard,
                stop=stop,
                accept_gap=accept_gap,
                accept_held=accept_held,
            )
    out.show(result)
