"""Some of the newest records of a topic, for whoever wants to know what they look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lakeingest.config import Source
from lakeingest.kafka import peek
from lakeingest.kafka.broker import Broker


class Record(NamedTuple):
    """A record: its key, its value, and its headers, the last one of each name."""

    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None]


def newest(source: Source, servers: str, most: int) -> list[Record]:
    """Some of the newest committed records of the source's topics: about `most`, and 32 MiB.

    Raises:
        UsageError: a topic does not exist, or source.options make no sense.
        SourceUnreachable, SourceRefused: see `Broker`.
    """
    topics = Broker(source, servers).topics()
    ends = {tp: end for tp, end in topics.last.items() if end > topics.first[tp]}
    share = max(1, most // max(len(ends), 1))
    messages = peek.read(
        source, servers, {tp: max(topics.first[tp], end - share) for tp, end in ends.items()}, ends, most
    )
    if not messages and ends:
        # The newest offsets hold no record: markers of transactions, or what compaction has left.
        messages = peek.read(source, servers, {tp: topics.first[tp] for tp in ends}, ends, most)
    return [Record(m.key(), m.value(), dict(m.headers() or ())) for m in messages]
