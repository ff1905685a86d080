"""What an audit found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeingest.errors import LakeingestError, NotConserved, number_of
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import Showable
from lakeingest.operations.results.words import drops, ties


@dataclass(frozen=True, repr=False)
class Report(Showable):
    """What an audit found, in records unless it says offsets. Its listings: balance, wrong, left_out, others.

    Attributes:
        consumed: records that the log says were consumed: table + quarantine + dropped, if all is well.
        table, quarantine: records that are there, within the consumed offsets.
        dropped: declared drops: tombstones under on_null: ignore, and what transform.where leaves out.
        left_out: the latter by the condition that they did not meet, or by what they are: name → records.
        missing: consumed, and nowhere.
        duplicated: rows too many: in one table twice, or in both.
        unexpected: rows of these topics at offsets that the log never consumed.
        gaps: offsets that hold no record (compaction, transaction markers).
        lost: offsets that Kafka had deleted unread, and whose loss was accepted (`run --accept-gap`).
        unproved: offsets in neither table of commits whose counts went with the clean-up of quarantine's log.
        earlier: rows that were committed before the oldest receipt which the table's log still has: proved while they
            were younger (30 days by default), and not any more. Of a table that was adopted, those that it had then:
            they were never proved.
        adopted: what its adoption said; empty where the table was not adopted (see `JobFields.adopted`).
        commits: how many commits of the pipeline's own were audited.
        backfills: how many commits of backfills were.
        backfilled: of the records consumed, those that backfills did.
        others: other pipelines that have written records of these topics to the table: name → their newest batch. What
            both have consumed is there twice.
        breaks: ranges of offsets that the chain of commits jumps over or takes twice.
        named: coordinates of the first 20 of each kind that is not as it should be.
        deleted: who else took rows of the tables away, or may have: table, version, operation, who, when and rows; told
            where records are missing.
        removed: records that were consumed and are no rows any more since they were taken out: forgotten, expired, or
            deleted by somebody, which was accepted → how many (see `delta.removals`).
        returned: records that were forgotten, and are rows.
        accepted: the deletes of others that were accepted just now (`audit --accept-deletes`), and what each took.
        summed: how many commits were held against the sums of their batches' coordinates (see "How exactly once
            works"); those of an older version have none, nor has the newest one, as a rule.
        altered: batches whose sums differ: other rows were committed than their offsets, or are there now.
        superseded: of mode upsert: accepted records that are no row any more, or never were: an older one than another
            of its key, or one that deletes a row, or whose row was deleted.
        ties: of mode upsert: how often a batch brought two latest records of a key, of two partitions and with the same
            order: the partition's number decided; at least. Where the keys were compared with the records: of how many
            keys the two latest records are such.
        against: what each key of a table of mode upsert was compared with (`audit --against`); empty where it was not.
        keys_compared, keys_beyond: how many keys were; and how many not, as their records are there no more.
        files_by_log: how many of the table's files were not read, as the log tells their rows for certain. That they
            still contain what was written is not proved, beyond their sizes (`audit --deep` reads them).
        files_read: how many were read; None for all.
        frontier: topic-partition → the first offset that was not consumed yet.
        begins: topic-partition → the first offset of which the table's log still tells.
        batches: the versions of the commits whose sums are those of their offsets, as the logs alone tell.
        verdict: the number of the verdict that was kept of this audit (`audit --since`); 0 for none.
        proved_by: the earlier verdict that has proved the rows which are `earlier`: its number (`verdict`), when it was
            made (`at`), and how many `rows` both tables had then; empty for none.
    """

    pipeline: str
    consumed: int
    table: int
    quarantine: int
    dropped: int
    left_out: dict[str, int]
    missing: int
    duplicated: int
    unexpected: int
    gaps: int
    lost: int
    unproved: int
    earlier: int
    commits: int
    backfills: int = 0
    backfilled: int = 0
    others: dict[str, int] = field(default_factory=dict)
    adopted: dict[str, Any] = field(default_factory=dict)
    breaks: tuple[str, ...] = ()
    named: dict[str, list[str]] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()
    removed: dict[str, int] = field(default_factory=dict)
    returned: int = 0
    accepted: dict[str, int] = field(default_factory=dict)
    summed: int = 0
    altered: tuple[str, ...] = ()
    superseded: int = 0
    ties: int = 0
    against: str = ""
    keys_compared: int = 0
    keys_beyond: int = 0
    files_by_log: int = 0
    files_read: int | None = None
    frontier: dict[str, int] = field(default_factory=dict)
    begins: dict[str, int] = field(default_factory=dict)
    batches: tuple[int, ...] = ()
    verdict: int = 0
    proved_by: dict[str, Any] = field(default_factory=dict)

    @property
    def conserved(self) -> bool:
        """Whether the proof holds; without a receipt there is none for the rows that are there."""
        wrong = self.missing or self.duplicated or self.unexpected or self.breaks or self.altered or self.returned
        return not wrong and bool(self.commits or not self.earlier)

    @property
    def _balance(self) -> str:
        superseded = f" + {self.superseded:,} superseded" if self.superseded else ""
        removed = "".join(f" + {count:,} {reason}" for reason, count in self.removed.items() if count)
        return (
            f"{self.table:,} in the table{superseded} + {self.quarantine:,} in quarantine + {self.dropped:,} dropped"
            f"{removed}"
        )

    @property
    def headline(self) -> str:
        sum_ = f"{self.consumed:,} consumed = {self._balance}"
        if self.conserved:
            return f"{self.pipeline}: conserved, {sum_}"
        if not self.commits:
            return f"{self.pipeline}: nothing is proved, the table's log has no receipt left; {sum_}"
        wrong = f"{self.missing:,} missing, {self.duplicated:,} duplicated, {self.unexpected:,} unexpected"
        first = "".join(f"; {each['kind']}: {each['where']}" for each in self.listings["wrong"][:3])
        return f"{self.pipeline}: NOT conserved, {wrong}; {sum_}{first}"

    @property
    def _places(self) -> list[tuple[str, str]]:
        return [(kind, place) for kind, places in self.named.items() for place in places]

    @property
    def _wrong(self) -> list[tuple[str, str]]:
        kinds = {"break": self.breaks, "altered": self.altered, "returned": self._returned}
        return [*((kind, each) for kind, places in kinds.items() for each in places), *self._places]

    @property
    def _returned(self) -> tuple[str, ...]:
        is_are = f"{number_of(self.returned, 'record')} that {'was' if self.returned == 1 else 'were'} forgotten"
        return (f"{is_are} {'is a row' if self.returned == 1 else 'are rows'}",) if self.returned else ()

    @property
    def listings(self) -> Mapping[str, Listing]:
        always = ("consumed", "table", "quarantine", "dropped", "missing", "duplicated")
        rarely = ("superseded", "backfilled", "unexpected", "gaps", "lost", "unproved", "earlier")
        names = [*always, *(name for name in rarely if getattr(self, name))]
        return {
            "balance": [
                *({"what": name, "records": getattr(self, name)} for name in names),
                *({"what": reason, "records": count} for reason, count in self.removed.items() if count),
            ],
            "wrong": [{"kind": kind, "where": where} for kind, where in self._wrong],
            "left_out": [{"condition": name, "records": count} for name, count in self.left_out.items()],
            "others": [{"pipeline": name, "newest batch": batch} for name, batch in self.others.items()],
        }

    def to_json(self) -> dict[str, Any]:
        return {"conserved": self.conserved, **vars(self), "batches": len(self.batches)}

    @property
    def text(self) -> Iterator[str]:
        yield f"{self.pipeline}: {number_of(self.consumed, 'record')} consumed in {number_of(self.commits, 'commit')}"
        yield f"  {self._balance}; {self.missing:,} missing, {self.duplicated:,} duplicated"
        for deletion, count in self.accepted.items():
            yield f"  accepted: {deletion}: {number_of(count, 'record')}"
        if self.backfills:
            yield f"  {self.backfilled:,} of them by backfills, in {number_of(self.backfills, 'commit')} more"
        if self.left_out:
            yield f"  dropped: {drops(self.dropped, self.left_out)}"
        for place in self.named.get("lost", []):
            yield f"  lost with consent, because Kafka had deleted them unread: {place}"
        if self.gaps:
            yield f"  {number_of(self.gaps, 'offset')} without a record (compaction, transaction markers)"
        if self.ties:
            yield f"  {ties(self.ties)}"
        if self.against:
            beyond = f"; {self.keys_beyond:,} not, whose records are there no more" if self.keys_beyond else ""
            yield f"  {number_of(self.keys_compared, 'key')} compared with {self.against}{beyond}"
        yield from self._not_proved()
        if self.conserved:
            latest = "the table has the latest row of each key, and no record is unaccounted for"
            yield f"  conserved: {latest if self.superseded else 'every record is there, exactly once'}"
        if self.verdict:
            yield f"  kept as verdict {self.verdict} beside the table"
        for name, batch in self.others.items():
            yield f"  pipeline {name!r} has written records of these topics to the table too, up to its batch {batch}"

    def _not_proved(self) -> Iterator[str]:
        if self.files_by_log:
            read = f"{number_of(self.files_read or 0, 'file')} read"
            yield f"  {read}; {self.files_by_log:,} proved by the log, whose contents were not read: --deep reads all"
        if self.unproved:
            offsets = number_of(self.unproved, "offset")
            yield f"  {offsets}, in neither table, cannot be proved: quarantine's log was cleaned up"
        if self.earlier and self.adopted:
            how, version, rows = (self.adopted[name] for name in ("how", "version", "rows"))
            yield (
                f"  {number_of(self.earlier, 'row')} from before, not proved: the table was adopted, by {how} (it was "
                f"looked at in version {version}, and had {number_of(rows, 'row')})"
            )
        elif self.proved_by:
            number, at, rows = (self.proved_by[name] for name in ("verdict", "at", "rows"))
            yield (
                f"  {number_of(self.earlier, 'row')}, older than the log's receipts, were proved by verdict {number} "
                f"of {at}, which counted {number_of(rows, 'row')}"
            )
        elif self.earlier:
            yield f"  {number_of(self.earlier, 'row')}, older than the log's receipts, cannot be proved any more"

    @property
    def failure(self) -> LakeingestError | None:
        names = ", ".join(map(repr, self.others))
        if self.others and not self.commits:
            return NotConserved(
                f"{self.pipeline} has committed nothing to the table, and pipeline {names} has, from the same topics",
                cure=f"if {names} was this pipeline's name before, write it as renamed_from beneath name in the file; "
                "else give this one a table of its own",
            )
        if self.earlier and not self.commits:
            return NotConserved(
                f"{self.pipeline}: the table's log has no receipt left, so that nothing is proved of its rows",
                cure="let the pipeline run: what it commits from now on is proved; and let the log be kept for longer: "
                "ALTER TABLE … SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 365 days')",
            )
        return None if self.conserved else self._broken(names)

    def _broken(self, names: str) -> NotConserved:
        places = (f"{kind}: {place}" for kind, place in self._places)
        lines = "".join(
            f"\n  {line}" for line in (*self.breaks, *self.altered, *self._returned, *places, *self.deleted)
        )
        also = f"; pipeline {names} has written to the table too" if names else ""
        back = (
            "if rows were deleted on purpose, declare it: `lakeingest audit FILE --accept-deletes WHY`; if by mistake, "
            "RESTORE that table to the version before (which brings back everybody who was deleted since) and run "
            "again: the run reads again what the RESTORE takes back, while Kafka has it; "
        )
        once_more = (
            "what was forgotten is taken out by the same `lakeingest forget`, once more; " if self.returned else ""
        )
        return NotConserved(
            f"{self.pipeline}: {self.missing} missing, {self.duplicated} duplicated, "
            f"{self.unexpected} unexpected{also}{lines}",
            cure=once_more
            + (back if self.deleted else "")
            + "if a run or a backfill is under way or was killed, let it finish (`lakeingest run FILE "
            "--until-caught-up`, `lakeingest backfill FILE`) and audit again; else somebody changed the tables: see "
            "their history",
        )
