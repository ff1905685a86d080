"""Commands about the quarantine: what was refused, why, the bytes of a record; a second chance, or none."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakeingest.cli import each_topic
from lakeingest.cli.arguments import AllowCode, File, Format
from lakeingest.cli.output import Output
from lakeingest.errors import UsageError, number_of
from lakeingest.record import coordinates_of

app = typer.Typer(
    name="quarantine", help="Refused records: list them, show one, replay or discard them.", no_args_is_help=True
)


@app.command("list")
def list_(
    file: File,
    samples: Annotated[int, typer.Option(help="Messages to show for each reason.", min=0)] = 3,
    output: Format = "text",
) -> None:
    """Count refused records by stage and reason, with samples.

    A record that breaks expectations is counted for each of them.

    Example:

        lakeingest quarantine list pipelines/flights.yaml
    """
    each_topic.ask(file, Output.of(output), "reading quarantine …", lambda pipeline, _: pipeline.quarantined(samples))


@app.command()
def show(
    file: File,
    coordinates: Annotated[str, typer.Argument(help="topic-partition:offset, as `list` prints them.")],
    output: Format = "text",
) -> None:
    """Show one refused record: what was wrong, its key, headers and bytes.

    Example:

        lakeingest quarantine show pipelines/flights.yaml flights-2:1041
    """
    import lakeingest

    out = Output.of(output)
    place = coordinates_of(coordinates)
    if place is None:
        raise UsageError(f"{coordinates!r} is no coordinate", cure="write topic-partition:offset, as in flights-2:1041")
    with out.progress("reading quarantine …"):
        row = lakeingest.load(file).quarantined_record(*place)
    if row is None:
        raise UsageError(f"{coordinates} is not in quarantine", cure="`lakeingest quarantine list` shows what is")
    record = {name: _text(value) for name, value in row.items()}
    for name, value in record.items():
        out.line(f"{name:>12}  {value}")
    out.result(record)


Where = Annotated[
    str | None,
    typer.Option("--where", help="A condition over quarantine's columns, in Spark SQL.", show_default=False),
]


@app.command("replay")
def replay_(
    file: File,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is kept with each record that moves.")],
    where: Where = None,
    limit: Annotated[int | None, typer.Option(help="Most records to look at.", min=1, show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look only, and move nothing.")] = False,
    allow_code: AllowCode = False,
    output: Format = "text",
) -> None:
    """Decode and check refused records again, under today's rules and schemas, and move what passes into the table.

    Exactly once, whatever is killed when: call it again. What does not pass stays, as it is. A record that was moved
    keeps its row in quarantine, marked with who, when and why.

    Examples:

        lakeingest quarantine replay pipelines/flights.yaml --dry-run --reason "carrier codes were added"

        lakeingest quarantine replay pipelines/flights.yaml --where "stage = 'gate'" --reason "carrier codes were added"
    """
    import lakeingest

    out = Output.of(output)
    pipeline = lakeingest.load(file, allow_code=allow_code)
    with out.progress("checking refused records again …"):
        result = pipeline.replay(reason, where=where, limit=limit, dry_run=dry_run)
    out.show(result)


@app.command()
def discard(
    file: File,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is kept with each record.")],
    where: Where = None,
    output: Format = "text",
) -> None:
    """Give refused records up: they stay in quarantine, marked with who, when and why, and are not listed any more.

    Example:

        lakeingest quarantine discard pipelines/flights.yaml --where "reason = 'BROKEN_JSON'" --reason "a broken test"
    """
    import lakeingest

    out = Output.of(output)
    pipeline = lakeingest.load(file)
    with out.progress("marking refused records …"):
        count = pipeline.discard(reason, where=where)
    out.line(
        f"{pipeline.config.name}: {number_of(count, 'record')} discarded, and kept in "
        f"{pipeline.config.quarantine.identifier}"
    )
    out.result({"pipeline": pipeline.config.name, "discarded": count})


def _text(value: Any) -> Any:
    """Bytes as text where they are, with \\x escapes where they are not."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", errors="backslashreplace")
    if isinstance(value, list):
        return [_text(each) for each in value]
    if isinstance(value, dict):
        return {name: _text(each) for name, each in value.items()}
    return value
