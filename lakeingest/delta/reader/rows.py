"""The rows of a Delta table, read without Spark: its files and their partitions as one data set of Arrow's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakeingest.delta.reader.log import DataFile, OfflineLog, Unreadable, reading
from lakeingest.errors import SetupError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.dataset import Dataset

_SHUT_OUT = {"columnMapping", "variantType"}
_OF_PARTITIONS = {"string", "byte", "short", "integer", "long", "boolean", "date"}
"""Types whose values in the log mean one thing, whatever wrote them."""


def check_installed(*also: str) -> None:
    """Raises:
    SetupError: pyarrow is missing, or another of these packages.
    """
    try:
        for name in (*also, "pyarrow.dataset"):
            import_module(name)
    except ImportError as missing:
        raise SetupError(f"{missing.name} is not installed", cure="pip install 'lakeingest[sql]'") from missing


def dataset(log: OfflineLog, files: Sequence[DataFile] | None = None) -> Dataset:
    """The table's rows, with today's columns and types: a column that a file lacks is null.

    Args:
        files: some of its files; all by default.

    Raises:
        Unreadable: the table has what cannot be read so.
    """
    from pyarrow import dataset as ds

    state = log.state
    if shut_out := sorted(state.features & _SHUT_OUT):
        raise Unreadable(f"the table has {', '.join(shut_out)}")
    chosen = state.files if files is None else files
    if any(file.masked for file in chosen):
        raise Unreadable("deletion vectors leave out rows of its files")
    with reading(log.identifier):
        columns = json.loads(state.metadata["schemaString"])
        schema = _fields(columns)
        partitioned = state.metadata["partitionColumns"]
        for column in columns["fields"]:
            if column["name"] in partitioned and column["type"] not in _OF_PARTITIONS:
                raise Unreadable(f"it is partitioned by {column['name']}, a {column['type']}")
        # Spark writes times as INT96, which have nanoseconds, and years that these do not reach.
        form = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))
        fragments = [
            form.make_fragment(
                f"{log.folder}/{file.path}",
                log.filesystem,
                partition_expression=_of_partition(file, {name: schema.field(name).type for name in partitioned}),
                # Else the store is asked for it, a request for each file.
                file_size=file.size,
            )
            for file in chosen
        ]
        return ds.FileSystemDataset(fragments, schema, form, log.filesystem)


def need(table: Dataset, *names: str) -> None:
    """Raises:
    Unreadable: the table lacks one of these columns.
    """
    missing = sorted({*names} - {*table.schema.names})
    if missing:
        raise Unreadable(f"it has no columns {', '.join(missing)}")


def _of_partition(file: DataFile, types: dict[str, Any]) -> Any:
    """What holds of all rows of a file."""
    import pyarrow as pa
    from pyarrow import dataset as ds

    condition = ds.scalar(True)
    for name, kind in types.items():
        # Delta writes null and the empty text alike, and reads both as null.
        text = file.partition[name] or None
        same = ds.field(name).is_null() if text is None else ds.field(name) == pa.scalar(text).cast(kind)
        condition = condition & same
    return condition


_TIMES = {"timestamp": "UTC", "timestamp_ntz": None}
_PLAIN = {
    "string": "string",
    "long": "int64",
    "integer": "int32",
    "short": "int16",
    "byte": "int8",
    "float": "float32",
    "double": "float64",
    "boolean": "bool_",
    "binary": "binary",
    "date": "date32",
}


def _fields(struct: Any) -> pa.Schema:
    """The columns of a table, or of a struct, as the log has them."""
    import pyarrow as pa

    return pa.schema([pa.field(each["name"], _type(each["type"])) for each in struct["fields"]])


def _type(kind: Any) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, dict):
        return _nested(kind)
    if kind in _PLAIN:
        return getattr(pa, _PLAIN[kind])()
    if kind in _TIMES:
        return pa.timestamp("us", _TIMES[kind])
    if kind.startswith("decimal("):
        precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    raise Unreadable(f"it has columns of the type {kind}")


def _nested(kind: Any) -> pa.DataType:
    import pyarrow as pa

    match kind["type"]:
        case "struct":
            return pa.struct([*_fields(kind)])
        case "array":
            return pa.list_(pa.field("element", _type(kind["elementType"])))
        case "map":
            return pa.map_(_type(kind["keyType"]), _type(kind["valueType"]))
    raise Unreadable(f"it has columns of the type {kind['type']}")
