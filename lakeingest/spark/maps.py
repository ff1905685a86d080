"""Maps that have a key twice: the last one holds, as it does for the fields of an object in JSON. Columns only.

Spark's readers of JSON and Avro keep both, and most of what touches such a map afterwards fails, here and in other
readers of the table. Protobuf's library keeps the last one by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.schema import ddl


def last_of_each(value: Column, kind: T.DataType) -> Column:
    """A value whose maps, anywhere within, have each key once."""
    if not has_map(kind):
        return value
    match kind:
        case T.StructType():
            for f in kind:
                if has_map(f.dataType):
                    # Not as a new struct, which would be made for each of its fields that is looked at.
                    value = value.withField(ddl.quoted(f.name), last_of_each(value[f.name], f.dataType))
            return value
        case T.ArrayType():
            return F.transform(value, lambda each: last_of_each(each, kind.elementType))
    assert isinstance(kind, T.MapType)
    if has_map(kind.valueType):
        value = F.transform_values(value, lambda _, each: last_of_each(each, kind.valueType))
    return F.when(_distinct(F.map_keys(value)), value).otherwise(_last(F.map_keys(value), F.map_values(value)))


def of_entries(keys: Column, values: Column) -> Column:
    """MAP of two arrays of one length; null where these are."""
    return F.when(_distinct(keys), F.map_from_arrays(keys, values)).otherwise(_last(keys, values))


def has_map(kind: T.DataType) -> bool:
    """Whether a map is within a type."""
    match kind:
        case T.StructType():
            return any(has_map(f.dataType) for f in kind)
        case T.ArrayType():
            return has_map(kind.elementType)
    return isinstance(kind, T.MapType)


def _distinct(keys: Column) -> Column:
    return keys.isNull() | (F.size(F.array_distinct(keys)) == F.size(keys))


def _last(keys: Column, values: Column) -> Column:
    """By sorting: of many keys each would be looked for among all others."""
    pairs = F.struct(keys.alias("keys"), values.alias("values"))
    placed = F.array_sort(F.transform(keys, lambda key, i: F.struct(key.alias("key"), i.alias("i"))))

    def last(sorted: Column) -> Column:
        return F.filter(sorted, lambda each, i: ~each["key"].eqNullSafe(F.get(sorted, i + 1)["key"]))

    places = F.array_sort(F.transform(_let(placed, last), lambda each: each["i"]))
    return _let(
        F.struct(pairs.alias("pairs"), places.alias("places")),
        lambda struct: F.map_from_arrays(
            F.transform(struct["places"], lambda i: F.get(struct["pairs"]["keys"], i)),
            F.transform(struct["places"], lambda i: F.get(struct["pairs"]["values"], i)),
        ),
    )


def _let(value: Column, body: Callable[[Column], Column]) -> Column:
    """What becomes of a value that is computed once: what a lambda names from outside is computed for each element."""
    return F.transform(F.array(value), body)[0]
