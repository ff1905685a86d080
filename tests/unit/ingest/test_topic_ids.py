"""Topics are compared by their ids, where both have one."""

from __future__ import annotations

import pytest

from lakeingest.delta import receipt
from lakeingest.delta.receipt import Receipt
from lakeingest.errors import SourceChanged
from lakeingest.ingest import preflight
from lakeingest.kafka import offsets
from lakeingest.record import OffsetRanges

# Kafka ---------------------------------------------------------------------------------------------------------------

BLANK = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize(
    ("known", "now", "changed"),
    [("a", "a", False), ("a", "b", True), ("", "b", False), (BLANK, "b", False), ("a", "", False)],
)
def test_topic_ids_that_come_and_go(known: str, now: str, changed: bool) -> None:
    """A cluster that gets topic ids by an upgrade has the same topics; only two ids can differ."""
    last = Receipt("p", 1, receipt.Run(), "c", {"t": known}, OffsetRanges(()), "q")
    topics = offsets.Topics("c", {"t": offsets.topic_id(now)}, {}, {})
    if not changed:
        preflight.check_topics(last, topics)
        return
    with pytest.raises(SourceChanged):
        preflight.check_topics(last, topics)
