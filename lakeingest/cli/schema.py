"""Commands about schemas: would a record's schema be written to a table, and how did the table come to its columns?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output
from lakeingest.errors import UsageError

if TYPE_CHECKING:
    from lakeingest.schema.compatibility import Mode
    from lakeingest.schema.model import Schema

app = typer.Typer(
    name="schema",
    help="Schemas: may a producer's next one be written, and which ones has a table seen?",
    no_args_is_help=True,
)

_SUFFIXES = (".avsc", ".proto", ".json")


@app.command()
def check(
    *,
    record: Annotated[
        Path, typer.Option(help="The record's schema: .avsc (Avro), .proto (Protobuf) or .json (JSON Schema).")
    ],
    current: Annotated[
        Path | None, typer.Option(help="The table's schema; left out, the table has none yet.", show_default=False)
    ] = None,
    mode: Annotated[str, typer.Option(help="NONE, BACKWARD, FORWARD or FULL.")] = "BACKWARD",
    record_version: Annotated[
        int | None, typer.Option(help="Its version in the registry's subject.", min=0, show_default=False)
    ] = None,
    current_version: Annotated[
        int | None, typer.Option(help="The version of the table's schema.", min=0, show_default=False)
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(
            help="A schema that they refer to, by the path that they name it by; once for each, dependencies first.",
            show_default=False,
        ),
    ] = None,
    output: Format = "text",
) -> None:
    """Ask, before a producer deploys, whether its records would be written. Offline.

    Ends with 0 if they would be, with 1 if they would be refused, with 2 if a file cannot be read.
    All modes but NONE need both versions, unless the schemas are equal: they tell older from newer.

    Examples:

        lakeingest schema check --current v1.avsc --current-version 1 --record v2.avsc --record-version 2

        lakeingest schema check --mode NONE --current v1.proto --record v2.proto --output json

        lakeingest schema check --current v1.avsc --record v1.avsc --reference address.avsc
    """
    from lakeingest.operations.results.schema_check import SchemaCheck
    from lakeingest.schema.compatibility import decide

    out = Output.of(output)
    references = [(str(file), _text(file)) for file in reference or ()]
    table = None if current is None else _read(current, current_version, references)
    decision = decide(_read(record, record_version, references), table, _mode(mode))
    out.show(SchemaCheck(record, decision))


@app.command()
def history(file: File, output: Format = "text") -> None:
    """Show the schemas that a table has seen, oldest first: when, what was decided, and which fields changed.

    Then what each writer's schema has brought: rows, refused records, coordinates of the first and the last.

    Example:

        lakeingest schema history pipelines/weather.yaml
    """
    import lakeingest

    out = Output.of(output)
    with out.progress("reading the tables …"):
        result = lakeingest.load(file).schemas()
    out.show(result)


def _mode(name: str) -> Mode:
    from lakeingest.schema.compatibility import Mode

    modes: tuple[Mode, ...] = get_args(Mode)
    for mode in modes:
        if mode == name.upper():
            return mode
    raise UsageError(f'--mode "{name}" is not a mode', cure=f"write one of {', '.join(modes)}")


def _read(file: Path, version: int | None, references: Sequence[tuple[str, str]]) -> Schema:
    """The schema of a file, whose suffix says the format.

    Raises:
        UsageError: no such file, an unknown suffix, or no schema.
    """
    from dataclasses import replace

    from lakeingest.schema.model import SchemaError

    if file.suffix not in _SUFFIXES:
        raise UsageError(
            f'{file}: "{file.suffix}" says no format',
            cure="name it .avsc for Avro, .proto for Protobuf, .json for JSON Schema",
        )
    try:
        return replace(_parse(file.suffix, _text(file), references), version=version)
    except SchemaError as error:
        raise UsageError(f"{file}: {error}", cure="correct the schema; its suffix says in which format it is") from None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}", cure="name a file that can be read") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file}: not UTF-8", cure="save the schema as UTF-8 text") from None


def _parse(suffix: str, text: str, references: Sequence[tuple[str, str]]) -> Schema:
    if suffix == ".avsc":
        from lakeingest.schema.formats import avro

        return avro.read(text, [reference for _, reference in references])
    if suffix == ".proto":
        from lakeingest.schema.formats import protobuf

        return protobuf.read(text, references)
    from lakeingest.schema.formats import json_schema

    return json_schema.read(text, references)
