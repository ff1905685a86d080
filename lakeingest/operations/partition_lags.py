"""How far a pipeline is in each topic-partition, and how far Kafka is."""

from __future__ import annotations

from typing import Any

from lakeingest.delta.commit_log import CommitLog
from lakeingest.kafka.offsets import Topics


def of(log: CommitLog, topics: Topics) -> tuple[dict[str, Any], ...]:
    """See `Status.partitions`."""
    return tuple(
        {
            "topic": topic,
            "partition": partition,
            "frontier": log.frontier.get((topic, partition)),
            "end": end,
            "lag": end - log.frontier.get((topic, partition), topics.first[topic, partition]),
        }
        for (topic, partition), end in sorted(topics.last.items())
    )
