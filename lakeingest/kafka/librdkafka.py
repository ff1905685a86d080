"""Codes of librdkafka's errors, and its log."""

from __future__ import annotations

from typing import Any


def passing() -> set[int]:
    """Codes of errors that a moment later are over: a leader moves, or is not elected yet."""
    from confluent_kafka import KafkaError

    return {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        # Our metadata and the broker's are not of one age: seen a moment after a leader had moved.
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError._NOENT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError._WAIT_COORD,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }


def denials() -> set[int]:
    """Codes of errors by which a broker denies access."""
    from confluent_kafka import KafkaError

    return {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }


def silent() -> Any:
    """Silence: librdkafka repeats every failed connection on stderr; the error that is raised says it once."""
    import logging

    logger = logging.getLogger("lakeingest.librdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
