"""Payloads that were compressed with zlib. Executors run this, so it imports nothing of lakeingest."""

from __future__ import annotations

import zlib


def inflated(payload: bytes, most: int) -> bytes | None:
    """The first `most` bytes (at least one) of what was compressed; None where the payload is not one whole stream."""
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(payload, most)
    except zlib.error:
        return None
    # Of a longer one the end is not looked for.
    return plain if len(plain) == most or (stream.eof and not stream.unused_data) else None
