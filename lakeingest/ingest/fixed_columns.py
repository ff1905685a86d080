"""A job that must not change the table's columns notices what would change them: that is the run's to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeingest.delta.commit_log import CommitLog
from lakeingest.errors import UsageError
from lakeingest.ingest.evolution import Evolution
from lakeingest.spark import types

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class FixedColumns:
    """The table's columns, as such a job has met them.

    Args:
        evolution: the schemas that are known when the job begins.
    """

    def __init__(self, evolution: Evolution) -> None:
        self._evolution, self._schema = evolution, evolution.ledger.current

    def check_declared(self, log: CommitLog, columns: StructType) -> None:
        """Notice that the file declares columns that the table does not have yet.

        Args:
            log: what the pipeline committed to the table.
            columns: the table's.

        Raises:
            UsageError: it does.
        """
        if self._evolution.declares and not self._only_forgotten(log, columns):
            raise UsageError(
                "the pipeline file declares columns that the table does not have yet: "
                + ", ".join(self._evolution.ledger.entries[-1].changes),
                cure="run the pipeline first, which changes the table (`lakeingest run FILE --until-caught-up`)",
            )

    def _only_forgotten(self, log: CommitLog, columns: StructType) -> bool:
        """Whether the table has what the file declares, and no log tells so: a RESTORE to the beginning took the
        ledger.
        """
        if log.newest is not None or log.schemas.entries:
            return False
        target = self._evolution.shape(columns, strict=False).table
        wider = any(types.widenings(columns, target))
        return not (types.has_new_fields(columns, target) or wider or self._evolution.loosened(columns, target))

    def check_unchanged(self) -> None:
        """Notice that the records which were looked at since the job began would change the table's columns.

        Raises:
            UsageError: they would.
        """
        ledger = self._evolution.ledger
        if ledger.current == self._schema:
            return
        newest = [entry for entry in ledger.entries if entry.action == "evolve"][-1]
        schema_name = f"{newest.subject} version {newest.version}" if newest.subject else "their fields"
        raise UsageError(
            f"records bring a schema that would change the table ({schema_name}): {', '.join(newest.changes)}",
            cure="let the pipeline's own run change the table first: by a record with that schema or, where the "
            "file declares the columns, by declaring them; then call this again, which goes on from here",
        )
