"""What a session can do. Nowhere else is asked on which platform it runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from lakeingest.errors import SetupError
from lakeingest.schema import ddl
from lakeingest.spark import jvm
from lakeingest.spark.settings import UTC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST = (4, 0)
"""The oldest Spark with `is_valid_utf8` and VARIANT, without which records cannot be decided."""


@dataclass(frozen=True)
class Capabilities:
    """What a session can do, found from its settings; nothing is started for it.

    Attributes:
        session: the session that is asked.
    """

    session: SparkSession

    @property
    def version(self) -> str:
        """Of the Spark that computes; over Spark Connect that of the server."""
        return self.session.version

    @property
    def platform(self) -> str:
        """What the session runs on, in a word for people."""
        if self.databricks:
            return "Databricks"
        return "Spark Connect" if self.connect else self.setting("spark.master") or "Spark"

    @cached_property
    def connect(self) -> bool:
        """Whether this process talks to a Spark Connect server, and has no JVM of its own."""
        return type(self.session).__module__.startswith("pyspark.sql.connect")

    @cached_property
    def databricks(self) -> bool:
        """Whether it is one of Databricks', whose Delta and whose commits are others."""
        # Of its settings, the first is there everywhere but on serverless compute, the second in each of its notebooks.
        tag = self.setting("spark.databricks.clusterUsageTags.sparkVersion")
        return tag is not None or "DATABRICKS_RUNTIME_VERSION" in os.environ

    @property
    def siblings(self) -> bool:
        """Whether a second session can compute beside it, on another thread, with settings of its own."""
        return not (self.connect or self.databricks)

    @property
    def keeps_frames(self) -> bool:
        """Whether it can persist a frame; Databricks cannot where it is Spark Connect (serverless, shared clusters)."""
        return not (self.connect and self.databricks)

    @property
    def own_functions(self) -> bool:
        """Whether its executors have lakeingest's jar: its owner has then named the log store that is in it."""
        return self.setting("spark.delta.logStore.s3a.impl") == jvm.LOG_STORE

    @property
    def kafka_package(self) -> str:
        """The package of Kafka's client; Databricks has renamed its own (docs.databricks.com, "Kafka
        authentication").
        """
        return "kafkashaded.org.apache.kafka" if self.databricks else "org.apache.kafka"

    @property
    def msk_package(self) -> str:
        """The package of MSK's login; Databricks has its own copy of it, renamed otherwise (same page)."""
        return "shadedmskiam.software.amazon.msk" if self.databricks else "software.amazon.msk"

    def remembers(self, table: str) -> bool:
        """Whether the catalog of a table's name keeps it when the session ends."""
        catalog, _, rest = table.partition(".")
        own_catalog = (
            "." in rest and catalog != "spark_catalog" and self.setting(f"spark.sql.catalog.{catalog}") is not None
        )
        return (
            own_catalog or self.databricks or self.connect or self.setting("spark.sql.catalogImplementation") == "hive"
        )

    def setting(self, name: str) -> str | None:
        """What the session is set to; None also where its platform does not tell."""
        from pyspark.errors import PySparkException

        try:
            return self.session.conf.get(name, None)
        except PySparkException:
            # Databricks' serverless compute knows few settings, and refuses to be asked for others.
            return None

    def hadoop_setting(self, name: str) -> str | None:
        """An option of Hadoop, as the session's own settings or the platform's files (core-site.xml) have it; over
        Spark Connect the session's own alone.
        """
        of_session = self.setting(f"spark.hadoop.{name}")
        if of_session is not None or self.connect:
            return of_session
        # Only Java reads the platform's files.
        value: str | None = self.session._jsc.hadoopConfiguration().get(name)
        return value

    def set(self, name: str, value: str) -> None:
        """Set what only makes the session quicker or quieter, where its platform lets it be set."""
        from pyspark.errors import PySparkException

        try:
            self.session.conf.set(name, value)
        except PySparkException:
            # Databricks' serverless compute lets a few settings be set, and refuses the others.
            if not self.databricks:
                raise

    def sibling(self) -> SparkSession:
        """A second session beside it, with the same settings, in which the name of a table means the same; see
        `siblings`.
        """
        sibling = self.session.newSession()
        preset = sibling.conf.getAll
        for name, value in self.session.conf.getAll.items():
            if preset.get(name) != value:
                sibling.conf.set(name, value)
        current = self.session.catalog.currentCatalog()
        # The first statement of a process takes half a second.
        if sibling.catalog.currentCatalog() != current:
            # As a text: Spark 4.2 takes a name for a column's where the catalog is Hive's.
            sibling.sql(f"SET CATALOG {ddl.text(current)}")
        return sibling

    def in_utc(self) -> SparkSession:
        """The session, or where it has another time zone a copy of it in UTC.

        Raises:
            SetupError: it has another zone, and no copy can be had (Spark Connect before Spark 4.1).
        """
        if self.setting(UTC) in {"UTC", "Etc/UTC"}:
            return self.session
        if not self.connect:
            copy = self.sibling()
        elif hasattr(self.session, "cloneSession"):
            copy = self.session.cloneSession()
        else:
            raise SetupError(
                f"this Spark Connect session has the time zone {self.setting(UTC)}, and Spark "
                f"{self.version} cannot copy it",
                cure=f'set it to UTC: spark.conf.set("{UTC}", "UTC")',
            )
        copy.conf.set(UTC, "UTC")
        return copy


@lru_cache(maxsize=8)
def of(session: SparkSession) -> Capabilities:
    """What this session can do; a server is asked for its version and its platform once, not in every batch.

    Raises:
        SetupError: its Spark is older than lakeingest can use.
    """
    refuse_old(session.version)
    return Capabilities(session)


def refuse_old(version: str) -> None:
    """Raises:
    SetupError: this version of Spark is older than lakeingest can use.
    """
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        raise SetupError(
            f"this is Spark {version}, and lakeingest needs Spark {'.'.join(map(str, OLDEST))} or newer: "
            "older ones cannot tell broken texts",
            cure="use Databricks Runtime 17.3 LTS or newer, an EMR release with Spark 4, or pip install "
            "'lakeingest[spark]'",
        )
