"""Guesses the format of unreadable bytes: another one than the pipeline file says, or compressed.

One table serves both ways: `of` says it of bytes, `hint` of a column, for the refusals of records. A pattern is one of
hexadecimal digits, two for a byte, from the first byte on; what is not sure is not told. `header_hint` looks at the
record's headers, by which some serializers name the schema.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakeingest.record import HEADERS, Refusal

LENGTH = 32
"""Bytes that are looked at."""
_BLANKS = "(?:20|09|0A|0D)*"
_ID = "{id}"


@dataclass(frozen=True)
class _BytesPattern:
    """Bytes of one kind.

    Attributes:
        pattern: what they begin with, in hexadecimal digits.
        text: what they look like, and the cure; with {id} where they bear one.
        id_at: the byte at which the four of a schema's id begin, counted from 1.
        formats: those that have such bytes themselves, and are told nothing.
    """

    pattern: str
    text: str
    id_at: int = 0
    formats: tuple[str, ...] = ()


_REGISTRY = "write decode.{side}.format: avro, protobuf or json_schema, without schema_file and registry.glue"
_OTHER = "let the producer use a serializer of a registry with Confluent's API, or of AWS Glue"
_UNPACK = "let the producer send it uncompressed (Kafka's own compression.type is no matter)"
_LOOKS = (
    _BytesPattern("(?:FFFE|FEFF|7B00|007B|5B00|005B)", "text in UTF-16; let the producer write UTF-8"),
    _BytesPattern(
        f"(?:EFBBBF)?7B{_BLANKS}22736368656D6122{_BLANKS}3A",
        "JSON of Kafka Connect, with its schema beside the payload; write decode.{side}.format: connect_json",
        formats=("json", "connect_json"),
    ),
    _BytesPattern(
        f"(?:EFBBBF)?{_BLANKS}(?:7B{_BLANKS}(?:22|7D)|5B{_BLANKS}(?:22|2D|3[0-9]|5B|5D|7B))",
        "JSON; write decode.{side}.format: json",
        formats=("json", "connect_json"),
    ),
    _BytesPattern("1F8B08", f"data compressed with gzip; {_UNPACK}"),
    _BytesPattern("28B52FFD", f"data compressed with zstd; {_UNPACK}"),
    _BytesPattern("(?:FF060000734E61507059|82534E4150505900)", f"data compressed with snappy; {_UNPACK}"),
    _BytesPattern("04224D18", f"data compressed with lz4; {_UNPACK}"),
    _BytesPattern("4F626A01", "an Avro object container file; let the producer send each record by itself"),
    _BytesPattern("C301", "Avro in its single-object encoding; let the producer use a schema registry's serializer"),
    _BytesPattern(
        "03(?:00|05)[0-9A-F]{12}4[0-9A-F]{3}[89AB][0-9A-F]{3}[0-9A-F]{12}",
        "AWS Glue Schema Registry's framing (byte 3, a version's UUID); write decode.{side}.format: avro, "
        "protobuf or json_schema, without schema_file, and registry.glue",
        formats=("glue",),
    ),
    _BytesPattern(
        "00000000(?:3[0-9]|[46][1-6]){28}",
        f"Azure Schema Registry's framing (four bytes 0, an id of 32 digits); {_OTHER}",
    ),
    _BytesPattern(
        "010000000000(?!000000)[0-9A-F]{6}0000(?!0000)[0-9A-F]{4}",
        f"Cloudera's Schema Registry's framing (byte 1, an id of 8 bytes, a version of 4); {_OTHER}",
    ),
    _BytesPattern(
        "0000000000(?!00000000)[0-9A-F]{8}",
        f"Apicurio's framing of 8 bytes (byte 0, id {_ID}); let the producer's id handler write 4 bytes",
        id_at=6,
    ),
    _BytesPattern(
        "00(?!00000000)00[0-9A-F]{6}",
        f"a schema registry's framing (byte 0, schema id {_ID}); {_REGISTRY}",
        id_at=2,
        formats=("registry",),
    ),
)


_HEADERS = {
    "apicurio.{side}.globalId": "Apicurio's serializers do; let the producer write "
    "apicurio.registry.headers.enabled=false, and its id handler 4 bytes",
    "apicurio.{side}.contentId": "Apicurio's serializers do; let the producer write "
    "apicurio.registry.headers.enabled=false, and its id handler 4 bytes",
    "{side}.schema.version.id": f"Cloudera's serializers do; {_OTHER}",
}
"""The header of a record that names its schema → who writes so, and the cure."""
_AZURE = b"avro/binary+"
"""What a header content-type begins with, by which Azure's serializers name a value's schema."""


def of(value: bytes, format: str, side: str = "value") -> str | None:
    """The format that bytes look like, with the cure, if it is sure and another than theirs; else None.

    Args:
        format: json, string, bytes or avro; `registry` or `glue` for whatever such a registry's header
            stands before.
        side: key or value.
    """
    digits = value[:LENGTH].hex().upper()
    for look in _LOOKS:
        if format not in look.formats and re.match(look.pattern, digits):
            number = int.from_bytes(value[look.id_at - 1 :][:4], "big") if look.id_at else 0
            return f"looks like {look.text.format(id=number, side=side)}"
    return None


def hint(raw: Column, format: str, side: str) -> Column:
    """STRING: the same of a column of bytes; null where there is nothing to say."""
    digits = F.hex(F.substring(raw, 1, LENGTH))
    looks = F.lit(None).cast("string")
    for look in reversed([look for look in _LOOKS if format not in look.formats]):
        before, _, after = look.text.format(id=_ID, side=side).partition(_ID)
        number = F.conv(F.hex(F.substring(raw, look.id_at, 4)), 16, 10) if look.id_at else F.lit("")
        text = F.concat(F.lit(f"looks like {before}"), number, F.lit(after))
        looks = F.when(digits.rlike(f"^{look.pattern}"), text).otherwise(looks)
    return looks


def header_hint(side: str) -> Column:
    """STRING: that a header names the record's schema, as serializers of other registries do; null where none does."""
    azure = F.exists(HEADERS, lambda each: (each["key"] == "content-type") & each["value"].startswith(F.lit(_AZURE)))
    names = {name.format(side=side): text for name, text in _HEADERS.items()}
    tests = {name: F.array_contains(F.col(HEADERS)["key"], name) for name in names}
    if side == "value":
        names["content-type"], tests["content-type"] = f"Azure's serializers do; {_OTHER}", azure
    looks = F.lit(None).cast("string")
    for name, text in names.items():
        looks = F.when(tests[name], F.lit(f"its header {name} names the schema, as {text}")).otherwise(looks)
    return looks


def with_hint(refusal: Refusal, raw: Column, format: str, headers: Column | None = None) -> Refusal:
    """The refusal, which says besides what the bytes look like: of a refused record alone, a clean one pays nothing.

    Args:
        headers: see `header_hint`; it goes before what the bytes look like.
    """

    def hinted(why: Column) -> Column:
        guesses = [*([] if headers is None else [headers]), hint(raw, format, refusal.stage)]
        looks = F.coalesce(F.concat(F.lit("; "), F.coalesce(*guesses)), F.lit(""))
        return F.struct(why["reason"].alias("reason"), F.concat(why["message"], looks).alias("message"))

    withheld = refusal.withheld
    return replace(
        refusal,
        diagnosis=lambda: hinted(refusal.diagnosis()),
        withheld=None if withheld is None else lambda: hinted(withheld()),
    )
