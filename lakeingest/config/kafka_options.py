"""Options of Kafka's clients that a pipeline file may hold: librdkafka's names, once, for both clients.

Spark's reader is Java's client. What it does not know, and what makes a connection more or less secure, is refused
here: else one of the two clients would hold to it, and the other not. `lakeingest.kafka.options` translates the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from pydantic import SecretStr

from lakeingest.config.urls import is_http

MSK_IAM = "AWS_MSK_IAM"
"""A mechanism of Java's clients; librdkafka's comes in by OAUTHBEARER there, with a signed token."""

_RUNS_CODE = (
    "plugin.library.paths",
    "sasl.kerberos.kinit.cmd",
    "ssl.engine.location",
    "ssl.engine.id",
    "ssl.providers",
)
_CALLS_OUT = ("JndiLoginModule", "LdapLoginModule")
_READERS_OWN = (
    "auto.offset.reset",
    "enable.auto.commit",
    "interceptor.classes",
    "key.deserializer",
    "value.deserializer",
)
"""As Spark's guide to Kafka lists them."""
_ELSEWHERE = {
    "bootstrap.servers": "write source.bootstrap_servers",
    "metadata.broker.list": "write source.bootstrap_servers",
    "isolation.level": "what a transaction has aborted is never read",
}
"""Options that Spark's reader alone would take: it would read other records than librdkafka has counted."""
_FUNCTIONS = ("logger", "default.topic.config", "default_topic_conf", "opaque", "msg_order_cmp")
_ALGORITHMS = "let the broker's own settings choose the algorithms"
_ONE_CLIENT_ALONE = {
    "ssl.cipher.suites": _ALGORITHMS,
    "ssl.curves.list": _ALGORITHMS,
    "ssl.sigalgs.list": _ALGORITHMS,
    "ssl.crl.location": "let the broker's certificates be short-lived, or name another CA in ssl.ca.location",
    "ssl.ca.certificate.stores": "write the CA as a PEM file in ssl.ca.location",
    "enable.sasl.oauthbearer.unsecure.jwt": "write sasl.oauthbearer.method: oidc",
    "sasl.oauthbearer.config": "write sasl.oauthbearer.method: oidc",
    "sasl.oauthbearer.grant.type": "write sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.metadata.authentication.type": "write sasl.oauthbearer.client.id and "
    "sasl.oauthbearer.client.secret",
}
"""Options that Java's client lacks → the alternative."""
OIDC = ("token.endpoint.url", "client.id", "client.secret")
"""Options that `sasl.oauthbearer.method: oidc` needs, without sasl.oauthbearer."""


def check(value: dict[str, SecretStr]) -> dict[str, SecretStr]:
    """The options as they are.

    Raises:
        ValueError: they hold what no file may give, what loads code, or what only one of the two clients knows.
    """
    if forbidden := [name for name in value if name.strip().endswith("_cb") or name.strip() in _FUNCTIONS]:
        raise ValueError(f"holds what only a program can give, and no file: {', '.join(forbidden)}; drop it")
    if forbidden := [name for name in value if name.strip() in _RUNS_CODE]:
        raise ValueError(f"holds what would load or run a program: {', '.join(forbidden)}; drop it")
    if forbidden := [name for name in value if name.strip() in _READERS_OWN]:
        raise ValueError(f"holds what Spark's Kafka reader decides by itself: {', '.join(forbidden)}; drop it")
    for name in value:
        if name in _ELSEWHERE:
            raise ValueError(f"holds {name}; drop it: {_ELSEWHERE[name]}")
    if any(module in each.get_secret_value() for each in value.values() for module in _CALLS_OUT):
        raise ValueError("holds a login module that fetches code from elsewhere; write another one")
    for name in value:
        librdkafka_name = "sasl.oauthbearer.grant.type" if name.startswith("sasl.oauthbearer.assertion.") else name
        if librdkafka_name in _ONE_CLIENT_ALONE:
            raise ValueError(
                f"holds {name}, which Spark's reader (Java's client) does not know, so that it would read without; "
                f"drop it, and {_ONE_CLIENT_ALONE[librdkafka_name]}"
            )
    for problem in _disagreements({name: each.get_secret_value() for name, each in value.items()}):
        raise ValueError(problem)
    return value


def mechanism(options: Mapping[str, str]) -> str:
    """The mechanism of SASL that these options name, in capitals; empty where they name none."""
    return (options.get("sasl.mechanism") or options.get("sasl.mechanisms") or "").strip().upper()


def oidc(options: Mapping[str, str]) -> dict[str, str]:
    """The options of OAUTHBEARER, without sasl.oauthbearer., by the shorter of librdkafka's two names."""
    prefix = "sasl.oauthbearer."
    return {
        name.removeprefix(prefix).removeprefix("client.credentials."): value
        for name, value in options.items()
        if name.startswith(prefix)
    }


def _disagreements(options: Mapping[str, str]) -> Iterator[str]:
    if options.get("enable.ssl.certificate.verification", "true").strip().lower() not in ("true", "t", "1"):
        yield (
            "holds enable.ssl.certificate.verification: false, and Spark's reader (Java's client) checks the broker's "
            "certificate all the same; drop it, and name the CA of that certificate in ssl.ca.location"
        )
    if options.get("ssl.endpoint.identification.algorithm", "https").strip().lower() not in ("https", "none"):
        yield "holds ssl.endpoint.identification.algorithm; write https (the default) or none"
    if {"sasl.mechanism", "sasl.mechanisms"} <= options.keys():
        yield "holds sasl.mechanism and sasl.mechanisms, which are one; drop one of the two"
    if mechanism(options) == "OAUTHBEARER":
        if options.get("sasl.oauthbearer.method", "").strip().lower() != "oidc":
            yield "holds sasl.mechanism: OAUTHBEARER; write sasl.oauthbearer.method: oidc, which both clients know"
        client = oidc(options)
        if lacking := [f"sasl.oauthbearer.{name}" for name in OIDC if not client.get(name)]:
            yield f"holds sasl.oauthbearer.method: oidc without {', '.join(lacking)}; write it"
        elif not is_http(url := client["token.endpoint.url"]) or "@" in urlsplit(url).netloc:
            yield (
                "holds sasl.oauthbearer.token.endpoint.url; write an http or https URL without user and password, as "
                "in https://login.example.com/oauth2/token"
            )
        prefix = "sasl.oauthbearer.client."
        for name in ("id", "secret"):
            if {f"{prefix}{name}", f"{prefix}credentials.client.{name}"} <= options.keys():
                yield f"holds {prefix}{name} and {prefix}credentials.client.{name}, which are one; drop one of the two"
    if mechanism(options) == MSK_IAM and options.get("security.protocol", "").strip().upper() != "SASL_SSL":
        yield f"holds sasl.mechanism: {MSK_IAM}; write security.protocol: SASL_SSL, the only one that MSK takes with it"
