"""How a pipeline stands, in a sentence: the worst first, for whoever decides whether to look closer. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from lakeingest.config import Trigger
from lakeingest.errors import number_of
from lakeingest.operations import held

if TYPE_CHECKING:
    from lakeingest.operations.report.facts import Facts

State = Literal["bad", "warn", "good", "none"]
_PATIENCE = 3
"""Triggers that may pass without a commit before records that wait are called a lag."""
_WORST: tuple[State, ...] = ("bad", "warn", "none", "good")


@dataclass(frozen=True)
class PipelineVerdict:
    """How a pipeline stands.

    Attributes:
        state: bad (somebody has to act), warn (somebody should look), good, none (nothing to say).
        label: one to three words.
        sentence: all there is to say, the worst first.
    """

    state: State = "none"
    label: str = ""
    sentence: str = ""


def verdict(facts: Facts, trigger: Trigger) -> PipelineVerdict:
    """The verdict on what is known."""
    if "table" in facts.unknown:
        return PipelineVerdict("bad", "unreadable", f"The table cannot be read: {facts.unknown['table']}.")
    if not facts.exists:
        return PipelineVerdict(
            "none", "never ran", f"There is no table at {facts.table} yet: the pipeline has never run."
        )
    findings = sorted(_findings(facts, trigger), key=lambda each: _WORST.index(each.state))
    if findings[0].state == "good":
        return findings[0]
    return PipelineVerdict(
        findings[0].state, findings[0].label, " ".join(each.sentence for each in findings if each.state != "good")
    )


def _findings(facts: Facts, trigger: Trigger) -> Iterator[PipelineVerdict]:
    yield from _of_audit(facts)
    yield from _of_gate(facts)
    yield from _of_lag(facts, trigger)
    if broken := [each["promise"] for each in facts.contract if each["kept"] is False]:
        yield PipelineVerdict("warn", "contract broken", f"The contract is not kept: {', '.join(broken)}.")
    if facts.refused and (waiting := facts.refused["open"]):
        yield PipelineVerdict("warn", "records refused", f"{_records(waiting)} refused and wait in quarantine.")
    if "refused" in facts.unknown:
        yield PipelineVerdict("warn", "uncertain", f"The quarantine is not known: {facts.unknown['refused']}.")
    if "batches" in facts.unknown:
        yield PipelineVerdict("warn", "uncertain", f"The commits are not known: {facts.unknown['batches']}.")
    proved = " and an audit found each record exactly once" if facts.audit else ""
    caught_up = (
        "It has caught up with Kafka"
        if not facts.lag
        else f"It is {number_of(facts.lag, 'offset')} behind Kafka, no more than one batch"
    )
    yield PipelineVerdict("good", "healthy", f"{caught_up}, no refused record waits{',' if proved else ''}{proved}.")


def _of_audit(facts: Facts) -> Iterator[PipelineVerdict]:
    audit = facts.audit
    if audit and not audit["conserved"]:
        text = ", ".join(f"{audit[name]:,} {name}" for name in ("missing", "duplicated", "unexpected") if audit[name])
        yield PipelineVerdict("bad", "not conserved", f"The audit failed: {text or 'the chain of commits is broken'}.")


def _of_gate(facts: Facts) -> Iterator[PipelineVerdict]:
    results = [{**row, "time": datetime.fromisoformat(row["time"])} for row in facts.gate or ()]
    newest_batch = facts.batches[-1]["sequence"] if facts.batches else 0
    if batch := held.of_results(newest_batch, facts.lag or 0, results):
        broken = ", ".join(batch["broken"][:3])
        yield PipelineVerdict("bad", "held", f"Batch {batch['sequence']} is held: it breaks {broken}.")


def _of_lag(facts: Facts, trigger: Trigger) -> Iterator[PipelineVerdict]:
    if facts.lag is None:
        why = facts.unknown.get("lag") or facts.unknown.get("batches") or "Kafka was not asked"
        yield PipelineVerdict("warn", "lag unknown", f"How far it is behind is not known: {why.partition(': ')[0]}.")
        return
    last = facts.batches[-1]["time"] if facts.batches else None
    since = facts.made - datetime.fromisoformat(last) if last else None
    if facts.lag and (facts.lag > trigger.max_records or since is None or since > _PATIENCE * trigger.every):
        ago = f"; its last commit was {duration(since)} ago" if since is not None else ""
        yield PipelineVerdict("warn", "behind", f"It is behind by {number_of(facts.lag, 'offset')}{ago}.")


def _records(count: int) -> str:
    return f"{count:,} record{' was' if count == 1 else 's were'}"


def duration(time: timedelta) -> str:
    """A time in its largest unit, as in 3 hours."""
    seconds = max(0, int(time.total_seconds()))
    for name, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            count = seconds // size
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{seconds} second{'' if seconds == 1 else 's'}"
