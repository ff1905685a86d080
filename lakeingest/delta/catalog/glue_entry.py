"""What AWS Glue's Data Catalog holds of a Delta table: an entry by which Athena, and Trino's delta_lake connector, find
it.

Both take a query's columns from Delta's log. Lake Formation, Athena's views and whoever looks for a table take them
from the entry, which therefore follows the table (Athena's user guide, "Synchronize Delta Lake metadata"). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import types as T

from lakeingest.config import location
from lakeingest.delta.catalog import foreign

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

Entry: TypeAlias = Mapping[str, Any]
"""Glue's Table or TableInput, as boto3 has them."""

PROVIDER, FORMAT = "spark.sql.sources.provider", "table_type"
_PARAMETERS = {"EXTERNAL": "TRUE", FORMAT: "DELTA", PROVIDER: "delta"}
"""Trino and Spark know a Delta table by the provider, Athena by either."""
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_ATOMIC = (*_NUMBERS, "boolean", "string", "binary", "date", "timestamp")
_FIELD = re.compile(r"[\w.$]+")
"""What Hive's parser of types takes for a field's name."""
_UNSAYABLE = re.compile("[^\\t\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What Glue's texts of one line may not hold (its API reference, "String patterns")."""
_LONGEST_TYPE, _LONGEST_COMMENT, _LONGEST_DESCRIPTION = 131_072, 255, 2_048
"""Characters, as Glue's API has them."""
_PLACEHOLDER = "__PLACEHOLDER__"
"""How the Location ends that Spark gives a table whose path is in the SerDe's parameters."""


def entry(name: str, path: str, columns: StructType, comment: str | None = None) -> dict[str, Any]:
    """What Glue is to hold of a table: a TableInput.

    Args:
        name: without the database.
        path: where the table lies, on S3.
        columns: all of them, those that it is partitioned by too: Delta's log knows which these are.
        comment: the table's.
    """
    where = location.place(path)
    url = f"s3://{where.bucket}/{'/'.join(where.steps)}"
    described = {"Description": _cut(comment, _LONGEST_DESCRIPTION)} if comment else {}
    return {
        "Name": name,
        **described,
        "TableType": "EXTERNAL_TABLE",
        "Parameters": _PARAMETERS,
        "StorageDescriptor": {
            "Columns": [_column(field) for field in columns],
            "Location": url,
            # As Spark writes them for a table of a provider: who does not know Delta reads nothing at all.
            "InputFormat": "org.apache.hadoop.mapred.SequenceFileInputFormat",
            "OutputFormat": "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
            "SerdeInfo": {
                "SerializationLibrary": "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
                # Trino and Spark look for the table there.
                "Parameters": {"path": url, "serialization.format": "1"},
            },
        },
    }


def _column(field: T.StructField) -> dict[str, str]:
    # Hive, and Athena with it, has lower case alone.
    column = {"Name": field.name.lower(), "Type": hive_type(field.dataType)}
    comment = field.metadata.get("comment")
    return column if comment is None else {**column, "Comment": _cut(comment, _LONGEST_COMMENT)}


def hive_type(kind: DataType) -> str:
    """A column's type in Hive's words, as Trino has them for Delta: both timestamps are one.

    What these have no word for stands as string: VARIANT, and a struct with a field that Hive cannot name.
    """
    name = _hive_type(kind)
    return name if len(name) <= _LONGEST_TYPE else "string"


def _hive_type(kind: DataType) -> str:
    match kind:
        case T.StructType():
            if not kind.fields or not all(_FIELD.fullmatch(name) for name in kind.names):
                return "string"
            return f"struct<{','.join(f'{field.name.lower()}:{_hive_type(field.dataType)}' for field in kind)}>"
        case T.ArrayType():
            return f"array<{_hive_type(kind.elementType)}>"
        case T.MapType():
            return f"map<{_hive_type(kind.keyType)},{_hive_type(kind.valueType)}>"
        case T.TimestampNTZType():
            return "timestamp"
        case _:
            name = kind.simpleString()
            return name if name in _ATOMIC or isinstance(kind, T.DecimalType) else "string"


def _cut(text: str, most: int) -> str:
    plain = _UNSAYABLE.sub(" ", text)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def merged(target: Entry, current: Entry, input_members: Collection[str]) -> dict[str, Any] | None:
    """What Glue is to hold instead of what it holds; None where nothing has to change.

    What others added stays: parameters, an owner, the comments of columns that have none in the table.

    Args:
        input_members: the keys of a TableInput; a Table has more.
    """
    before = as_input(current, input_members)
    storage, descriptor = before.get("StorageDescriptor", {}), target["StorageDescriptor"]
    serde = storage.get("SerdeInfo", {})
    current_columns = {column["Name"].lower(): column for column in storage.get("Columns", ())}
    after = {
        **before,
        **target,
        "Parameters": {**before.get("Parameters", {}), **_differing(before.get("Parameters", {}))},
        "StorageDescriptor": {
            **descriptor,
            **storage,
            "Columns": [
                _kept_column({**current_columns.get(column["Name"], {}), **column}) for column in descriptor["Columns"]
            ],
            "Location": descriptor["Location"] if _is_placeholder(storage) else storage["Location"],
            "SerdeInfo": {
                **descriptor["SerdeInfo"],
                **serde,
                "Parameters": {**descriptor["SerdeInfo"]["Parameters"], **serde.get("Parameters", {})},
            },
        },
    }
    # Columns must not stand twice.
    if before.get("PartitionKeys"):
        after["PartitionKeys"] = []
    return None if after == before else after


def as_input(current: Entry, input_members: Collection[str]) -> dict[str, Any]:
    """A Table as a TableInput: an empty text may stand in the one alone."""
    return {key: value for key, value in current.items() if key in input_members and value not in ("", None)}


def _differing(parameters: Mapping[str, str]) -> dict[str, str]:
    """Crawlers write the same words in lower case."""
    return {key: value for key, value in _PARAMETERS.items() if parameters.get(key, "").lower() != value.lower()}


def _kept_column(column: Mapping[str, Any]) -> dict[str, Any]:
    """Without a comment that somebody emptied."""
    return {key: value for key, value in column.items() if (key, value) != ("Comment", "")}


def _is_placeholder(storage: Entry) -> bool:
    where = storage.get("Location") or _PLACEHOLDER
    return bool(where.endswith(_PLACEHOLDER))


def check(name: str, current: Entry, target: Entry) -> None:
    """Notice that an entry is another table's, or a view.

    Raises:
        TableMismatch: with what to do about it.
    """
    parameters, storage = current.get("Parameters", {}), current.get("StorageDescriptor", {})
    if current.get("TableType") == "VIRTUAL_VIEW":
        raise foreign(name, "Glue", "a view")
    if "delta" not in {parameters.get(key, "").lower() for key in (PROVIDER, FORMAT)}:
        raise foreign(name, "Glue", "no Delta table")
    path = storage.get("SerdeInfo", {}).get("Parameters", {}).get("path")
    places = {path, None if _is_placeholder(storage) else storage["Location"]} - {None, ""}
    place = location.place(target["StorageDescriptor"]["Location"])
    elsewhere = sorted(each for each in places if not location.place(each).same(place))
    if elsewhere or not places:
        raise foreign(name, "Glue", f"the table at {elsewhere[0] if elsewhere else 'no place'}")
