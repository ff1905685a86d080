"""zlib undone in the JVM and in Python: alike, and never beyond the bound."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeingest.decode import compressed
from lakeingest.spark import jvm
from lakeingest.spark.session import setting

MOST = 1000
TEXT = bytes(range(256)) * 3
RANDOM = bytes((n * n * 31 + n // 7) % 251 for n in range(MOST))
PACKED = zlib.compress(TEXT)


@pytest.fixture(params=["zlib", "none"], ids=["in the JVM", "in Python"])
def way(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """Each of the two ways."""
    if request.param == "zlib":
        assert jvm.offered("zlib")
        yield
        return
    with setting(spark, {jvm.catalog("zlib"): "nobody's"}):
        assert not jvm.offered("zlib")
        yield


@pytest.mark.usefixtures("way")
def test_what_was_compressed(spark: SparkSession) -> None:
    """One whole stream, and of one that is too long its beginning; anything else is none."""
    dictionary = zlib.compressobj(zdict=b"abc")
    cases: list[tuple[bytes | None, bytes | None]] = [
        (None, None),
        (PACKED, TEXT),
        (zlib.compress(b""), b""),
        (zlib.compress(RANDOM, 0), RANDOM),
        (zlib.compress(RANDOM, 9), RANDOM),
        (zlib.compress(bytes(MOST)), bytes(MOST)),
        (zlib.compress(bytes(MOST + 1)), bytes(MOST + 1)),
        (zlib.compress(bytes(MOST + 1)) + b"!", bytes(MOST + 1)),
        (zlib.compress(bytes(MOST * MOST)), bytes(MOST + 1)),
        (b"", None),
        (b"\x78", None),
        (TEXT, None),
        *((PACKED[:cut], None) for cut in range(1, len(PACKED), 37)),
        (PACKED[:-1], None),
        (PACKED + b"!", None),
        (PACKED + PACKED, None),
        (PACKED[:-1] + bytes([PACKED[-1] ^ 1]), None),
        (dictionary.compress(b"abcabc") + dictionary.flush(), None),
        (zlib.compress(TEXT)[2:-4], None),
    ]
    frame = spark.createDataFrame([(n, raw) for n, (raw, _) in enumerate(cases)], "n INT, raw BINARY")
    rows = frame.select("n", compressed.inflated(F.col("raw"), MOST).alias("found")).orderBy("n").collect()
    assert [row["found"] and bytes(row["found"]) for row in rows] == [wanted for _, wanted in cases]
