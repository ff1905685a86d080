"""Prometheus and promtool, as Debian packages them: fetched once, pinned, beside the other artifacts in the cache."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from lakeingest.local.artifacts import cache_dir

VERSION = "2.42.0+ds-5+deb12u1"
SHA256 = "81d59a24fce84f7fbe97a45a4f2914b6a5881b5cd1db2a6a0e129e515e1a5f55"


@cache
def folder() -> Path:
    """Where the programs are; a test on a machine that cannot have them is skipped by name."""
    made = cache_dir() / f"prometheus-{VERSION}"
    if not made.is_dir():
        if shutil.which("apt-get") is None or platform.machine() != "x86_64":
            pytest.skip("Prometheus comes from Debian's packages for amd64, and there is no apt-get here")
        _fetch(made)
    return made / "usr" / "bin"


def _fetch(made: Path) -> None:
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as name:
        command = ["apt-get", "download", f"prometheus={VERSION}"]
        done = subprocess.run(command, cwd=name, check=False, capture_output=True, text=True)
        packages = list(Path(name).glob("*.deb"))
        if not packages:
            pytest.skip(f"apt-get cannot fetch prometheus {VERSION}: {done.stderr.strip()[-200:]}")
        assert hashlib.sha256(packages[0].read_bytes()).hexdigest() == SHA256
        unpacked = Path(name) / "unpacked"
        subprocess.run(["dpkg", "-x", packages[0], unpacked], check=True)
        # Whole, or not there.
        unpacked.replace(made)


def promtool(*words: object) -> subprocess.CompletedProcess[str]:
    command = [str(folder() / "promtool"), *map(str, words)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
