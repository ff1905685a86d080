"""Prometheus and Alertmanager, as Debian packages them: fetched once, pinned, into the cache."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from support.servers.debian import unpack

_PACKAGES = {
    "prometheus": ("2.42.0+ds-5+deb12u1", "81d59a24fce84f7fbe97a45a4f2914b6a5881b5cd1db2a6a0e129e515e1a5f55"),
    "prometheus-alertmanager": ("0.25.0-1+b4", "4fb9aed15cfe8e0c32408e643ab32a1e41ee87d2cc26f18aeba928b1b0b98ae7"),
}
"""Name → version, SHA-256."""


@cache
def folder(package: str = "prometheus") -> Path:
    """Where the programs of a package are; a test on a machine that cannot have them is skipped by name."""
    version, _ = _PACKAGES[package]
    return unpack(f"{package}-{version}", {package: _PACKAGES[package]}) / "usr" / "bin"


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
