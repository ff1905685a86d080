"""What Glue is to hold of a Delta table, and what it keeps of others."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from pyspark.sql import types as T

from lakeingest.delta.catalog import glue_entry
from lakeingest.errors import TableMismatch
from lakeingest.spark.types import struct

COLUMNS = struct("Id BIGINT COMMENT 'the order''s', at TIMESTAMP, s STRUCT<`B.c`: INT, D: ARRAY<DATE>>")
WANTED = glue_entry.entry("orders", "s3a://lake//a/orders/", COLUMNS, "orders\nof the shop")
MODEL = ServiceModel(Loader().load_service_model("glue", "service-2"), "glue")
KNOWN = MODEL.shape_for("TableInput").members


def held(**changes: Any) -> dict[str, Any]:
    """The entry as Glue gives it back, in the version that somebody else has made of it."""
    return {**copy.deepcopy(WANTED), "VersionId": "4", "DatabaseName": "lake", "CreateTime": 1, **changes}


def storage(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(WANTED["StorageDescriptor"]), **changes}


def merged(found: dict[str, Any]) -> dict[str, Any] | None:
    glue_entry.check("lake.orders", found, WANTED)
    return glue_entry.merged(WANTED, found, KNOWN)


def test_an_entry() -> None:
    """It has what Athena and Trino look for: provider, place, SerDe, columns in lower case; and no partition keys."""
    assert WANTED["Parameters"] == {"EXTERNAL": "TRUE", "table_type": "DELTA", "spark.sql.sources.provider": "delta"}
    assert (WANTED["TableType"], WANTED["Description"]) == ("EXTERNAL_TABLE", "orders of the shop")
    described = WANTED["StorageDescriptor"]
    assert described["Location"] == described["SerdeInfo"]["Parameters"]["path"] == "s3://lake/a/orders"
    assert described["Columns"] == [
        {"Name": "id", "Type": "bigint", "Comment": "the orders"},
        {"Name": "at", "Type": "timestamp"},
        {"Name": "s", "Type": "struct<b.c:int,d:array<date>>"},
    ]
    assert "PartitionKeys" not in WANTED


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (
            struct("c MAP<STRING, STRUCT<a: DECIMAL(10,2), b: TIMESTAMP_NTZ>>"),
            "map<string,struct<a:decimal(10,2),b:time",
        ),
        (struct("c BINARY"), "binary"),
        (struct("c BYTE"), "tinyint"),
        (T.StructType().add("c", T.VariantType()), "string"),
        (T.StructType().add("c", T.ArrayType(T.StructType().add("v", T.VariantType()))), "array<struct<v:string>>"),
        (T.StructType().add("c", T.DayTimeIntervalType()), "string"),
        (struct("c ARRAY<STRUCT<`a-b`: INT>>"), "array<string>"),
        (struct("c ARRAY<STRUCT<`größe`: INT>>"), "array<struct<größe:int>>"),
        (struct(f"c STRUCT<{', '.join(f'a{n}: STRING' for n in range(12_000))}>"), "string"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_types_in_the_words_of_hive(kind: T.StructType, word: str) -> None:
    """What Hive has no word for, or what its parser cannot read, is a string."""
    assert glue_entry.hive_type(kind["c"].dataType).startswith(word)


def test_texts_are_cut_to_what_glue_takes() -> None:
    """A comment of 255 characters in one line, a description of 2,048."""
    columns = T.StructType([T.StructField("c", T.StringType(), metadata={"comment": "a\n\x07ä😀" + "x" * 300})])
    entry = glue_entry.entry("t", "s3://b/t", columns, "d" * 3000)
    (column,) = entry["StorageDescriptor"]["Columns"]
    assert (column["Comment"][:5], len(column["Comment"]), column["Comment"][-1]) == ("a  ä😀", 255, "…")
    assert len(entry["Description"]) == 2048


def test_nothing_changed() -> None:
    """Nor did it where a crawler writes the same words in lower case, or the place with a / at its end."""
    assert merged(held()) is None
    crawled = {"EXTERNAL": "true", "table_type": "delta", "spark.sql.sources.provider": "delta", "classification": "x"}
    assert merged(held(Parameters=crawled, StorageDescriptor=storage(Location="s3://lake/a/orders/"))) is None
    assert merged(held(StorageDescriptor=storage(Compressed=False), Retention=0, PartitionKeys=[], Owner="me")) is None


def test_what_others_added_stays() -> None:
    """Parameters, an owner, comments of columns that have none in the table; what the table says goes before."""
    columns = [
        {"Name": "ID", "Type": "int", "Comment": "by hand", "Parameters": {"pii": "no"}},
        {"Name": "at", "Type": "timestamp", "Comment": "by hand"},
        {"Name": "gone", "Type": "int"},
    ]
    after = merged(
        held(Owner="me", Parameters={"table_type": "DELTA", "x": "y"}, StorageDescriptor=storage(Columns=columns))
    )
    assert after is not None
    assert (after["Owner"], after["Parameters"]["x"], after["Parameters"]["EXTERNAL"]) == ("me", "y", "TRUE")
    assert after["StorageDescriptor"]["Columns"][:2] == [
        {"Name": "id", "Type": "bigint", "Comment": "the orders", "Parameters": {"pii": "no"}},
        {"Name": "at", "Type": "timestamp", "Comment": "by hand"},
    ]
    assert len(after["StorageDescriptor"]["Columns"]) == 3
    assert set(after) <= set(KNOWN)


def test_a_comment_that_was_emptied_is_gone() -> None:
    """COMMENT '' takes it back, in Glue too, and only once."""
    columns = struct("c INT COMMENT ''")
    wanted = glue_entry.entry("orders", "s3a://lake/a/orders", columns)
    before = held(StorageDescriptor=storage(Columns=[{"Name": "c", "Type": "int", "Comment": "was"}]))
    after = glue_entry.merged(wanted, before, KNOWN)
    assert after is not None
    assert after["StorageDescriptor"]["Columns"] == [{"Name": "c", "Type": "int"}]
    assert glue_entry.merged(wanted, after, KNOWN) is None


def test_partition_keys_are_taken_out() -> None:
    """They would name columns a second time; Delta's log knows them."""
    after = merged(held(PartitionKeys=[{"Name": "at", "Type": "timestamp"}]))
    assert after is not None
    assert after["PartitionKeys"] == []


def test_an_entry_of_spark() -> None:
    """Spark has the path in the SerDe alone, and a column that stands for none: it becomes one that Athena reads."""
    columns = [{"Name": "col", "Type": "array<string>"}]
    after = merged(held(StorageDescriptor=storage(Location="s3://wh/lake.db/orders-__PLACEHOLDER__", Columns=columns)))
    assert after is not None
    assert after["StorageDescriptor"] == WANTED["StorageDescriptor"]


SERDE = {"SerializationLibrary": "x", "Parameters": {"path": "s3://lake/other"}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"StorageDescriptor": storage(Location="s3://other/a/orders")}, "is the table at s3://other/a/orders in Glue"),
        ({"StorageDescriptor": storage(Location="s3://lake/a/orders/b")}, "is the table at s3://lake/a/orders/b"),
        ({"StorageDescriptor": storage(SerdeInfo=SERDE)}, "is the table at s3://lake/other in Glue"),
        ({"StorageDescriptor": {}}, "is the table at no place"),
        ({"Parameters": {"table_type": "ICEBERG"}}, "is no Delta table in Glue"),
        ({"Parameters": {}}, "is no Delta table in Glue"),
        ({"TableType": "VIRTUAL_VIEW"}, "is a view in Glue"),
    ],
)
def test_what_is_not_ours_is_refused(changes: dict[str, Any], said: str) -> None:
    """Another place, another format, a view: told with a cure."""
    with pytest.raises(TableMismatch, match=said) as refused:
        merged(held(**changes))
    assert "write another table.name" in refused.value.cure
