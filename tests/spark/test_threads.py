"""One session for all threads."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession

from lakeingest.config import Storage
from lakeingest.spark import session


def test_a_session_is_found_from_any_thread(spark: SparkSession) -> None:
    """An orchestrator's worker goes on with the process's session; nothing of it is started or set anew."""
    found: list[SparkSession] = []
    before = spark.conf.get("spark.app.name")
    worker = threading.Thread(target=lambda: found.append(session.attach(Storage(), "another")))
    worker.start()
    worker.join(60)
    assert found == [spark]
    assert spark.conf.get("spark.app.name") == before
