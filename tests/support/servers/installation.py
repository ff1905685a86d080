"""lakeingest as a user installs it: built, and put into environments that hold what it asks for, and nothing else.

Nothing is downloaded: the distributions of this environment are linked, file by file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Collection, Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
NAME = "lakeingest"


def tracked() -> list[str]:
    """The repository's files, those included that are not committed yet, without those that git ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted(file for file in listed if (ROOT / file).is_file())


def copy(folder: Path) -> Path:
    """The repository as a clone has it: what lies around in this one must not come into the wheel."""
    for file in tracked():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, folder / file)
    return folder


def build(sources: Path, out: Path, *options: str) -> None:
    """Call the builder as `make dist` does, without a network."""
    command = [sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", str(out), str(sources)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def required(*extras: str) -> set[str]:
    """The distributions that pip would install beside lakeingest with these extras."""
    asked: dict[str, set[str]] = {}
    waiting = [Requirement(f"{NAME}[{','.join(extras)}]" if extras else NAME)]
    while waiting:
        requirement = waiting.pop()
        name, known = canonicalize_name(requirement.name), asked.get(canonicalize_name(requirement.name))
        if known is None or not requirement.extras <= known:
            asked[name] = (known or set()) | requirement.extras
            waiting += _requirements(name, asked[name])
    return set(asked) - {NAME}


def _requirements(name: str, extras: Collection[str]) -> Iterator[Requirement]:
    if name == NAME:
        # From the file: what is installed may be older.
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for texts in (project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)):
            yield from map(Requirement, texts)
        return
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": each}) for each in ("", *extras)):
            yield requirement


class Environment:
    """A virtual environment with the wheel, and with what it requires with these extras."""

    def __init__(self, folder: Path, wheel: Path, *extras: str, without: Collection[str] = ()) -> None:
        self.folder = folder
        venv.create(folder, symlinks=True)
        self.packages = Path(self._say("import sysconfig; print(sysconfig.get_path('purelib'))"))
        for name in required(*extras) - set(without):
            self._link(name)
        java = shutil.which("java")
        assert java, "the tests need Java"
        (folder / "bin" / "java").symlink_to(java)
        install = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)]
        subprocess.run([sys.executable, "-m", "pip", "--python", self.python, *install], check=True)

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def run(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Call a program of the environment, by a user who has set nothing, in the folder `cwd`."""
        home = str(self.folder / "home")
        env = {"PATH": str(self.folder / "bin"), "HOME": home, "LANG": "C.UTF-8", "COLUMNS": "140"}
        command = [str(self.folder / "bin" / words[0]), *words[1:]]
        return subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, env=env, timeout=120)

    def _say(self, code: str) -> str:
        return subprocess.run([self.python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()

    def _link(self, name: str) -> None:
        files = distribution(name).files
        assert files, f"{name} does not say which files it has"
        for file in files:
            source = Path(os.fspath(file.locate()))
            # Programs stand in other folders, and would start the Python of this environment.
            if ".." not in file.parts and source.is_file():
                link = self.packages / file
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(source.resolve())
