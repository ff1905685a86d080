"""What the registry is asked, what is kept of its answers, and what happens while it is away: all on real sockets."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import os
import re
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from support.servers import free_port
from typer.testing import CliRunner

from lakeingest.cli import app
from lakeingest.config import Registry as Config
from lakeingest.errors import RegistryRefused, RegistryUnreachable
from lakeingest.kafka.registry import RegisteredSchema, RegistryClient
from lakeingest.local import Addresses

Reference = tuple[str, str, int]

BASIC = "Basic " + base64.b64encode(b"me:hunter2").decode()

GARBAGE, CUT = 200, 0
"""Answers of a front: a page of something that is no registry, and none at all."""


def avro(name: str, **fields: Any) -> str:
    """A record of the namespace x whose fields have these types."""
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return json.dumps({"type": "record", "name": name, "namespace": "x", "fields": listed})


def asking(url: str, *, seconds: float = 2.0, **options: str) -> RegistryClient:
    """A registry as a pipeline has it; the names of options with _ for the dots."""
    given = {name.replace("_", "."): value for name, value in options.items()}
    return RegistryClient(Config.model_validate({"wait": datetime.timedelta(seconds=seconds), "options": given}), url)


@pytest.fixture(scope="module")
def producer(stack: Addresses) -> SchemaRegistryClient:
    """What a producer registers its schemas with."""
    return SchemaRegistryClient({"url": stack.registry})


def register(
    producer: SchemaRegistryClient, subject: str, text: str, kind: str = "AVRO", references: tuple[Reference, ...] = ()
) -> int:
    """Register a schema, as a producer does, and tell its id."""
    return producer.register_schema(subject, Schema(text, kind, [SchemaReference(*each) for each in references]))


@dataclass
class Front:
    """A small server before the real registry, which may demand something, be moody, or be away."""

    behind: str
    demands: str | None = None
    moods: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        """What to answer to a GET."""
        self.asked.append(path)
        if self.moods:
            return self.moods.pop(0), b"<html>not a registry</html>"
        if self.demands not in (None, authorization):
            return 401, b'{"error_code": 401, "message": "Unauthorized: ' + str(authorization).encode() + b'"}'
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(self.behind + path) as answered:
                return answered.status, answered.read()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read()


@contextmanager
def serving(front: Front, port: int = 0, certificate: Path | None = None) -> Iterator[str]:
    """The front's URL while it serves."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = front.answer(self.path, self.headers["Authorization"])
            if status != CUT:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for the loopback with its key, signed by nobody but itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "registry.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM) + secret)
    return path


def test_three_versions_of_an_avro_schema(stack: Addresses, producer: SchemaRegistryClient, named: str) -> None:
    """Each id is its text, exactly as it was registered, and the version of its subject."""
    texts = [avro("R", a="int"), avro("R", a="int", b=["null", "string"]), avro("R", a="long", b=["null", "string"])]
    ids = [register(producer, named, text) for text in texts]
    registry = asking(stack.registry)
    writers = [registry.writer(id) for id in ids]
    assert writers == [RegisteredSchema.of(id, "AVRO", text) for id, text in zip(ids, texts, strict=True)]
    assert [registry.version(named, writer) for writer in writers if writer] == [1, 2, 3]
    assert registry.latest(named) == (writers[2], 3)


def test_a_schema_of_several_subjects(stack: Addresses, producer: SchemaRegistryClient, named: str) -> None:
    """The version is the subject's own, and None where the schema was never registered, until it is."""
    first, second = avro(named, a="int"), avro(named, a="int", b="string")
    id = register(producer, f"{named}-value", second)
    registry = asking(stack.registry)
    writer = registry.writer(id)
    assert writer
    assert [registry.version(s, writer) for s in (f"{named}-value", f"{named}/other", "")] == [1, None, None]
    register(producer, f"{named}/other", first)
    assert register(producer, f"{named}/other", second) == id
    assert [registry.version(s, writer) for s in (f"{named}-value", f"{named}/other")] == [1, 2]


def test_protobuf_with_references(stack: Addresses, producer: SchemaRegistryClient, named: str) -> None:
    """What it imports comes along under the names of the imports, dependencies first, each once."""

    def file(imports: tuple[str, ...], message: str) -> str:
        return 'syntax = "proto3";\npackage x;\n' + "".join(f'import "{i}";\n' for i in imports) + message

    unit = file((), "message Unit { string code = 1; }\n")
    money = file(("unit.proto",), "message Money { int64 n = 1; Unit unit = 2; }\n")
    order = file(("unit.proto", "a/money.proto"), "message Order { Money price = 1; Unit per = 2; }\n")
    to_unit, to_money = ("unit.proto", f"{named}.unit", 1), ("a/money.proto", f"{named}.money", 1)
    register(producer, f"{named}.unit", unit, "PROTOBUF")
    register(producer, f"{named}.money", money, "PROTOBUF", (to_unit,))
    id = register(producer, named, order, "PROTOBUF", (to_money, to_unit))
    registry = asking(stack.registry)
    writer = registry.writer(id)
    assert writer == RegisteredSchema.of(id, "PROTOBUF", order, (("unit.proto", unit), ("a/money.proto", money)))
    assert registry.version(named, writer) == 1


def test_references_to_other_versions_make_another_schema(
    stack: Addresses, producer: SchemaRegistryClient, named: str
) -> None:
    """The same text on another version of what it builds on has another id, version and fingerprint."""
    parts = [avro("Part", a="int"), avro("Part", a="long")]
    for part in parts:
        register(producer, f"{named}.part", part)
    whole = avro("Whole", part="x.Part")
    ids = [register(producer, named, whole, references=(("x.Part", f"{named}.part", n),)) for n in (1, 2)]
    registry = asking(stack.registry)
    writers = [writer for id in ids if (writer := registry.writer(id))]
    assert [writer.references for writer in writers] == [(("x.Part", part),) for part in parts]
    assert [registry.version(named, writer) for writer in writers] == [1, 2]
    assert len({writer.fingerprint for writer in writers}) == 2


def test_a_json_schema(stack: Addresses, producer: SchemaRegistryClient, named: str) -> None:
    """Its type is JSON, and its text is not touched."""
    text = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": "J", "type": "object"}, indent=3)
    id = register(producer, named, text, "JSON")
    registry = asking(stack.registry)
    assert registry.latest(named) == (RegisteredSchema.of(id, "JSON", text), 1)


def test_an_id_that_nobody_has(stack: Addresses, producer: SchemaRegistryClient, named: str) -> None:
    """It is none, however odd, until somebody registers it."""
    registry = asking(stack.registry)
    last = register(producer, named, avro(named, a="int"))
    assert [registry.writer(id) for id in (0, -1, -(2**31), 2**31 - 1)] == [None] * 4
    assert [registry.writer(last + n) for n in range(1, 9)] == [None] * 8
    assert registry.writer(register(producer, named, avro(named, a="long"))) is not None


def test_a_subject_that_nobody_has(stack: Addresses) -> None:
    """It has no newest version."""
    assert (asking(stack.registry).latest("registry-nowhere"), asking(stack.registry).latest("")) == (None, None)


def test_a_deleted_version_stays_known(stack: Addresses, producer: SchemaRegistryClient, named: str) -> None:
    """Its records are still in Kafka; but it is no longer the newest."""
    ids = [register(producer, named, avro(named, a=kind)) for kind in ("int", "long")]
    producer.delete_version(named, 2)
    registry = asking(stack.registry)
    writers = [writer for id in ids if (writer := registry.writer(id))]
    assert [registry.version(named, writer) for writer in writers] == [1, 2]
    assert registry.latest(named) == (writers[0], 1)


def test_the_newest_is_asked_for_anew(stack: Addresses, producer: SchemaRegistryClient, named: str) -> None:
    """A version registered a moment ago counts."""
    registry = asking(stack.registry)
    for version, kind in enumerate(("int", "long"), start=1):
        register(producer, named, avro(named, a=kind))
        assert (found := registry.latest(named)) is not None
        assert found[1] == version


def test_an_answer_is_kept(stack: Addresses, producer: SchemaRegistryClient, named: str) -> None:
    """A schema and its version are asked for once."""
    front, id = Front(stack.registry), register(producer, named, avro(named, a="int"))
    with serving(front) as url:
        registry = asking(url)
        for _ in range(3):
            assert (writer := registry.writer(id)) is not None
            assert registry.version(named, writer) == 1
    assert len(front.asked) == 2


def test_a_registry_that_is_down_at_the_start() -> None:
    """The error comes when the wait is over, says where, what and why, and that a retry helps."""
    url, begun = f"http://127.0.0.1:{free_port()}", time.monotonic()
    with pytest.raises(
        RegistryUnreachable, match=f"(?s)at {url} did not answer for 0.5 s, .*schema id 7.*refused.*cure"
    ) as e:
        asking(url, seconds=0.5).writer(7)
    assert (e.value.retry_helps, e.value.exit_code) == (True, 4)
    assert 0.5 <= time.monotonic() - begun < 2


def test_a_registry_that_accepts_and_says_nothing() -> None:
    """A silent server is given up as one that is down."""
    release = threading.Event()

    class Silent(Front):
        def answer(self, path: str, authorization: str | None) -> tuple[int, bytes]:
            release.wait(20)
            return CUT, b""

    begun = time.monotonic()
    with serving(Silent("")) as url:
        with pytest.raises(RegistryUnreachable, match="timed out"):
            asking(url, seconds=0.5).writer(7)
        release.set()
    assert time.monotonic() - begun < 4


def test_a_registry_that_goes_down_later(stack: Addresses, producer: SchemaRegistryClient, named: str) -> None:
    """What was asked before is still known, and what was not waits and fails."""
    ids = [register(producer, named, avro(named, a=kind)) for kind in ("int", "long")]
    with serving(Front(stack.registry)) as url:
        registry = asking(url, seconds=0.3)
        known = registry.writer(ids[0])
        assert known
        assert registry.version(named, known) == 1
    assert registry.writer(ids[0]) is known
    assert registry.version(named, known) == 1
    for question in (
        lambda: registry.writer(ids[1]),
        lambda: registry.version("o", known),
        lambda: registry.latest(named),
    ):
        with pytest.raises(RegistryUnreachable):
            question()


def test_a_registry_that_comes_back(stack: Addresses, producer: SchemaRegistryClient, named: str) -> None:
    """Within the wait nothing of its absence is seen."""
    id, port = register(producer, named, avro(named, a="int")), free_port()
    up, done = threading.Event(), threading.Event()

    def late() -> None:
        time.sleep(0.8)
        with serving(Front(stack.registry), port):
            up.set()
            done.wait(20)

    thread = threading.Thread(target=late)
    thread.start()
    try:
        assert asking(f"http://127.0.0.1:{port}", seconds=10).writer(id) is not None
        assert up.is_set()
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("moods", [[503, 500, 502, 504], [429, 429], [CUT, CUT], [GARBAGE], [404], [408]], ids=str)
def test_what_passes_is_asked_again(
    stack: Addresses, producer: SchemaRegistryClient, named: str, moods: list[int]
) -> None:
    """Busy, restarting, cut off, or a gateway's page in its place: none says that there is no such schema."""
    id = register(producer, named.partition("again")[0], avro("Again", a="int"))
    with serving(Front(stack.registry, moods=list(moods))) as url:
        assert asking(url, seconds=10).writer(id) is not None


def test_a_url_that_leads_elsewhere(stack: Addresses) -> None:
    """A server that knows nothing of schemas makes no id unknown: the error names the path."""
    with pytest.raises(RegistryUnreachable, match=r"(?s)HTTP 404, .*correct registry.url \(its path included"):
        # A request may take all the time there is; a busy machine needs more than a moment for one.
        asking(stack.registry.partition("/apis")[0], seconds=3).writer(1)


@pytest.mark.parametrize(
    ("demands", "options"),
    [
        (BASIC, {"basic_auth_user_info": "me:hunter2"}),
        (
            "Bearer hunter2",
            {
                "bearer_auth_credentials_source": "STATIC_TOKEN",
                "bearer_auth_token": "hunter2",
                "bearer_auth_logical_cluster": "lsrc-1",
            },
        ),
    ],
)
def test_credentials(stack: Addresses, producer: SchemaRegistryClient, demands: str, options: dict[str, str]) -> None:
    """With the right ones schemas come; without, or with wrong ones, the error comes at once and tells none."""
    id = register(producer, "credentials", avro("Credentials", a="int"))
    wrong = {name: value.replace("hunter2", "hunter3") for name, value in options.items()}
    with serving(Front(stack.registry, demands)) as url:
        assert asking(url, **options).writer(id) is not None
        for refused in ({}, wrong):
            begun = time.monotonic()
            with pytest.raises(RegistryRefused, match=r"(?s)HTTP 401.*cure: correct registry.options") as caught:
                asking(url, seconds=20, **refused).writer(id)
            assert time.monotonic() - begun < 5
            assert not caught.value.retry_helps
            assert not re.search("hunter|bWU6", f"{caught.value} {caught.value!r} {caught.value.__cause__}")


def test_tls(stack: Addresses, producer: SchemaRegistryClient, certificate: Path) -> None:
    """A certificate that registry.options vouch for is trusted; any other is an error at once."""
    id = register(producer, "tls", avro("Tls", a="int"))
    with serving(Front(stack.registry, BASIC), certificate=certificate) as url:
        trusted = asking(url, ssl_ca_location=str(certificate), basic_auth_user_info="me:hunter2")
        assert trusted.writer(id) is not None
        with pytest.raises(RegistryRefused, match=r"(?s)CERTIFICATE_VERIFY_FAILED.*cure: correct .*ssl.ca.location"):
            asking(url, seconds=20).writer(id)


@pytest.mark.parametrize("token", ["hunter2\nx", "hunter2ä", "\x00hunter2"], ids=ascii)
def test_a_token_that_no_header_can_hold(stack: Addresses, token: str) -> None:
    """It is refused at once, in words that do not repeat it, as those of the HTTP client would."""
    more = {"bearer_auth_credentials_source": "STATIC_TOKEN", "bearer_auth_logical_cluster": "lsrc-1"}
    with pytest.raises(RegistryRefused, match=r"(?s)a value cannot be sent.*correct registry\.options") as caught:
        asking(stack.registry, seconds=20, bearer_auth_token=token, **more).writer(1)
    assert "hunter2" not in f"{caught.value}{caught.value!r}{caught.value.__cause__}"


def test_the_loopback_is_reached_without_a_proxy(
    stack: Addresses, producer: SchemaRegistryClient, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy for the outside does not come between us and the embedded stack, and its settings stay as they are."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("no_proxy", "example.com")
    id = register(producer, named, avro(named, a="int"))
    assert asking(stack.registry).writer(id) is not None
    assert os.environ["no_proxy"] == "example.com"


class Contexts(Front):
    """Schemas in contexts, as Confluent's registry has them: below /contexts/.NAME its whole interface once more."""

    def answer(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        prefix = "/contexts/.orders"
        return super().answer(path.removeprefix(prefix), authorization) if path.startswith(prefix) else (404, b"{}")


def test_a_context_is_part_of_the_url(stack: Addresses, producer: SchemaRegistryClient, named: str) -> None:
    """Ids, versions, references and levels are asked for within it."""
    id = register(producer, named, avro(named, a="int"))
    with serving(Contexts(stack.registry)) as url:
        registry = asking(f"{url}/contexts/.orders")
        writer = registry.writer(id)
        assert writer
        assert registry.version(named, writer) == 1
        assert registry.latest(named) == (writer, 1)
        assert registry.compatibility(named)


@contextmanager
def level_of_all(producer: SchemaRegistryClient, level: str) -> Iterator[None]:
    """Of subjects without one of their own; afterwards any schema is taken again, as other tests of the run need it."""
    producer.set_compatibility(level=level)
    try:
        yield
    finally:
        producer.set_compatibility(level="NONE")


@pytest.mark.parametrize(
    ("level", "mode", "said"),
    [
        ("BACKWARD", "BACKWARD", False),
        ("FULL_TRANSITIVE", "FORWARD", False),
        ("FORWARD", "BACKWARD", True),
        ("BACKWARD_TRANSITIVE", "FULL", True),
        ("NONE", "FORWARD", True),
        ("NONE", "NONE", False),
    ],
)
def test_the_registry_may_take_what_the_table_refuses(
    stack: Addresses,
    producer: SchemaRegistryClient,
    named: str,
    tmp_path: Path,
    *,
    level: str,
    mode: str,
    said: bool,
) -> None:
    """`check --online` says so; the file stays good. A subject without a level of its own has that of all."""
    register(producer, f"{named}-value", avro(named, a="int"))
    of_all = level == "BACKWARD"
    if not of_all:
        producer.set_compatibility(f"{named}-value", level)
    values = {
        "name": "x",
        "source": {"topics": [named]},
        "table": {"path": "/tmp/x"},
        "schema": {"compatibility": mode},
    }
    values |= {"decode": {"value": {"format": "avro"}}, "registry": {"url": stack.registry}}
    (tmp_path / "x.yaml").write_text(json.dumps(values), encoding="utf-8")
    with level_of_all(producer, level) if of_all else nullcontext():
        found = CliRunner().invoke(app, ["check", str(tmp_path / "x.yaml"), "--online"])
    assert found.exit_code == 0, found.output
    assert (f"the registry takes {level} for {named}-value" in found.stdout) is said
