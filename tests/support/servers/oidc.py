"""An issuer of tokens on loopback (OpenID Connect, client credentials), which can refuse, and give short-lived ones."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs

from lakeingest.local.addresses import HOST

if TYPE_CHECKING:
    from support.servers.brokers import Certificate

_SKIPPED = 404


class Issuer:
    """Gives signed tokens (RS256) for a client's id and secret; serves within a `with` block. Needs joserfc.

    Args:
        clients: id → secret of who gets a token.
        lifetime_s: for how many seconds a token is good.
        certificate: of HTTPS at `token_url`; over HTTP without it. Keys are always given over HTTP.

    Attributes:
        lifetime_s: may be set while it serves.
        refuses: whether every request for a token is refused (503); may be set while it serves.
        issued: how many tokens it has given.
    """

    audience = "kafka"
    name = "https://issuer.test"

    def __init__(
        self, clients: Mapping[str, str], lifetime_s: float = 3600, certificate: Certificate | None = None
    ) -> None:
        from joserfc.jwk import RSAKey

        self._clients, self.lifetime_s, self.refuses, self.issued = dict(clients), lifetime_s, False, 0
        self._key = RSAKey.generate_key(2048, {"kid": uuid.uuid4().hex, "use": "sig", "alg": "RS256"})
        self._keys = ThreadingHTTPServer((HOST, 0), self._handler())
        self._tokens = ThreadingHTTPServer((HOST, 0), self._handler())
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.certificate, certificate.key)
            # With the handshake in the request's own thread: a client that breaks it off stops nobody.
            self._tokens.socket = context.wrap_socket(
                self._tokens.socket, server_side=True, do_handshake_on_connect=False
            )
            self._scheme = "https"

    @property
    def token_url(self) -> str:
        """Where tokens are asked for."""
        return f"{self._scheme}://{HOST}:{self._tokens.server_port}/token"

    @property
    def keys_url(self) -> str:
        """Where brokers get the keys by which tokens are checked (JWKS)."""
        return f"http://{HOST}:{self._keys.server_port}/keys"

    def client_options(self, client: str) -> dict[str, str]:
        """What a pipeline file says in source.options to come in as `client`, but for the broker's CA."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": self.token_url,
            "sasl.oauthbearer.client.id": client,
            "sasl.oauthbearer.client.secret": self._clients[client],
        }

    def __enter__(self) -> Self:
        for server in (self._keys, self._tokens):
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in (self._keys, self._tokens):
            server.shutdown()
            server.server_close()

    def token(self, client: str, scope: str = "kafka") -> str:
        """A token for a client, signed now."""
        from joserfc import jwt

        now = int(time.time())
        claims = {"iss": self.name, "sub": client, "aud": self.audience, "jti": uuid.uuid4().hex}
        times = {"iat": now, "exp": now + int(self.lifetime_s)}
        self.issued += 1
        header = {"alg": "RS256", "kid": self._key.kid, "typ": "JWT"}
        return jwt.encode(header, {**claims, **times, "scope": scope}, self._key)

    def _answer(self, authorization: str, form: Mapping[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """Status and body for a request for a token."""
        if self.refuses:
            return 503, {"error": "temporarily_unavailable"}
        scheme, _, given = authorization.partition(" ")
        client, _, secret = base64.b64decode(given).decode().partition(":") if scheme == "Basic" else ("", "", "")
        if form.get("grant_type") != ["client_credentials"]:
            return 400, {"error": "unsupported_grant_type"}
        if not secret or self._clients.get(client) != secret:
            return 401, {"error": "invalid_client"}
        token = self.token(client, *form.get("scope", [])[:1])
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lifetime_s)}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                public = issuer._key.as_dict(private=False)
                self._send(200, {"keys": [public]}) if self.path == "/keys" else self._send(_SKIPPED, {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                if self.path == "/token":
                    self._send(*issuer._answer(self.headers.get("Authorization", ""), parse_qs(body)))
                else:
                    self._send(_SKIPPED, {})

            def _send(self, status: int, body: Mapping[str, Any]) -> None:
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: requests hold secrets."""

        return Handler
