"""The reason why Kafka, or the server of tokens, refuses access; librdkafka leaves half of it out.

librdkafka tells that a certificate was not verified, and not why; and it tells nothing of a server that has no tokens.
So both are asked once more, when a connection has failed.
"""

from __future__ import annotations

import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPSHandler, Request, build_opener

from lakeingest.config import Source
from lakeingest.config.kafka_options import mechanism, oidc
from lakeingest.kafka import options, pem

_WAIT_S = 5.0
_PLACE = re.compile(r"//([^/\s]+):(\d+)/")
_TOKEN = "Failed to acquire SASL OAUTHBEARER token"
_LOGIN = "correct source.options (sasl.username, sasl.password, sasl.mechanism)"
_TRUST = "let source.options name the CA of the broker's certificate (ssl.ca.location)"
_ADDRESS = f"{_TRUST}, and source.bootstrap_servers the broker as its certificate names it"


@dataclass(frozen=True)
class AccessRefusal:
    """The reason why access is refused.

    Attributes:
        message: in words, without a secret.
        cure: what to do about it.
    """

    message: str
    cure: str


def is_one(error: Any) -> bool:
    """Whether what librdkafka tells is that we are refused, or do not trust the broker: waiting helps little then."""
    return error.name() in ("_AUTHENTICATION", "_SSL") or "alert" in error.str()


def of(error: Any, source: Source) -> AccessRefusal | None:
    """The reason behind an error of librdkafka; None for other errors. May ask the broker for its certificate."""
    if not is_one(error):
        return None
    reason, file_options = options.without_secrets(source, error.str()), options.of_file(source)
    if reason.startswith(_TOKEN):
        return _no_token(reason.removeprefix(f"{_TOKEN}: "), file_options)
    if error.name() == "_AUTHENTICATION":
        return no_token(source) or _not_let_in(reason, file_options)
    if "verify failed" in reason:
        return _not_trusted(reason, file_options)
    if "alert" in reason:
        return _of_client(reason, file_options)
    return AccessRefusal(reason, _ADDRESS)


def no_token(source: Source) -> AccessRefusal | None:
    """The problem of the server of tokens, by one request to it; None if there is none, or none is used."""
    file_options = options.of_file(source)
    if mechanism(file_options) != "OAUTHBEARER":
        return None
    client_options = oidc(file_options)
    client, secret, url = (client_options[name] for name in ("client.id", "client.secret", "token.endpoint.url"))
    form = {"grant_type": "client_credentials"}
    if scope := client_options.get("scope"):
        form["scope"] = scope
    basic = b64encode(f"{client}:{secret}".encode()).decode()
    try:
        request = Request(url, urlencode(form).encode(), {"Authorization": f"Basic {basic}"})
        context = ssl.create_default_context(cadata=pem.authorities(file_options, "https") or None)
        with build_opener(HTTPSHandler(context=context)).open(request, timeout=_WAIT_S) as answer:
            answer.read()
    except HTTPError as failed:
        return _no_token(f"it answers {failed.code}", file_options)
    except (URLError, HTTPException, OSError, ValueError) as failed:
        reason = failed.reason if isinstance(failed, URLError) else failed
        return _no_token(options.without_secrets(source, f"Could not connect: {reason}"), file_options)
    return None


def _no_token(reason: str, file_options: Mapping[str, str]) -> AccessRefusal:
    url = urlsplit(file_options.get("sasl.oauthbearer.token.endpoint.url", ""))
    # What else stands in it may be a secret.
    where = f"{url.scheme}://{url.hostname}" + (f":{url.port}" if url.port else "")
    message = f"no token comes from {where} (sasl.oauthbearer.token.endpoint.url): {reason}"
    if re.search(r"certificate|trust anchor|SSL", reason):
        cure = "let https.ca.location in source.options name the CA of that server's certificate"
    elif re.search(r"[Cc]ould not (connect|resolve)|timed? ?out|refused", reason):
        cure = "start that server, or correct the URL or the way to it (a proxy, a firewall)"
    elif re.search(r"invalid_client|unauthorized_client|access_denied|\b40[013]\b", reason):
        cure = "correct sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret, or let that server know them"
    elif re.search(r"unexpired|expired", reason):
        cure = "set the clocks of that server and of this machine, and let its tokens be good for some minutes"
    elif "scope" in reason:
        cure = "correct sasl.oauthbearer.scope"
    else:
        cure = "look at that server and its log"
    return AccessRefusal(message, cure)


def _not_let_in(reason: str, file_options: Mapping[str, str]) -> AccessRefusal:
    chosen = mechanism(file_options)
    if chosen == "OAUTHBEARER":
        return AccessRefusal(
            f"the broker does not take the token: {reason}",
            "let the broker know the issuer (its JWKS, issuer and audience), correct sasl.oauthbearer.scope, and set "
            "the clocks: an expired token is not taken either",
        )
    if chosen == "AWS_MSK_IAM":
        return AccessRefusal(
            f"the broker does not take the token: {reason}",
            "let the IAM role of this process connect (kafka-cluster:Connect, DescribeTopic, ReadData), and write the "
            "port of IAM (9098) into source.bootstrap_servers",
        )
    return AccessRefusal(reason, _LOGIN)


def _of_client(reason: str, file_options: Mapping[str, str]) -> AccessRefusal:
    """The broker has broken the handshake off by an alert, which is of our certificate."""
    try:
        identity = pem.identity(file_options)
    except Exception as wrong:
        return AccessRefusal(str(getattr(wrong, "what", wrong)), str(getattr(wrong, "cure", "correct source.options")))
    if not re.search(r"certificate|unknown ca", reason):
        return AccessRefusal(reason, f"let broker and client have a version of TLS in common, and {_TRUST}")
    if identity is None:
        return AccessRefusal(
            f"the broker asks for a client's certificate, and source.options name none: {reason}",
            "write ssl.certificate.location and ssl.key.location into source.options",
        )
    return AccessRefusal(
        f"the broker does not trust the client's certificate ({pem.issued(identity[0])}): {reason}",
        "let it be issued by an authority that the broker's trust store has, for clients, and not be revoked",
    )


_ELSEWHERE = f"let source.bootstrap_servers name the broker as its certificate names it, or {_TRUST}"
_OF_CODES = {
    9: "correct the clock of this machine, or of the one that made the broker's certificate",
    10: "renew the broker's certificate, or correct the clock of this machine",
    62: _ELSEWHERE,
    64: _ELSEWHERE,
}
"""The cure for each of OpenSSL's codes: not valid yet, expired, another host, another address."""


def _not_trusted(reason: str, file_options: Mapping[str, str]) -> AccessRefusal:
    place = _PLACE.search(reason)
    if place is None:
        return AccessRefusal(reason, _ADDRESS)
    host, port = place.group(1).strip("[]"), int(place.group(2))
    try:
        context = ssl.create_default_context(cadata=pem.authorities(file_options) or None)
        context.check_hostname = (
            file_options.get("ssl.endpoint.identification.algorithm", "https").strip().lower() != "none"
        )
        with socket.create_connection((host, port), _WAIT_S) as line, context.wrap_socket(line, server_hostname=host):
            return AccessRefusal(reason, _ADDRESS)
    except ssl.SSLCertVerificationError as failed:
        why, code = failed.verify_message, failed.verify_code
    except (OSError, ValueError):
        return AccessRefusal(reason, _ADDRESS)
    message = f"the certificate of the broker {host}:{port} is not trusted (certificate verify failed): {why}"
    return AccessRefusal(message, _OF_CODES.get(code, _TRUST))
