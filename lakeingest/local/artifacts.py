"""Pinned jars: downloaded once into a cache, checked by SHA-256, and from then on taken from there.

They come through the Apache Ivy that lies inside pyspark, so no host is named here: Ivy asks Maven Central,
or whatever the Ivy settings file in $LAKEINGEST_IVYSETTINGS names (a mirror inside a company, say).
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import resources, util
from pathlib import Path

from lakeingest.errors import SetupError
from lakeingest.local.machine import java, locked, need_disk

__all__ = ["Artifact", "cache_dir", "fetch", "ivy", "java", "listed", "missing"]

_STALLED_AFTER = 120.0
_OFFLINE = (
    "check that this machine reaches Maven Central (a proxy: JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=…), "
    "or set LAKEINGEST_IVYSETTINGS to an Ivy settings file that names your mirror; then run the same again"
)
_SETTINGS = """<ivysettings><settings defaultResolver="central"/><resolvers>
<ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers></ivysettings>
"""
_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="lakeingest" module="artifacts"/><configurations><conf name="default"/></configurations>
<dependencies>{}</dependencies></ivy-module>
"""
_DEPENDENCY = """<dependency org="{0.group}" name="{0.name}" rev="{0.version}" transitive="false" conf="default->*">
<artifact name="{0.name}" type="{0.ext}" ext="{0.ext}"{1}/></dependency>
"""
_LINE = re.compile(
    r"(?P<group>[^:\s]+):(?P<name>[^:\s]+):(?P<version>[^:\s]+)"
    r"(?::(?P<classifier>[^@\s]*)@(?P<ext>\S+))?\s+(?P<sha256>[0-9a-f]{64})"
)


@dataclass(frozen=True)
class Artifact:
    """One pinned file of a Maven repository."""

    group: str
    name: str
    version: str
    sha256: str
    classifier: str = ""
    ext: str = "jar"

    @property
    def file(self) -> str:
        """The file's name in the cache; two groups may each have an artifact of one name."""
        return f"{self.group}__{self.name}-{self.version}{'-' * bool(self.classifier)}{self.classifier}.{self.ext}"


Download = Callable[[Sequence[Artifact], Path], None]


def cache_dir() -> Path:
    """The folder of what can be fetched again: $LAKEINGEST_CACHE, or lakeingest in the XDG cache folder."""
    if chosen := os.environ.get("LAKEINGEST_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "lakeingest"


def listed(group: str, listing: str | None = None) -> tuple[Artifact, ...]:
    """The artifacts of a group ("spark", "kafka", "registry"), in the list's order.

    Raises:
        KeyError: no such group.
        ValueError: a line is not `group:artifact:version[:classifier@ext]  sha256`.
    """
    if listing is None:
        listing = resources.files(__package__).joinpath("artifacts.txt").read_text(encoding="utf-8")
    groups: dict[str, list[Artifact]] = {}
    for line in filter(None, (line.partition("#")[0].strip() for line in listing.splitlines())):
        if line.startswith("["):
            groups[line.strip("[]")] = []
        elif match := _LINE.fullmatch(line):
            groups[list(groups)[-1]].append(Artifact(**{k: v for k, v in match.groupdict().items() if v is not None}))
        else:
            raise ValueError(f"not an artifact: {line}")
    return tuple(groups[group])


def fetch(
    group: str, *, cache: Path | None = None, listing: str | None = None, download: Download | None = None
) -> tuple[Path, ...]:
    """The files of a group, downloaded if they are not in the cache yet, in the list's order.

    When they are, this takes milliseconds: names and sizes are compared with those of the last complete check.
    Two processes at once fetch once.

    Args:
        group: "spark", "kafka" or "registry".
        cache: another cache than `cache_dir()`.
        listing: another list than artifacts.txt.
        download: puts the given artifacts into the given folder, under their `file` names; default `ivy`.

    Raises:
        SetupError: no Java, no network, too little disk, or a file that is not the pinned one.
    """
    artifacts = listed(group, listing)
    folder = (cache or cache_dir()) / group
    files = tuple(folder / artifact.file for artifact in artifacts)
    stamp = folder / ".complete"
    if _is_complete(stamp, artifacts, folder):
        return files
    need_disk(folder)
    with locked(folder / ".lock"):
        if not _is_complete(stamp, artifacts, folder):
            missing = [a for a in artifacts if not (folder / a.file).is_file() or _sha256(folder / a.file) != a.sha256]
            with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as scratch:
                if missing:
                    (download or ivy)(missing, Path(scratch))
                _move_in(missing, Path(scratch), folder)
            stamp.write_text(_stamp(artifacts, folder), encoding="utf-8")
    return files


def missing(group: str) -> tuple[Artifact, ...]:
    """The artifacts of a group that are not in the cache yet, by their names alone."""
    return tuple(artifact for artifact in listed(group) if not (cache_dir() / group / artifact.file).is_file())


def _is_complete(stamp: Path, artifacts: Sequence[Artifact], folder: Path) -> bool:
    try:
        return stamp.read_text(encoding="utf-8") == _stamp(artifacts, folder)
    except FileNotFoundError:
        return False


def _stamp(artifacts: Sequence[Artifact], folder: Path) -> str:
    return "".join(f"{a.sha256} {(folder / a.file).stat().st_size} {a.file}\n" for a in artifacts)


def _move_in(missing: Sequence[Artifact], scratch: Path, folder: Path) -> None:
    for artifact in missing:
        file = scratch / artifact.file
        if not file.is_file():
            raise SetupError(f"{artifact.file} was not downloaded", cure=_OFFLINE)
        digest = _sha256(file)
        if digest != artifact.sha256:
            raise SetupError(
                f"{artifact.file} is not the pinned file: sha256 {digest} instead of {artifact.sha256}; it was removed",
                cure="run the same again; if it stays so, the mirror or proxy in between serves another file: ask "
                "whoever keeps it",
            )
        file.replace(folder / artifact.file)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def ivy(artifacts: Sequence[Artifact], folder: Path) -> None:
    """Download artifacts into a folder with Apache Ivy; shows progress on stderr. Its own cache is removed after.

    Raises:
        SetupError: no Java, no pyspark, or the download failed or stood still for two minutes.
    """
    jar = _ivy_jar()
    classified = ((a, f' m:classifier="{a.classifier}"' if a.classifier else "") for a in artifacts)
    with tempfile.TemporaryDirectory(prefix=".ivy-", dir=folder) as name:
        home = Path(name)
        (home / "ivy.xml").write_text(_MODULE.format("".join(_DEPENDENCY.format(*pair) for pair in classified)))
        (home / "settings.xml").write_text(_SETTINGS)
        settings = os.environ.get("LAKEINGEST_IVYSETTINGS") or home / "settings.xml"
        pattern = f"{folder}/[organisation]__[artifact]-[revision](-[classifier]).[ext]"
        options = ["-settings", settings, "-cache", home / "cache", "-ivy", home / "ivy.xml", "-retrieve", pattern]
        with (home / "log").open("w") as log:
            process = subprocess.Popen([java(), "-jar", jar, *options], stdout=log, stderr=subprocess.STDOUT)
            with process:
                _watch(process, home, len(artifacts))
        if process.returncode:
            last = "\n".join((home / "log").read_text(errors="replace").strip().splitlines()[-6:])
            raise SetupError(f"the download of {len(artifacts)} artifacts failed; Ivy says:\n{last}", cure=_OFFLINE)


def _ivy_jar() -> Path:
    spec = util.find_spec("pyspark")
    folders = spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    jars = [jar for folder in folders for jar in sorted((Path(folder) / "jars").glob("ivy-*.jar"))]
    if not jars:
        raise SetupError(
            "there is no pyspark (or none with its jars) beside lakeingest", cure="pip install 'lakeingest[local]'"
        )
    return jars[-1]


def _watch(process: subprocess.Popen[bytes], home: Path, total: int) -> None:
    """Show progress until the process ends; end it when no byte came for two minutes."""
    last_size, since = -1, time.monotonic()
    try:
        with _progress(total) as show:
            while process.poll() is None:
                size = _size(home / "cache")
                if size != last_size:
                    last_size, since = size, time.monotonic()
                show((home / "log").read_text(errors="replace").count("[SUCCESSFUL ]"), size)
                if time.monotonic() - since > _STALLED_AFTER:
                    raise SetupError(f"the download stood still for {_STALLED_AFTER:.0f} s", cure=_OFFLINE)
                time.sleep(0.1)
    finally:
        if process.poll() is None:
            process.kill()


def _size(folder: Path) -> int:
    size = 0
    for file in folder.rglob("*.*"):
        with suppress(FileNotFoundError):  # Ivy renames its files while they are counted
            size += file.stat().st_size
    return size


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int, int], None]]:
    if not sys.stderr.isatty():
        sys.stderr.write(f"fetching {total} artifacts\n")
        yield lambda bytes_, size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("fetching artifacts"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[mb]} MB"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, mb="0")
        yield lambda bytes_, size: bar.update(task, completed=bytes_, mb=f"{size / 1e6:.0f}")
