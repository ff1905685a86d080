"""Servers that answer as AWS Glue does, as processes on the loopback: moto, and MiniStack where moto is too lenient."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from servers import free_port, wait_for_port

from lakeingest.local import artifacts

MINISTACK = "1.5.33"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "eu-west-1"}


@contextmanager
def moto(folder: Path) -> Iterator[str]:
    """Its URL; it takes a change of any version."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _served(command, port, folder / "moto.log") as url:
        yield url


@contextmanager
def ministack(folder: Path) -> Iterator[str]:
    """Its URL; it keeps Glue's optimistic lock, but nobody's rights. In an environment of its own: it pins botocore."""
    port = free_port()
    environment = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "SERVICES": "glue"}
    with _served([str(_installed() / "bin" / "ministack")], port, folder / "ministack.log", environment) as url:
        yield url


def client(url: str) -> Any:
    """Close it."""
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    return boto3.client("glue", endpoint_url=url, region_name=ENVIRONMENT["AWS_REGION"], **keys)


@contextmanager
def _served(command: Sequence[str], port: int, log: Path, environment: Mapping[str, str] = {}) -> Iterator[str]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=log.parent, env={**os.environ, **environment})
    try:
        wait_for_port(process, port, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _installed() -> Path:
    folder = artifacts.cache_dir() / f"ministack-{MINISTACK}"
    ready = folder / "ready"
    if not ready.exists():
        venv.create(folder, symlinks=True, with_pip=True)
        install = [str(folder / "bin" / "pip"), "install", "--quiet", f"ministack=={MINISTACK}"]
        done = subprocess.run(install, check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"MiniStack {MINISTACK} cannot be installed here: {done.stderr.strip()[-200:]}")
        ready.touch()
    return folder


def enforce_rights(url: str) -> None:
    """Let moto ask IAM from now on."""
    request = urllib.request.Request(f"{url}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"}, method="POST")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200
