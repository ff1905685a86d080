"""Kafka behind TLS, passwords, certificates and tokens: who may come in ingests, who may not is told why, and no secret
is told.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import kit
import pytest
from command import Command
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kit import mixed, produce
from pyspark.sql import SparkSession

from lakeingest.config import Source
from lakeingest.errors import SourceRefused, SourceUnreachable
from lakeingest.kafka.broker import Broker
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.testing.kafka import (
    Authority,
    Certificate,
    Cluster,
    Listener,
    SaslSsl,
    issue,
    mutual_tls,
    oauthbearer,
)
from lakeingest.testing.oidc import Issuer

pytestmark = pytest.mark.slow

USER, PASSWORD = "ingest", "hush-a1b2c3"
CLIENT, SECRET = "pipeline", "hush-g7h8i9"
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Proofs:
    """The certificates of a module's cluster and its clients, and who gives tokens."""

    authority: Authority
    broker: Certificate
    client: Certificate
    expired: Certificate
    issuer: Issuer

    @property
    def trust(self) -> dict[str, str]:
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.authority.file)}

    def certificate(self, of: Certificate | None = None) -> dict[str, str]:
        """Options of a client that proves itself by a certificate."""
        shown = of or self.client
        return {
            **self.trust,
            "ssl.certificate.location": str(shown.certificate),
            "ssl.key.location": str(shown.key),
        }

    def token(self, **others: str) -> dict[str, str]:
        """Options of a client that shows a token; the server that gives them has a certificate of the same CA."""
        ca = str(self.authority.file)
        more = {"ssl.ca.location": ca, "https.ca.location": ca}
        return {**self.issuer.client_options(CLIENT), **more, **{n.replace("__", "."): v for n, v in others.items()}}


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proofs]:
    authority, gone = Authority(tmp_path_factory.mktemp("tls")), datetime.now(UTC) - timedelta(hours=1)
    made = {name: authority.certify(name, HOST) for name in ("broker", "issuer")}
    client, expired = authority.certify("client", CLIENT), authority.certify("expired", HOST, gone)
    with Issuer({CLIENT: SECRET}, certificate=made["issuer"]) as issuer:
        yield Proofs(authority, made["broker"], client, expired, issuer)


@pytest.fixture(scope="module")
def sasl_ssl(proofs: Proofs) -> SaslSsl:
    return SaslSsl({USER: PASSWORD}, proofs.authority.file, proofs.broker.certificate, proofs.broker.key)


@pytest.fixture(scope="module")
def cluster(sasl_ssl: SaslSsl, proofs: Proofs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    listeners = {
        "mutual": mutual_tls(proofs.broker, proofs.authority.file),
        "expired": Listener("SSL", proofs.expired),
        "oauth": oauthbearer(proofs.broker, proofs.issuer, 5),
    }
    with Cluster(tmp_path_factory.mktemp("kafka"), sasl_ssl=sasl_ssl, listeners=listeners) as cluster:
        yield cluster


def test_who_may_come_in_ingests(
    stack: Addresses, spark: SparkSession, cluster: Cluster, proofs: Proofs, named: str
) -> None:
    """One set of options lets both clients in, the one that asks for offsets and Spark's; by password, certificate and
    token, all into the one table.
    """
    beside = replace(stack, kafka=cluster.direct)
    ways = (
        (cluster.bootstrap, cluster.client_options(USER, "PLAIN")),
        (cluster.bootstrap, cluster.client_options(USER, "SCRAM-SHA-512")),
        (cluster.at("mutual"), proofs.certificate()),
        (cluster.at("oauth"), proofs.token()),
    )
    for address, options in ways:
        produce(beside, named, mixed(100), partitions=2)
        source = {"topics": [named], "bootstrap_servers": address, "options": options}
        ingestion = Pipeline(kit.config_of(stack, named, source=source))
        assert ingestion.run(until_caught_up=True).consumed == 100
    assert ingestion.audit().conserved
    kit.assert_exactly_once(spark, ingestion, kit.manifest(beside, named))


def test_a_file_comes_of_a_sample(
    stack: Addresses, cluster: Cluster, named: str, tmp_path: Path, lakeingest: Command
) -> None:
    """The password stands in the environment alone; one that would stand in the file is refused."""
    produce(replace(stack, kafka=cluster.direct), named, [b'{"n": 1}'])
    options = {**cluster.client_options(USER), "sasl.password": "${INIT_PASSWORD}"}
    asked = ["init", tmp_path / "p.yaml", "--from-topic", named, "--brokers", cluster.bootstrap]
    clear = lakeingest(*asked, "--option", f"sasl.password={PASSWORD}")
    assert (clear.code, PASSWORD in clear.err) == (2, False)
    assert "--option 'sasl.password=${KAFKA_SECRET}'" in clear.err
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("INIT_PASSWORD", PASSWORD)
        given = (word for name, value in options.items() for word in ("--option", f"{name}={value}"))
        said = lakeingest(*asked, *given)
        assert (said.code, said.err) == (0, "")
        assert PASSWORD not in (tmp_path / "p.yaml").read_text()
        assert lakeingest("check", tmp_path / "p.yaml").code == 0


def refused(address: str, options: dict[str, str], timeout_s: float = 2.0) -> SourceUnreachable:
    """The error of a broker that is asked with these options."""
    source = Source.model_validate({"topics": ["any"], "options": options})
    begun = time.monotonic()
    with pytest.raises(SourceUnreachable) as caught:
        Broker(source, address, timeout_s=timeout_s).topics()
    assert time.monotonic() - begun < 10
    assert PASSWORD not in f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"
    return caught.value


@pytest.mark.parametrize(
    ("wrong", "said", "cure"),
    [
        ({"sasl.password": "guess-d4e5f6"}, "Invalid username or password", "correct source.options (sasl.username"),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "supported mechanisms: PLAIN,SCRAM-SHA-512", "sasl.mechanism"),
        ({"ssl.ca.location": "another"}, "certificate verify failed", "ssl.ca.location"),
    ],
    ids=["password", "mechanism", "authority"],
)
def test_who_may_not_is_told_why(cluster: Cluster, tmp_path: Path, wrong: dict[str, str], said: str, cure: str) -> None:
    """Cause and cure within seconds, and neither the password nor the one that was tried."""
    if "ssl.ca.location" in wrong:
        wrong = {"ssl.ca.location": str(issue(tmp_path, {}).authority)}
    error = refused(cluster.bootstrap, {**cluster.client_options(USER), **wrong})
    assert said in error.what
    assert cure in error.cure
    assert "guess-d4e5f6" not in str(error)


def refusals(cluster: Cluster, proofs: Proofs, tmp: Path) -> dict[str, tuple[str, dict[str, str], str, str]]:
    """What is wrong → whom to ask, with which options, what is told, and the cure."""
    mutual, oauth, url = cluster.at("mutual"), cluster.at("oauth"), "sasl.oauthbearer.token.endpoint.url"
    other = Authority(tmp / "other")
    foreign = other.certify("foreign", CLIENT)
    nobodys = "let the broker know the issuer"
    return {
        "server expired": (cluster.at("expired"), proofs.trust, "certificate has expired", "renew the broker's"),
        "another authority": (
            mutual,
            {**proofs.certificate(), "ssl.ca.location": str(other.file)},
            "unable to get local issuer",
            "ssl.ca.location",
        ),
        "no client certificate": (mutual, proofs.trust, "asks for a client's certificate", "write ssl.certificate.loc"),
        "client of another": (mutual, proofs.certificate(foreign), "does not trust the client's", "be issued by an"),
        "wrong secret": (
            oauth,
            proofs.token(sasl__oauthbearer__client__secret="guess-d4e5f6"),
            "invalid_client",
            "correct sasl.oauthbearer.client.id",
        ),
        "no server of tokens": (
            oauth,
            proofs.token(**{url: "http://127.0.0.1:9/t"}),
            "connect to",
            "start that server",
        ),
        "another server of tokens": (
            oauth,
            proofs.token(**{url: proofs.issuer.keys_url}),
            "no token comes from http://127.0.0.1:",
            "look at that server",
        ),
        "tokens of a server that is not trusted": (
            oauth,
            proofs.token(https__ca__location=str(other.file)),
            "no token comes from https://127.0.0.1:",
            "https.ca.location",
        ),
        "another audience": (
            oauth,
            proofs.token(sasl__oauthbearer__scope="nobody"),
            "does not take the token",
            nobodys,
        ),
        "all are dead": ("127.0.0.1:1,127.0.0.1:2", {}, "Connection refused", "start the broker"),
    }


def test_whoever_is_refused_is_told_which_it_is(cluster: Cluster, proofs: Proofs, tmp_path: Path) -> None:
    """Each in seconds, with a cure of its own, and without a secret; all at once, to be as quick as one."""
    cases = refusals(cluster, proofs, tmp_path)
    with ThreadPoolExecutor(len(cases)) as pool:
        found = dict(zip(cases, pool.map(lambda case: refused(case[0], case[1], 30.0), cases.values()), strict=True))
    for name, (_, _, said, cure) in cases.items():
        assert said in found[name].what, name
        assert cure in found[name].cure, name
        assert not {SECRET, "guess-d4e5f6"} & {*str(found[name]).split()}, name


def test_half_of_the_brokers_are_dead(cluster: Cluster, named: str, stack: Addresses) -> None:
    """Those that live are enough."""
    produce(replace(stack, kafka=cluster.direct), named, [b"{}"])
    source = Source.model_validate({"topics": [named]})
    assert Broker(source, f"127.0.0.1:1,{cluster.direct},127.0.0.1:2").topics().last == {(named, 0): 1}


def test_a_certificate_of_another_host_is_not_trusted(cluster: Cluster) -> None:
    """The cure names both that may be wrong: the CA, and the address."""
    address = cluster.bootstrap.replace("127.0.0.1", "localhost")
    error = refused(address, cluster.client_options(USER))
    assert "certificate verify failed" in error.what
    assert "source.bootstrap_servers the broker as its certificate names it" in error.cure


def test_a_refusal_is_not_waited_for(cluster: Cluster) -> None:
    """The broker may take half a minute to answer, but a refusal is one that it said already."""
    refused(cluster.bootstrap, {**cluster.client_options(USER), "sasl.password": "guess"}, timeout_s=30.0)


def test_a_client_without_tls_is_told_of_it(cluster: Cluster) -> None:
    """The broker hangs up on it; the cure names what may be wrong."""
    assert "security.protocol" in refused(cluster.bootstrap, {}).cure


@pytest.fixture(scope="module")
def guarded(sasl_ssl: SaslSsl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with ACLs, where only who comes by the listener of its own may do everything."""
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Cluster(tmp_path_factory.mktemp("guarded"), sasl_ssl=sasl_ssl, properties=properties) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("allowed", "said"),
    [
        ([], "Topic authorization failed"),
        ([AclOperation.DESCRIBE], "it may be described, and not be read"),
        ([AclOperation.READ], None),
    ],
    ids=["nothing", "describe", "read"],
)
def test_a_topic_that_may_not_be_read(
    stack: Addresses, guarded: Cluster, named: str, allowed: list[AclOperation], said: str | None
) -> None:
    """The broker answers, so it is told at once what it denies and what to do; a retry would help nothing."""
    produce(replace(stack, kafka=guarded.direct), named, [b"{}"])
    admin = AdminClient({"bootstrap.servers": guarded.direct, "log_level": 0})
    for operation in allowed:
        place = (ResourceType.TOPIC, named, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation)
        for future in admin.create_acls([AclBinding(*place, AclPermissionType.ALLOW)]).values():
            future.result(30)
        # The controller has it; the broker that is asked has it a moment later.
        known = AclBindingFilter(*place[:3], None, None, operation, AclPermissionType.ALLOW)
        deadline = time.monotonic() + 30
        while not admin.describe_acls(known).result(30):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    source = Source.model_validate({"topics": [named], "options": guarded.client_options(USER)})
    broker = Broker(source, guarded.bootstrap)
    if said is None:
        assert broker.topics().last == {(named, 0): 1}
        return
    with pytest.raises(SourceRefused, match=rf"denies access to {named}: .*{said}") as caught:
        broker.topics()
    assert f"Describe and Read {named}" in caught.value.cure
    assert not caught.value.retry_helps
    assert not isinstance(caught.value, SourceUnreachable)
