"""Masks for values of columns, of the key and of headers, and for fields within what was rescued."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.record import HEADERS, KEY
from lakeingest.schema import ddl, hidden
from lakeingest.schema.hidden import Hidden
from lakeingest.schema.transforms import Mask, Stage, TransformStep
from lakeingest.spark import secret
from lakeingest.spark.json_numbers import marked, unmarked

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EXACT = 2.0**53
"""Whole numbers below it are DOUBLEs of their own."""
_SALT = "_transform_salt"
_MIDNIGHT = " 00:00:00"


def hidden_value(frame: DataFrame, value: Column, name: str, masks: Mapping[str, Mask]) -> Column:
    """A column's value with those masks that lead to it, or to fields within it.

    Args:
        frame: the frame that has it.
        name: the column's.
    """
    for path, mask in masks.items():
        top, _, within = path.partition(".")
        if top.lower() != name.lower():
            continue
        part = reduce(getitem, within.split("."), value) if within else value
        text = _canonical(part, frame.select(part).schema[0].dataType) if mask.kind == "hash" else part
        masked = _mask(text, mask, _salt(frame, mask))
        value = value.withField(ddl.quoted_path(within), masked) if within else masked
    return value


def _mask(value: Column, mask: Mask, salt: Column) -> Column:
    if mask.kind == "hash":
        return F.sha2(F.concat(salt, value), 256)
    if mask.kind == "last":
        visible = F.when(F.length(value) > mask.kept_characters, F.right(value, F.lit(mask.kept_characters))).otherwise(
            ""
        )
        return F.when(value.isNotNull(), F.concat(F.lit("***"), visible))
    if mask.kind == "constant":
        return F.when(value.isNotNull(), F.lit(mask.text))
    return F.when(F.lit(False), value)


def _canonical(value: Column, kind: T.DataType) -> Column:
    """STRING: a value as text, the same text in every type that a column of this one may be widened to: 5 for the
    DOUBLE 5.0 and the DECIMAL 5.00, 0.1 for a FLOAT that became a DOUBLE, the day for its midnight.
    """
    text = value.cast("string")
    match kind:
        case T.DecimalType():
            return F.when(F.contains(text, F.lit(".")), F.rtrim(F.rtrim(text, F.lit("0")), F.lit("."))).otherwise(text)
        case T.FloatType() | T.DoubleType():
            wide, narrow = value.cast("double"), value.cast("float")
            whole = (F.abs(wide) < _EXACT) & (wide % 1 == 0)
            short = F.when(narrow.cast("double") == wide, narrow.cast("string")).otherwise(text)
            return F.when(whole, wide.try_cast("bigint").cast("string")).otherwise(short)
        case T.TimestampNTZType():
            return F.when(F.endswith(text, F.lit(_MIDNIGHT)), value.cast("date").cast("string")).otherwise(text)
    return text


def of_record(frame: DataFrame, stage: Stage) -> DataFrame:
    """The frame with key and headers as they are behind a step."""
    steps = [stage.step]
    if hidden.paths(steps, KEY) and KEY in frame.columns:
        frame = frame.withColumn(KEY, _key(frame, stage.step))
    for path in hidden.paths(steps, HEADERS):
        name, mask = path.partition(".")[2], stage.step.masks.get(path)
        if not name:
            frame = frame.withColumn(HEADERS, F.when(F.lit(False), F.col(HEADERS)))
        elif mask is None:
            frame = frame.withColumn(HEADERS, F.filter(HEADERS, lambda header: ~_called(header, name)))  # noqa: B023
        else:
            frame = _header(frame, name, mask)
    return frame


def _called(header: Column, name: str) -> Column:
    """Whether a header has a name, upper and lower case as one: HTTP's, which often become records' headers, are so."""
    return F.coalesce(F.lower(header["key"]) == F.lower(F.lit(name)), F.lit(False))


def _key(frame: DataFrame, step: TransformStep) -> Column:
    value = hidden_value(frame, F.col(KEY), KEY, step.masks)
    drops = [path.partition(".")[2] for path in step.names if hidden.column_of(path) == KEY]
    if "" in drops:
        return F.when(F.lit(False), value)
    return value.dropFields(*map(ddl.quoted_path, drops)) if drops else value


def _header(frame: DataFrame, name: str, mask: Mask) -> DataFrame:
    """The frame with the headers of a name masked."""

    def masked(header: Column) -> Column:
        value = _mask(header["value"].cast("string"), mask, F.col(_SALT)).cast("binary")
        return F.when(_called(header, name), header.withField("value", value)).otherwise(header)

    # Where functions of elements stand Spark takes no subquery, which a secret is.
    salted = frame.withColumn(_SALT, _salt(frame, mask))
    return salted.withColumn(HEADERS, F.transform(HEADERS, masked)).drop(_SALT)


def _salt(frame: DataFrame, mask: Mask) -> Column:
    """STRING: null where the mask has none."""
    return secret.column(frame.sparkSession, mask.text) if mask.kind == "hash" else F.lit(None).cast("string")


def rescued(text: Column, left_out: Hidden) -> Column:
    """STRING, a JSON object: what was rescued, without hidden fields; null where nothing is left.

    Names are compared as Spark compares those of columns, upper and lower case as one.
    """
    if () in left_out.removed_paths:
        # Null for every record, and yet computed: a field that no column takes may stop the batch there.
        return F.nullif(F.left(text, F.lit(0)), F.lit(""))
    if not left_out:
        return text
    # A VARIANT changes numbers.
    without = unmarked(_without(marked(text), left_out))
    return F.when(text.isNotNull(), F.nullif(without, F.lit("{}")))


def _without(text: Column, left_out: Hidden) -> Column:
    # A text in which a nested object has a key twice is no VARIANT: its fields are kept as texts.
    exact = _pruned(F.from_json(text, "MAP<STRING, VARIANT>"), left_out, F.to_json, F.try_parse_json)
    plain = _pruned(F.from_json(text, "MAP<STRING, STRING>"), left_out, lambda each: each, lambda each: each)
    return F.coalesce(F.to_json(exact), F.to_json(plain))


def _pruned(
    fields: Column, left_out: Hidden, write: Callable[[Column], Column], read: Callable[[Column], Column]
) -> Column:
    """MAP<STRING, …>: an object's fields without hidden ones.

    Args:
        write, read: what makes JSON of a field, and a field of JSON.
    """

    def is_visible(name: Column, _: Column) -> Column:
        lower, test = F.lower(name), F.lit(True)
        if left_out.kept_names is not None:
            test = lower.isin(*left_out.kept_names)
        return test & ~lower.isin(*left_out.left_out) if left_out.left_out else test

    def looked_into(name: Column, value: Column) -> Column:
        result = value
        for each in left_out.looked_into:
            within = read(_without(write(value), left_out.within(each)))
            result = F.when(F.lower(name) == each, within).otherwise(result)
        return result

    fields = F.map_filter(fields, is_visible)
    return F.transform_values(fields, looked_into) if left_out.looked_into else fields
