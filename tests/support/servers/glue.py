"""Servers that answer as AWS Glue does, as processes on the loopback: moto, and MiniStack where moto is too lenient."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from support.servers import free_port, python_environments, serving

MINISTACK = "1.5.33"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "eu-west-1"}


@contextmanager
def moto(folder: Path) -> Iterator[str]:
    """Its URL; it takes a change of any version."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with serving(command, port, folder / "moto.log"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def ministack(folder: Path) -> Iterator[str]:
    """Its URL; it keeps Glue's optimistic lock, but nobody's rights. In an environment of its own: it pins botocore."""
    port = free_port()
    env = {**os.environ, "BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "SERVICES": "glue"}
    with serving([installed() / "ministack"], port, folder / "ministack.log", env):
        yield f"http://127.0.0.1:{port}"


def client(url: str) -> Any:
    """Close it."""
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    return boto3.client("glue", endpoint_url=url, region_name=ENVIRONMENT["AWS_REGION"], **keys)


def installed() -> Path:
    """The folder of MiniStack's programs."""
    try:
        return python_environments.python(f"ministack-{MINISTACK}", f"ministack=={MINISTACK}").parent
    except subprocess.CalledProcessError as failed:
        pytest.skip(f"MiniStack {MINISTACK} cannot be installed here: {failed.stderr.strip()[-200:]}")


def enforce_rights(url: str) -> None:
    """Let moto ask IAM from now on."""
    request = urllib.request.Request(f"{url}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"}, method="POST")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200
