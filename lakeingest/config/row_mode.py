"""What becomes of a record in the table: a row of its own, or the latest row of its key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from lakeingest.config.base import Mistake, Part, no_column
from lakeingest.config.values import FieldPath, Kind
from lakeingest.record import KEY, RESERVED, TIMESTAMP
from lakeingest.schema import ddl

if TYPE_CHECKING:
    from lakeingest.config.parts import Decode

_Scalar = Annotated[str | int | bool, Kind("text, integer, true or false")]


class DeleteMarker(Part):
    """A value by which a record says that the row of its key is to go."""

    field: FieldPath = Field(description="The field that says so (dotted for nested ones).", examples=["op"])
    values: Annotated[tuple[_Scalar, ...], Field(min_length=1), Kind("list of values")] = Field(
        description="The values that mean it; each as text, so that true and 'true' are one.", examples=[["D"]]
    )


class RowMode(Part):
    """How the rows of the table come about."""

    mode: Literal["append", "changelog", "history", "upsert"] = Field(
        "append",
        description="append: each record is a row. upsert: the table has the latest row of each key, whatever the "
        "order in which its records come. changelog: each record is a row, whose _op says what it does to the row of "
        "its key (upsert or delete); `lakeingest sql` gives the view that shows the latest rows. history: the same, "
        "and _valid_from and _valid_to say when each version of a key was valid.",
    )
    keys: Annotated[Literal["key"] | tuple[FieldPath, ...], Kind("key, or list of fields")] = Field(
        (),
        description="Of the modes other than append: the fields that make a key, as the table has them (dotted for "
        "nested ones); or key: the record's own, as decode.key reads it. A record in which one of them is null is "
        "refused.",
        examples=[["order_id"], "key"],
    )
    order_by: Annotated[tuple[FieldPath, ...], Kind("list of fields")] = Field(
        (),
        description="Of the modes other than append: which of two records of a key is the later one: that with the "
        "greater value of these fields, the first one first; where they are equal, the one with the greater topic, "
        "partition and offset. _timestamp is the record's own time. Default: topic, partition and offset alone.",
        examples=[["updated_at"]],
    )
    on_tombstone: Literal["delete", "ignore", "quarantine"] | None = Field(
        None,
        description="Of the modes other than append: a record without a value: it deletes the row of its key, is "
        "dropped and counted, or set aside. Default: delete where keys is key and order_by has no field of the value, "
        "else quarantine.",
        examples=["delete"],
    )
    on_delete_marker: DeleteMarker | None = Field(
        None,
        description="Of the modes other than append: a record with such a value deletes the row of its key. "
        "Default: none does.",
    )
    deletes: Literal["remove", "mark"] = Field(
        "remove",
        description="Of mode upsert: what a record that deletes does. remove: the row is gone. mark: it stays, with "
        "what the record says, and _op is delete; `lakeingest sql` gives the view without such rows.",
    )
    valid_from: FieldPath | None = Field(
        None,
        description="Of mode history: the TIMESTAMP from which on a version is valid (dotted for nested ones); where "
        "it is null, and in a record without a value, the record's own time is. Default: _changed_at with "
        "decode.envelope; else the first field of order_by, if it is a TIMESTAMP; else _timestamp.",
        examples=["updated_at"],
    )
    change_feed: bool = Field(
        False,
        description="Whether Delta keeps a change data feed of the table, which readers ask by table_changes. A MERGE "
        "then writes each changed row once or twice more.",
    )

    @property
    def upserts(self) -> bool:
        """Whether the table has the latest row of each key alone."""
        return self.mode == "upsert"

    @property
    def dated(self) -> bool:
        """Whether the table says when each version of a key was valid."""
        return self.mode == "history"

    @property
    def alters(self) -> bool:
        """Whether a batch changes rows of those before it."""
        return self.upserts or self.dated

    @property
    def keyed(self) -> bool:
        """Whether records have a key and an order."""
        return self.mode != "append"

    @property
    def key_paths(self) -> tuple[str, ...]:
        """The columns of the table, or fields within them, that make a key."""
        return (KEY,) if self.keys == "key" else tuple(self.keys)

    @property
    def tombstone_has_order(self) -> bool:
        """Whether a record without a value has a key and a place in the order."""
        return all(_of_record(path) for path in self.key_paths) and set(self.order_by) <= {TIMESTAMP}

    @property
    def removes(self) -> bool:
        """Whether records may take rows away."""
        deletes = self.tombstones == "delete" or self.on_delete_marker is not None
        return self.upserts and self.deletes == "remove" and deletes

    @property
    def marks(self) -> bool:
        """Whether records that delete are rows, and a column _op says so."""
        return self.mode in ("changelog", "history") or (self.upserts and self.deletes == "mark")

    @property
    def tombstones(self) -> Literal["delete", "ignore", "quarantine"]:
        """What becomes of a record without a value, where records have a key."""
        return self.on_tombstone or ("delete" if self.tombstone_has_order else "quarantine")


def _of_record(path: str) -> bool:
    return path.partition(".")[0] == KEY


def mistakes(mode: RowMode, decode: Decode | None, declared: Sequence[ddl.Column]) -> Iterator[Mistake]:
    """What contradicts the mode.

    Args:
        declared: the value's columns, behind the transforms; none where they are not known.
    """
    if not mode.keyed:
        for name in ("keys", "order_by", "on_tombstone", "on_delete_marker", "deletes", "valid_from"):
            # A default that is written out is no contradiction.
            if getattr(mode, name) != RowMode.model_fields[name].default:
                modes = "mode history" if name == "valid_from" else "the modes upsert, changelog and history"
                yield Mistake(("table", name), f"is of {modes}; write table.mode, or drop it")
        return
    if not mode.key_paths:
        yield Mistake(
            ("table", "keys"),
            f"required for mode {mode.mode}, and missing; write the fields that make a key, as in [order_id], or key "
            "for the record's own",
        )
    for name, paths in (("keys", mode.key_paths), ("order_by", mode.order_by)):
        if twice := sorted({path for path in paths if paths.count(path) > 1}):
            yield Mistake(("table", name), f"the same field twice: {', '.join(twice)}; name each once")
        yield from _fields(("table", name), paths, declared)
    if mode.on_delete_marker:
        yield from _fields(("table", "on_delete_marker", "field"), [mode.on_delete_marker.field], declared)
    if decode and "on_null" in decode.model_fields_set:
        yield Mistake(
            ("decode", "on_null"), "is of mode append; write table.on_tombstone (delete, ignore or quarantine) instead"
        )
    yield from _of_marks(mode, declared)
    yield from _of_times(mode, declared)
    if mode.on_tombstone == "delete" and mode.key_paths and not mode.tombstone_has_order:
        value = [path for path in mode.key_paths if not _of_record(path)]
        needs = f"keys {', '.join(value)}" if value else f"order_by {', '.join({*mode.order_by} - {TIMESTAMP})}"
        yield Mistake(
            ("table", "on_tombstone"),
            f"delete needs a key and an order without a value, and a record without a value has no {needs}; write "
            "keys: key and order_by: [_timestamp] or none, or ignore tombstones and name on_delete_marker",
        )


def _of_marks(mode: RowMode, declared: Sequence[ddl.Column]) -> Iterator[Mistake]:
    if not mode.upserts and mode.deletes == "mark":
        yield Mistake(
            ("table", "deletes"), f"mark is of mode upsert: in mode {mode.mode} each record is a row; drop it"
        )
    required = ", ".join(column.name for column in declared if not column.nullable)
    if required and mode.marks and mode.tombstones == "delete":
        yield Mistake(
            ("table", "on_tombstone"),
            f'"delete" makes a row without a value here, but NOT NULL is declared for {required}; drop NOT NULL, or '
            "write quarantine or ignore",
        )


def _of_times(mode: RowMode, declared: Sequence[ddl.Column]) -> Iterator[Mistake]:
    if mode.valid_from is None:
        return
    where = ("table", "valid_from")
    if not mode.dated:
        yield Mistake(where, f"is of mode history, and table.mode is {mode.mode}; drop it")
        return
    yield from _fields(where, [mode.valid_from], declared)


def _fields(where: tuple[str, ...], paths: Sequence[str], declared: Sequence[ddl.Column]) -> Iterator[Mistake]:
    for path in paths:
        if not declared or path.partition(".")[0] in RESERVED:
            continue
        column = ddl.find(declared, path)
        if column is None:
            yield no_column(where, path, [each.name for each in declared])
        elif isinstance(column.type, ddl.Array | ddl.Map) or str(column.type) == "variant":
            yield Mistake(where, f'"{path}" is {column.type}, which cannot be compared; name a field of another type')
