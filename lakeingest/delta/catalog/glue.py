"""Keeps the entry of a table in AWS Glue's Data Catalog, under Glue's optimistic lock (see `glue_entry`)."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from lakeingest.config import Storage
from lakeingest.delta.catalog import glue_entry
from lakeingest.delta.catalog.glue_entry import Entry
from lakeingest.errors import CatalogUnreachable, SetupError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_ATTEMPTS = 5
_NEVER = "999999999"
"""A version that no entry has."""


@dataclass(frozen=True)
class GlueCatalog:
    """The entry of one table.

    Attributes:
        name: database.table.
        path: where the table lies.
        storage: its region and keys, where boto3 finds none by itself.

    Raises:
        SetupError: boto3 is not installed.
        CatalogUnreachable: from every method, where Glue does not answer or refuses.
    """

    name: str
    path: str
    storage: Storage

    @property
    def database(self) -> str:
        return self.name.partition(".")[0]

    @property
    def table(self) -> str:
        return self.name.partition(".")[2]

    def update(self, columns: StructType, comment: str | None) -> bool:
        """Let the entry have these columns; whether it had to change.

        An entry that others change at the same time is looked at again, five times at most: Glue takes a change of the
        version alone that was read.

        Raises:
            TableMismatch: the entry is another table's; nothing was written.
        """
        target = glue_entry.entry(self.table, self.path, columns, comment)
        with self._client() as glue:
            input_members = glue.meta.service_model.shape_for("TableInput").members
            for attempt in range(_ATTEMPTS):
                time.sleep(random.uniform(0, 0.2) * attempt)
                entry = self._get(glue)
                if entry is None:
                    if self._create(glue, target):
                        return True
                    continue
                glue_entry.check(self.name, entry, target)
                after = glue_entry.merged(target, entry, input_members)
                if after is None:
                    return False
                if self._replace(glue, after, entry.get("VersionId")):
                    return True
        raise CatalogUnreachable(
            f"others changed {self.name} in Glue each of the {_ATTEMPTS} times that it was to be updated",
            cure="the next batch tries again; look who writes to it: a crawler on the same table is not needed",
        )

    def look(self, columns: StructType | None) -> str:
        """What there is, as a sentence; nothing is changed.

        Args:
            columns: the table's; None if there is no table yet.

        Raises:
            TableMismatch: the entry is another table's.
        """
        with self._client() as glue:
            try:
                glue.get_database(Name=self.database)
            except glue.exceptions.EntityNotFoundException:
                return f"{self.name} is not in Glue yet, nor its database; the next run makes both"
            entry = self._get(glue)
            if entry is None:
                return f"{self.name} is not in Glue yet; the next run makes it"
            input_members = glue.meta.service_model.shape_for("TableInput").members
            target = glue_entry.entry(self.table, self.path, columns or T.StructType(), None)
            glue_entry.check(self.name, entry, target)
            # As it is, and under a version that it has not: only who may change it is told that.
            self._replace(glue, glue_entry.as_input(entry, input_members), _NEVER)
            behind = columns is not None and glue_entry.merged(target, entry, input_members) is not None
        state = "is behind the table, until the next run" if behind else "is there"
        return f"{self.name} {state}, and may be changed"

    def _get(self, glue: Any) -> Entry | None:
        try:
            entry: Entry = glue.get_table(DatabaseName=self.database, Name=self.table)["Table"]
        except glue.exceptions.EntityNotFoundException:
            return None
        return entry

    def _create(self, glue: Any, target: Entry) -> bool:
        """Whether it was: not where the database had to be made first, or somebody else was quicker."""
        try:
            glue.create_table(DatabaseName=self.database, TableInput=target)
        except glue.exceptions.AlreadyExistsException:
            return False
        except glue.exceptions.EntityNotFoundException:
            with suppress(glue.exceptions.AlreadyExistsException):
                glue.create_database(DatabaseInput={"Name": self.database})
            return False
        return True

    def _replace(self, glue: Any, after: Entry, version: str | None) -> bool:
        """Whether it was: not where the entry has another version by now, or is gone."""
        at = {} if version is None else {"VersionId": version}
        try:
            # Else Glue would keep every version that there ever was, up to a quota.
            glue.update_table(DatabaseName=self.database, TableInput=after, SkipArchive=True, **at)
        except (glue.exceptions.ConcurrentModificationException, glue.exceptions.EntityNotFoundException):
            return False
        return True

    @contextmanager
    def _client(self) -> Iterator[Any]:
        """A client for the block, which says what a failure means.

        Region, keys and endpoint are what boto3 finds (AWS_REGION, AWS_ENDPOINT_URL_GLUE, a profile, the machine's
        role), else those of `storage`.
        """
        try:
            import boto3
        except ImportError:
            cure = "pip install 'lakeingest[glue]'"
            raise SetupError("boto3 is not installed, which table.catalog glue needs", cure=cure) from None
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        patience = Config(connect_timeout=3, read_timeout=10, retries={"total_max_attempts": 2, "mode": "standard"})
        try:
            session = boto3.Session()
            keys = {} if session.get_credentials() else self.storage.aws_keys
            # boto3 itself looks at AWS_DEFAULT_REGION alone.
            region = os.environ.get("AWS_REGION") or session.region_name or self.storage.region
            with closing(session.client("glue", region_name=region, config=patience, **keys)) as glue:
                yield glue
        except ClientError as refused:
            raise CatalogUnreachable(
                f"Glue refuses what {self.name} needs: {refused}",
                cure="allow glue:GetDatabase, GetTable, CreateTable and UpdateTable on catalog, database and table, "
                "and glue:CreateDatabase where it is missing (with Lake Formation its own rights too)",
            ) from refused
        except (BotoCoreError, ResponseParserError, ValueError) as failed:
            # A ValueError is an endpoint that is no URL.
            raise CatalogUnreachable(
                f"Glue cannot be asked for {self.name}: {failed}",
                cure="look at AWS_REGION (or storage.region), at the keys, and at the network to Glue's endpoint",
            ) from failed
