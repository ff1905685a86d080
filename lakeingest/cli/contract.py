"""The command that writes a pipeline's contract as a document of ODCS, and a pipeline file from such a document."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeingest.cli import complete
from lakeingest.cli.arguments import Format
from lakeingest.cli.output import Output
from lakeingest.errors import PipelineFileError, UsageError, number_of

if TYPE_CHECKING:
    from lakeingest.config import PipelineConfig
    from lakeingest.config.odcs import Imported


def contract(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The pipeline file (YAML); FILE:TOPIC where it is for many topics.",
            show_default=False,
            autocompletion=complete.files,
        ),
    ] = None,
    *,
    from_: Annotated[
        Path | None,
        typer.Option("--from", metavar="ODCS", help="Write a pipeline file from this document.", show_default=False),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="PATH", help="The file to write. Default: print it.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
    output: Format = "text",
) -> None:
    """Write the contract as a document of the Open Data Contract Standard (ODCS), or a pipeline file from one.

    The document has the table's columns (those that the file declares, while there is no table), its keys and
    partitions, the expectations of the gate, and what the contract promises. Of a document that is read, each part is
    named that a pipeline file has nothing for. Nothing but the named files is written.

    Examples:

        lakeingest contract pipelines/flights.yaml --to flights.odcs.yaml

        lakeingest contract --from flights.odcs.yaml --to pipelines/flights.yaml

    \f
    Raises:
        UsageError: neither or both are named; the document is none; or a file exists, or cannot be written.
        PipelineFileError: the pipeline file is wrong.
    """
    out = Output.of(output)
    if (file is None) == (from_ is None):
        raise UsageError(
            "name a pipeline file, or a document with --from" + (", and not both" if file else ""),
            cure="lakeingest contract FILE, or lakeingest contract --from ODCS",
        )
    if file is not None:
        _export(out, file, to, force=force)
    elif from_ is not None:
        _import(out, from_, to, force=force)


def _export(out: Output, file: Path, to: Path | None, *, force: bool) -> None:
    from lakeingest import gate
    from lakeingest.config import file as pipeline_file
    from lakeingest.config import odcs, written

    config = pipeline_file.read(file, os.environ)
    suite = gate.load(config)
    checks = [
        odcs.Check(rule.name, rule.type, rule.kwargs, rule.columns, rule.action != "warn")
        for rule in (suite.rules if suite else ())
    ]
    columns = _columns(config)
    made = odcs.document(config, columns, checks)
    if columns is None and not config.columns:
        raise UsageError(
            f"there is no table of {config.name!r} yet, and its file declares no columns",
            cure="run the pipeline first: its records bring the columns",
        )
    text = written.document(made)
    if to is None:
        out.lines(text.rstrip("\n"))
    else:
        _write({to: text}, force=force)
        of = "of the table as it is" if columns is not None else "that the file declares: there is no table to read yet"
        out.line(f"{to} is written, with the columns {of}.")
    out.result(made)


def _columns(config: PipelineConfig) -> list[dict[str, Any]] | None:
    """The table's columns as they are; None where it cannot be read without Spark, or is not there."""
    from lakeingest.delta.offline.log import OfflineLog, Unreadable
    from lakeingest.errors import LakeingestError
    from lakeingest.ingest import endpoints

    try:
        log = OfflineLog(config.table.identifier, endpoints.storage(config))
        found: list[dict[str, Any]] = json.loads(log.state.metadata["schemaString"])["fields"]
    except (Unreadable, LakeingestError):
        return None
    return found


def _import(out: Output, document: Path, to: Path | None, *, force: bool) -> None:
    from lakeingest.config import file as pipeline_file
    from lakeingest.config import odcs, written, yaml_text

    try:
        made = odcs.read(yaml_text.parse(pipeline_file.text(document)).data)
    except (odcs.NoDocument, yaml_text.BadYaml, UnicodeDecodeError) as wrong:
        raise UsageError(
            f"{document} is no document of ODCS: {wrong}",
            cure="name one of version 3 (apiVersion v3.…), as YAML or JSON",
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{document} cannot be read ({error})", cure="check its path") from None
    values, files = dict(made.values), dict[Path, str]()
    if made.expectations and to is not None:
        suite = to.with_name(f"{to.stem}.suite.json")
        values["gate"] = {"suite": suite.name}
        expectations = {"name": str(values["name"]), "expectations": [dict(each) for each in made.expectations]}
        files[suite] = json.dumps(expectations, indent=2, ensure_ascii=False) + "\n"
    problems, left = _problems(made.values), _left_out(made, suite=bool(files))
    head = [
        "Written from a contract (ODCS). `lakeingest check` finds what is missing.",
        *(f"Without a counterpart: {part}{': ' * bool(what)}{what}" for part, what in left.items()),
        *(f"To be mended: {problem}" for problem in problems),
    ]
    text = written.text(values, made.notes, head)
    if to is None:
        # What is left out stands in the text: it may be on its way into a file.
        out.lines(text.rstrip("\n"))
    else:
        _write({to: text, **files}, force=force)
        for path in (to, *files):
            out.line(f"{path} is written.")
        if left:
            out.table("without a counterpart", ("part", "what stands there"), [*left.items()], longest=120)
        for problem in problems:
            out.line(f"to be mended: {problem}")
    out.result(
        {
            "values": made.values,
            "expectations": [*made.expectations],
            "left_out": made.left_out,
            "problems": problems,
            "files": [str(path) for path in ((to, *files) if to is not None else ())],
        }
    )
    if problems:
        raise typer.Exit(1)


def _problems(values: Any) -> list[str]:
    """What is still wrong with the values as a pipeline file."""
    from lakeingest.config import file as pipeline_file

    try:
        pipeline_file.from_mapping(values)
    except PipelineFileError as wrong:
        return [*wrong.problems]
    return []


def _left_out(made: Imported, *, suite: bool) -> dict[str, str]:
    left = dict(made.left_out)
    if made.expectations and not suite:
        count = number_of(len(made.expectations), "expectation")
        left["quality"] = f"{count} of Great Expectations; with --to, a suite is written for them"
    return left


def _write(files: dict[Path, str], *, force: bool) -> None:
    there = [str(path) for path in files if path.exists()]
    if there and not force:
        raise UsageError(f"{', '.join(there)} exists", cure="name another file, or overwrite it with --force")
    for path, text in files.items():
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path} cannot be written ({error.strerror})", cure="check the path") from None
