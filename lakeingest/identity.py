"""Whether table, quarantine, topics and cluster are still the ones that the pipeline's last commit names."""

from __future__ import annotations

from dataclasses import dataclass

from lakeingest.commit import Ledger, Receipt
from lakeingest.config import Pipeline
from lakeingest.errors import SourceChanged, TableMismatch
from lakeingest.source import Topics


@dataclass(frozen=True)
class Consents:
    """What whoever started the run consents to.

    Attributes:
        dropped_topics: that the file no longer names a topic which the table was fed from.
        gaps: that Kafka has deleted offsets which were never read.
    """

    dropped_topics: bool = False
    gaps: bool = False


def check(pipeline: Pipeline, ledger: Ledger, refused: Ledger, topics: Topics, consents: Consents) -> None:
    """Notice that the pipeline file was changed to another table, quarantine, topic or cluster.

    Raises:
        SourceChanged, TableMismatch: with what to do about it.
    """
    if ledger.newest is None:
        # A table that a RESTORE took back to its beginning still knows the sequence numbers.
        if refused.newest is not None and not ledger.recovered and not ledger.last_sequence:
            raise TableMismatch(
                f"{pipeline.table.path} holds nothing of pipeline {pipeline.name!r}, but its quarantine "
                f"{pipeline.quarantine.path} does, up to sequence {refused.last_sequence}",
                cure="put table.path back as it was, or give the pipeline a new name",
            )
        return
    last = ledger.newest.receipt
    if last.quarantine != pipeline.quarantine.path:
        raise TableMismatch(
            f"pipeline {pipeline.name!r} kept its refused records in {last.quarantine}, "
            f"the file now says {pipeline.quarantine.path}",
            cure="put quarantine.path (or table.path) back as it was, or give the pipeline a new name and table",
        )
    check_topics(last, topics)
    dropped = sorted(set(last.topics) - set(topics.ids))
    if dropped and not consents.dropped_topics:
        raise SourceChanged(
            f"the table was fed from {', '.join(dropped)} too, which source.topics no longer names",
            cure="name it again, or run once with --accept-dropped-topics; its frontier stays remembered",
        )


def check_topics(last: Receipt | None, topics: Topics) -> None:
    """Notice that the cluster or a topic is another one than in the pipeline's last commit, if there is one.

    Raises:
        SourceChanged: the coordinates of the table mean other records there.
    """
    if last is None:
        return
    if last.cluster != topics.cluster:
        raise SourceChanged(
            f"the table was fed from Kafka cluster {last.cluster}, source.bootstrap_servers now leads to "
            f"{topics.cluster}: the same offsets are other records there",
            cure="correct source.bootstrap_servers, or give the pipeline a new name and table",
        )
    known = {**last.left, **last.topics}
    for name, identity in topics.ids.items():
        if known.get(name, identity) != identity:
            raise SourceChanged(
                f"topic {name!r} was deleted and made again (id {identity}, it was {known[name]}): "
                "its offsets begin anew",
                cure="give the pipeline a new name and table for the new topic",
            )
