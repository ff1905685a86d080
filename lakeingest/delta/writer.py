"""Commits the batches of one run to the pipeline's tables, and knows what the main table is like by now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakeingest.delta import commit, commit_log, rewrite, table, table_properties
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.history import TableHistory
from lakeingest.delta.partitioning import PartitionColumn
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Account, Receipt
from lakeingest.delta.table import Table
from lakeingest.errors import TableChanged
from lakeingest.record import DELETES, OffsetRanges
from lakeingest.schema.ledger import SchemaLedger
from lakeingest.spark import types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class TableWriter:
    """The two tables as one writer sees them; a run opens one, anew after a failure.

    Attributes:
        columns: the main table's; None while there is no table.
        properties: the main table's.
    """

    def __init__(
        self, tables: PipelineTables, log: CommitLog, columns: StructType | None, refused: CommitLog | None = None
    ) -> None:
        """`log`, `refused`: what the logs of the main table, and of quarantine, say when the writer is opened."""
        self.tables, self.columns = tables, columns
        self.properties: Mapping[str, str] = log.properties
        self._kept_ledger, self._version = log.property_ledger, log.version
        self._last_commit: Commit | None = None
        self._aside = None if refused is None else refused.standing_number
        self._aside_version = None if refused is None else refused.version
        self._seen_aside = 0 if refused is None else refused.last_sequence

    @property
    def version(self) -> int | None:
        """The main table's newest version that this writer has seen; None before its first commit to a new table."""
        return self._version

    def ensure(
        self,
        columns: StructType,
        partitions: Sequence[PartitionColumn],
        ledger: SchemaLedger,
        *,
        dry_run: bool = False,
    ) -> bool:
        """Make the main table if it is missing; whether it was.

        Args:
            ledger: the ledger of schemas that a new table keeps.
            dry_run: take a table that is missing for made, and write nothing.
        """
        if self.columns is not None:
            return False
        config, main = self.tables.config, self.tables.main
        unread = table_properties.unread({}, columns, [each.name for each in partitions], config)
        properties = table_properties.of_config(config, ledger) | unread
        if dry_run:
            self.columns, self.properties = table.with_partitions(columns, partitions), properties
            return True
        self.columns = main.create(columns, partitions, properties)
        self.properties = main.properties()
        self._kept_ledger = table_properties.ledger(self.properties, config.known_as)
        return True

    def columns_after(self, rows: StructType) -> StructType:
        """The main table's columns as they are once rows with these have been appended."""
        assert self.columns is not None
        return types.widened(self.columns, rows, adds=True)

    def describe(self, target: StructType, comment: str | None = None) -> None:
        """Give the main table's columns the comments of `target`, and the table this one, where it has others.

        A column that is wanted without a comment keeps the one that somebody gave it.
        """
        assert self.columns is not None
        main = self.tables.main
        if comment is not None:
            main.comment(comment)
        if new := types.new_comments(self.columns, target):
            main.comment_columns(new)
            self.columns = main.read().schema

    def commit_rows(
        self,
        rows: DataFrame,
        receipt: Receipt,
        ledger: SchemaLedger,
        loosened: Sequence[str],
        partitions: Sequence[PartitionColumn],
        *,
        mode: commit.Mode = commit.append,
    ) -> Commit:
        """Commit rows to the main table, with its new columns and the ledger of schemas, all in one.

        1. Columns are widened, and lose NOT NULL, in commits of their own, which come first: of metadata alone, or one
           that writes the rows anew, as schema.widening says. So does what the log may have statistics of.
        2. The rows are committed (see `commit.write`).
        3. The commit is taken for ours only if since the batch was decided nobody restored or deleted the table.

        Args:
            ledger: the ledger as it is with this batch.
            loosened: columns, paths as SQL has them, that may be null from now on.
            partitions: the table's.
            mode: how the table changes.

        Raises:
            TableChanged: somebody restored the table meanwhile.
            TableMismatch: somebody deleted it, or let its name stand for another one.
            Fenced, UnsafeStore, StorageUnreachable, UnknownSchema, UnreadableTime: see `commit.write`.
        """
        assert self.columns is not None
        main, config = self.tables.main, self.tables.config
        self.check_unchanged()
        # 1.
        self.limit_statistics(partitions)
        columns = rows.drop(DELETES).schema
        if types.has_ntz(columns) and not types.has_ntz(self.columns):
            # Delta enables this one by itself for a new table alone.
            main.set_properties({"delta.feature.timestampNtz": "supported"})
        if config.widening == "rewrite":
            altered = rewrite.widen(main, self.columns, columns, partitions, config.table.compression)
        else:
            altered = main.widen(self.columns, columns)
        altered |= main.drop_not_null(loosened)
        # 2.
        evolves = types.has_new_fields(self.columns, columns)
        changed = SchemaLedger() if ledger == self._kept_ledger else ledger
        receipt = replace(receipt, base=self._version, aside=self._aside, ledger=ledger.digest, schemas=changed)
        commit_done = commit.write(main, rows, receipt, config.table.compression, evolve=evolves, mode=mode)
        # 3.
        commit_log.check_deleted(main.identifier, commit_done)
        self.check_not_restored(main, commit_done)
        self._version, self._last_commit = commit_done.version, commit_done
        if evolves or altered:
            self.columns = main.read().schema
        return commit_done

    def set_aside(self, rows: DataFrame, receipt: Receipt, account: Account) -> Commit:
        """Commit rows to quarantine, with the batch's account.

        It has the batch's own number, or the next one, where quarantine's log has seen that number or a later one: then
        Delta would write nothing.

        Raises:
            TableChanged: somebody restored the main table meanwhile, and nothing was written; or quarantine, and the
                next attempt reads again what that took back.
            Fenced, UnsafeStore, StorageUnreachable: see `commit.write`.
        """
        self.check_unchanged()
        table = self.tables.quarantine
        table.check_place()
        if receipt.sequence <= self._seen_aside:
            account = replace(account, settles=account.settles or receipt.sequence)
            receipt = replace(receipt, sequence=self._seen_aside + 1)
        job = replace(receipt.job, accepted={}, gaps=OffsetRanges(()))
        receipt = replace(
            receipt, job=job, account=account, base=self._aside_version, aside=None, ledger="", schemas=SchemaLedger()
        )
        commit_done = commit.write(table, rows, receipt, self.tables.config.table.compression)
        self.check_not_restored(table, commit_done)
        self._aside = self._seen_aside = receipt.sequence
        self._aside_version = commit_done.version
        return commit_done

    def keep(self, ledger: SchemaLedger) -> None:
        """Keep the ledger of schemas, and the partitions, where the clean-up of the log does not take them."""
        config = self.tables.config
        if ledger != self._kept_ledger or table_properties.partitions(self.properties, config.known_as) is None:
            self._set(table_properties.of_config(config, ledger))
            self._kept_ledger = ledger

    def keep_adoption(self, receipt: Receipt | None) -> None:
        """Keep where the pipeline went on in a table that it adopted, if that is its newest commit."""
        config = self.tables.config
        if receipt is None or not receipt.job.adopted:
            return
        target = table_properties.adopted(config.known_as, receipt.job.adopted, receipt.ranges)
        if any(self.properties.get(name) != value for name, value in target.items()):
            self._set(target)

    def limit_statistics(self, partitions: Sequence[PartitionColumn]) -> None:
        """Let the main table's log keep no statistics of what is masked from its next commit on.

        Args:
            partitions: the table's.
        """
        assert self.columns is not None
        names = [each.name for each in partitions]
        self._set(table_properties.unread(self.properties, self.columns, names, self.tables.config))

    def _set(self, properties: Mapping[str, str]) -> None:
        """Set these properties of the main table, in a commit of metadata alone if there are any."""
        if properties:
            self.tables.main.set_properties(properties)
            self.properties = {**self.properties, **properties}

    def promise(self) -> None:
        """Let the main table say the contract of the file, where it says another one."""
        target, outdated = table_properties.outdated(self.properties, self.tables.config)
        if target:
            self.tables.main.set_properties(target)
        if outdated:
            self.tables.main.unset_properties(outdated)
        self.properties = {n: v for n, v in {**self.properties, **target}.items() if n not in outdated}

    def check_unchanged(self) -> None:
        """Notice a RESTORE of the table, or another one of its name, since this writer looked at it: what it is about
        to write was decided before.

        Raises:
            TableChanged: nothing was written; the run begins anew from what the table says now.
            TableMismatch: the name stands for another table; nothing was written.
        """
        main = self.tables.main
        main.check_place()
        # Who renames two tables may leave both at the place where the first one was.
        if self._last_commit is not None and not main.by_path and commit.is_replaced(main, self._last_commit):
            raise main.replaced("another one there")
        if self._version is not None and TableHistory(self.tables.main).restored(self._version):
            raise self._restored_of(main)

    def check_not_restored(self, table: Table, own_commit: Commit) -> None:
        """Notice that somebody restored a table between a commit's decision and the commit itself.

        Raises:
            TableChanged: whatever comes next takes it back.
        """
        if commit_log.over_a_restore(table, own_commit) is not None:
            raise self._restored_of(table)

    def _restored_of(self, table: Table) -> TableChanged:
        name = self.tables.config.name
        return TableChanged(
            f"somebody restored {table} to another version while {name!r} was running",
            cure="run again: what the RESTORE took back is read again",
        )
