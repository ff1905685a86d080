"""Prometheus and Alertmanager, as Debian packages them: fetched once, pinned, into the cache."""

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

_PACKAGES = {
    "prometheus": ("2.42.0+ds-5+deb12u1", "81d59a24fce84f7fbe97a45a4f2914b6a5881b5cd1db2a6a0e129e515e1a5f55"),
    "prometheus-alertmanager": ("0.25.0-1+b4", "4fb9aed15cfe8e0c32408e643ab32a1e41ee87d2cc26f18aeba928b1b0b98ae7"),
}
"""Name → version, SHA-256."""


@cache
def folder(package: str = "prometheus") -> Path:
    """Where the programs of a package are; a test on a machine that cannot have them is skipped by name."""
    version, _ = _PACKAGES[package]
    made = cache_dir() / f"{package}-{version}"
    if not made.is_dir():
        if shutil.which("apt-get") is None or platform.machine() != "x86_64":
            pytest.skip(f"{package} comes from Debian's packages for amd64, and there is no apt-get here")
        _fetch(package, made)
    return made / "usr" / "bin"


def _fetch(package: str, made: Path) -> None:
    version, sha256 = _PACKAGES[package]
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as name:
        command = ["apt-get", "download", f"{package}={version}"]
        done = subprocess.run(command, cwd=name, check=False, capture_output=True, text=True)
        packages = list(Path(name).glob("*.deb"))
        if not packages:
            pytest.skip(f"apt-get cannot fetch {package} {version}: {done.stderr.strip()[-200:]}")
        assert hashlib.sha256(packages[0].read_bytes()).hexdigest() == sha256
        unpacked = Path(name) / "unpacked"
        subprocess.run(["dpkg", "-x", packages[0], unpacked], check=True)
        # Whole, or not there.
        unpacked.replace(made)


def alertmanager() -> list[str | Path]:
    """The beginning of Alertmanager's command. Debian's looks for its templates in /usr/share alone: it gets one of its
    own, in a name space of its own.
    """
    programs = folder("prometheus-alertmanager")
    alone: list[str | Path] = ["unshare", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        pytest.skip("Debian's Alertmanager needs a name space of its own, and unshare may not make one here")
    mount = 'mount --bind "$0" /usr/share && exec "$@"'
    return [*alone, "sh", "-c", mount, programs.parent / "share", programs / "prometheus-alertmanager"]


def promtool(*words: object) -> subprocess.CompletedProcess[str]:
    return _said(folder() / "promtool", *words)


def amtool(*words: object) -> subprocess.CompletedProcess[str]:
    return _said(folder("prometheus-alertmanager") / "amtool", *words)


def _said(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, words)], check=False, capture_output=True, text=True, timeout=60)
