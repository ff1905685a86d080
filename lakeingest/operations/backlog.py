"""How much waits for a run, as the table's files and Kafka tell it before Spark starts."""

from __future__ import annotations

import os

from lakeingest.delta.reader.log import Unreadable
from lakeingest.errors import LakeingestError
from lakeingest.kafka.broker import Broker
from lakeingest.operations import partition_lags
from lakeingest.operations.readers import FileTables, Owner
from lakeingest.spark import s3a, session

_SMALL = 100_000
"""Offsets that are committed before Java's second compiler pays off."""
_TIMEOUT_S = 5.0


def is_small(owner: Owner, bootstrap_servers: str) -> bool:
    """Whether a run that takes what is there now is known to end soon."""
    waiting = offsets_of(owner, bootstrap_servers)
    return waiting is not None and waiting <= _SMALL


def offsets_of(owner: Owner, bootstrap_servers: str) -> int | None:
    """How many offsets Kafka has behind the pipeline's frontier; None where that is not known for certain, or a server
    fails: the run says why.
    """
    if session.is_elsewhere(os.environ) or owner.config.source.table:
        return None
    try:
        s3a.check_listens(owner.storage, owner.config.paths)
        log = FileTables(owner.config, owner.storage).standing()
        topics = Broker(owner.config.source, bootstrap_servers, timeout_s=_TIMEOUT_S).topics()
    except (LakeingestError, Unreadable):
        return None
    return sum(int(each["lag"]) for each in partition_lags.of(log, topics))
