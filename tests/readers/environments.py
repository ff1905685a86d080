"""What readers are run in: a Python environment of their own for each file of requirements, and Trino's server.

Both are made once, under lakeingest's cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.servers import free_port, python_environments, serving

from lakeingest.errors import SetupError
from lakeingest.local import Addresses, artifacts
from lakeingest.local.loopback import direct
from lakeingest.local.machine import java_major, locked

HERE = Path(__file__).parent
TRINO = """[trino]
io.trino:trino-server:476:@tar.gz  cfd5accde17e8ebd251eeeb78aed1f490e77bb3a164d95a0f454bf8a7c1cbd3f
"""
OLDEST_JAVA = 24
_NEEDED = re.compile(r"^[^/]+/(lib|plugin/delta-lake)/")
_JVMS = ("/usr/lib/jvm/*", "/opt/java/*", "/opt/*jdk*", "/Library/Java/JavaVirtualMachines/*/Contents/Home")


def python(requirements: str) -> Path:
    """The interpreter of the environment that has what this file of requirements pins."""
    file = HERE / requirements
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    return python_environments.python(f"readers/{file.stem}-{digest}", "-r", file)


def java() -> Path | None:
    """A Java that is new enough for Trino, if this machine has one in a usual place."""
    homes = [Path(os.environ[name]) for name in ("JAVA_HOME",) if name in os.environ]
    homes += [home for pattern in _JVMS for home in sorted(Path("/").glob(pattern[1:]))]
    commands = [home / "bin" / "java" for home in homes] + [Path(shutil.which("java") or "/none")]
    for command in filter(Path.is_file, commands):
        told = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
        if (java_major(told) or 0) >= OLDEST_JAVA:
            return command
    return None


def _trino() -> Path:
    """Trino's server, unpacked with the one plug-in that is asked: all of them would take minutes and memory."""
    (archive,) = artifacts.fetch("trino", listing=TRINO)
    folder = archive.parent / "delta-lake-only"
    with locked(folder.with_suffix(".lock")):
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            with tarfile.open(archive) as packed:
                # Most of a plug-in's files are hard links to those of lib.
                packed.extractall(folder, [each for each in packed if _NEEDED.search(each.name)], filter="data")
            (folder / ".complete").touch()
    return next(folder.glob("trino-server-*"))


@contextmanager
def trino(command: Path, stack: Addresses, folder: Path, catalog: Mapping[str, str] | None = None) -> Iterator[int]:
    """A server of Trino on loopback that reads the stack's S3; gives its port.

    Args:
        folder: empty; the server's settings, metastore and log are kept in it.
        catalog: what its catalog has besides a metastore; by default what the stack needs.
    """
    store = {
        "fs.native-s3.enabled": "true",
        "s3.endpoint": stack.s3,
        "s3.region": "us-east-1",
        "s3.path-style-access": "true",
        "s3.aws-access-key": stack.s3_access_key,
        "s3.aws-secret-key": stack.s3_secret_key,
        "delta.register-table-procedure.enabled": "true",
    }
    home, port = _trino(), free_port()
    settings = {
        "config.properties": {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": port,
            "discovery.uri": f"http://127.0.0.1:{port}",
            "plugin.dir": home / "plugin",
            "catalog.config-dir": folder / "catalog",
            "catalog.management": "static",
        },
        "catalog/delta.properties": {
            "connector.name": "delta_lake",
            "hive.metastore": "file",
            "hive.metastore.catalog.dir": "local:///meta",
            "fs.native-local.enabled": "true",
            "local.location": folder,
            **(store if catalog is None else catalog),
        },
    }
    for name, values in settings.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    (folder / "meta").mkdir()
    node = {"environment": "test", "id": "one", "data-dir": folder, "bind-ip": "127.0.0.1"}
    node["internal-address"] = "127.0.0.1"
    options = ["-Xmx2G", "--add-modules=jdk.incubator.vector", "-XX:+UseG1GC", f"-Dconfig={folder}/config.properties"]
    options += [f"-Dnode.{key}={value}" for key, value in node.items()]
    words = [command, *options, "-cp", f"{home}/lib/*", "io.trino.server.TrinoServer"]
    with serving(words, port, folder / "log") as process:
        _wait(process, port, folder / "log")
        yield port


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and process.poll() is None:
        try:
            url = f"http://127.0.0.1:{port}/v1/info"
            with direct(url), urllib.request.urlopen(url, timeout=5) as answer:
                if b'"starting":false' in answer.read():
                    return
        except OSError:
            pass
        time.sleep(0.5)
    raise SetupError(f"Trino did not come up; its log ends with\n{log.read_text()[-2000:]}", cure="see the log")
