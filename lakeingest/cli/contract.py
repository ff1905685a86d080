"""The command that writes a pipeline's contract as a document of ODCS."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output
from lakeingest.errors import UsageError

if TYPE_CHECKING:
    from lakeingest.config import PipelineConfig


def contract(
    file: File,
    *,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="PATH", help="The file to write. Default: print it.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
    output: Format = "text",
) -> None:
    """Write the contract as a document of the Open Data Contract Standard (ODCS).

    The document has the table's columns (those that the file declares, while there is no table), its keys and
    partitions, the expectations of the gate, and what the contract promises. Nothing but the named file is written.

    Examples:

        lakeingest contract pipelines/flights.yaml

        lakeingest contract pipelines/flights.yaml --to flights.odcs.yaml

    \f
    Raises:
        UsageError: there are no columns yet; or the file exists, or cannot be written.
        PipelineFileError: the pipeline file is wrong.
    """
    out = Output.of(output)
    from lakeingest import gate
    from lakeingest.config import file as pipeline_file
    from lakeingest.config import written
    from lakeingest.operations import odcs

    config = pipeline_file.read(file, os.environ)
    suite = gate.load(config)
    checks = [
        odcs.Check(rule.name, rule.type, rule.kwargs, rule.columns, rule.action != "warn")
        for rule in (suite.rules if suite else ())
    ]
    columns = _columns(config)
    document = odcs.document(config, columns, checks)
    if columns is None and not config.columns:
        raise UsageError(
            f"there is no table of {config.name!r} yet, and its file declares no columns",
            cure="run the pipeline first: its records bring the columns",
        )
    text = written.document(document)
    if to is None:
        out.lines(text.rstrip("\n"))
    else:
        _write(to, text, force=force)
        of = "of the table as it is" if columns is not None else "that the file declares: there is no table to read yet"
        out.line(f"{to} is written, with the columns {of}.")
    out.result(document)


def _columns(config: PipelineConfig) -> list[dict[str, Any]] | None:
    """The table's columns as they are; None where it cannot be read without Spark, or is not there."""
    from lakeingest.delta.reader.log import OfflineLog, Unreadable
    from lakeingest.errors import LakeingestError
    from lakeingest.ingest import endpoints

    try:
        log = OfflineLog(config.table.identifier, endpoints.storage(config))
        fields: list[dict[str, Any]] = json.loads(log.state.metadata["schemaString"])["fields"]
    except (Unreadable, LakeingestError):
        return None
    return fields


def _write(path: Path, text: str, *, force: bool) -> None:
    if path.exists() and not force:
        raise UsageError(f"{path} exists", cure="name another file, or overwrite it with --force")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror})", cure="check the path") from None
