"""The command that writes a pipeline's contract as a document of ODCS."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output
from lakeingest.errors import UsageError


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
    from lakeingest.config import file as pipeline_file
    from lakeingest.operations import odcs

    out = Output.of(output)
    result = odcs.contract(pipeline_file.read(file, os.environ))
    if to is not None:
        _write(to, result.yaml, force=force)
    out.show(replace(result, file=to))


def _write(path: Path, text: str, *, force: bool) -> None:
    if path.exists() and not force:
        raise UsageError(f"{path} exists", cure="name another file, or overwrite it with --force")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror})", cure="check the path") from None
