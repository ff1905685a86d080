"""The latest row of each key: which record is the later one, and which records have no key or no place in the order.

The order is total: the fields of table.order_by, then topic, partition and offset. So the latest record of a key is the
same one in whatever order its records come, and however they are cut into batches.

Two keys are the same where Spark's join takes them for the same: 0.0 and -0.0 are, and NaN and NaN; a decimal has the
scale of its column. Texts are compared byte by byte: trailing blanks, upper case and two forms of one character make
other keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.config.parts import Table as TableOptions
from lakeingest.config.row_mode import DeleteMarker
from lakeingest.delta import unlogged
from lakeingest.errors import PipelineFileError
from lakeingest.record import COORDINATES, RAW_VALUE, TIMESTAMP, Refusal, diagnosis
from lakeingest.schema import ddl
from lakeingest.schema.debezium import CHANGE, CHANGES

STAGE = "table"
NULL_KEY = "NULL_KEY"
NULL_ORDER = "NULL_ORDER"
NULL_VALID_FROM = "NULL_VALID_FROM"


class _WholeNumber(NamedTuple):
    """A type: what stands behind SQL's literals of it, and its size."""

    suffix: str
    bits: int


_WHOLE_NUMBERS: dict[T.DataType, _WholeNumber] = {
    T.ByteType(): _WholeNumber("Y", 8),
    T.ShortType(): _WholeNumber("S", 16),
    T.IntegerType(): _WholeNumber("", 32),
    T.LongType(): _WholeNumber("L", 64),
}
_PARTS = 3
"""Bits: the bounds of keys are at the ends of eighths to quarters of what lies between them."""
_WHOLE = (T.StructType, T.ArrayType, T.MapType, T.VariantType)


@dataclass(frozen=True)
class ComparedField:
    """A column, or a field within one.

    Attributes:
        path: as the pipeline file has it.
        sql: the same, quoted.
        type: its type.
        visible: whether the table's log may have values of it.
    """

    path: str
    sql: str
    type: T.DataType
    visible: bool = True

    @property
    def absent(self) -> Column:
        """BOOLEAN, never null: whether a record has no such value, or one that has no order."""
        value = F.col(self.sql)
        return value.isNull() | F.isnan(value) if isinstance(self.type, T.FloatType | T.DoubleType) else value.isNull()

    def around(self, least: Any, greatest: Any) -> tuple[Any, Any]:
        """Bounds around these: of whole numbers some that stay the same from batch to batch, as long as the keys are
        spread as before. Spark compiles a statement anew for each other number in it.
        """
        if self.type not in _WHOLE_NUMBERS or least is None or greatest is None:
            return least, greatest
        step = 1 << max(0, (greatest - least).bit_length() - _PARTS)
        limit = 1 << (_WHOLE_NUMBERS[self.type].bits - 1)
        return max(least // step * step, -limit), min((greatest // step + 1) * step, limit) - 1

    def literal(self, value: Any) -> str | None:
        """SQL: a value of it as a literal; None where it has none that Delta would leave files out by, or may not be
        shown: Delta writes the condition of a MERGE into the log.
        """
        if not self.visible:
            return None
        if self.type in _WHOLE_NUMBERS:
            return f"{value}{_WHOLE_NUMBERS[self.type].suffix}"
        if isinstance(self.type, T.DateType):
            return f"DATE'{value}'"
        if isinstance(self.type, T.StringType):
            # Spark would fill in what stands in ${…}.
            return "'" + "".join(c if c.isascii() and c.isalnum() else _escaped(c) for c in value) + "'"
        return None


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}" if ord(character) < 2**16 else f"\\U{ord(character):08x}"


@dataclass(frozen=True)
class LatestRows:
    """How the latest row of a key is known.

    Attributes:
        keys: what makes a key.
        order: what comes before topic, partition and offset.
        by_tombstone: whether a record without a value deletes the row of its key.
        marker: the field by which a record says so; None where none does.
        values: the values of it, as text, that mean it.
        is_log: whether each record is a row all the same.
        marks: whether those that delete are rows, and the column _op says so.
        unlogged: the columns whose values some records do not have (see `unlogged`).
        has_emptying: whether a record may delete all rows, as a TRUNCATE of a database does. It has no key.
        dated_by: of mode history: the field from whose value on a version is valid; None in other modes.
    """

    keys: tuple[ComparedField, ...]
    order: tuple[ComparedField, ...]
    by_tombstone: bool
    marker: ComparedField | None
    values: tuple[str, ...]
    is_log: bool = False
    marks: bool = False
    unlogged: tuple[str, ...] = ()
    has_emptying: bool = False
    dated_by: ComparedField | None = None

    @property
    def ordered(self) -> tuple[str, ...]:
        """SQL of all that the order is made of, the first one first."""
        return (*(field.sql for field in self.order), *COORDINATES)

    @property
    def latest_first(self) -> list[Column]:
        """By which records are sorted, the latest one first."""
        return [F.col(name).desc() for name in self.ordered]

    @property
    def renamed_keys(self) -> list[Column]:
        """The key as _key_1, _key_2, …, names that no column of a record has."""
        return [F.col(field.sql).alias(f"_key_{at}") for at, field in enumerate(self.keys, 1)]

    @property
    def same_keys(self) -> list[Column]:
        """BOOLEAN, each: what holds of rows, joined with `renamed_keys` of others, that have the same key."""
        return [F.col(field.sql) == F.col(f"_key_{at}") for at, field in enumerate(self.keys, 1)]

    @property
    def extents(self) -> list[Column]:
        """What has to be computed of some records so that `bounds` has their least and greatest keys."""
        return [F.struct(F.min(f.sql), F.max(f.sql)) for f in self.keys]

    def bounds(self, extents: Sequence[Sequence[Any]]) -> Iterator[str]:
        """SQL: what holds of the keys of these records: by this Delta leaves out the files that have none of them.

        Args:
            extents: the least and the greatest value of each field of a key; null where there are no records.
        """
        for field, extent in zip(self.keys, extents, strict=True):
            least, greatest = (None if value is None else field.literal(value) for value in field.around(*extent))
            if least is not None and greatest is not None:
                yield f"t.{field.sql} >= {least} AND t.{field.sql} <= {greatest}"

    @property
    def empties(self) -> Column:
        """BOOLEAN, never null: whether a record deletes all rows that are older."""
        return F.coalesce(F.col(CHANGE) == CHANGES["t"], F.lit(False)) if self.has_emptying else F.lit(False)

    @property
    def newest_emptying(self) -> Column:
        """STRUCT: what has to be computed of records for `literal_order`: the place of the latest one that empties."""
        return F.max(F.when(self.empties, F.struct(*self.ordered)))

    def literal_order(self, values: Sequence[Any] | None) -> str:
        """SQL: a place in the order, of the values of `ordered`; empty for none."""
        if values is None:
            return ""
        kinds = [*(field.type.simpleString() for field in self.order), "STRING", "INT", "BIGINT"]
        return struct_of(f"CAST({ddl.text(str(v))} AS {kind})" for v, kind in zip(values, kinds, strict=True))

    @property
    def valid_from(self) -> Column:
        """TIMESTAMP: from when on a version is valid; the record's own time where it says none."""
        assert self.dated_by is not None
        return F.coalesce(F.col(self.dated_by.sql), F.col(TIMESTAMP))

    @property
    def deletes(self) -> Column:
        """BOOLEAN, never null: whether a record deletes the row of its key."""
        marked = F.lit(False)
        if self.marker is not None:
            marked = F.coalesce(F.col(self.marker.sql).cast("string").isin(*self.values), F.lit(False))
        marked = marked | self.empties
        return marked | F.col(RAW_VALUE).isNull() if self.by_tombstone else marked

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Records without a key, or without a place in the order."""
        key = reduce(or_, (F.col(field.sql).isNull() for field in self.keys)) & ~self.empties
        refusals = [
            Refusal(STAGE, key, lambda: diagnosis(NULL_KEY, _absent(self.keys, "is null, and part of the key")))
        ]
        if self.order:
            order = reduce(or_, (field.absent for field in self.order))
            message = "is null or NaN, and says which record is the latest"
            refusals.append(Refusal(STAGE, order, lambda: diagnosis(NULL_ORDER, _absent(self.order, message))))
        if self.dated_by is not None:
            timeless = F.lit("has no time from which on it is valid: neither a field's nor its own")
            refusals.append(
                Refusal(STAGE, self.valid_from.isNull(), lambda: diagnosis(NULL_VALID_FROM, timeless)),
            )
        return tuple(refusals)


def _absent(fields: Sequence[ComparedField], rule: str) -> Column:
    names = F.array_join(F.array_compact(F.array(*(F.when(f.absent, F.lit(f.path)) for f in fields))), ", ")
    return F.concat(names, F.lit(f" {rule}"))


def of(options: TableOptions, columns: T.StructType, unshown: Collection[str] = ()) -> LatestRows:
    """How the latest row of a key is known, of records with these columns.

    Args:
        options: those of the pipeline file, of another mode than append.
        columns: the table's.
        unshown: those of whose values nothing may be in the log (see `statistics.in_the_clear`).

    Raises:
        PipelineFileError: the columns have no such fields, or none that can be compared.
    """
    problems = list[str]()

    def fields(option: str, paths: Sequence[str]) -> tuple[ComparedField, ...]:
        try:
            every = (field for path in paths for field in _fields(columns, path))
            return tuple(replace(f, visible=f.path.partition(".")[0].lower() not in unshown) for f in every)
        except ValueError as wrong:
            problems.append(f"table.{option}: {wrong}")
            return ()

    keys, order = fields("keys", options.key_paths), fields("order_by", options.order_by)
    delete_marker = options.on_delete_marker
    marker = fields("on_delete_marker.field", [delete_marker.field]) if delete_marker else ()
    dated_by = fields("valid_from", [options.valid_from or _dated_by(order)]) if options.dated else ()
    problems += (
        f'table.valid_from: "{each.path}" is {each.type.simpleString()}, and has to be a TIMESTAMP'
        for each in dated_by
        if not isinstance(each.type, T.TimestampType)
    )
    if problems:
        raise PipelineFileError(
            f"no table can have the latest row of each key like this: {'; '.join(problems)}",
            cure="correct these options in the pipeline file",
            problems=tuple(problems),
        )
    by_tombstone, is_log = options.tombstones == "delete", not options.upserts
    missing = unlogged.columns(columns, options.key_paths) if options.upserts else ()
    values = _texts(delete_marker)
    return LatestRows(
        keys,
        order,
        by_tombstone,
        next(iter(marker), None),
        values,
        is_log,
        options.marks,
        missing,
        has_emptying=(options.removes or options.dated) and unlogged.are_events(columns),
        dated_by=next(iter(dated_by), None),
    )


def _dated_by(order: Sequence[ComparedField]) -> str:
    """The field from whose value on a version is valid, where the file does not say it."""
    return next((field.path for field in order[:1] if isinstance(field.type, T.TimestampType)), TIMESTAMP)


def struct_of(names: Iterable[str]) -> str:
    """SQL of what is compared of a row: a struct of these; null comes first."""
    # Spark compares structs of the same names alone.
    fields = (f"'o{at}', {name}" for at, name in enumerate(names))
    return f"named_struct({', '.join(fields)})"


def _texts(marker: DeleteMarker | None) -> tuple[str, ...]:
    values = marker.values if marker else ()
    return tuple(str(value).lower() if isinstance(value, bool) else str(value) for value in values)


def _fields(columns: T.StructType, path: str) -> Iterator[ComparedField]:
    """What a path leads to; of a struct, each of its fields.

    Raises:
        ValueError: it leads nowhere, or to what has no order.
    """
    kind: T.DataType = columns
    names, rest = list[str](), path
    while rest:
        if not isinstance(kind, T.StructType):
            raise ValueError(f'"{path}": {".".join(names)} is {kind.simpleString()}, which has no fields')
        # Names may have dots themselves.
        name = next((n for n in kind.names if rest == n or rest.startswith(f"{n}.")), None)
        if name is None:
            within = f" of {'.'.join(names)}" if names else ""
            raise ValueError(f'"{path}" is not among the columns{within}: {", ".join(kind.names)}')
        names.append(name)
        kind, rest = kind[name].dataType, rest[len(name) + 1 :]
    yield from _leaves(kind, path, names)


def _leaves(kind: T.DataType, path: str, names: list[str]) -> Iterator[ComparedField]:
    if isinstance(kind, T.StructType):
        for field in kind:
            yield from _leaves(field.dataType, f"{path}.{field.name}", [*names, field.name])
    elif isinstance(kind, _WHOLE):
        raise ValueError(f'"{path}" is {kind.simpleString()}, which cannot be compared; name a field of another type')
    else:
        yield ComparedField(path, ".".join(map(ddl.quoted, names)), kind)
