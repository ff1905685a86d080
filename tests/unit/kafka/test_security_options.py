"""What source.options say of security, for both of Kafka's clients, and what they may not say."""

from __future__ import annotations

import base64
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization as s
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificate
from pydantic import ValidationError
from support.servers.brokers import Authority, Certificate

from lakeingest.config import Source
from lakeingest.errors import SetupError, SourceUnreachable, UsageError
from lakeingest.kafka import msk, options, refusals

BROKERS = "b-1.demo.a1.c2.kafka.eu-west-1.amazonaws.com:9098"
PACKAGE = "org.apache.kafka.common.security"
PLAIN = f"{PACKAGE}.plain.PlainLoginModule"
URL = "sasl.oauthbearer.token.endpoint.url"
OIDC = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer.test/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": 'hush-"\\',
}


SM2 = """-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqBHM9VAYItBG0wawIBAQQgEDqNYdkvncSksqpH
Tv9wznSOXuQvghrif5BHcmgF4c6hRANCAASuNTaIlg++nYb5hC7ugLcnkI8a+DLf
SZe/ewLlmAr8fHUb7+bow9pJj/ectvQgDFhFSGhFrMHu+hMXyenngebZ
-----END PRIVATE KEY-----
"""


def source(given: dict[str, str]) -> Source:
    return Source.model_validate({"topics": ["a"], "options": given})


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def client(authority: Authority) -> Certificate:
    return authority.certify("client", "me")


def files(of: Certificate) -> dict[str, str]:
    return {"ssl.certificate.location": str(of.certificate), "ssl.key.location": str(of.key)}


@pytest.mark.parametrize(
    ("given", "java"),
    [
        ({}, {}),
        ({"security.protocol": "ssl"}, {"kafka.security.protocol": "SSL"}),
        ({"ssl.ca.location": "probe"}, {}),
        ({"enable.ssl.certificate.verification": "true", "client.id": "c"}, {"kafka.client.id": "c"}),
        (
            {"ssl.endpoint.identification.algorithm": "none"},
            {"kafka.ssl.endpoint.identification.algorithm": ""},
        ),
        (
            {"sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": 'p"\\'},
            {
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": f'{PLAIN} required username="u" password="p\\"\\\\";',
            },
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p"},
            {
                "kafka.sasl.mechanism": "SCRAM-SHA-512",
                "kafka.sasl.jaas.config": f'{PACKAGE}.scram.ScramLoginModule required username="u" password="p";',
            },
        ),
        (
            {
                **OIDC,
                "sasl.oauthbearer.scope": "read",
                "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, pool=p",
            },
            {
                "kafka.sasl.mechanism": "OAUTHBEARER",
                "kafka.sasl.jaas.config": f'{PACKAGE}.oauthbearer.OAuthBearerLoginModule required clientId="me" '
                'clientSecret="hush-\\"\\\\" scope="read" extension_logicalCluster="lkc-1" extension_pool="p";',
                "kafka.sasl.login.callback.handler.class": f"{PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler",
                "kafka.sasl.oauthbearer.token.endpoint.url": "https://issuer.test/token",
                "kafka.sasl.login.connect.timeout.ms": "10000",
                "kafka.sasl.login.read.timeout.ms": "10000",
                "kafka.sasl.login.retry.backoff.max.ms": "2000",
            },
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"},
            {
                "kafka.security.protocol": "SASL_SSL",
                "kafka.sasl.mechanism": "AWS_MSK_IAM",
                "kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
                "kafka.sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
            },
        ),
    ],
)
def test_options_are_said_once_for_both_clients(given: dict[str, str], java: dict[str, str]) -> None:
    """The names of librdkafka become those of Kafka's Java client."""
    assert options.for_java(source(given)) == java


def test_classes_of_databricks() -> None:
    """It has renamed Kafka's classes and those of MSK's login, each by a prefix of its own."""
    names = ("kafkashaded.org.apache.kafka", "shadedmskiam.software.amazon.msk")
    oidc = options.for_java(source(OIDC), *names)
    assert oidc["kafka.sasl.jaas.config"].startswith("kafkashaded.org.apache.kafka.common.security.oauthbearer.")
    iam = options.for_java(source({"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}), *names)
    assert iam["kafka.sasl.jaas.config"] == "shadedmskiam.software.amazon.msk.auth.iam.IAMLoginModule required;"


def test_certificates_are_text_for_java(authority: Authority, client: Certificate) -> None:
    """Executors need no files: what the files hold is in the options, and the same whichever way it was written."""
    inline = {"ssl.certificate.pem": client.certificate.read_text(), "ssl.key.pem": client.key.read_text()}
    by_name = options.for_java(source({"ssl.ca.location": str(authority.file), **files(client)}))
    by_text = options.for_java(source({"ssl.ca.pem": authority.file.read_text(), **inline}))
    assert by_name == by_text
    assert set(by_name) == {
        *("kafka.ssl.truststore.type", "kafka.ssl.truststore.certificates"),
        *("kafka.ssl.keystore.type", "kafka.ssl.keystore.certificate.chain", "kafka.ssl.keystore.key"),
    }
    assert "-----BEGIN PRIVATE KEY-----" in by_name["kafka.ssl.keystore.key"]
    executors = options.for_executors(source({"ssl.ca.location": str(authority.file), **files(client)}), "b")
    assert set(executors) == {"ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"}


def test_a_folder_of_authorities(authority: Authority, tmp_path: Path) -> None:
    """librdkafka takes one, and so both do."""
    for name in ("a.pem", "b.pem"):
        (tmp_path / name).write_text("# who it is\n" + authority.file.read_text())
    found = options.for_java(source({"ssl.ca.location": str(tmp_path)}))["kafka.ssl.truststore.certificates"]
    assert found.count("BEGIN CERTIFICATE") == 2
    assert "#" not in found


@pytest.mark.parametrize("form", ["pkcs1", "encrypted", "pkcs12"])
def test_keys_in_other_forms(client: Certificate, tmp_path: Path, form: str) -> None:
    """Java's client takes PKCS#8 alone; a key of another form becomes it here."""
    key = s.load_pem_private_key(client.key.read_bytes(), None)
    secret = s.BestAvailableEncryption(b"open")
    path, given = tmp_path / "key", dict[str, str]()
    if form == "pkcs12":
        certificate = load_pem_x509_certificate(client.certificate.read_bytes())
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, certificate, None, secret))  # type: ignore[arg-type]
        given = {"ssl.keystore.location": str(path), "ssl.keystore.password": "open"}
    else:
        how = s.NoEncryption() if form == "pkcs1" else secret
        path.write_bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.TraditionalOpenSSL, how))
        given = {**files(client), "ssl.key.location": str(path), "ssl.key.password": "open"}
    java = options.for_java(source(given))
    assert java["kafka.ssl.keystore.key"] == client.key.read_text()
    assert "open" not in java.values()


def wrong(authority: Authority, client: Certificate, tmp_path: Path) -> dict[str, tuple[dict[str, str], str]]:
    """What is wrong → the options, and what is told of it."""
    pem, own = files(client), Certificate(tmp_path / "other.pem", tmp_path / "other.key")
    strange = rsa.generate_private_key(65537, 2048)
    edwards = ed25519.Ed25519PrivateKey.generate()
    form = (s.Encoding.PEM, s.PrivateFormat.PKCS8)
    own.key.write_bytes(strange.private_bytes(*form, s.NoEncryption()))
    (tmp_path / "closed").write_bytes(strange.private_bytes(*form, s.BestAvailableEncryption(b"open")))
    (tmp_path / "edwards").write_bytes(edwards.private_bytes(*form, s.NoEncryption()))
    key = "ssl.key.location"
    damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    return {
        "no file": ({"ssl.ca.location": "/no/ca.pem"}, "ssl.ca.location of source.options cannot be read: /no/ca.pem"),
        "no certificate": ({"ssl.ca.location": str(client.key)}, "holds no certificate"),
        "no key": ({"ssl.certificate.location": str(client.certificate)}, "and the key is missing"),
        "another key": ({**pem, key: str(own.key)}, "is of another key"),
        "an encrypted key": ({**pem, key: str(tmp_path / "closed")}, "is encrypted"),
        "a wrong password": (
            {**pem, key: str(tmp_path / "closed"), "ssl.key.password": "guess-d4"},
            "or ssl.key.password is wrong",
        ),
        "an empty password": (
            {**pem, key: str(tmp_path / "closed"), "ssl.key.password": ""},
            "is encrypted",
        ),
        "a damaged certificate": (
            {"ssl.certificate.pem": damaged, "ssl.key.location": str(client.key)},
            "it is damaged",
        ),
        "a curve that nobody knows": (
            {"ssl.certificate.location": str(client.certificate), "ssl.key.pem": SM2},
            "of a kind that is not known",
        ),
        "a kind of key": ({**pem, key: str(tmp_path / "edwards")}, "of a kind that Spark's reader"),
        "the key for its path": ({**pem, key: client.key.read_text()}, "ssl.key.location of source.options cannot be"),
        "a folder": ({**pem, key: str(tmp_path)}, "Is a directory"),
        "no store": ({"ssl.keystore.location": str(client.key)}, "it is no PKCS#12 file"),
    }


def test_what_is_wrong_with_a_certificate(authority: Authority, client: Certificate, tmp_path: Path) -> None:
    """It is told before a broker is asked, by the option's name, and with no secret."""
    secret = client.key.read_text().splitlines()[3]
    for name, (given, said) in wrong(authority, client, tmp_path).items():
        for asked in (options.for_java, lambda made: options.librdkafka(made, "b")):
            with pytest.raises(UsageError) as caught:
                asked(source(given))
            assert said in caught.value.what, name
            assert secret not in str(caught.value)
            assert "guess-d4" not in str(caught.value)


def test_no_folder_is_not_the_current_one(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is empty would else let all be trusted whose certificates lie where the run was started."""
    monkeypatch.chdir(authority.file.parent)
    for option in ("ssl.ca.location", "https.ca.location"):
        with pytest.raises(UsageError, match=rf"{option} of source.options is empty"):
            options.librdkafka(source({option: ""}), "b")


def test_a_certificate_that_has_expired(authority: Authority) -> None:
    """It names the file and the day; one that is renewed is read anew, so that a run may wait for it."""
    gone = authority.certify("gone", "me", datetime.now(UTC) - timedelta(hours=1))
    with pytest.raises(SourceUnreachable, match=r"gone\.pem, expired at \d{4}-") as caught:
        options.librdkafka(source(files(gone)), "b")
    assert caught.value.retry_helps


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ssl.cipher.suites": "x"}, "holds ssl.cipher.suites, which Spark's reader"),
        ({"ssl.crl.location": "x"}, "short-lived"),
        ({"sasl.oauthbearer.assertion.file": "x"}, "write sasl.oauthbearer.client.id"),
        ({"enable.ssl.certificate.verification": "false"}, "name the CA of that certificate in ssl.ca.location"),
        ({"ssl.endpoint.identification.algorithm": ""}, "write https (the default) or none"),
        ({"sasl.mechanism": "oauthbearer"}, "write sasl.oauthbearer.method: oidc"),
        (
            {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "a"},
            "without sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.client.secret",
        ),
        ({"sasl.mechanism": "AWS_MSK_IAM", "security.protocol": "SASL_PLAINTEXT"}, "write security.protocol: SASL_SSL"),
        # Spark's reader alone would read what was aborted, or another cluster.
        ({"isolation.level": "read_uncommitted"}, "holds isolation.level; drop it"),
        ({"bootstrap.servers": "elsewhere:9092"}, "write source.bootstrap_servers"),
        ({"metadata.broker.list": "elsewhere:9092"}, "write source.bootstrap_servers"),
        ({"sasl.mechanism": "PLAIN", "sasl.mechanisms": "SCRAM-SHA-512"}, "are one; drop one of the two"),
        ({**OIDC, "sasl.oauthbearer.client.credentials.client.id": "you"}, "are one; drop one of the two"),
        ({**OIDC, "sasl.oauthbearer.client.secret": ""}, "without sasl.oauthbearer.client.secret"),
        ({**OIDC, URL: "https://me:hush-a1b2@issuer.test/token"}, "URL without user and password"),
        ({**OIDC, URL: "https://issuer.test:port/token"}, "write an http or https URL"),
        ({**OIDC, URL: "file:///etc/passwd"}, "write an http or https URL"),
        ({**OIDC, URL: "https://[::1/token"}, "write an http or https URL"),
    ],
)
def test_what_one_client_alone_would_hold_to(given: dict[str, str], said: str) -> None:
    """An option that changes security, and that Java's client does not know, is a mistake of the file."""
    with pytest.raises(ValidationError, match=said.replace("(", r"\(").replace(")", r"\)")) as caught:
        source(given)
    assert "hush" not in str(caught.value)


def test_a_secret_that_begins_as_another_value_does() -> None:
    """It is hidden whole, whichever of the two stands first."""
    for given in ({"sasl.username": "flights", "sasl.password": "flights-a1b2"}, {"sasl.password": "flights-a1b2"}):
        for hide in (options.without_values, options.without_secrets):
            assert hide(source({**given, "ssl.key.password": "flights"}), "it is flights-a1b2") == "it is …"


def test_a_password_of_two_lines() -> None:
    """Java would end the password there, and name its rest as an option that it does not know."""
    java = options.for_java(source({"sasl.username": "u", "sasl.password": 'a\r\nb"c'}))
    assert java["kafka.sasl.jaas.config"] == f'{PLAIN} required username="u" password="a\\r\\nb\\"c";'


def test_a_token_of_msk_is_a_signed_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka is given a function that signs, and no key; what it gives is good for a quarter of an hour."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-a1b2")
    made = options.librdkafka(source({"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}), BROKERS)
    assert {name: value for name, value in made.items() if name != "oauth_cb"} == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
    }
    token, until = made["oauth_cb"]("")
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    asked = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert (url.scheme, url.hostname) == ("https", "kafka.eu-west-1.amazonaws.com")
    assert asked["Action"] == "kafka-cluster:Connect"
    assert asked["X-Amz-Credential"].startswith("AKIAEXAMPLE/")
    assert len(asked["X-Amz-Signature"]) == 64
    assert "hush-a1b2" not in url.query
    assert 600 < until - time.time() < 1000


def test_no_keys_of_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is told at once, where librdkafka would wait for a token and not say why there is none."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ROLE_ARN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(SetupError, match="no keys of AWS are to be found"):
        msk.tokens(BROKERS)


@pytest.mark.parametrize(
    ("servers", "environment", "region"),
    [
        (BROKERS, {"AWS_REGION": "us-east-1"}, "eu-west-1"),
        (BROKERS.upper(), {"AWS_REGION": "us-east-1"}, "eu-west-1"),
        ("boot-x.c1.kafka-serverless.eu-central-1.amazonaws.com:9098", {}, "eu-central-1"),
        ("proxy:9098", {"AWS_REGION": "us-east-1"}, "us-east-1"),
        ("proxy:9098", {}, None),
    ],
)
def test_the_region_of_msk(
    monkeypatch: pytest.MonkeyPatch, servers: str, environment: dict[str, str], region: str | None
) -> None:
    """The brokers' names tell it; else the environment does."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if region is None:
        with pytest.raises(UsageError, match="region of the MSK cluster"):
            msk.region_of(servers)
        return
    assert msk.region_of(servers) == region


class Heard:
    """An error as librdkafka gives it to `error_cb`."""

    def __init__(self, name: str, said: str) -> None:
        self._name, self._said = name, said

    def name(self) -> str:
        return self._name

    def str(self) -> str:
        return self._said


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ('{"error": "invalid_client"}', "correct sasl.oauthbearer.client.id"),
        ("Failed to connect to h after 0 ms: Could not connect to server", "start that server"),
        ("Could not resolve host: nowhere.invalid", "start that server"),
        ("error adding trust anchors from file: x", "https.ca.location"),
        ("Must supply an unexpired token: now=2ms, exp=1ms", "set the clocks"),
        ("hush- is odd", "look at that server"),
    ],
)
def test_why_there_is_no_token(said: str, cure: str) -> None:
    """Each of librdkafka's reasons has a cure of its own, and no secret is told."""
    given = {**OIDC, "sasl.oauthbearer.client.secret": "hush-"}
    found = refusals.of(Heard("_AUTHENTICATION", f"Failed to acquire SASL OAUTHBEARER token: {said}"), source(given))
    assert found is not None
    assert cure in found.cure
    assert "no token comes from https://issuer.test (" in found.message
    assert "hush-" not in f"{found}"


def test_what_is_no_refusal() -> None:
    """A line that breaks is none."""
    broken: Any = Heard("_TRANSPORT", "h:1/1: Disconnected")
    assert refusals.of(broken, source({})) is None


def test_without_the_signer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named; whoever does not come in by IAM needs it not."""
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(SetupError, match="needs the package aws-msk-iam-sasl-signer-python") as caught:
        msk.tokens(BROKERS)
    assert caught.value.cure == "pip install 'lakeingest[msk]'"
    assert options.librdkafka(source({"security.protocol": "SSL"}), BROKERS) == {"security.protocol": "SSL"}
