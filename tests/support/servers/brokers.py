"""A Kafka that can be hurt: real brokers on loopback, one to three, that are stopped, killed and started at will."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from support.servers.oidc import Issuer

from lakeingest.errors import SetupError
from lakeingest.local.addresses import HOST
from lakeingest.local.artifacts import fetch
from lakeingest.local.kafka import PROPERTIES, brokers_at, new_cluster, prepare, replication
from lakeingest.local.machine import java
from lakeingest.local.server import free_ports, listens

_JVM = ("-Xmx256m", "-XX:TieredStopAtLevel=1")
_SECURITY = "org.apache.kafka.common.security"
_WAIT_S = 30.0
_START_S = 60.0
_NOTICED = {
    # How long a broker that was killed counts as alive; and a leader that moved stays where it is.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "auto.leader.rebalance.enable": "false",
}


@dataclass(frozen=True)
class Certificate:
    """PEM files of a certificate (with its chain), and of its key as PKCS#8."""

    certificate: Path
    key: Path


class Authority:
    """A CA of our own; needs the packages trustme and cryptography.

    Attributes:
        file: PEM file of its certificate, which those who trust it name.
    """

    def __init__(self, folder: Path) -> None:
        """`folder`: where its files are put; made if it is not there."""
        import trustme

        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self.file, self._ca = folder, folder / "ca.pem", trustme.CA()
        self._ca.cert_pem.write_to_path(str(self.file))

    def certify(self, name: str, of: str, until: datetime | None = None) -> Certificate:
        """A certificate, for a host or a client.

        Args:
            name: of its two files, without suffix.
            of: the host, or the client's name.
            until: when it expires (aware); by default in many years.
        """
        from cryptography.hazmat.primitives import serialization as s

        begin = until - timedelta(days=1) if until else None
        issued = self._ca.issue_cert(of, common_name=of, not_before=begin, not_after=until)
        key = s.load_pem_private_key(issued.private_key_pem.bytes(), None)
        made = Certificate(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        made.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        made.key.touch(mode=0o600)
        made.key.write_bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()))
        return made


@dataclass(frozen=True)
class SaslSsl:
    """Who is let in (by PLAIN or SCRAM-SHA-512), and how the broker proves itself.

    Attributes:
        users: name → password; without blanks, commas, quotes and backslashes.
        authority: PEM file of the CA that clients trust.
        certificate, key: PEM files of the broker's certificate (with its chain) and its key as PKCS#8.
    """

    users: Mapping[str, str] = field(repr=False)
    authority: Path
    certificate: Path
    key: Path


def issue(folder: Path, users: Mapping[str, str], host: str = HOST) -> SaslSsl:
    """Make a CA of our own and let it certify `host`; needs the packages trustme and cryptography."""
    authority = Authority(folder)
    made = authority.certify("broker", host)
    return SaslSsl(users, authority.file, made.certificate, made.key)


@dataclass(frozen=True)
class Listener:
    """A further address of each broker, with a security of its own.

    Attributes:
        protocol: SSL, SASL_SSL or SASL_PLAINTEXT.
        broker: how the broker proves itself; None with SASL_PLAINTEXT.
        properties: of this listener, as server.properties has them behind `listener.name.NAME.`.
        jvm: options that the broker's Java needs for it.
    """

    protocol: str
    broker: Certificate | None
    properties: Mapping[str, str] = field(default_factory=dict)
    jvm: Sequence[str] = ()


def mutual_tls(broker: Certificate, authority: Path) -> Listener:
    """A listener that lets in who shows a certificate of this authority (PEM)."""
    truststore = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    return Listener("SSL", broker, {"ssl.client.auth": "required", **truststore})


def oauthbearer(broker: Certificate, issuer: Issuer, reauthenticate_s: float = 0) -> Listener:
    """A listener that lets in who shows a token of this issuer.

    Args:
        reauthenticate_s: after how many seconds at most a client must show a new one; 0: never.
    """
    package = f"{_SECURITY}.oauthbearer"
    return Listener(
        "SASL_SSL",
        broker,
        {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "oauthbearer.sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
            "oauthbearer.sasl.server.callback.handler.class": f"{package}.OAuthBearerValidatorCallbackHandler",
            "oauthbearer.connections.max.reauth.ms": str(int(reauthenticate_s * 1000)),
            "sasl.oauthbearer.jwks.endpoint.url": issuer.keys_url,
            "sasl.oauthbearer.expected.issuer": issuer.name,
            "sasl.oauthbearer.expected.audience": issuer.audience,
            "sasl.oauthbearer.clock.skew.seconds": "1",
        },
        # Kafka 4 asks no address that is not named so.
        (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.keys_url}",),
    )


class Cluster:
    """Brokers numbered from 1, each a controller too; they run within a `with` block, and none outlives it.

    With three, each record is on three and counts when it is on two. Topics are not made by themselves.
    `start` and `stop` take seconds; a broker that was killed counts as gone for the others after four.

    Args:
        folder: for settings, data and logs; a new one is made.
        brokers: how many.
        sasl_ssl: clients must come over SASL_SSL; left out, over PLAINTEXT.
        advertised: host:port that clients of a single broker are sent to, for a proxy that passes on to `behind`.
        properties: more of server.properties, or others.
        listeners: further addresses of each broker, by names of lower-case letters; see `at`.

    Raises:
        SetupError: from `with` and `start`, when a broker does not serve within a minute.
    """

    def __init__(
        self,
        folder: Path,
        brokers: int = 1,
        sasl_ssl: SaslSsl | None = None,
        *,
        advertised: str | None = None,
        properties: Mapping[str, str] | None = None,
        listeners: Mapping[str, Listener] | None = None,
    ) -> None:
        if advertised is not None and brokers > 1:
            raise ValueError("one address cannot stand for several brokers")
        self.nodes = range(1, brokers + 1)
        self._folder, self._sasl_ssl, self._advertised = folder, sasl_ssl, advertised
        self._properties = dict(properties or {})
        self._listeners = dict(listeners or {})
        self._id = new_cluster()
        names = [
            f"{what}{node}" for node in self.nodes for what in ("client", "direct", "controller", *self._listeners)
        ]
        self._ports = free_ports(names, {}, set())
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        """The address of every broker as clients are to use it; behind a proxy the proxy's."""
        return self._advertised or ",".join(self._at("client", node) for node in self.nodes)

    @property
    def behind(self) -> str:
        """Where a proxy finds the broker that sends its clients to `advertised`."""
        return self._at("client", 1)

    @property
    def direct(self) -> str:
        """Addresses that bypass proxy and SASL_SSL: listeners of their own, always PLAINTEXT."""
        return ",".join(self._at("direct", node) for node in self.nodes)

    def at(self, listener: str) -> str:
        """The addresses of all brokers behind one of `listeners`."""
        return ",".join(self._at(listener, node) for node in self.nodes)

    def client_options(self, user: str, mechanism: str = "PLAIN") -> dict[str, str]:
        """What a pipeline file says in source.options to come in as `user`; empty without `sasl_ssl`."""
        if self._sasl_ssl is None:
            return {}
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": self._sasl_ssl.users[user],
            "ssl.ca.location": str(self._sasl_ssl.authority),
        }

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor(len(self.nodes)) as pool:
                list(pool.map(self._launch, self.nodes))
            for node in self.nodes:
                self._wait_for(node)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running.values():
            process.kill()
        for node in list(self._running):
            self._running.pop(node).wait()

    def start(self, node: int) -> None:
        """Start a broker that does not run, on its ports and with its data, and wait until it serves.

        A cluster of three needs two for that: with one alone this fails after a minute.
        """
        if node not in self._running:
            self._launch(node)
        self._wait_for(node)

    def stop(self, node: int) -> None:
        """SIGTERM, by which a broker hands over what it leads; SIGKILL after half a minute."""
        if process := self._running.pop(node, None):
            process.terminate()
            try:
                process.wait(_WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kill(self, node: int) -> None:
        """SIGKILL: it says goodbye to nobody."""
        if process := self._running.pop(node, None):
            process.kill()
            process.wait()

    def restart(self, node: int) -> None:
        """`stop`, then `start`."""
        self.stop(node)
        self.start(node)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition; −1 while none does.

        Raises:
            KafkaException: no broker answers.
            KeyError: there is no such partition.
        """
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.direct, "log_level": 0})
        return int(admin.list_topics(topic, timeout=10).topics[topic].partitions[partition].leader)

    def move_leader(self, topic: str, partition: int = 0) -> int:
        """Stop the broker that leads a partition, start it again when another leads, and return that other.

        Whatever else that broker led moves too, and does not come back by itself.
        """
        old = self.leader(topic, partition)
        self.stop(old)
        until = time.monotonic() + _START_S
        while (new := self.leader(topic, partition)) in (old, -1):
            if time.monotonic() > until:
                raise SetupError(f"nobody leads {topic}-{partition} but {old}", cure="have three brokers, all running")
            time.sleep(0.1)
        self.start(old)
        return new

    def limit(self, quotas: Mapping[str, float | None]) -> None:
        """Set quotas of every client, as `consumer_byte_rate` and `producer_byte_rate` (bytes a second on each broker);
        None takes one away. It takes some seconds.

        Raises:
            SetupError: the brokers do not take it.
        """
        added = ",".join(f"{name}={value:g}" for name, value in quotas.items() if value is not None)
        gone = ",".join(name for name, value in quotas.items() if value is None)
        what = [*(("--add-config", added) if added else ()), *(("--delete-config", gone) if gone else ())]
        jars = ":".join(map(str, fetch("kafka")))
        tool = [str(java()), *_JVM, "-cp", jars, "kafka.admin.ConfigCommand", "--bootstrap-server", self.direct]
        command = [*tool, "--alter", "--entity-type", "clients", "--entity-default", *what]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SetupError(
                f"the quotas were not set: {(done.stderr or done.stdout).strip()[-500:]}", cure="correct their names"
            )

    def _at(self, what: str, node: int) -> str:
        return f"{HOST}:{self._ports[f'{what}{node}']}"

    def _launch(self, node: int) -> None:
        data = self._folder / f"broker-{node}"
        data.mkdir(parents=True, exist_ok=True)
        users = self._sasl_ssl.users if self._sasl_ssl else {}
        storage = [f"--add-scram=SCRAM-SHA-512=[name={name},password={word}]" for name, word in users.items()]
        jvm = [*_JVM, *(option for each in self._listeners.values() for option in each.jvm)]
        command = prepare(self._settings(node), data, data, cluster=self._id, jvm=jvm, storage=storage)
        with (data / "output.log").open("ab") as output:
            self._running[node] = subprocess.Popen(
                command,
                cwd=data,
                env=dict(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _settings(self, node: int) -> dict[str, str]:
        client, direct, controller = (self._at(what, node) for what in ("client", "direct", "controller"))
        protocol = "PLAINTEXT" if self._sasl_ssl is None else "SASL_SSL"
        own = "".join(f",{name.upper()}://{self._at(name, node)}" for name in self._listeners)
        protocols = "".join(f",{name.upper()}:{each.protocol}" for name, each in self._listeners.items())
        return {
            **PROPERTIES,
            **replication(len(self.nodes)),
            **_NOTICED,
            "node.id": str(node),
            "controller.quorum.voters": ",".join(f"{n}@{self._at('controller', n)}" for n in self.nodes),
            "listeners": f"CLIENT://{client},DIRECT://{direct},CONTROLLER://{controller}{own}",
            "advertised.listeners": f"CLIENT://{self._advertised or client},DIRECT://{direct}{own}",
            "listener.security.protocol.map": f"CLIENT:{protocol},DIRECT:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}",
            "inter.broker.listener.name": "DIRECT",
            **(self._secured(self._sasl_ssl, node) if self._sasl_ssl else {}),
            **{n: v for name, each in self._listeners.items() for n, v in self._listened(name, each, node).items()},
            **self._properties,
        }

    def _listened(self, name: str, listener: Listener, node: int) -> dict[str, str]:
        proof = self._keystore(name, listener.broker, node) if listener.broker else {}
        return {f"listener.name.{name}.{key}": value for key, value in {**proof, **listener.properties}.items()}

    def _keystore(self, name: str, proof: Certificate | SaslSsl, node: int) -> dict[str, str]:
        both = self._folder / f"broker-{node}" / f"{name}.pem"
        both.touch(mode=0o600)
        both.write_bytes(proof.key.read_bytes() + proof.certificate.read_bytes())
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}

    def _secured(self, sasl_ssl: SaslSsl, node: int) -> dict[str, str]:
        users = " ".join(f'user_{name}="{password}"' for name, password in sasl_ssl.users.items())
        listener = "listener.name.client"
        return {
            **{f"{listener}.{key}": value for key, value in self._keystore("client", sasl_ssl, node).items()},
            f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"{listener}.plain.sasl.jaas.config": f"{_SECURITY}.plain.PlainLoginModule required {users};",
            f"{listener}.scram-sha-512.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
        }

    def _wait_for(self, node: int) -> None:
        until = time.monotonic() + _START_S
        while not (listens(self._ports[f"client{node}"]) and node in brokers_at(self._at("direct", node))):
            if self._running[node].poll() is not None:
                raise self._not_up(node, "ended by itself")
            if time.monotonic() > until:
                raise self._not_up(node, f"does not serve after {_START_S:.0f} s")
            time.sleep(0.1)

    def _not_up(self, node: int, what: str) -> SetupError:
        folder = self._folder / f"broker-{node}"
        lines: Sequence[str] = ()
        for log in (folder / "kafka-server.log", folder / "output.log"):
            text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            lines = [line for line in text.splitlines() if " ERROR " in line or " FATAL " in line][-5:] or lines
        said = "".join(f"\n    {line[:300]}" for line in lines)
        return SetupError(f"broker {node} {what}{said}", cure=f"read its logs in {folder}")
