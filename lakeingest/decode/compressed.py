"""zlib undone, bounded: a payload of a kilobyte may hold a megabyte, and one of a megabyte a gigabyte.

Where a session has lakeingest's jar, a function of its catalog does it (`ZlibFunctions.java`), elsewhere Python, a
hundred records at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakeingest.decode import limits
from lakeingest.record import Refusal, diagnosis
from lakeingest.schema.formats import compressed
from lakeingest.schema.ledger import Side
from lakeingest.spark import jvm, python


@dataclass(frozen=True)
class PlainRecords:
    """Records as they were before their payloads were compressed.

    Attributes:
        stages: columns to be added to the frame in order.
        record: BINARY, over the frame with these: the header, and what is behind it uncompressed; null where that
            cannot be had, and a refusal says why.
    """

    stages: tuple[dict[str, Column], ...]
    record: Column
    refusals: tuple[Refusal, ...]


def plain_records(side: Side, raw: Column, headers: Sequence[bytes], most: int) -> PlainRecords:
    """Undo the compression of the records that begin with one of these headers, which have one size.

    Args:
        raw: the record's bytes.
        most: bytes that a payload may have.
    """
    if not headers:
        return PlainRecords((), raw, ())
    unpacked, record, size = f"_{side}_unpacked", f"_{side}_plain", len(headers[0])
    begins = (raw.startswith(F.lit(bytearray(header))) for header in headers)
    concerned = F.coalesce(reduce(Column.__or__, begins), F.lit(False))
    behind = F.when(concerned, F.substring(raw, F.lit(size + 1), F.octet_length(raw)))
    whole = F.concat(F.substring(raw, 1, size), limits.within(F.col(unpacked), most))
    return PlainRecords(
        ({unpacked: inflated(behind, most)}, {record: F.when(concerned, whole).otherwise(raw)}),
        F.col(record),
        refusals(side, raw, F.col(unpacked), concerned, most),
    )


def inflated(payload: Column, most: int) -> Column:
    """BINARY: what was compressed, its first `most` + 1 bytes at most; null where it is not one whole stream."""
    if jvm.offered("zlib"):
        return F.call_function(jvm.function("zlib", f"inflate {most + 1}"), payload)
    inflate = compressed.inflated
    begin = python.by_value(
        lambda value: None if value is None else inflate(bytes(value), most + 1), "BINARY", (compressed,)
    )
    return begin(payload)


def refusals(side: Side, raw: Column, inflated: Column, concerned: Column, most: int) -> tuple[Refusal, Refusal]:
    """For a payload that is no zlib, and for one that is larger than it may be.

    Args:
        raw: the record's bytes.
        inflated: what `inflated` gave for its payload.
        concerned: BOOLEAN, never null: whether it is of a compressed record.
        most: bytes that a payload may have.
    """

    def broken() -> Column:
        size = F.octet_length(raw).cast("string")
        problem = "what follows the header is not one whole stream of zlib, which the header announces"
        return diagnosis("BROKEN_COMPRESSION", F.concat(F.lit(f"{side} has "), size, F.lit(f" bytes: {problem}")))

    def large() -> Column:
        size = F.octet_length(raw).cast("string")
        limit = f" bytes, and decompressed more than decode.max_bytes, which is {most}"
        return diagnosis("TOO_LARGE", F.concat(F.lit(f"{side} has "), size, F.lit(limit)))

    return (
        Refusal(side, concerned & inflated.isNull(), broken, withheld=broken),
        Refusal(
            side, F.coalesce(concerned & limits.within(inflated, most).isNull(), F.lit(False)), large, withheld=large
        ),
    )
