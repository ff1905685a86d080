"""SQL over a pipeline's tables without Spark: DuckDB, which sees them as views, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

from lakeingest.config import PipelineConfig, Storage, location
from lakeingest.delta.reader import duck, rows
from lakeingest.delta.reader.log import NoTable, OfflineLog, Unreadable
from lakeingest.delta.receipt import Receipt
from lakeingest.errors import LakeingestError, StorageUnreachable, UsageError
from lakeingest.operations import latest_view
from lakeingest.spark import s3a

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

HISTORY, LATEST = "history", "latest"
_SAYS = "SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW and SUMMARIZE"


@dataclass(frozen=True)
class Answer:
    """What a query gave.

    Attributes:
        columns: name and type of DuckDB's, in order; two may have one name.
        rows: the first ones; values as JSON has them, or as texts.
        left_out: how many rows came behind these.
    """

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]
    left_out: int


def views(config: PipelineConfig) -> dict[str, str]:
    """The views that a query can name: name → what the table is known by. The history is the main table's."""
    identifiers = {"quarantine": config.quarantine.identifier, HISTORY: config.table.identifier}
    if config.gate is not None:
        identifiers["results"] = config.results
    if config.contract is not None and config.contract.completeness is not None:
        identifiers["completeness"] = config.completeness
    identifier = config.table.identifier
    last_name = location.place(identifier).steps[-1] if location.is_path(identifier) else identifier.rpartition(".")[2]
    return {last_name if last_name.lower() not in identifiers else "records": identifier, **identifiers}


def quoted(name: str) -> str:
    """The name of a view as a query writes it."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else '"' + name.replace('"', '""') + '"'


def ask(config: PipelineConfig, storage: Storage, query: str, limit: int, *, as_json: bool) -> Answer:
    """What DuckDB says to a query.

    Args:
        limit: most rows to give.
        as_json: whether values are given as JSON has them: numbers, lists, and texts for what it has not; else all
            values are texts.

    Raises:
        UsageError: the query is wrong, or would write; or a table cannot be read without Spark.
        StorageUnreachable: the store does not answer, or denies access.
        SetupError: DuckDB or pyarrow is missing.
        TableMismatch: a newer lakeingest has written to the table.
    """
    rows.check_installed("duckdb")
    import duckdb

    s3a.check_listens(storage, config.paths)
    tables = dict(_tables_in(config, storage, query))
    with duck.connected(tables, _latest(config, tables)) as connection:
        try:
            _check_reads(connection, query)
            relation = connection.sql(query)
            return _answer(relation, limit, as_json=as_json)
        except duckdb.Error as wrong:
            names = [*tables, *([LATEST] if config.table.marks else [])]
            raise _mistake(str(wrong), [quoted(name) for name in names]) from None


def _latest(config: PipelineConfig, tables: Mapping[str, Any]) -> str:
    """A statement that makes the view of the latest rows, if the table has others too, and can be read."""
    name = next(iter(views(config)))
    if not config.table.marks or name not in tables:
        return ""
    query = latest_view.query(config, quoted(name), '"')
    return f"CREATE VIEW {LATEST} AS {query}"


def _tables_in(config: PipelineConfig, storage: Storage, query: str) -> Iterator[tuple[str, Any]]:
    """The views that can be read, and with them all that the query may name."""
    text = query.lower()
    for name, identifier in views(config).items():
        try:
            log = OfflineLog(identifier, storage)
            if name == HISTORY:
                # Each commit is an object of the store: only who asks for them waits for them.
                yield name, _history(log, all_of_it=HISTORY in text)
            else:
                yield name, rows.dataset(log)
        except Unreadable as failed:
            if name.lower() in text:
                raise unreadable(identifier, failed) from failed


def unreadable(identifier: str, failed: Unreadable) -> LakeingestError:
    """What to say of a table that cannot be read without Spark."""
    if isinstance(failed, NoTable):
        return UsageError(
            f"there is no Delta table at {identifier} yet", cure="run the pipeline first: it makes the table"
        )
    if isinstance(failed.__cause__, OSError):
        return StorageUnreachable(
            f"{identifier} cannot be read: {failed.__cause__}",
            cure="look at the store, its keys and their rights (`lakeingest doctor FILE` tries them one by one)",
        )
    return UsageError(
        f"{identifier} cannot be read without Spark: {failed}",
        cure="read it with Spark SQL; `lakeingest sql FILE` alone says how",
    )


def _history(log: OfflineLog, *, all_of_it: bool) -> Any:
    """The commits of a table, one a row, as far back as its log goes."""
    import pyarrow as pa

    schema = pa.schema(
        [
            ("version", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("operation", pa.string()),
            ("rows", pa.int64()),
            ("pipeline", pa.string()),
            ("sequence", pa.int64()),
            ("offsets", pa.int64()),
            ("user_metadata", pa.string()),
        ]
    )
    entries = log.history(None if all_of_it else 1)
    return pa.Table.from_pylist([_commit(entry) for entry in entries if all_of_it], schema)


def _commit(entry: Mapping[str, Any]) -> dict[str, Any]:
    receipt = Receipt.from_json(entry["userMetadata"])
    written = (entry["operationMetrics"] or {}).get("numOutputRows")
    return {
        "version": entry["version"],
        "timestamp": entry["timestamp"].astimezone(UTC),
        "operation": entry["operation"],
        "rows": None if written is None else int(written),
        "pipeline": receipt and receipt.pipeline,
        "sequence": receipt and receipt.sequence,
        "offsets": receipt and receipt.ranges.offsets,
        "user_metadata": entry["userMetadata"],
    }


def _check_reads(connection: DuckDBPyConnection, query: str) -> None:
    """Raises:
    UsageError: the query is none, or several, or would change something.
    """
    kinds = [statement.type.name for statement in connection.extract_statements(query)]
    if len(kinds) != 1:
        raise UsageError(f"a query is one statement, and this is {len(kinds)}", cure=f"write one of {_SAYS}")
    if kinds != ["SELECT"]:
        raise UsageError(
            f"{kinds[0]} is refused: nothing is written here, and nothing set", cure=f"write one of {_SAYS}"
        )


def _answer(relation: DuckDBPyRelation, limit: int, *, as_json: bool) -> Answer:
    columns = tuple((name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True))
    # What JSON's numbers cannot hold for certain is a text, as a time is.
    chosen = [
        f"to_json(#{at})" if as_json and not kind.startswith("DECIMAL") else f"#{at}::VARCHAR"
        for at, (_, kind) in enumerate(columns, 1)
    ]
    rows = relation.limit(limit + 1).project(", ".join(chosen)).fetchall()
    left_out = 0
    if len(rows) > limit:
        left_out = relation.aggregate("count(*)").fetchall()[0][0] - limit
    read = [
        tuple(_read(value) if text.startswith("to_json") else value for value, text in zip(row, chosen, strict=True))
        for row in rows[:limit]
    ]
    return Answer(columns, tuple(read), left_out)


def _read(value: str | None) -> Any:
    # NaN and Infinity are no JSON.
    return None if value is None else json.loads(value, parse_constant=str)


def _mistake(error: str, names: list[str]) -> UsageError:
    """What DuckDB says of a query: its first line, and the place."""
    message, _, more = error.partition("\n")
    hint = next((line for line in more.splitlines() if line.startswith(("Candidate", "Did you mean"))), "")
    # Its number counts lines of ours, too.
    place = re.search(r"^(LINE \d+: )(.*)\n(.*)", more, re.MULTILINE)
    parts = [place[2], place[3][len(place[1]) :]] if place else []
    names_text = ", ".join(names) or "none yet"
    cure = f"correct the query; the views are {names_text}, and DESCRIBE names the columns of one"
    if "map contains duplicate key" in message:
        message = "a MAP that the query reads has a key twice in some row, which DuckDB cannot hold"
        cure = "leave the column out, as in SELECT * EXCLUDE (its name); `lakeingest read` shows the key's last value"
    if "disabled by configuration" in message:
        cure = f"name views: {names_text}; no file or address can be read"
    return UsageError("\n".join((message, *(f"  {line}" for line in (hint, *parts) if line))), cure=cure)
