"""Virtual environments of other packages than this one's: each made once, in lakeingest's cache."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

from lakeingest.local import artifacts
from lakeingest.local.machine import locked


def python(name: str, *install: str | Path) -> Path:
    """The Python of an environment; two processes at once make it once.

    Args:
        name: of its folder in the cache, which tells what is in it.
        install: what pip is to install, as its words have it.

    Raises:
        CalledProcessError: pip could not; its stderr says why.
    """
    folder = artifacts.cache_dir() / name
    found, done = folder / "bin" / "python", folder / ".complete"
    with locked(folder.with_suffix(".lock")):
        if not done.exists():
            venv.create(folder, clear=True, symlinks=True, with_pip=True)
            pip = [found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *install]
            subprocess.run(pip, check=True, stderr=subprocess.PIPE, text=True)
            done.touch()
    return found
