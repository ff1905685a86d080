"""PostgreSQL and MariaDB as change data capture needs them: on loopback, with data that ends with the block.

PostgreSQL is the machine's, MariaDB comes from Debian's packages.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.servers import free_port, serving
from support.servers.debian import unpack

from lakeingest.local.addresses import HOST

_MARIADB_VERSION = "10.11.19-0+deb12u1"
_MARIADB = {
    "mariadb-server-core": (
        f"1:{_MARIADB_VERSION}",
        "bda81cb1c5b538e19eed27462fa8df577684b9cdc4fe40cee8d1da9cbc0fe76b",
    ),
    "mariadb-client-core": (
        f"1:{_MARIADB_VERSION}",
        "60549abde2ad55068610b2cae03af7d17a2cafb0993f16c8c2413bd1b5fe6f5f",
    ),
    "libaio1": ("0.3.113-4", "d1476e4beab3d85f8a7d31de94c27472711ed3ef399ce70708e24b259426125b"),
    "liburing2": ("2.3-3", "c23077e3640e6cb4b819c134b3f41d5cf21b3edac099654b1b4142c3069a39a3"),
}
_POSTGRES_SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # A test that forgets a slot shall not fill the disk.
    "max_slot_wal_keep_size": "1GB",
}
_MARIADB_SETTINGS = {
    "bind-address": HOST,
    "server-id": "1",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "binlog-row-metadata": "FULL",
    "sync-binlog": "0",
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-buffer-pool-size": "32M",
    "character-set-server": "utf8mb4",
    "default-time-zone": "+00:00",
    "skip-name-resolve": "1",
    # Maven Central has MySQL's connector alone, which refuses MariaDB's own number. To a replica that does not take it
    # for MariaDB, the server sends the begin of a transaction as MySQL does.
    "version": "5.7.19-log",
}


@dataclass(frozen=True)
class Database:
    """A database that runs, and who may do everything in it."""

    port: int
    user: str
    password: str = field(repr=False)
    database: str
    scheme: str
    host: str = HOST

    @property
    def url(self) -> str:
        """As SQLAlchemy has it."""
        return f"{self.scheme}://{self.user}:{self.password}@{self.host}:{self.port}/{self.database}"

    def connect(self, *, autocommit: bool = False) -> Any:
        """A connection of the DB-API; close it. Two of them are two transactions."""
        options: dict[str, Any] = {"host": self.host, "port": self.port, "user": self.user, "password": self.password}
        if self.scheme.startswith("postgresql"):
            import psycopg

            return psycopg.connect(**options, dbname=self.database, autocommit=autocommit)
        import pymysql

        return pymysql.connect(**options, database=self.database, autocommit=autocommit)

    def execute(self, *statements: str, parameters: Sequence[Any] | None = None) -> None:
        """Each statement in a transaction of its own."""
        connection = self.connect(autocommit=True)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement, parameters)
        finally:
            connection.close()

    def transact(self, *statements: str) -> None:
        """All statements in one transaction."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
            connection.commit()
        finally:
            connection.close()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query gives."""
        connection = self.connect(autocommit=True)
        try:
            with connection.cursor() as cursor:
                cursor.execute(query)
                return [tuple(row) for row in cursor.fetchall()]
        finally:
            connection.close()


@contextmanager
def postgres(folder: Path) -> Iterator[Database]:
    """PostgreSQL with logical decoding; its log is postgres.log in the folder.

    It refuses to run as root: there it runs as a user without rights, with its data outside the folder, which that user
    may not enter.
    """
    programs = _postgres_programs()
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        data, command = Path(name) / "data", _unprivileged(Path(name))
        initdb = [*command, programs / "initdb", "--pgdata", data, "--username", "postgres", "--auth", "trust"]
        initdb += ["--no-sync", "--encoding", "UTF8", "--locale", "C.UTF-8"]
        done = subprocess.run(initdb, cwd="/", check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        port = free_port()
        command += [programs / "postgres", "-D", data, "-p", str(port)]
        command += [word for setting in _POSTGRES_SETTINGS.items() for word in ("-c", "=".join(setting))]
        with serving(command, port, folder / "postgres.log") as process:
            try:
                yield Database(port, "postgres", "postgres", "postgres", "postgresql+psycopg")
            finally:
                # Fast: without waiting for clients, as a worker that reads the log is one.
                process.send_signal(signal.SIGINT)
                process.wait(60)


@contextmanager
def mariadb(folder: Path) -> Iterator[Database]:
    """MariaDB with a binary log of whole rows; its log is mariadb.log in the folder."""
    with tempfile.TemporaryDirectory(prefix="mariadb-") as name:
        data, (files, env) = Path(name) / "data", _mariadb_files()
        who = ["--user=root"] if os.geteuid() == 0 else []
        install: list[str | Path] = [
            "sh",
            files / "usr" / "bin" / "mariadb-install-db",
            "--no-defaults",
            f"--basedir={files / 'usr'}",
        ]
        install += [f"--datadir={data}", *who, "--auth-root-authentication-method=normal", "--skip-test-db"]
        done = subprocess.run(install, check=False, capture_output=True, text=True, env=env, cwd=name)
        assert done.returncode == 0, done.stdout + done.stderr
        first = Path(name) / "first.sql"
        first.write_text(
            "CREATE DATABASE shop;\nCREATE USER tester@'%' IDENTIFIED BY 'secret';\nGRANT ALL ON *.* TO tester@'%';\n"
        )
        port = free_port()
        command: list[str | Path] = [
            files / "usr" / "sbin" / "mariadbd",
            "--no-defaults",
            *who,
            f"--basedir={files / 'usr'}",
        ]
        command += [f"--datadir={data}", f"--socket={name}/socket", f"--port={port}", f"--init-file={first}"]
        command += [f"--{'='.join(setting)}" for setting in _MARIADB_SETTINGS.items()]
        with serving(command, port, folder / "mariadb.log", env):
            yield Database(port, "tester", "secret", "shop", "mysql+pymysql")


@cache
def _postgres_programs() -> Path:
    """The folder of initdb and postgres, the newest that is installed."""
    versions = Path("/usr/lib/postgresql")
    folders = [Path(program).parent for program in [shutil.which("initdb")] if program]
    folders += sorted(versions.glob("*/bin"), key=lambda each: int(each.parent.name), reverse=True)
    for folder in folders:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    pytest.skip("PostgreSQL's programs (initdb, postgres) are not on this machine")


def _unprivileged(folder: Path) -> list[str | Path]:
    """The beginning of a command that runs as a user without rights, to whom the folder is given; empty for no root."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL does not run as root, and there is no setpriv here to become somebody else")
    user = next(each for each in pwd.getpwall() if each.pw_name in ("postgres", "nobody"))
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]


def _mariadb_files() -> tuple[Path, dict[str, str]]:
    """The unpacked packages, and the environment in which their programs find their libraries."""
    files = unpack(f"mariadb-{_MARIADB_VERSION}", _MARIADB)
    libraries = [files / "usr" / "lib" / "x86_64-linux-gnu", files / "lib" / "x86_64-linux-gnu"]
    return files, {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))}
