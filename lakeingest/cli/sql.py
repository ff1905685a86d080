"""The command that asks a pipeline's tables in SQL, and tells how other tools open them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output
from lakeingest.errors import number_of

if TYPE_CHECKING:
    from lakeingest.config import PipelineConfig, Storage
    from lakeingest.operations.results.openers import Openers
    from lakeingest.operations.sql import Answer

_WIDEST = 40
"""Characters that a column is given before it is broken, where others want to be seen too."""
_GAP = 3


def sql(
    file: File,
    query: Annotated[
        str | None, typer.Argument(help="A query in DuckDB's SQL. Left out: how other tools open the table.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Most rows to print.", min=1)] = 100,
    output: Format = "text",
) -> None:
    """Ask the tables in SQL, by DuckDB and without Spark, or say how other tools open them.

    The views are the table by its own name, quarantine, history (the commits) and, with a gate, results. Nothing but
    these can be read, and nothing written.

    Examples:

        lakeingest sql pipelines/flights.yaml "SELECT origin, count(*) FROM flights GROUP BY origin"

        lakeingest sql pipelines/flights.yaml "DESCRIBE quarantine" --output json

        lakeingest sql pipelines/flights.yaml
    """
    from lakeingest.config import file as pipeline_file
    from lakeingest.ingest import endpoints

    out = Output.of(output)
    config = pipeline_file.read(file, os.environ)
    storage = endpoints.storage(config)
    if query is None:
        out.show(_openers(file, config, storage))
        return
    from lakeingest.operations import sql

    with out.progress("reading the tables"):
        answer = sql.ask(config, storage, query, limit, as_json=out.is_json)
    _show(out, answer)


def _show(out: Output, answer: Answer) -> None:
    names = [name for name, _ in answer.columns]
    texts = [["NULL" if value is None else str(value) for value in row] for row in answer.rows]
    fitting = _fitting(names, texts, out.width)
    total = len(answer.rows) + answer.left_out
    if not out.is_json:
        out.table(number_of(total, "row"), names[:fitting], [row[:fitting] for row in texts])
    if answer.left_out:
        out.line(f"{number_of(answer.left_out, 'row')} left out: --limit {total} prints all")
    if fitting < len(names):
        names_left_out = ", ".join(names[fitting:])
        out.line(
            f"{number_of(len(names) - fitting, 'column')} left out, for which the line is too short: {names_left_out}"
        )
        out.line("name the columns that you want, or write --output json")
    distinct = _distinct(names)
    columns = [{"name": name, "type": kind} for name, (_, kind) in zip(distinct, answer.columns, strict=True)]
    rows = [dict(zip(distinct, row, strict=True)) for row in answer.rows]
    out.result({"columns": columns, "rows": rows, "left_out": answer.left_out})


def _fitting(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> int:
    """The number of columns, from the first, that fit into a line; one at least."""
    used = 0
    for at, name in enumerate(names):
        used += min(_WIDEST, max(len(name), *(len(row[at]) for row in rows), 0)) + _GAP
        if used > width and at:
            return at
    return len(names)


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, a later one of the same with a number behind it, as in n_2."""
    columns: list[str] = []
    for name in names:
        number, column = 1, name
        while column in columns:
            number += 1
            column = f"{name}_{number}"
        columns.append(column)
    return columns


def _openers(file: Path, config: PipelineConfig, storage: Storage) -> Openers:
    from lakeingest.config import file as pipeline_file
    from lakeingest.operations import openers, sql
    from lakeingest.operations.results.openers import Openers

    credentials = openers.credentials(config, storage, pipeline_file.variables(file, "storage"))
    tools = tuple(openers.openers(config, storage))
    return Openers(config.name, config.table.identifier, file, sql.views(config), credentials, tools)
