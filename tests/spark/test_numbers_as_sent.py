"""Times and decimals as other programs send them: Debezium's bytes, and numbers of another unit than the file says."""

from __future__ import annotations

import base64
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.oracle.decoding import kafka, pipeline

from lakeingest.operations import epoch_units
from lakeingest.schema import ddl
from lakeingest.schema.expression import read

UNSCALED = [
    *(0, 1, -1, 127, 128, -128, -129, 255, 256, 12345, -12345, 2**63 - 1, -(2**63), 2**64, -(2**64), 2**64 - 1),
    *(10**38 - 1, -(10**38 - 1), 10**37, -(10**38) + 2**63),
]


def of_bytes(number: int, least: int = 1) -> bytes:
    return number.to_bytes(max(least, number.bit_length() // 8 + 1), "big", signed=True)


@pytest.mark.parametrize("kind", ["BINARY", "STRING"])
def test_decimals_of_bytes(spark: SparkSession, kind: str) -> None:
    """Each unscaled value of up to 38 digits, in as few bytes as it needs and in more; others are not computed."""
    cases: dict[bytes, Decimal | None] = {of_bytes(n): Decimal(f"{n}E-3") for n in UNSCALED}
    cases |= {of_bytes(n, 20): Decimal(f"{n}E-3") for n in UNSCALED}
    cases |= dict.fromkeys([b"", of_bytes(10**38), of_bytes(-(10**38)), of_bytes(2**127 - 1), of_bytes(2**130)])
    found = read("decimal_from_bytes(c, 3)", ddl.parse(f"c {kind}"))
    assert str(found.type) == "decimal(38,3)"
    rows = [(n, bytearray(raw) if kind == "BINARY" else base64.b64encode(raw).decode()) for n, raw in enumerate(cases)]
    texts = [] if kind == "BINARY" else [(len(rows), "no base64!"), (len(rows) + 1, None)]
    frame = spark.createDataFrame([*rows, *texts], f"n INT, c {kind}")
    result = frame.select("n", F.expr(found.value).alias("value"), F.expr(found.failed).alias("failed")).orderBy("n")
    expected = [(value, value is None) for value in cases.values()]
    expected += [] if kind == "BINARY" else [(None, True), (None, False)]
    assert [(row["value"], row["failed"]) for row in result.collect()] == expected


def test_a_sample_in_another_unit(spark: SparkSession) -> None:
    """The warning names the place, how many numbers, and the unit that fits; usual times and texts are no reason."""
    texts = [
        '{"at":1690000000,"st":{"at":1690000000000000},"ok":1690000000000,"text":"2024-01-01T00:00:00Z"}',
        '{"at":"1690000001.5","ok":0,"text":"1969-01-01"}',
        '{"at":null,"n":1690000000}',
        "no JSON",
    ]
    config = pipeline("at_s TIMESTAMP FROM 'at', st STRUCT<at: TIMESTAMP>, ok TIMESTAMP, text TIMESTAMP, n BIGINT")
    frame = kafka(spark, [(None, text.encode()) for text in texts])
    assert list(epoch_units.warnings(config, frame)) == [
        "2 numbers in at would be a time of 1990 to 2100 as seconds since 1970, and none as milliseconds: if so, write "
        "decode.value.epoch: seconds",
        "1 number in st.at would be a time of 1990 to 2100 as microseconds since 1970, and none as milliseconds: if "
        "so, write decode.value.epoch: micros",
    ]
    assert not list(epoch_units.warnings(pipeline("n BIGINT"), frame))
