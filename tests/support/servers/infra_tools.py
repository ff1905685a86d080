"""Tools that infra/ is checked with: each set of them in an environment of its own, for they pin the world.

infra/requirements-NAME.txt pins a set. The environment is made once, under lakeingest's cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.servers import python_environments
from support.servers.installation import ROOT

INFRA = ROOT / "infra"


def python(name: str) -> Path:
    """The Python of the environment that has what this set pins."""
    file = INFRA / f"requirements-{name}.txt"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    return python_environments.python(f"infra/{name}-{digest}", "-r", file)


def run(
    name: str, *words: object, env: dict[str, str] | None = None, cwd: Path | None = None, timeout: int = 300
) -> subprocess.CompletedProcess[str]:
    """A program of a set: one of its commands, or `python`; its output, whatever its exit code."""
    command, *rest = map(str, words)
    return subprocess.run(
        [str(python(name).parent / command), *rest],
        env={**os.environ, **(env or {})},
        cwd=cwd,
        timeout=timeout,
        check=False,
        capture_output=True,
        text=True,
    )


def go_module(module: str, version: str, sum: str) -> Path:
    """The folder of a Go module, as its proxy serves it; the test is skipped where there is no go."""
    if shutil.which("go") is None:
        pytest.skip(f"go is missing, which fetches {module}")
    command = ["go", "mod", "download", "-json", f"{module}@{version}"]
    done = subprocess.run(command, cwd="/", check=False, capture_output=True, text=True, timeout=300)
    told = json.loads(done.stdout or "{}")
    if "Dir" not in told:
        pytest.skip(f"{module} cannot be had: {told.get('Error') or done.stderr}")
    assert told["Sum"] == sum, f"{module}@{version} is not the pinned one"
    return Path(told["Dir"])
