"""The base class of the stack's servers, and how their processes start and end."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lakeingest.local.addresses import HOST, ServerRecord


@dataclass(frozen=True)
class ServerPlace:
    """The place of one server: folders that exist, ports that were free, and the keys it lets in."""

    data: Path
    logs: Path
    ports: Mapping[str, int]
    access_key: str
    secret_key: str = field(repr=False)


class Server(Protocol):
    """One server of the stack. Stateless: all it knows is in the `Place`."""

    name: str
    version: str
    ports: Sequence[str]
    grace_s: float
    """Seconds between SIGTERM and SIGKILL."""

    def command(self, place: ServerPlace) -> tuple[Sequence[str], Mapping[str, str]]:
        """Prepare the data folder, and say command and environment. Called once per start; must not start anything.

        Raises:
            SetupError: something that it needs is missing.
        """

    def ready(self, place: ServerPlace) -> bool:
        """Whether it serves. Called some times a second while the process runs; must answer within seconds.

        It may create what users expect to find (a bucket), and must then be harmless when called again.
        """


def spawn(command: Sequence[str], env: Mapping[str, str], log: Path, folder: Path) -> int:
    """Start a process that outlives this one, with its output in `log`, and return its pid.

    A shell starts it in the background and ends: so it has no parent that must reap it.
    """
    if log.exists():
        log.replace(log.with_suffix(".log.1"))
    script = 'log=$1; shift; "$@" </dev/null >"$log" 2>&1 & echo $!'
    started = subprocess.run(
        ["/bin/sh", "-c", script, "sh", str(log), *command],
        env=env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        check=True,
    )
    return int(started.stdout)


def stop(servers: Mapping[str, ServerRecord], grace_s: Mapping[str, float]) -> None:
    """End the processes of these servers, at once: SIGTERM, then SIGKILL after each one's patience (seconds)."""
    alive = {name: server for name, server in servers.items() if server.alive()}
    for server in alive.values():
        _signal(server, signal.SIGTERM)
    began = time.monotonic()
    while alive:
        for name, server in list(alive.items()):
            if not server.alive():
                del alive[name]
            elif time.monotonic() - began > grace_s[name]:
                _signal(server, signal.SIGKILL)
        time.sleep(0.05)


def _signal(server: ServerRecord, number: signal.Signals) -> None:
    if server.pid is not None and server.alive():
        with suppress(ProcessLookupError):
            os.kill(server.pid, number)


def free_ports(names: Iterable[str], remembered: Mapping[str, int], used: set[int]) -> dict[str, int]:
    """A free port for each name: the remembered one if it still is, else another; adds them to `used`."""
    ports = {}
    for name in names:
        port = remembered.get(name)
        while port is None or port in used or not _is_free(port):
            # Below the range that systems take for outgoing connections: those would get in between.
            port = 20_000 + secrets.randbelow(12_000)
        used.add(port)
        ports[name] = port
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Else a port whose last connections linger would count as taken, and every restart would move.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def listens(port: int) -> bool:
    """Whether anything accepts connections on a port of the loopback."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0
