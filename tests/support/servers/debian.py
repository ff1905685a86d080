"""Programs as Debian packages them: fetched once, pinned, into the cache. Nothing is installed."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from lakeingest.local.artifacts import cache_dir

Pins = Mapping[str, tuple[str, str]]
"""Package → version, SHA-256."""


def unpack(name: str, packages: Pins) -> Path:
    """The folder `name` of the cache, with the files of these packages.

    A test on a machine that cannot have them is skipped by name.
    """
    folder = cache_dir() / name
    if not folder.is_dir():
        if shutil.which("apt-get") is None or platform.machine() != "x86_64":
            pytest.skip(f"{name} comes from Debian's packages for amd64, and there is no apt-get here")
        _fetch(packages, folder)
    return folder


def _fetch(packages: Pins, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        files = Path(scratch) / "unpacked"
        for package, (version, sha256) in packages.items():
            place = Path(scratch) / package
            place.mkdir()
            command = ["apt-get", "download", f"{package}={version}"]
            done = subprocess.run(command, cwd=place, check=False, capture_output=True, text=True)
            archives = list(place.glob("*.deb"))
            if not archives:
                pytest.skip(f"apt-get cannot fetch {package} {version}: {done.stderr.strip()[-200:]}")
            assert hashlib.sha256(archives[0].read_bytes()).hexdigest() == sha256
            subprocess.run(["dpkg", "-x", archives[0], files], check=True)
        # Whole, or not there.
        files.replace(folder)
