"""The tables' entries in a catalog, as a run keeps it up to date.

An entry is made from the table alone, so that a run which was killed behind a commit is caught up by the next one. It
is no part of what a run promises: a catalog that fails is told, and asked again after the next batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lakeingest.delta import quarantine
from lakeingest.delta.catalog import spark
from lakeingest.delta.catalog.glue import GlueCatalog
from lakeingest.delta.table import Table
from lakeingest.errors import LakeingestError
from lakeingest.ingest import endpoints
from lakeingest.ingest.attempt import Attempt
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.events import CatalogUpdate

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class CatalogEntry:
    """Follows the columns of a run's tables that lie at paths and have names."""

    def __init__(self, context: RunContext, tell: Callable[[CatalogUpdate], None]) -> None:
        self._context, self._tell = context, tell
        self._holds: StructType | None = None
        self._failures: dict[str, str] = {}

    def begin(self, attempt: Attempt) -> None:
        """See `follow`."""
        self.follow(attempt)

    def follow(self, attempt: Attempt) -> None:
        """Bring the entry up to date if the columns are others than at the last time that it went well."""
        config, tables, columns = self._context.config, self._context.tables, attempt.columns
        if columns is None or columns == self._holds:
            return
        # What has no path is the catalog's own table.
        if config.table.name and config.table.path:
            self._follow(tables.main, config.table.name, columns, config.comment)
        if config.quarantine.name and config.quarantine.path:
            self._follow(tables.quarantine, config.quarantine.name, quarantine.schema(), None)
        self._holds = None if self._failures else columns

    def _follow(self, table: Table, name: str, columns: StructType, comment: str | None) -> None:
        last_failure = self._failures.pop(name, "")
        try:
            if self._update(table, name, columns, comment) or last_failure:
                self._tell(CatalogUpdate(name))
        except LakeingestError as failure:
            if str(failure) != last_failure:
                self._tell(CatalogUpdate(name, failure))
            self._failures[name] = str(failure)

    def _update(self, table: Table, name: str, columns: StructType, comment: str | None) -> bool:
        """Whether the entry had to change."""
        if self._context.config.table.catalog == "glue":
            _, storage = endpoints.addresses(self._context.config)
            return GlueCatalog(name, table.identifier, storage).update(columns, comment)
        spark.register(table, name)
        return False
