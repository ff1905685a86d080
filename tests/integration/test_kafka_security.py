"""Kafka behind TLS, passwords, certificates and tokens: who may come in ingests, who may not is told why, and no secret
is told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession
from support.oracle import assert_exactly_once, topic_manifest
from support.pipelines import config_of, only
from support.pipelines.command_line import Command
from support.records import mixed_records, produce
from support.servers.brokers import Authority, Certificate, Cluster, Listener, SaslSsl, issue, mutual_tls, oauthbearer
from support.servers.oidc import Issuer

from lakeingest.config import Source, file
from lakeingest.errors import SourceRefused, SourceUnreachable
from lakeingest.ingest.events import Retrying
from lakeingest.ingest.source import KafkaSource
from lakeingest.kafka import peek
from lakeingest.kafka.broker import Broker
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.record import OffsetRange, OffsetRanges
from lakeingest.spark import failures

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
        produce(beside, named, mixed_records(100), partitions=2)
        source = {"topics": [named], "bootstrap_servers": address, "options": options}
        ingestion = Pipeline(config_of(stack, named, source=source))
        assert ingestion.run(until_caught_up=True).consumed == 100
    assert ingestion.audit().conserved
    assert_exactly_once(spark, ingestion, topic_manifest(beside, named))


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


Refused = tuple[str, dict[str, str], str, str]


def refusals(cluster: Cluster, proofs: Proofs, tmp: Path) -> dict[str, Refused]:
    """What is wrong → whom to ask, with which options, what is told, and the cure."""
    mutual, other = cluster.at("mutual"), Authority(tmp / "other")
    foreign = proofs.certificate(other.certify("foreign", CLIENT))
    strange = {**proofs.certificate(), "ssl.ca.location": str(other.file)}
    return {
        "server expired": (cluster.at("expired"), proofs.trust, "certificate has expired", "renew the broker's"),
        "another authority": (mutual, strange, "unable to get local issuer", "ssl.ca.location"),
        "no client certificate": (mutual, proofs.trust, "asks for a client's certificate", "write ssl.certificate.loc"),
        "client of another": (mutual, foreign, "does not trust the client's", "be issued by an"),
        "all are dead": ("127.0.0.1:1,127.0.0.1:2", {}, "Connection refused", "start the broker"),
    }


def without_token(cluster: Cluster, proofs: Proofs, tmp: Path, issuers: tuple[Issuer, Issuer]) -> dict[str, Refused]:
    """The same, of tokens, by one issuer that refuses all, and another that the broker does not know."""
    away, strange = issuers
    away.refuses = True
    url, id_ = "sasl.oauthbearer.token.endpoint.url", "correct sasl.oauthbearer.client.id"
    other = str(Authority(tmp / "others").file)
    cases = {
        "secret": ({"sasl.oauthbearer.client.secret": "guess-d4e5f6"}, "invalid_client", id_),
        "nobody there": ({url: "http://127.0.0.1:9/t"}, "onnect", "start that server"),
        "it has an error": ({url: away.token_url}, "it answers 503", "look at that server"),
        "not trusted": ({"https.ca.location": other}, "no token comes from https://127.0.0.1:", "https.ca.location"),
        "another issuer": ({url: strange.token_url}, "does not take the token", "let the broker know the issuer"),
    }
    return {
        name: (cluster.at("oauth"), {**proofs.token(), **more}, said, cure)
        for name, (more, said, cure) in cases.items()
    }


def test_whoever_is_refused_is_told_which_it_is(cluster: Cluster, proofs: Proofs, tmp_path: Path) -> None:
    """Each in seconds, with a cure of its own, and without a secret; all at once, to be as quick as one."""
    with Issuer({CLIENT: SECRET}) as away, Issuer({CLIENT: SECRET}) as strange:
        cases = refusals(cluster, proofs, tmp_path) | without_token(cluster, proofs, tmp_path, (away, strange))
        with ThreadPoolExecutor(len(cases)) as pool:
            asked = pool.map(lambda case: refused(case[0], case[1], 30.0), cases.values())
            found = dict(zip(cases, asked, strict=True))
    for name, (_, _, said, cure) in cases.items():
        assert said in found[name].what, (name, found[name])
        assert cure in found[name].cure, (name, found[name])
        assert not [word for word in (SECRET, "guess-d4e5f6", "PRIVATE KEY") if word in str(found[name])]


def read(spark: SparkSession, topic: str, address: str, options: dict[str, str]) -> int:
    """How many records Spark's reader gives of one that there is; what fails is translated as in a run."""
    source = {"topics": [topic], "bootstrap_servers": address, "options": options}
    others = {"table": {"path": "/tmp/none"}, "decode": {"value": {"format": "bytes"}}}
    config = file.from_mapping({"name": topic, "source": source, **others})
    kafka = KafkaSource(config, address)
    try:
        return kafka.frame(spark, OffsetRanges((OffsetRange(topic, 0, 0, 1),))).count()
    except failures.spark_failures() as failed:
        raise kafka.unreadable(failed) from None


@pytest.mark.classic
@pytest.mark.pinned
def test_spark_has_the_login_of_msk(
    spark: SparkSession, cluster: Cluster, named: str, stack: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no MSK here: its login is loaded, and the broker says that it does not know the mechanism."""
    for name in ("AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "eu-west-1")
    produce(replace(stack, kafka=cluster.direct), named, [b"{}"])
    options = {**cluster.client_options(USER), "sasl.mechanism": "AWS_MSK_IAM"}
    begun = time.monotonic()
    with pytest.raises(SourceUnreachable, match="mechanism 'AWS_MSK_IAM' not enabled in the server") as caught:
        read(spark, named, cluster.bootstrap, options)
    assert "does not let Spark's reader in" in caught.value.what
    assert time.monotonic() - begun < 20


@pytest.mark.faults
@pytest.mark.classic
def test_what_sparks_reader_alone_meets(spark: SparkSession, cluster: Cluster, proofs: Proofs, tmp_path: Path) -> None:
    """The same refusals, said by Java: cause and cure in seconds."""
    named = "alone"
    password = {**cluster.client_options(USER), "sasl.password": "guess-d4e5f6"}
    with Issuer({CLIENT: SECRET}) as away, Issuer({CLIENT: SECRET}) as strange:
        cases = refusals(cluster, proofs, tmp_path) | without_token(cluster, proofs, tmp_path, (away, strange))
        cures = {
            "server expired": "renew it",
            "another authority": "ssl.ca.location",
            "no client certificate": "ssl.certificate.location",
            "client of another": "of a certificate that the broker trusts",
            "secret": "let it know sasl.oauthbearer.client.id",
            "nobody there": "reach the server of sasl.oauthbearer.token.endpoint.url",
            "it has an error": "reach the server of sasl.oauthbearer.token.endpoint.url",
            "not trusted": "https.ca.location",
            "another issuer": "look at the broker's log",
            "password": "sasl.password",
        }
        cases["password"] = (cluster.bootstrap, password, "", "")
        for name, cure in cures.items():
            address, options = cases[name][:2]
            begun = time.monotonic()
            with pytest.raises(SourceUnreachable) as caught:
                read(spark, named, address, options)
            seconds, error = time.monotonic() - begun, caught.value
            print(f"{name}: {seconds:.1f} s: {error}")
            assert cure in error.cure, (name, error)
            assert seconds < 20, name
            assert not [word for word in (SECRET, "guess-d4e5f6", "PRIVATE KEY") if word in str(error)]


@pytest.mark.faults
def test_a_token_is_renewed(
    stack: Addresses, spark: SparkSession, cluster: Cluster, proofs: Proofs, named: str
) -> None:
    """Tokens of eight seconds, a broker that asks for new ones after five: a run of half a minute goes on; where the
    server of tokens fails, the run says so, and goes on when it is back.
    """
    beside, told = replace(stack, kafka=cluster.direct), list[Retrying]()
    produce(beside, named, mixed_records(10), partitions=2)
    source = {"topics": [named], "bootstrap_servers": cluster.at("oauth"), "options": proofs.token()}
    ingestion = Pipeline(config_of(stack, named, source=source, retry={"wait": "5 minutes"}))
    stop, proofs.issuer.lifetime_s = threading.Event(), 8
    issued = proofs.issuer.issued

    def change() -> None:
        try:
            for n in range(12):
                time.sleep(3)
                # Away from the fifth to the eighth.
                proofs.issuer.refuses = 4 <= n < 8
                produce(beside, named, mixed_records(10), partitions=2)
            time.sleep(10)
        finally:
            proofs.issuer.refuses = False
            stop.set()

    changing = threading.Thread(target=change)
    changing.start()
    try:
        ingestion.run(stop=stop, on_event=only(Retrying, told.append))
    finally:
        stop.set()
        changing.join()
        proofs.issuer.lifetime_s = 3600
    ingestion.run(until_caught_up=True)
    assert_exactly_once(spark, ingestion, topic_manifest(beside, named))
    print(f"{proofs.issuer.issued - issued} tokens; told: {[str(each.failure) for each in told]}")
    assert proofs.issuer.issued - issued > 5
    assert any("no token" in each.failure.what for each in told)


def test_a_run_with_half_of_the_brokers(cluster: Cluster, named: str, stack: Addresses) -> None:
    """Those that live are enough."""
    produce(replace(stack, kafka=cluster.direct), named, [b"{}"])
    source = Source.model_validate({"topics": [named]})
    assert Broker(source, f"127.0.0.1:1,{cluster.direct},127.0.0.1:2").topics().last == {(named, 0): 1}


def test_a_certificate_of_another_host_is_not_trusted(cluster: Cluster) -> None:
    """The cure names both that may be wrong: the CA, and the address."""
    address = cluster.bootstrap.replace("127.0.0.1", "localhost")
    error = refused(address, cluster.client_options(USER))
    assert "certificate verify failed" in error.what
    assert "let source.bootstrap_servers name the broker as its certificate names it" in error.cure
    assert "ssl.ca.location" in error.cure


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
        pytest.param([], "Topic authorization failed", marks=pytest.mark.faults),
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
        # No right on a group is needed, none is joined; librdkafka tells all the same that it lacks, before the end.
        found = peek.read(source, guarded.bootstrap, {(named, 0): 0}, {(named, 0): 2}, 2)
        assert [each.value() for each in found] == [b"{}"]
        return
    with pytest.raises(SourceRefused, match=rf"denies access to {named}: .*{said}") as caught:
        broker.topics()
    assert f"Describe and Read {named}" in caught.value.cure
    assert not caught.value.retry_helps
    assert not isinstance(caught.value, SourceUnreachable)
