"""A headless Chromium, fetched once into the cache by Debian's own tools, and axe-core, which looks for what shuts out.

Where they cannot be had, a test that asks for them is skipped, and says what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.servers import npm

from lakeingest.local.artifacts import cache_dir
from lakeingest.local.machine import locked

CHROMIUM = "LAKEINGEST_CHROMIUM"
"""Variable of the environment that names a Chromium, or Chrome, of one's own."""
_PACKAGES = [
    "chromium-headless-shell",
    "chromium-common",
    "libasyncns0",
    "libdouble-conversion3",
    "libflac12",
    "libharfbuzz-subset0",
    "libminizip1",
    "libmp3lame0",
    "libmpg123-0",
    "libogg0",
    "libopenh264-7",
    "libopenjp2-7",
    "libopus0",
    "libpulse0",
    "libsndfile1",
    "libvorbis0a",
    "libvorbisenc2",
    "libxnvctrl0",
]
"""What a plain machine with Debian 12 lacks; apt checks the signatures."""
_AXE = (
    "axe-core",
    "4.14.1",
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
)


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser of playwright's; skips the test where there is none."""
    sync = pytest.importorskip("playwright.sync_api")
    executable, libraries = _executable()
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
    with sync.sync_playwright() as playwright:
        # A container has no user namespaces, and what is opened is our own.
        browser = playwright.chromium.launch(
            executable_path=str(executable), args=["--no-sandbox"], env=environment, timeout=60_000
        )
        yield browser
        browser.close()


def axe() -> str:
    """The script of axe-core."""
    return (npm.package(*_AXE) / "axe.min.js").read_text(encoding="utf-8")


def _executable() -> tuple[Path, str]:
    """A browser, and where its libraries are."""
    if own := os.environ.get(CHROMIUM):
        return Path(own), ""
    folder = _folder()
    root = folder / "root"
    executable = root / "usr/lib/chromium/chromium-headless-shell"
    libraries = root / "usr/lib" / f"{os.uname().machine}-linux-gnu"
    with locked(folder / ".lock"):
        if not executable.exists():
            _fetch(folder, root)
    found = f"{libraries}:{libraries / 'pulseaudio'}"
    needs = ["ldd", str(executable)]
    said = subprocess.run(
        needs, check=True, capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": found}
    ).stdout
    if missing := [line.split()[0] for line in said.splitlines() if "not found" in line]:
        pytest.skip(f"Chromium lacks {', '.join(missing)} here; ${CHROMIUM} names a browser of your own")
    return executable, found


def _fetch(folder: Path, root: Path) -> None:
    packages = folder / "packages"
    packages.mkdir(exist_ok=True)
    try:
        _run("apt-get", "download", *_PACKAGES, cwd=packages)
    except subprocess.CalledProcessError:
        _run("apt-get", "update", cwd=packages)
        _run("apt-get", "download", *_PACKAGES, cwd=packages)
    unpacked = folder / "unpacked"
    for package in sorted(packages.glob("*.deb")):
        _run("dpkg", "-x", str(package), str(unpacked), cwd=folder)
    unpacked.rename(root)
    shutil.rmtree(packages)


def _run(*command: str, cwd: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is missing, which fetches the browser's parts; ${CHROMIUM} names one of your own")
    subprocess.run(command, cwd=cwd, check=True, capture_output=True, timeout=300)


def _folder() -> Path:
    folder = cache_dir() / "browser"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
