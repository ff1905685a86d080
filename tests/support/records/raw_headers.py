"""Produces records whose headers have keys that are no UTF-8, which a producer in Python does not take."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka

_PRODUCER = 0
_COPY = 2


def produce(
    servers: str,
    topic: str,
    value: bytes,
    headers: Sequence[tuple[bytes, bytes | None]],
    *,
    timestamp: int,
    partition: int = 0,
) -> None:
    """One record, by librdkafka itself, which the package of confluent_kafka brings.

    Args:
        timestamp: in milliseconds.
    """
    (library,) = (Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka-*.so*")
    kafka = ctypes.CDLL(str(library))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(kafka, name).restype = ctypes.c_void_p
    text, told = ctypes.create_string_buffer(512), ctypes.c_char_p
    conf = ctypes.c_void_p(kafka.rd_kafka_conf_new())
    assert kafka.rd_kafka_conf_set(conf, b"bootstrap.servers", servers.encode(), text, 512) == 0, text.value
    client = ctypes.c_void_p(kafka.rd_kafka_new(_PRODUCER, conf, text, ctypes.c_size_t(512)))
    made = ctypes.c_void_p(kafka.rd_kafka_headers_new(ctypes.c_size_t(len(headers))))
    for key, each in headers:
        size = -1 if each is None else len(each)
        failed = kafka.rd_kafka_header_add(
            made, told(key), ctypes.c_ssize_t(len(key)), told(each), ctypes.c_ssize_t(size)
        )
        assert failed == 0
    # Pairs of a kind (RD_KAFKA_VTYPE_…) and its value, up to RD_KAFKA_VTYPE_END.
    failed = kafka.rd_kafka_producev(
        client,
        *(ctypes.c_int(1), told(topic.encode())),
        *(ctypes.c_int(3), ctypes.c_int32(partition)),
        *(ctypes.c_int(4), told(value), ctypes.c_size_t(len(value))),
        *(ctypes.c_int(7), ctypes.c_int(_COPY)),
        *(ctypes.c_int(8), ctypes.c_int64(timestamp)),
        *(ctypes.c_int(10), made),
        ctypes.c_int(0),
    )
    assert failed == 0
    assert kafka.rd_kafka_flush(client, ctypes.c_int(30_000)) == 0
    kafka.rd_kafka_destroy(client)
