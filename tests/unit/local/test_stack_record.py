"""What is known of a stack from its record alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeingest.errors import SetupError
from lakeingest.local import Addresses, running
from lakeingest.local.addresses import ServerRecord, stack_dir, start_of
from lakeingest.local.stack import down, status

ADDRESSES = Addresses("127.0.0.1:1", "http://127.0.0.1:2", "key", "hush", "http://127.0.0.1:3/apis/ccompat/v7")


def test_env_names_what_other_tools_read() -> None:
    """The variables are those of the AWS SDKs, of delta-rs, of Kafka tools and of registry clients."""
    assert ADDRESSES.env() == {
        "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:2",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:2",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "AWS_REGION": "us-east-1",
        "SCHEMA_REGISTRY_URL": "http://127.0.0.1:3/apis/ccompat/v7",
    }


@pytest.mark.parametrize(
    ("pid", "started", "alive"),
    [
        (os.getpid(), start_of(os.getpid()), True),
        (os.getpid(), "1", False),
        (None, None, False),
        (2**22 + 1, None, False),
    ],
    ids=["ours", "another's", "none", "gone"],
)
def test_a_process_is_known_by_pid_and_start(pid: int | None, started: str | None, alive: bool) -> None:
    """A pid that was given to another process is not ours, so it is never signalled."""
    assert ServerRecord("1", {}, pid, started).alive() is alive


def test_where_nothing_ever_ran_all_is_stopped(tmp_path: Path) -> None:
    """Without a record there is no stack: asking and ending are harmless."""
    assert running(tmp_path) is None
    assert {server.state for server in status(tmp_path)} == {"stopped"}
    assert not down(tmp_path, wipe=True)


def test_a_damaged_record_is_told(tmp_path: Path) -> None:
    """A stack.json that someone edited is an error with a cure, not a traceback."""
    stack_dir(tmp_path).mkdir()
    (stack_dir(tmp_path) / "stack.json").write_text("{}")
    with pytest.raises(SetupError, match=r"stack\.json is not readable"):
        running(tmp_path)
