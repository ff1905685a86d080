"""Refused records get a second chance: what passes today's rules moves from quarantine into the table, exactly once.

1. What a RESTORE, or another replay, left open is mended (`heal.undo`, `replay_marks.settle`).
2. The replay takes its number.
3. The bytes in quarantine are decoded and checked again, as a batch of Kafka's is. Records whose coordinates the table
   has already are left out, so that nothing is ever there twice; so are those that the pipeline's run is to read again.
   Another replay that commits from here on has this number: of two at once one loses.
4. What passes is committed to the table, under a receipt of its own with that number. It is not taken for moved if
   somebody restored the table meanwhile: what comes next takes it back. Then the rows in quarantine are marked: who,
   when, why.

Between the two commits a record is in both tables; `audit` knows that from the receipts, and counts it once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeingest.delta import commit_log, coordinates, quarantine, replay_marks, sealing
from lakeingest.delta.receipt import JobFields, Receipt, of_replay, somebody
from lakeingest.ingest import heal, latest_batch, preflight, version_batch
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.job import Logs
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.record import COORDINATES, NO_RANGES, REFUSED, Frontier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Moved:
    """What a replay did.

    Attributes:
        looked: records that were decoded and checked again.
        moved: those that passed, and are in the table now; in a dry run, those that would be.
        reasons: why the others stay, as `quarantine.reasons` has it.
    """

    looked: int
    moved: int
    reasons: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class ReplayJob:
    """A replay of the refused records for which a condition holds.

    Attributes:
        why: the reason that its receipt and the marks in quarantine name.
        where: a condition over quarantine's columns, in Spark SQL; None for all.
        limit: most records that are looked at; None for all.
        keep: keeps a frame until the replay is over.
    """

    context: RunContext
    why: str
    where: str | None
    limit: int | None
    keep: Callable[[DataFrame], DataFrame]

    def run(self, *, dry_run: bool) -> Moved:
        """Move what passes; in a dry run, only look.

        Raises:
            UsageError: there is no table or quarantine yet, the condition is none, or records would change the table's
                columns.
            Fenced: another replay has taken over.
            TableChanged: somebody restored the table meanwhile; the next job takes the replay back.
        """
        config, tables = self.context.config, self.context.tables
        columns = tables.main.existing().schema
        tables.quarantine.existing()
        tables.ensure_quarantine()
        # 1.
        if dry_run:
            logs = Logs.of_run(tables)
        else:
            logs, undone = heal.undo(tables, lambda: Logs.of_run(tables))
            columns = tables.main.existing().schema if undone else columns
            replay_marks.settle(tables)
        # 2. The number comes before the candidates: whatever another replay commits from now on has it, and is noticed.
        receipt = self._receipt()
        preflight.check_tables(config, logs.run, logs.run_accounts)
        execution = MicroBatchExecution(self.context, columns, logs.run, evolves=False)
        if not dry_run:
            execution.open(logs.run)
        # 3.
        records = self.keep(self._candidates(logs.run.frontier))
        execution.discover_schemas(records, logs.run.last_sequence)
        execution.check_columns()
        batch = execution.plan(strict=False)
        if logs.run.replays and not dry_run:
            # Its writer may have ended before it could do so itself.
            latest_batch.take_out_deleted(execution, logs.run.replays[0].receipt, lambda: batch)
            version_batch.mend_newest(execution, logs.run.replays[0], lambda: batch)
        # Kept, so that each record is decoded once; what is kept is a barrier too (see `batch_plan.observed`).
        decided = self.keep(batch.decide(records))
        accepted, looked = batch.accepted(decided), decided.count()
        rows = quarantine.rows(decided.where(REFUSED), batch.refusals, config.known_as, 0, batch.now)
        reasons = tuple(quarantine.reasons(self.keep(rows.drop("key", "value", "headers")), 1))
        moved = accepted.count()
        # 4.
        if moved and not dry_run:
            if not batch.merges:
                version_batch.commit_rows(execution, accepted, receipt, batch)
            else:
                latest_batch.merge_replayed(execution, accepted, receipt, batch)
            replay_marks.settle(tables)
        return Moved(looked, moved, reasons)

    def _candidates(self, frontier: Frontier) -> DataFrame:
        """Rows of quarantine that may be moved, as `kafka.reader.frame` has records: not discarded, not in the table,
        and behind the pipeline, whose run withdraws the others.

        Raises:
            UsageError: the condition is no condition over quarantine's columns.
        """
        tables = self.context.tables
        rows = replay_marks.rows_where(tables, self.where).where("discarded IS NULL")
        rows = sealing.opened(rows.where(~coordinates.not_before(frontier)), tables.config.quarantine)
        if tables.config.table.upserts:
            # Of these the marks tell alone: what was moved need not be a row.
            rows = quarantine.unmoved(rows)
        existing = tables.main.coordinates(coordinates.extent(rows))
        # A record that was refused, moved, taken back by a RESTORE and refused again may have two rows.
        refused = rows.join(existing, list(COORDINATES), "left_anti").dropDuplicates(list(COORDINATES))
        chosen = refused if self.limit is None else refused.orderBy(*COORDINATES).limit(self.limit)
        return quarantine.as_records(chosen)

    def _receipt(self) -> Receipt:
        tables = self.context.tables
        name = of_replay(tables.config.known_as)
        number = commit_log.numbered(tables.main, commit_log.read(tables.main, name)).last_sequence + 1
        accepted = {"who": somebody(), "why": self.why}
        where = tables.quarantine.identifier
        return Receipt(name, number, self.context.run, "", {}, NO_RANGES, where, JobFields("replay", accepted=accepted))
