"""Commands about the quarantine: what was refused, why, and the bytes of a record."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakeingest.cli.ingest import File, Format
from lakeingest.cli.output import Output
from lakeingest.errors import UsageError

app = typer.Typer(name="quarantine", help="Refused records: list them, show one.", no_args_is_help=True)


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
    import lakeingest

    out = Output.of(output)
    ingestion = lakeingest.load(file)
    groups = ingestion.quarantined(samples)
    out.table(
        f"{ingestion.config.name}: refused records in {ingestion.config.quarantine.path}",
        ("stage", "reason", "records", "for example"),
        [[g["stage"], g["reason"], f"{g['count']:,}", "\n".join(map(_sample, g["samples"]))] for g in groups],
    )
    out.result({"pipeline": ingestion.config.name, "reasons": groups})


def _sample(sample: dict[str, Any]) -> str:
    return f"{sample['coordinates']}: {sample['message']}"


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
    tp, _, offset = coordinates.rpartition(":")
    topic, _, partition = tp.rpartition("-")
    if not (topic and partition.isdecimal() and offset.isdecimal()):
        raise UsageError(f"{coordinates!r} is no coordinate", cure="write topic-partition:offset, as in flights-2:1041")
    found = lakeingest.load(file).quarantined_record(topic, int(partition), int(offset))
    if found is None:
        raise UsageError(f"{coordinates} is not in quarantine", cure="`lakeingest quarantine list` shows what is")
    record = {name: _text(value) for name, value in found.items()}
    for name, value in record.items():
        out.line(f"{name:>12}  {value}")
    out.result(record)


def _text(value: Any) -> Any:
    """Bytes as text where they are, with \\x escapes where they are not."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", errors="backslashreplace")
    if isinstance(value, list):
        return [{"key": header["key"], "value": _text(header["value"])} for header in value]
    return value
