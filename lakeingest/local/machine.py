"""Requirements of this machine: a Java that is new enough, room on the disk; and a lock between processes."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from lakeingest.errors import SetupError

OLDEST_JAVA = 17
LEAST_DISK = 2 * 1024**3
_CURE = f"install a Java {OLDEST_JAVA} runtime or newer, and set JAVA_HOME to it or put its java on the PATH"


@cache
def java() -> Path:
    """The java command: JAVA_HOME's, else the PATH's. Asked once per process (about 0.1 s).

    Raises:
        SetupError: there is none, it does not run, or it is older than 17.
    """
    command = _java_command()
    try:
        answer = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(f"{command} does not run: {error}", cure=_CURE) from error
    major = java_major(answer)
    if major is None or major < OLDEST_JAVA:
        first = (answer.strip().splitlines() or ["nothing"])[0]
        raise SetupError(f"{command} is too old or unknown; it says: {first}", cure=_CURE)
    return command


def _java_command() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        command = Path(home) / "bin" / "java"
        if not command.is_file():
            raise SetupError(f"JAVA_HOME is {home}, but there is no {command}", cure=_CURE)
        return command
    path = shutil.which("java")
    if path is None:
        raise SetupError("there is no Java on this machine: JAVA_HOME is not set, and the PATH has no java", cure=_CURE)
    return Path(path)


def java_major(answer: str) -> int | None:
    """The major version in what `java -version` says ("1.8.0" is 8); None when it says none."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', answer)
    if match is None:
        return None
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def need_disk(folder: Path, least: int = LEAST_DISK) -> None:
    """Make sure that `least` bytes are free where a folder lies, or will lie.

    Raises:
        SetupError: less is free.
    """
    existing_folder = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing_folder).free
    if free < least:
        raise SetupError(
            f"only {free / 1024**3:.1f} GiB are free at {existing_folder}; {least / 1024**3:.1f} GiB are needed",
            cure="free some space, or set LAKEINGEST_CACHE and LAKEINGEST_STATE to folders on a larger disk",
        )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that other processes (and threads) wait for. The file stays; a crash releases the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
