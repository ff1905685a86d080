"""Kafka behind TLS and passwords: who may come in ingests, who may not is told why, and no secret is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
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
from lakeingest.testing.kafka import Cluster, SaslSsl, issue

pytestmark = pytest.mark.slow

USER, PASSWORD = "ingest", "hush-a1b2c3"


@pytest.fixture(scope="module")
def sasl_ssl(tmp_path_factory: pytest.TempPathFactory) -> SaslSsl:
    return issue(tmp_path_factory.mktemp("tls"), {USER: PASSWORD})


@pytest.fixture(scope="module")
def cluster(sasl_ssl: SaslSsl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("kafka"), sasl_ssl=sasl_ssl) as cluster:
        yield cluster


def test_who_may_come_in_ingests(stack: Addresses, spark: SparkSession, cluster: Cluster, named: str) -> None:
    """One set of options lets both clients in, the one that asks for offsets and Spark's; by PLAIN and by SCRAM."""
    beside = replace(stack, kafka=cluster.direct)
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        produce(beside, named, mixed(100), partitions=2)
        options = cluster.client_options(USER, mechanism)
        source = {"topics": [named], "bootstrap_servers": cluster.bootstrap, "options": options}
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
