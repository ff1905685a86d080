"""A Spark Connect server that $SPARK_REMOTE names."""

from __future__ import annotations

import pytest
from support.servers import free_port

from lakeingest.errors import SetupError
from lakeingest.spark.platforms import connect


def test_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    assert connect.session() is None


@pytest.mark.parametrize("remote", ["sc://127.0.0.1:{port}", "sc://127.0.0.1:{port}/;user_id=me", "sc://"])
def test_a_server_that_is_not_there_is_told_at_once(monkeypatch: pytest.MonkeyPatch, remote: str) -> None:
    """pyspark itself would try again for minutes."""
    monkeypatch.setenv("SPARK_REMOTE", remote.format(port=free_port()))
    monkeypatch.setattr(connect, "_PORT", free_port())
    with pytest.raises(SetupError, match="which \\$SPARK_REMOTE names, cannot be reached"):
        connect.session()
