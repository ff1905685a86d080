"""The addresses of the embedded stack, and whether it runs. Cheap: every command asks this at its start."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from lakeingest.errors import SetupError

HOST = "127.0.0.1"
SERVERS = ("kafka", "s3", "registry")


@dataclass(frozen=True)
class Addresses:
    """Addresses and keys of the embedded stack; the secret is masked in the repr."""

    kafka: str
    s3: str
    s3_access_key: str
    s3_secret_key: str = field(repr=False)
    registry: str

    def env(self) -> dict[str, str]:
        """The environment variables by which other tools find the stack. Holds the secret key in the clear."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.kafka,
            "AWS_ENDPOINT_URL": self.s3,
            "AWS_ENDPOINT_URL_S3": self.s3,
            # delta-rs, and whatever else is made of Rust's object_store, takes https alone by itself.
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": self.s3_access_key,
            "AWS_SECRET_ACCESS_KEY": self.s3_secret_key,
            "AWS_REGION": "us-east-1",
            "SCHEMA_REGISTRY_URL": self.registry,
        }


@dataclass(frozen=True)
class ServerRecord:
    """The record of one server: its ports for good, its process while it runs."""

    version: str
    ports: Mapping[str, int]
    pid: int | None = None
    started: str | None = None
    ready: bool = False

    def alive(self) -> bool:
        """Whether that very process runs; another one that was given the same pid does not count."""
        return self.pid is not None and self.started is not None and start_of(self.pid) == self.started

    def stopped(self) -> ServerRecord:
        """The same server without a process."""
        return replace(self, pid=None, started=None, ready=False)


@dataclass(frozen=True)
class StackRecord:
    """The content of stack.json."""

    access_key: str
    secret_key: str = field(repr=False)
    servers: Mapping[str, ServerRecord] = field(default_factory=dict)

    def having(self, name: str, server: ServerRecord) -> StackRecord:
        """The same stack with one server as it is now."""
        return replace(self, servers={**self.servers, name: server})

    def addresses(self) -> Addresses:
        """The addresses that follow from the ports.

        Raises:
            KeyError: a server was never started.
        """
        return Addresses(
            kafka=f"{HOST}:{self.servers['kafka'].ports['broker']}",
            s3=f"http://{HOST}:{self.servers['s3'].ports['s3']}",
            s3_access_key=self.access_key,
            s3_secret_key=self.secret_key,
            registry=f"http://{HOST}:{self.servers['registry'].ports['http']}/apis/ccompat/v7",
        )


def state_dir(state: Path | None = None) -> Path:
    """The folder of everything that outlives a command: the given one, $LAKEINGEST_STATE, or the XDG state folder."""
    if state is not None:
        return Path(state).absolute()
    if chosen := os.environ.get("LAKEINGEST_STATE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "lakeingest"


def stack_dir(state: Path | None = None) -> Path:
    """The stack's part of the state folder: stack.json, data/ and logs/."""
    return state_dir(state) / "stack"


def running(state: Path | None = None) -> Addresses | None:
    """The addresses of the embedded stack if all of it runs, else None. Takes about a millisecond, and no network.

    Raises:
        SetupError: stack.json is there, but not readable.
    """
    record = read(state)
    if record is None:
        return None
    servers = [record.servers.get(name) for name in SERVERS]
    if all(server is not None and server.ready and server.alive() for server in servers):
        return record.addresses()
    return None


def read(state: Path | None = None) -> StackRecord | None:
    """The record of the stack; None when there never was one.

    Raises:
        SetupError: stack.json is there, but not readable.
    """
    path = stack_dir(state) / "stack.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        servers = {name: ServerRecord(**server) for name, server in data.pop("servers").items()}
        return StackRecord(**data, servers=servers)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise SetupError(
            f"{path} is not readable as the record of an embedded stack: {error}",
            cure=f"end the servers that still run, if any, and delete the folder {path.parent}",
        ) from error


def write(record: StackRecord, state: Path | None = None) -> None:
    """Remember the stack, atomically, readable by the owner alone (it holds the secret key)."""
    path = stack_dir(state) / "stack.json"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    scratch = path.with_suffix(".tmp")
    scratch.touch(mode=0o600)
    scratch.write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")
    scratch.replace(path)


def start_of(pid: int) -> str | None:
    """The start of a process, in the system's own unit; None if there is none, or only its zombie."""
    try:
        # The name, in parentheses, may hold spaces: count the fields behind it.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        # The first thread of a Java that was killed is a zombie while others still hold the ports.
        return None if fields[0] in "ZX" and int(fields[17]) <= 1 else fields[19]
    except ProcessLookupError:
        return None
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _start_by_ps(pid)


def _start_by_ps(pid: int) -> str | None:
    command = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    state, _, start = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip().partition(" ")
    return None if not start or state.startswith("Z") else start.strip()
