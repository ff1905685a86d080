"""Servers and tools as processes of the tests' own, and clients of the stack's."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from lakeingest.local import Addresses
from lakeingest.local.server import free_ports, listens


def free_port() -> int:
    return free_ports(["one"], {}, set())["one"]


@contextmanager
def serving(
    command: Sequence[str | Path], port: int, log: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that listens on a port of the loopback; it ends with the block.

    It fails with the end of the log if the process ends before it listens, or after two minutes.

    Args:
        log: where its output goes; its folder is where it works.
        env: its environment; this process's own by default.
    """
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=log.parent, env=env)
    try:
        deadline = time.monotonic() + 120
        while not listens(port):
            said = log.read_text(errors="replace")[-2000:]
            assert process.poll() is None, said
            assert time.monotonic() < deadline, f"nothing listens at {port}: {said}"
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait(60)


def s3_client(stack: Addresses) -> Any:
    """A client for the stack's store; close it."""
    keys = {"aws_access_key_id": stack.s3_access_key, "aws_secret_access_key": stack.s3_secret_key}
    return boto3.client("s3", endpoint_url=stack.s3, region_name="us-east-1", **keys)
