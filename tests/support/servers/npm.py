"""Packages of npm's registry, fetched once into the cache, each pinned by its digest. Nothing of them is installed."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

from lakeingest.local.artifacts import cache_dir
from lakeingest.local.machine import locked


def package(name: str, version: str, sha512: str) -> Path:
    """The folder of an unpacked package; the test is skipped where there is no npm."""
    folder = cache_dir() / "npm"
    made = folder / f"{name.removeprefix('@').replace('/', '-')}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".lock"):
        if not made.exists():
            if shutil.which("npm") is None:
                pytest.skip(f"npm is missing, which fetches {name}")
            with tempfile.TemporaryDirectory(dir=folder) as at:
                pack = ["npm", "pack", "--silent", f"{name}@{version}"]
                subprocess.run(pack, cwd=at, check=True, capture_output=True, timeout=300)
                (packed,) = Path(at).glob("*.tgz")
                digest = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
                assert digest == sha512, f"{name}@{version} is not the pinned file"
                with tarfile.open(packed) as archive:
                    archive.extractall(Path(at) / "unpacked", filter="data")
                # Whole, or not there.
                (Path(at) / "unpacked" / "package").rename(made)
    return made
