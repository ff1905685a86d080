"""What a table of lakeingest's is for: a property says so, or its columns where an older version made it.

So a run notices that the table of one pipeline is the quarantine of another one, whichever process that runs in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal, get_args

from lakeingest.errors import TableMismatch
from lakeingest.record import RESCUED

if TYPE_CHECKING:
    from lakeingest.delta.table import Table

Kind = Literal["table", "quarantine", "gate.results", "completeness", "export", "deletes", "removals"]
KIND = "lakeingest.kind"
_COLUMNS: Mapping[Kind, frozenset[str]] = {
    "quarantine": frozenset({"stage", "reason", "message", "pipeline", "sequence", "refused_at"}),
    "gate.results": frozenset({"suite", "fingerprint", "expectation", "asked", "outcome", "observed"}),
    "completeness": frozenset({"pipeline", "period_start", "period_end", "complete_since"}),
    "deletes": frozenset({"pipeline", "key_1", "deleted_at"}),
    "removals": frozenset({"pipeline", "low", "high", "reason", "place"}),
    "export": frozenset({"run", "table_id", "from_version", "to_version", "folder", "objects"}),
}
_OF_MAIN = ("lakeingest.maker.", "lakeingest.partition.", "lakeingest.schemas.", "lakeingest.adopted.")
"""How properties begin that a main table alone has."""
_WORDS: Mapping[Kind, str] = {
    "table": "a pipeline's table of accepted records",
    "quarantine": "a quarantine, of refused records",
    "gate.results": "a table of a gate's results",
    "completeness": "a table of completeness",
    "export": "the log of what was exported",
    "deletes": "the deleted keys of a table of mode upsert",
    "removals": "the list of records that were taken out",
}


def properties(kind: Kind) -> dict[str, str]:
    """What a table of that kind is made with."""
    return {KIND: kind}


def kind_of(properties: Mapping[str, str], columns: Collection[str]) -> Kind | None:
    """What a table is for; None if lakeingest did not make it, as far as can be told."""
    value = properties.get(KIND)
    kind_named = next((kind for kind in get_args(Kind) if kind == value), None)
    if kind_named is None and any(name.startswith(_OF_MAIN) for name in properties):
        return "table"
    if kind_named is not None or RESCUED in columns:
        # Records may have fields of any names: a main table alone has this column.
        return kind_named
    return next((kind for kind, needed in _COLUMNS.items() if needed <= {*columns}), None)


def check(table: Table, kind: Kind, columns: Collection[str], properties: Mapping[str, str] | None = None) -> None:
    """Notice that a table is for something else than a pipeline file has it for. Whatever is in it stays as it is.

    Args:
        kind: what the file has it for. A main table may be one that somebody else made.
        properties: the table's; it is asked for them where its columns do not tell.

    Raises:
        TableMismatch: it is.
    """
    if properties is None and kind_of({}, columns) == kind:
        return
    actual = kind_of(table.properties() if properties is None else properties, columns)
    if actual == kind or (actual is None and kind == "table"):
        return
    options = {
        "completeness": "contract.completeness.table",
        "gate.results": kind,
        "deletes": "table.path with _deletes",
        "removals": "table.path with _removed",
    }
    option = options.get(kind, f"{kind}.path (or {kind}.name)")
    raise TableMismatch(
        f"{table} is {_WORDS[actual] if actual else 'a table that something else made'}, and the pipeline file names "
        f"it as its {option}",
        cure=f"name another place as {option}, in which there is nothing yet; where a pattern's topics lead to both, "
        "let it leave one of them out, as in '(?!orders_quarantine$)orders.*'",
    )
