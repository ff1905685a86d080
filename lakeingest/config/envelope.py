"""The envelope of change events: what stands around the row in a record of a database's changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lakeingest.config.base import Mistake, Part
from lakeingest.config.formats import brings_schema
from lakeingest.schema.debezium import CHANGE, CHANGED_AT, CHANGES, POSITION

if TYPE_CHECKING:
    from lakeingest.config.parts import Decode
    from lakeingest.config.row_mode import RowMode
    from lakeingest.config.transform import Transform

_KEYED = ("upsert", "changelog", "history")
_STEPS = frozenset({"drop", "keep", "mask", "where"})
"""Steps that leave the other columns as they are."""


class Envelope(Part):
    """A record is an event of a database: before, after, op and source."""

    format: Literal["debezium"] = Field(
        description="Debezium's change events. A record becomes the row that it is about, with the columns _change, "
        "_position, _changed_at and _unavailable."
    )
    unavailable: str = Field(
        "__debezium_unavailable_value",
        min_length=1,
        description="What stands for a value that the database did not log, as the connector's "
        "unavailable.value.placeholder has it. The column keeps what its row has.",
    )


def with_row_mode(file: Any) -> Any:
    """A pipeline file, as it was read, with what its envelope says of keys, order and deletes where the file is silent.

    A delete is an event of its own, and the tombstone behind it says nothing more.
    """
    if not (isinstance(file, Mapping) and isinstance(file.get("decode"), Mapping) and file["decode"].get("envelope")):
        return file
    table = file.get("table")
    if not isinstance(table, Mapping):
        return file
    if table.get("mode") not in _KEYED:
        return {**file, "decode": {"on_null": "ignore", **file["decode"]}}
    marker = {"field": CHANGE, "values": [CHANGES["d"]]}
    keyed = {"order_by": [POSITION], "on_tombstone": "ignore", "on_delete_marker": marker}
    dated = {"valid_from": CHANGED_AT} if table["mode"] == "history" else {}
    return {**file, "table": {**keyed, **dated, **table}}


def mistakes(decode: Decode, table: RowMode | None, steps: Sequence[Transform]) -> Iterator[Mistake]:
    """What contradicts the envelope."""
    if decode.envelope is None:
        return
    if table and table.upserts:
        if table.order_by not in ((), (POSITION,)):
            yield Mistake(
                ("table", "order_by"),
                f"is {POSITION} where decode.envelope is given: the database's own order tells which event is the "
                "latest; drop order_by",
            )
        for at, step in enumerate(each.step for each in steps):
            if step.kind not in _STEPS:
                yield Mistake(
                    ("transform", at, step.kind),
                    "of a value that the database did not log it would make another column, which the row's own value "
                    f"never reaches; with decode.envelope, mode upsert takes {', '.join(sorted(_STEPS))}: give columns "
                    "other names by schema.names, and compute others in a view",
                )
    if not brings_schema(decode.value):
        yield Mistake(
            ("decode", "envelope"),
            f"needs records that bring their schema, and decode.value.format is {decode.value.format}; let the "
            "connector write schemas (value.converter.schemas.enable=true) and write format: connect_json, or use a "
            "registry",
        )
