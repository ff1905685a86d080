"""Apicurio: a schema registry with Confluent's API, its content in a file database."""

from __future__ import annotations

import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from lakeingest.local.addresses import HOST
from lakeingest.local.artifacts import fetch
from lakeingest.local.machine import java, locked
from lakeingest.local.server import ServerPlace, listens


class RegistryServer:
    """The schema registry; Confluent's API is at /apis/ccompat/v7."""

    name = "registry"
    version = "Apicurio 3.0.9"
    ports: Sequence[str] = ("http",)
    grace_s = 30.0

    def command(self, place: ServerPlace) -> tuple[Sequence[str], Mapping[str, str]]:
        """Unpack the server into the cache if it is not there yet, and say how to start."""
        (archive,) = fetch("registry")
        jar = _unpacked(archive) / "apicurio-registry-app-3.0.9-runner.jar"
        # Someone's own settings of another registry must not reach this one.
        env = {key: value for key, value in os.environ.items() if not key.startswith(("APICURIO_", "QUARKUS_"))}
        env |= {
            "APICURIO_STORAGE_KIND": "sql",
            "APICURIO_STORAGE_SQL_KIND": "h2",
            "APICURIO_DATASOURCE_URL": f"jdbc:h2:file:{place.data}/registry;WRITE_DELAY=0",
            "APICURIO_DATASOURCE_JDBC_INITIAL_SIZE": "2",
            "APICURIO_DATASOURCE_JDBC_MIN_SIZE": "2",
            "APICURIO_DATASOURCE_JDBC_MAX_SIZE": "10",
            "QUARKUS_HTTP_HOST": HOST,
            "QUARKUS_HTTP_PORT": str(place.ports["http"]),
        }
        return [str(java()), "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", str(jar)], env

    def ready(self, place: ServerPlace) -> bool:
        """Whether it lists its subjects."""
        if not listens(place.ports["http"]):
            return False
        # Without a proxy: one that is set for the outside must not be asked for the loopback.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{HOST}:{place.ports['http']}/apis/ccompat/v7/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as refusal:
            refusal.close()
            return False
        except OSError:
            return False


def _unpacked(archive: Path) -> Path:
    folder = archive.with_name(archive.name.removesuffix(".tar.gz"))
    with locked(archive.parent / ".lock"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=archive.parent) as scratch:
                inner = Path(scratch) / "registry"
                with tarfile.open(archive) as tar:
                    tar.extractall(inner, filter="data")
                inner.replace(folder)
    return folder
