"""The embedded stack: start Kafka, S3 and the schema registry together, look at them, end them.

`up` keeps this order, so that it may be killed anywhere and be run again:

1. take the lock of the state folder, and read what is remembered;
2. check Java, disk and the packages of the extra `local` before anything starts;
3. for each server that does not run, all at once: choose ports, prepare, start, and remember the process at once;
4. wait until each one serves; only then is it remembered as ready;
5. if one does not, end those that this call started, and show the last lines of its log.
"""

from __future__ import annotations

import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from lakeingest.errors import SetupError
from lakeingest.local import s3
from lakeingest.local.addresses import (
    Addresses,
    ServerRecord,
    StackRecord,
    read,
    running,
    stack_dir,
    start_of,
    state_dir,
)
from lakeingest.local.addresses import write as remember
from lakeingest.local.kafka import Kafka
from lakeingest.local.machine import java, locked, need_disk
from lakeingest.local.registry import RegistryServer
from lakeingest.local.s3 import S3
from lakeingest.local.server import Server, ServerPlace, free_ports, spawn, stop

__all__ = ["Addresses", "ServerStatus", "down", "running", "status", "up"]

_SERVERS: tuple[Server, ...] = (Kafka(), S3(), RegistryServer())
_GRACE_S = {server.name: server.grace_s for server in _SERVERS}
_TRIES = 3
"""How often a server is started whose ports somebody takes."""
_TAKEN = re.compile("(address|port).* in use", re.IGNORECASE)
_MAIN_PORT = {"kafka": "broker", "s3": "s3", "registry": "http"}


@dataclass(frozen=True)
class ServerStatus:
    """One line of `stack status`."""

    name: str
    state: str
    """ "running", "starting" (its process runs, but never served yet), "died" or "stopped"."""
    port: int | None
    pid: int | None
    version: str
    log: Path


def up(state: Path | None = None, *, wait: float = 90.0, say: Callable[[str], None] = lambda text: None) -> Addresses:
    """Start whatever of the stack does not run, and return when all of it serves. Harmless when all runs already.

    Args:
        state: the state folder, if not the default one.
        wait: seconds within which each server must serve, downloads not counted.
        say: is told each step, in a few words, from several threads.

    Raises:
        SetupError: no Java, no disk, no package of the extra `local`, no download, or a server that does not come up.
    """
    folder = stack_dir(state)
    with locked(state_dir(state) / "stack.lock"):
        if (addresses := running(state)) is not None:
            return addresses
        java()
        need_disk(folder)
        s3.need()
        record = read(state) or StackRecord("lake" + secrets.token_hex(8), secrets.token_hex(20))
        start = _Start(state, record, wait, say)
        try:
            start.all()
        except BaseException:
            start.undo()
            raise
        return start.record.addresses()


def down(state: Path | None = None, *, wipe: bool = False) -> bool:
    """End the stack's processes, these and no others; return whether any ran.

    Args:
        state: the state folder, if not the default one.
        wipe: delete the stack's data, logs and keys as well.

    Raises:
        SetupError: stack.json is there, but not readable.
    """
    with locked(state_dir(state) / "stack.lock"):
        record = read(state)
        ran = record is not None and any(server.alive() for server in record.servers.values())
        if record is not None:
            _end(record.servers)
            remember(replace(record, servers={n: s.stopped() for n, s in record.servers.items()}), state)
        if wipe:
            shutil.rmtree(stack_dir(state), ignore_errors=True)
        return ran


def status(state: Path | None = None) -> tuple[ServerStatus, ...]:
    """The state of each server, without asking it: its record, and whether its process lives.

    Raises:
        SetupError: stack.json is there, but not readable.
    """
    record = read(state)
    records = record.servers if record else {}
    logs = stack_dir(state) / "logs"
    return tuple(_status_of(server, records.get(server.name), logs) for server in _SERVERS)


def _status_of(server: Server, record: ServerRecord | None, logs: Path) -> ServerStatus:
    log = logs / f"{server.name}.log"
    if record is None or record.pid is None:
        port = record.ports[_MAIN_PORT[server.name]] if record else None
        return ServerStatus(server.name, "stopped", port, None, server.version, log)
    state = "died" if not record.alive() else "running" if record.ready else "starting"
    return ServerStatus(server.name, state, record.ports[_MAIN_PORT[server.name]], record.pid, record.version, log)


@dataclass
class _Start:
    """One call of `up` under way: several threads start servers, and write to one record."""

    state: Path | None
    record: StackRecord
    wait: float
    say: Callable[[str], None]
    began: set[str] = field(default_factory=set)
    ports: set[int] = field(default_factory=set)
    guard: threading.Lock = field(default_factory=threading.Lock)
    failed: threading.Event = field(default_factory=threading.Event)

    def all(self) -> None:
        for server in self.record.servers.values():
            if server.alive():
                self.ports |= set(server.ports.values())
        with ThreadPoolExecutor(len(_SERVERS)) as pool:
            pending = [pool.submit(self.one, server) for server in _SERVERS]
            try:
                for future in pending:
                    future.result()
            except BaseException:
                self.failed.set()
                raise

    def one(self, server: Server) -> None:
        try:
            for tries in reversed(range(_TRIES)):
                record = self.record.servers.get(server.name)
                place = self.place(server, record)
                if record is None or not record.alive():
                    record = self.launch(server, place)
                try:
                    return self.wait_for(server, place, record)
                except SetupError as failed:
                    # Another program took a port between our look and the server's: it is given others.
                    if not tries or not _TAKEN.search(str(failed)):
                        raise
        except BaseException:
            self.failed.set()
            raise

    def place(self, server: Server, record: ServerRecord | None) -> ServerPlace:
        folder = stack_dir(self.state)
        data, logs = folder / "data" / server.name, folder / "logs"
        for needed in (data, logs):
            needed.mkdir(parents=True, exist_ok=True, mode=0o700)
        if record is not None and record.alive():
            ports = dict(record.ports)
        else:
            with self.guard:
                ports = free_ports(server.ports, record.ports if record else {}, self.ports)
        return ServerPlace(data, logs, ports, self.record.access_key, self.record.secret_key)

    def launch(self, server: Server, place: ServerPlace) -> ServerRecord:
        self.say(f"{server.name}: preparing")
        command, env = server.command(place)
        self.say(f"{server.name}: starting")
        with self.guard:
            pid = spawn(command, env, place.logs / f"{server.name}.log", place.data)
            record = ServerRecord(server.version, place.ports, pid, start_of(pid))
            self.began.add(server.name)
            self.record = self.record.having(server.name, record)
            remember(self.record, self.state)
        return record

    def wait_for(self, server: Server, place: ServerPlace, record: ServerRecord) -> None:
        until = time.monotonic() + self.wait
        while not server.ready(place):
            if self.failed.is_set():
                return
            if not record.alive():
                raise _not_up(server, place, "ended by itself")
            if time.monotonic() > until:
                raise _not_up(server, place, f"does not serve after {self.wait:.0f} s")
            time.sleep(0.1)
        self.remember(server.name, replace(record, ready=True))
        self.say(f"{server.name}: ready")

    def remember(self, name: str, server: ServerRecord) -> None:
        with self.guard:
            self.record = self.record.having(name, server)
            remember(self.record, self.state)

    def undo(self) -> None:
        begun_servers = {name: server for name, server in self.record.servers.items() if name in self.began}
        _end(begun_servers)
        for name, server in begun_servers.items():
            self.remember(name, server.stopped())


def _end(servers: Mapping[str, ServerRecord]) -> None:
    stop(servers, _GRACE_S)
    for server in servers.values():
        for port in server.ports.values():
            # SeaweedFS leaves its sockets behind.
            for leftover in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                leftover.unlink(missing_ok=True)


def _not_up(server: Server, place: ServerPlace, problem: str) -> SetupError:
    lines: Sequence[str] = ()
    for log in sorted(place.logs.glob(f"{server.name}*.log"), key=lambda log: log.stat().st_mtime):
        text = log.read_text(encoding="utf-8", errors="replace")
        # Frames of a Java stack trace would push out what was said.
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\tat ")] or lines
    log_end = "\n".join(f"    {line[:300]}" for line in lines[-15:])
    return SetupError(
        f"{server.name} ({server.version}) {problem}; the last lines of its log:\n{log_end}",
        cure=f"read {place.logs}; if its data is at fault, `lakeingest stack down --wipe` deletes it",
    )
