"""A search for texts in all that a pipeline leaves: raw bytes, decoded columns, statistics, and other spellings."""

from __future__ import annotations

import base64
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from support.servers import s3_client

from lakeingest.local import Addresses

PACKED = re.compile(rb"\b78(?:01|5e|9c|da)(?:[0-9a-f]{2}){10,}")
"""What zlib has compressed, in hexadecimal digits: so lakeingest's properties are kept."""


class Search:
    """What was searched for these texts, and where one was found.

    Attributes:
        places: kind of place → how many of that kind were searched.
        found: where a text stands, with what is around it.
    """

    def __init__(self, *texts: str) -> None:
        self._spelled = [each for text in texts for each in _spellings(text.encode())]
        self.places: dict[str, int] = {}
        self.found: list[str] = []

    def look(self, kind: str, name: str, data: bytes | str) -> None:
        """Search one place, and all that is packed in it."""
        self.places[kind] = self.places.get(kind, 0) + 1
        for part in _unpacked(data.encode() if isinstance(data, str) else data):
            for text in self._spelled:
                if (at := part.lower().find(text.lower())) >= 0:
                    self.found.append(f"{kind} {name}: …{part[max(0, at - 60) : at + 60]!r}")

    def objects(self, stack: Addresses, prefix: str, bucket: str = "lake") -> None:
        """Search all objects whose keys begin so."""
        client = s3_client(stack)
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for each in page.get("Contents", []):
                key = each["Key"]
                self.look("key of an object", key, key)
                self.look(_kind(key), key, client.get_object(Bucket=bucket, Key=key)["Body"].read())
        client.close()

    def files(self, folder: Path) -> None:
        """Search all files of a folder."""
        for path in (each for each in folder.rglob("*") if each.is_file()):
            self.look(f"local {path.suffix or path.name}", path.name, path.read_bytes())


def _kind(key: str) -> str:
    table = next((t for t in ("_quarantine", "_expectations", "_completeness", "_export") if t in key), " table")
    what = "log" if "_delta_log" in key else "data"
    return f"{table.strip('_ ')} {what} {'checkpoint' if '.checkpoint' in key else Path(key).suffix or 'object'}"


def _spellings(text: bytes) -> Iterator[bytes]:
    yield text
    yield text.hex().encode()
    yield text.decode().encode("utf-16-le")
    # As it stands in the middle of something longer.
    yield from (base64.b64encode(bytes(n) + text)[(4 * n + 2) // 3 + 1 : -4] for n in range(3))


def _unpacked(data: bytes) -> Iterator[bytes]:
    yield data
    if data.startswith(b"\x1f\x8b"):
        yield from _unpacked(gzip.decompress(data))
    elif data.startswith(b"PAR1"):
        file = pq.ParquetFile(io.BytesIO(data))
        yield str(file.read().to_pylist()).encode()
        yield str(file.metadata.to_dict()).encode()
    elif data.startswith(b"Obj\x01"):
        # fastavro has a reader of Snappy where a package is installed that nothing else needs.
        blocks = fastavro.block_reader(io.BytesIO(data.replace(b"\x0csnappy", b"\x08null", 1)))
        yield from (_unsnapped(block.bytes_.getvalue()) for block in blocks)
    for packed in PACKED.findall(data):
        # Digits that look like it may be something else.
        with suppress(zlib.error):
            yield zlib.decompressobj().decompress(bytes.fromhex(packed.decode()))


def _unsnapped(block: bytes) -> bytes:
    """A block of Avro: its size, the data, and four bytes of a checksum."""
    size = at = 0
    while True:
        size |= (block[at] & 0x7F) << (7 * at)
        if block[at] < 0x80:
            return bytes(pa.decompress(block[:-4], decompressed_size=size, codec="snappy"))
        at += 1
