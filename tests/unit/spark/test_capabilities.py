"""What is concluded from a session's settings; the session is a small one of the tests' own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from lakeingest.errors import SetupError
from lakeingest.spark import jvm
from lakeingest.spark.platforms import capabilities
from lakeingest.spark.platforms.capabilities import Capabilities

TAG = "spark.databricks.clusterUsageTags.sparkVersion"


class Conf:
    """Settings, some of which the platform neither tells nor lets be set."""

    def __init__(self, known: dict[str, str], closed: bool = False) -> None:
        self.known, self.closed = known, closed

    def get(self, name: str, default: str | None) -> str | None:
        if self.closed and name not in self.known:
            raise PySparkException("[CONFIG_NOT_AVAILABLE]")
        return self.known.get(name, default)

    def set(self, name: str, value: str) -> None:
        if self.closed and name not in self.known:
            raise PySparkException("[CONFIG_NOT_AVAILABLE]")
        self.known[name] = value


class Session(SimpleNamespace):
    """Of Spark's own classes; `Remote` of Spark Connect's."""


class Remote(Session):
    __module__ = "pyspark.sql.connect.session"


def can(kind: type[Session] = Session, *, closed: bool = False, **more: Any) -> Capabilities:
    return Capabilities(kind(conf=Conf(more.pop("conf", {}), closed), version="4.0.0", **more))  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ["3.5.3", "3.5.2-amzn-0", "2.4.8"])
def test_an_old_spark_is_refused(version: str) -> None:
    with pytest.raises(SetupError, match=rf"this is Spark {version}, and lakeingest needs Spark 4.0 or newer"):
        capabilities.refuse_old(version)


@pytest.mark.parametrize("version", ["4.0.0", "4.0.2-amzn-1", "4.1.1", "5.0.0-preview1", "10.2"])
def test_a_newer_one_is_not(version: str) -> None:
    capabilities.refuse_old(version)


def test_a_session_of_ones_own() -> None:
    """It can do everything; its master says what it runs on."""
    found = can(conf={"spark.master": "yarn", "spark.delta.logStore.s3a.impl": jvm.LOG_STORE})
    assert (found.siblings, found.keeps_frames, found.own_functions, found.platform) == (True, True, True, "yarn")
    assert found.kafka_package == "org.apache.kafka"


def test_spark_connect() -> None:
    """No second session beside it; what it has of our jar is for its owner to say."""
    found = can(Remote)
    assert (found.siblings, found.keeps_frames, found.own_functions) == (False, True, False)
    assert found.platform == "Spark Connect"


def test_databricks(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a setting on classic compute, by the environment on serverless, where settings are not told."""
    classic = can(conf={TAG: "17.3"})
    assert (classic.platform, classic.siblings, classic.keeps_frames) == ("Databricks", False, True)
    assert not can(Remote, closed=True).databricks
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "client.4.2")
    serverless = can(Remote, closed=True)
    assert (serverless.platform, serverless.keeps_frames) == ("Databricks", False)
    assert serverless.kafka_package == "kafkashaded.org.apache.kafka"


def test_what_may_not_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Databricks' refusal is taken as it is; anybody else's is told."""
    with pytest.raises(PySparkException):
        can(Remote, closed=True).set("spark.sql.x", "1")
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "client.4.2")
    can(Remote, closed=True).set("spark.sql.x", "1")


def test_utc() -> None:
    """A session in UTC is taken as it is; of another a copy is made, and Spark Connect's of 4.0 cannot be copied.

    A classic one's is in test_session.py.
    """
    for zone in ("UTC", "Etc/UTC"):
        there = can(conf={"spark.sql.session.timeZone": zone})
        assert there.in_utc() is there.session
    copy = SimpleNamespace(conf=Conf({}))
    remote = can(Remote, conf={"spark.sql.session.timeZone": "Asia/Tokyo"}, cloneSession=lambda: copy)
    assert remote.in_utc() is copy
    assert copy.conf.known == {"spark.sql.session.timeZone": "UTC"}
    with pytest.raises(SetupError, match=r"time zone Asia/Tokyo, and Spark 4\.0\.0 cannot copy it"):
        can(Remote, conf={"spark.sql.session.timeZone": "Asia/Tokyo"}).in_utc()
