"""The options of Kafka's clients: librdkafka's names in the file, and Java's for Spark's reader."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from lakeingest.config import Source
from lakeingest.config.kafka_options import MSK_IAM, mechanism, oidc
from lakeingest.kafka import msk, pem

_SALT = os.urandom(16)
_SECRET = re.compile(r"password|secret|\bkey\b|_key|\bpem\b")
_LOGIN_S = 10
"""Seconds that Java's client waits for the server of tokens; by default it waits for ever."""
_AS_TEXT = re.compile(r"ssl\.(ca|certificate|key|keystore)\..*|ssl_\w+|https\.ca\..*")
_OIDC = "sasl.oauthbearer."


def of_file(source: Source) -> dict[str, str]:
    """`source.options` as the file has them. The values hold secrets: never print them."""
    return {name: secret.get_secret_value() for name, secret in source.options.items()}


def librdkafka(source: Source, servers: str) -> dict[str, Any]:
    """The options as librdkafka takes them, on this machine.

    Raises:
        UsageError, SourceUnreachable: see `pem.identity`, `pem.authorities` and `msk.tokens`: they are checked here,
            because librdkafka tells less of what is wrong with them.
        SetupError: see `msk.tokens`.
    """
    proofs(source)
    return _with_tokens(of_file(source), servers)


def for_executors(source: Source, servers: str) -> dict[str, Any]:
    """The same, for other machines: with what the files hold in the place of their names.

    Raises:
        UsageError, SourceUnreachable, SetupError: see `librdkafka`.
    """
    options: dict[str, Any] = of_file(source)
    others_of_file = {name: value for name, value in options.items() if not _AS_TEXT.fullmatch(name)}
    for of in ("ssl", "https"):
        if authorities := pem.authorities(options, of):
            others_of_file[f"{of}.ca.pem"] = authorities
    if identity := pem.identity(options):
        others_of_file |= dict(zip(("ssl.certificate.pem", "ssl.key.pem"), identity, strict=True))
    return _with_tokens(others_of_file, servers)


def proofs(source: Source) -> tuple[Any, ...]:
    """The content of the files of certificates and keys; see `pem`."""
    options = of_file(source)
    return (pem.authorities(options), pem.authorities(options, "https"), pem.identity(options))


def _with_tokens(options: Mapping[str, Any], servers: str) -> dict[str, Any]:
    if mechanism(options) != MSK_IAM:
        return dict(options)
    rest = {name: value for name, value in options.items() if name not in ("sasl.mechanism", "sasl.mechanisms")}
    return {**rest, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": msk.tokens(servers)}


def without_values(source: Source, text: str) -> str:
    """A message of librdkafka's without the values of the options, which may be secrets."""
    return _hidden(text, (value for value in of_file(source).values() if len(value) > 3))


def without_secrets(source: Source, text: str) -> str:
    """A text of a server's without those values of the options that are secrets."""
    return _hidden(text, (value for name, value in of_file(source).items() if _SECRET.search(name) and value))


def _hidden(text: str, values: Iterable[str]) -> str:
    # The longest first: one may begin as another does.
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "…")
    return text


def for_java(
    source: Source, package: str = "org.apache.kafka", msk_package: str = "software.amazon.msk"
) -> dict[str, str]:
    """The same options under the names that Kafka's Java client has, so that a file says them once.

    Certificates and keys are read here, and given as text: executors need no files.

    Args:
        package: where the session has that client's classes; see `Capabilities.kafka_package`.
        msk_package: where it has those of MSK's login; see `Capabilities.msk_package`.

    Raises:
        UsageError, SourceUnreachable: see `pem.identity` and `pem.authorities`.
    """
    options = of_file(source)
    java_options = {
        name: value
        for name, value in options.items()
        if not (_AS_TEXT.fullmatch(name) or name.startswith(_OIDC) or name in _TRANSLATED)
    }
    if (protocol := options.get("security.protocol")) is not None:
        java_options["security.protocol"] = protocol.strip().upper()
    if (algorithm := options.get("ssl.endpoint.identification.algorithm")) is not None:
        # Java's word for none is nothing at all.
        java_options["ssl.endpoint.identification.algorithm"] = "" if algorithm.strip().lower() == "none" else "https"
    if authorities := pem.authorities(options):
        java_options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}
    if identity := pem.identity(options):
        chain, key = identity
        store = {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
        java_options |= store
    java_options |= _login(options, package, msk_package)
    return {f"kafka.{name}": value for name, value in java_options.items()}


_TRANSLATED = (
    *("security.protocol", "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification"),
    *("sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"),
)


def _login(options: Mapping[str, str], package: str, msk_package: str) -> dict[str, str]:
    """The options by which Java's client proves who it is by SASL."""
    chosen = mechanism(options)
    login = {"sasl.mechanism": chosen} if chosen else {}
    user, password = options.get("sasl.username"), options.get("sasl.password")
    if chosen == "OAUTHBEARER":
        return login | _oidc(options, f"{package}.common.security.oauthbearer")
    if chosen == MSK_IAM:
        handler = f"{msk_package}.auth.iam.IAMClientCallbackHandler"
        login["sasl.jaas.config"] = f"{msk_package}.auth.iam.IAMLoginModule required;"
        return {**login, "sasl.client.callback.handler.class": handler}
    if user is not None and password is not None:
        module = "scram.ScramLoginModule" if chosen.startswith("SCRAM") else "plain.PlainLoginModule"
        login["sasl.jaas.config"] = _jaas(
            f"{package}.common.security.{module}", {"username": user, "password": password}
        )
    return login


def _oidc(options: Mapping[str, str], package: str) -> dict[str, str]:
    """Java's client asks for tokens by itself, with what stands in its login's configuration."""
    client = oidc(options)
    login = {"clientId": client["client.id"], "clientSecret": client["client.secret"]}
    if scope := client.get("scope"):
        login["scope"] = scope
    for pair in filter(None, client.get("extensions", "").split(",")):
        name, _, value = pair.partition("=")
        login[f"extension_{name.strip()}"] = value.strip()
    if authorities := pem.authorities(options, "https"):
        login |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}
    java_options = {
        "sasl.jaas.config": _jaas(f"{package}.OAuthBearerLoginModule", login),
        "sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
        f"{_OIDC}token.endpoint.url": client["token.endpoint.url"],
        "sasl.login.connect.timeout.ms": str(_LOGIN_S * 1000),
        "sasl.login.read.timeout.ms": str(_LOGIN_S * 1000),
        # For how long it asks again where the server has an error; by itself for ten seconds.
        "sasl.login.retry.backoff.max.ms": "2000",
    }
    if claim := client.get("sub.claim.name"):
        java_options[f"{_OIDC}sub.claim.name"] = claim
    return java_options


def _jaas(module: str, options: Mapping[str, str]) -> str:
    # At the end of a line Java ends the text, and calls what follows an option, by name.
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})
    escaped = {name: value.translate(escapes) for name, value in options.items()}
    return f"{module} required " + " ".join(f'{name}="{value}"' for name, value in escaped.items()) + ";"


def group(pipeline: str, source: Source) -> str:
    """The name under which executors keep their consumers from batch to batch; nothing is ever committed under it.

    Spark refuses to go on with a name whose options have changed, as they do when a password is rotated. What is made
    of them says nothing about them outside this process.
    """
    options = json.dumps(of_file(source), sort_keys=True).encode()
    return f"lakeingest-{pipeline}-{hashlib.blake2s(options, key=_SALT, digest_size=4).hexdigest()}"
