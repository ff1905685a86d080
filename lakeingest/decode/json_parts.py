"""Columns of JSON text: parts of a record that no typed column can hold (see `schema.model.json_text`).

Where a session has lakeingest's jar, its parser writes them; elsewhere Python does, record by record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.decode import json_texts, numbers
from lakeingest.schema import json_text
from lakeingest.spark import python

MARK: Mapping[str, Any] = {"json": True}
"""The metadata of a field whose texts, through arrays and maps, are JSON text."""


def written(read: Column, raw: Column, schema: T.StructType, whole: T.StructType) -> Column:
    """`read` with JSON text in the fields that bear the mark; null where the record cannot be read so.

    Args:
        read: of type `whole`: the fields of `schema`, and more, as from_json has them.
        raw: BINARY, the record.
    """
    text_type = _only_texts(schema)
    if text_type is None:
        return read
    texts = json_texts.texts(json.loads(text_type.json()))
    again = python.by_value(texts, text_type, (json_text, json_texts))(raw)
    pairs = F.array(F.struct(read.alias("read"), again.alias("texts")))
    return F.transform(
        pairs,
        lambda each: F.when(each["texts"].isNotNull(), numbers.merged(each["read"], each["texts"], text_type, whole)),
    )[0]


def _only_texts(kind: T.DataType) -> Any:
    """The type that has nothing of another one but such fields, and arrays for maps; None where there are none."""
    match kind:
        case T.StructType():
            parts = {f.name: _marked(f) or _only_texts(f.dataType) for f in kind}
            fields = [T.StructField(name, part) for name, part in parts.items() if part]
            return T.StructType(fields) if fields else None
        case T.ArrayType():
            return T.ArrayType(part) if (part := _only_texts(kind.elementType)) else None
        case T.MapType():
            return T.ArrayType(part) if (part := _only_texts(kind.valueType)) else None
    return None


def _marked(field: T.StructField) -> Any:
    return _texts(field.dataType) if field.metadata == MARK else None


def _texts(kind: T.DataType) -> T.DataType:
    match kind:
        case T.ArrayType():
            return T.ArrayType(_texts(kind.elementType))
        case T.MapType():
            return T.ArrayType(_texts(kind.valueType))
    return T.StringType()
