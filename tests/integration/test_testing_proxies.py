"""The proxies hide nothing but what they are told to, and a client sees of each fault what its docstring says."""

from __future__ import annotations

import gc
import hashlib
import http.client
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)
from support.faults.wire import Wire

from lakeingest.local import Addresses
from lakeingest.testing.s3 import (
    Act,
    Request,
    S3Proxy,
    call_after,
    call_before,
    call_instead,
    cut,
    denied,
    expired,
    half_answer,
    hang,
    internal_error,
    lose_answer,
    slow,
    slow_down,
)

BUCKET = "lake"
AWKWARD = ("a b", "höhe/ß", "50%", "1+1=2", "a%20b", "time=2013-01-01 10%3A00/x", "~!*'()&$@,:;", "日本")
GONE = (ConnectionClosedError, ConnectionResetError)


def client_of(stack: Addresses, endpoint: str, **options: Any) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=stack.s3_access_key,
        aws_secret_access_key=stack.s3_secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}, proxies={}, **options),
    )


@pytest.fixture
def s3(stack: Addresses) -> Iterator[S3Proxy]:
    with S3Proxy(stack.s3) as proxy:
        yield proxy


@pytest.fixture
def client(stack: Addresses, s3: S3Proxy) -> Iterator[Any]:
    with closing(client_of(stack, s3.endpoint, read_timeout=5)) as client:
        yield client


@pytest.fixture
def direct(stack: Addresses) -> Iterator[Any]:
    with closing(client_of(stack, stack.s3)) as client:
        yield client


def body_of(client: Any, key: str, **options: Any) -> bytes:
    body: bytes = client.get_object(Bucket=BUCKET, Key=key, **options)["Body"].read()
    return body


def keys_of(client: Any, prefix: str) -> list[str]:
    found = client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
    return [each["Key"] for each in found]


def of(key: str) -> Callable[[Request], bool]:
    return lambda request: request.key == key


@pytest.mark.parametrize("key", AWKWARD)
def test_awkward_keys_go_through(client: Any, direct: Any, named: str, key: str) -> None:
    """Put, head, get, copy, list and delete mean the same key on both sides of the proxy."""
    key = f"{named}/{key}"
    client.put_object(Bucket=BUCKET, Key=key, Body=b"content", Metadata={"who": "me"})
    head = client.head_object(Bucket=BUCKET, Key=key)
    assert (head["ContentLength"], head["Metadata"]) == (7, {"who": "me"})
    assert body_of(client, key) == body_of(direct, key) == b"content"
    client.copy_object(Bucket=BUCKET, Key=f"{key} copy", CopySource={"Bucket": BUCKET, "Key": key})
    assert keys_of(client, named) == keys_of(direct, named) == sorted([key, f"{key} copy"])
    client.delete_object(Bucket=BUCKET, Key=key)
    client.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": f"{key} copy"}]})
    assert keys_of(direct, named) == []


def test_a_rule_sees_the_key_decoded(s3: S3Proxy, client: Any, named: str) -> None:
    """A key in a rule is written as in the client's call."""
    faults = [s3.fault(of(f"{named}/{key}"), denied()) for key in AWKWARD]
    for key in AWKWARD:
        with pytest.raises(ClientError, match="AccessDenied"):
            client.put_object(Bucket=BUCKET, Key=f"{named}/{key}", Body=b"")
    assert [fault.hits for fault in faults] == [1] * len(AWKWARD)


@pytest.mark.parametrize("method", ["get_object", "head_object", "list_objects_v2"])
def test_answers_have_the_same_headers(client: Any, direct: Any, named: str, method: str) -> None:
    """The proxy adds nothing to an answer and takes nothing away."""
    direct.put_object(Bucket=BUCKET, Key=named, Body=b"content")
    key = {"Prefix": named} if method == "list_objects_v2" else {"Key": named}
    through, past = (getattr(each, method)(Bucket=BUCKET, **key)["ResponseMetadata"] for each in (client, direct))
    of_the_call = {"date", "x-amz-request-id", "x-amz-id-2"}
    headers = [{k: v for k, v in each["HTTPHeaders"].items() if k not in of_the_call} for each in (through, past)]
    assert headers[0] == headers[1]


def test_large_objects_go_through_byte_for_byte(client: Any, direct: Any, named: str) -> None:
    """64 MB up at once, and down at once and in ranges."""
    content = os.urandom(1 << 20) * 64
    client.put_object(Bucket=BUCKET, Key=named, Body=content)
    assert hashlib.sha256(body_of(direct, named)).digest() == hashlib.sha256(content).digest()
    assert hashlib.sha256(body_of(client, named)).digest() == hashlib.sha256(content).digest()
    assert body_of(client, named, Range="bytes=1000000-1000099") == content[1000000:1000100]
    assert body_of(client, named, Range="bytes=-7") == content[-7:]
    client.delete_object(Bucket=BUCKET, Key=named)


def test_multipart_uploads_go_through(s3: S3Proxy, client: Any, direct: Any, named: str) -> None:
    """An upload in parts is completed, another one aborted, and each request is known for what it is."""
    parts = [os.urandom(5 << 20), b"rest"]
    place = {"Bucket": BUCKET, "Key": named}
    upload = client.create_multipart_upload(**place)["UploadId"]
    tags = [
        client.upload_part(**place, UploadId=upload, PartNumber=number, Body=part)["ETag"]
        for number, part in enumerate(parts, 1)
    ]
    assert len(client.list_parts(**place, UploadId=upload)["Parts"]) == 2
    done = [{"ETag": tag, "PartNumber": number} for number, tag in enumerate(tags, 1)]
    client.complete_multipart_upload(**place, UploadId=upload, MultipartUpload={"Parts": done})
    client.abort_multipart_upload(**place, UploadId=client.create_multipart_upload(**place)["UploadId"])
    assert body_of(direct, named) == b"".join(parts)
    assert s3.seen == {"MULTIPART_CREATE": 2, "PART": 2, "LIST": 1, "COMPLETE": 1, "ABORT": 1}


def test_a_second_conditional_put_is_refused(client: Any, direct: Any, named: str) -> None:
    """If-None-Match holds through the proxy, on one connection as often as one likes."""
    client.put_object(Bucket=BUCKET, Key=named, Body=b"first", IfNoneMatch="*")
    for _ in range(2):
        with pytest.raises(ClientError, match="PreconditionFailed"):
            client.put_object(Bucket=BUCKET, Key=named, Body=b"second", IfNoneMatch="*")
    assert body_of(direct, named) == b"first"


@pytest.mark.parametrize("checksum", ["when_required", "when_supported"])
def test_a_rule_looks_into_a_delta_commit(
    stack: Addresses, s3: S3Proxy, direct: Any, named: str, checksum: str
) -> None:
    """The text is the commit's, also where the body came in frames with a checksum behind; the store gets it whole."""
    texts: list[str] = []
    s3.fault(lambda request: bool(request.text and texts.append(request.text)), cut())
    key, text = f"{named}_{checksum}/_delta_log/00000000000000000000.json", '{"commitInfo":{"höhe":1}}\n' * 1000
    with closing(client_of(stack, s3.endpoint, request_checksum_calculation=checksum)) as client:
        client.put_object(Bucket=BUCKET, Key=key, Body=text.encode(), IfNoneMatch="*")
        client.put_object(Bucket=BUCKET, Key=named, Body=text.encode())
    assert texts == [text]
    assert body_of(direct, key).decode() == text


def test_frames_are_passed_on_and_read(stack: Addresses, s3: S3Proxy, named: str) -> None:
    """A body of aws-chunked is understood for the rule, and goes to the store in its frames."""
    texts: list[str] = []
    s3.fault(lambda request: bool(texts.append(request.text)), cut())
    frames = b'5;chunk-signature=00\r\n{"a":\r\n3\r\n 1}\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n'
    with closing(http.client.HTTPConnection(urlsplit(s3.endpoint).netloc, timeout=5)) as connection:
        connection.request(
            "PUT", f"/{BUCKET}/{named}/_delta_log/0.json", frames, {"Content-Encoding": "aws-chunked", "Expect": ""}
        )
        assert connection.getresponse().status == 403
    assert texts == ['{"a": 1}']


@pytest.mark.parametrize(
    ("act", "status", "code"),
    [
        (slow_down(), 503, "SlowDown"),
        (internal_error(), 500, "InternalError"),
        (denied(), 403, "AccessDenied"),
        (expired(), 400, "ExpiredToken"),
    ],
)
def test_refusals_are_worded_as_by_s3(  # noqa: PLR0917
    s3: S3Proxy, client: Any, direct: Any, named: str, act: Act, status: int, code: str
) -> None:
    """Status and code, a HEAD has the status alone, the store hears nothing, and the connection can be used again."""
    s3.fault(of(named), act, times=3)
    for call, told in (("put_object", code), ("get_object", code), ("head_object", str(status))):
        with pytest.raises(ClientError) as refused:
            getattr(client, call)(Bucket=BUCKET, Key=named, **({"Body": b"x" * 100_000} if told == call else {}))
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
        assert refused.value.response["Error"]["Code"] == told
    assert keys_of(direct, named) == []
    client.put_object(Bucket=BUCKET, Key=named, Body=b"")


def test_cut_resets_and_forwards_nothing(s3: S3Proxy, client: Any, direct: Any, named: str) -> None:
    """The client cannot tell what happened; nothing did."""
    s3.fault(of(named), cut())
    with pytest.raises(GONE):
        client.put_object(Bucket=BUCKET, Key=named, Body=b"x" * 1_000_000)
    assert keys_of(direct, named) == []


def test_lose_answer_does_what_was_asked(s3: S3Proxy, client: Any, direct: Any, named: str) -> None:
    """The client cannot tell what happened; all did, and a conditional retry is refused by its own first try."""
    s3.fault(of(named), lose_answer(), times=1)
    with pytest.raises(GONE):
        client.put_object(Bucket=BUCKET, Key=named, Body=b"content", IfNoneMatch="*")
    assert body_of(direct, named) == b"content"
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.put_object(Bucket=BUCKET, Key=named, Body=b"content", IfNoneMatch="*")


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_half_answer_ends_in_the_body(s3: S3Proxy, client: Any, direct: Any, named: str, size: int) -> None:
    """The headers promise all of it, and half of it comes."""
    direct.put_object(Bucket=BUCKET, Key=named, Body=b"x" * size)
    s3.fault(of(named), half_answer())
    answer = client.get_object(Bucket=BUCKET, Key=named)
    assert answer["ContentLength"] == size
    assert len(answer["Body"].read(size // 2)) == size // 2
    with pytest.raises((IncompleteReadError, ResponseStreamingError)):
        answer["Body"].read()


def test_half_a_listing_is_no_listing(s3: S3Proxy, client: Any, direct: Any, named: str) -> None:
    """No client takes half of the names for all of them."""
    direct.put_object(Bucket=BUCKET, Key=named, Body=b"")
    s3.fault(lambda request: request.kind == "LIST", half_answer(), times=1)
    with pytest.raises((ClientError, ResponseStreamingError)):
        keys_of(client, named)
    assert keys_of(client, named) == [named]


def test_hang_goes_on_afterwards(stack: Addresses, s3: S3Proxy, client: Any, direct: Any, named: str) -> None:
    """The patient get their answer later; the impatient run into their own time limit, and nothing is done for them."""
    s3.fault(of(named), hang(0.4))
    direct.put_object(Bucket=BUCKET, Key=named, Body=b"")
    with closing(client_of(stack, s3.endpoint, read_timeout=0.1)) as hasty, pytest.raises(ReadTimeoutError):
        hasty.delete_object(Bucket=BUCKET, Key=named)
    time.sleep(0.5)
    assert keys_of(direct, named) == [named]
    began = time.monotonic()
    client.delete_object(Bucket=BUCKET, Key=named)
    assert time.monotonic() - began > 0.4
    assert keys_of(direct, named) == []


def test_slow_keeps_the_pace_both_ways(s3: S3Proxy, client: Any, named: str) -> None:
    """All arrives, in about the time that it must take."""
    s3.fault(of(named), slow(200_000))
    for call in (
        lambda: client.put_object(Bucket=BUCKET, Key=named, Body=b"x" * 100_000),
        lambda: body_of(client, named),
    ):
        began = time.monotonic()
        call()
        assert 0.4 < time.monotonic() - began < 2


def test_calls_come_before_and_after(s3: S3Proxy, client: Any, direct: Any, named: str) -> None:
    """Before, the store has nothing yet; after, it has it, and the client has no answer yet."""
    seen: list[list[str]] = []
    look = lambda: seen.append(keys_of(direct, named))  # noqa: E731
    s3.fault(of(named), call_before(look), times=1)
    s3.fault(of(f"{named}2"), call_after(look), times=1)
    client.put_object(Bucket=BUCKET, Key=named, Body=b"")
    client.put_object(Bucket=BUCKET, Key=f"{named}2", Body=b"")
    assert seen == [[], [named, f"{named}2"]]


PUTTER = """
import http.client, sys
connection = http.client.HTTPConnection(sys.argv[1])
connection.request("PUT", sys.argv[2], b"x" * int(sys.argv[3]))
print(connection.getresponse().status)
"""


@pytest.mark.parametrize("act", [call_instead, call_after])
@pytest.mark.parametrize("size", [0, 7, 5_000_000])
def test_a_client_killed_by_a_call(act: Callable[..., Act], size: int) -> None:
    """Killed before, its request never reached the store; killed after, it did."""
    stored: list[int] = []
    with closing(_Store(stored)) as store, S3Proxy(store.url) as s3:
        process: list[subprocess.Popen[bytes]] = []

        def kill() -> None:
            process[0].send_signal(signal.SIGKILL)
            process[0].wait()

        fault = s3.fault(of("key"), act(kill))
        command = [sys.executable, "-c", PUTTER, urlsplit(s3.endpoint).netloc, "/lake/key", str(size)]
        process.append(subprocess.Popen(command))
        assert process[0].wait(10) == -signal.SIGKILL
        time.sleep(0.15)
        assert (fault.hits, stored) == (1, [size] if act is call_after else [])


class _Store:
    """Takes PUTs of whole bodies, and writes their sizes down."""

    def __init__(self, stored: list[int]) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                length = 0
                while (line := self.rfile.readline()).strip():
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                if line and len(self.rfile.read(length)) == length:
                    stored.append(length)
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is expected here."""


def test_skip_times_and_lift(s3: S3Proxy, client: Any, named: str) -> None:
    """A fault lets `skip` requests through, spoils `times`, and none after it is lifted; its hits are those spoilt."""

    def put() -> bool:
        with suppress(ClientError):
            client.put_object(Bucket=BUCKET, Key=named, Body=b"")
            return True
        return False

    first, second = s3.fault(of(named), denied(), times=2, skip=1), s3.fault(of(named), slow_down(), skip=1)
    assert [put() for _ in range(5)] == [True, False, False, False, False]
    assert (first.hits, second.hits) == (2, 2)
    second.lift()
    assert put()
    third = s3.fault(of(named), denied())
    assert not put()
    s3.clear()
    assert (put(), third.hits) == (True, 1)


def test_a_bug_in_a_rule_is_told(stack: Addresses, named: str) -> None:
    """A rehearsal that is wrong does not pass for one in which nothing happened."""
    s3 = S3Proxy(stack.s3)
    s3.fault(lambda request: bool(1 / 0), cut())
    with closing(client_of(stack, s3.endpoint)) as client, pytest.raises(ClientError, match="ZeroDivisionError"):
        client.put_object(Bucket=BUCKET, Key=named, Body=b"")
    with pytest.raises(ZeroDivisionError):
        s3.__exit__(None, None, None)


def test_a_closed_port_refuses(s3: S3Proxy, client: Any, named: str) -> None:
    """As if the store were down: open connections are reset, new ones refused, and the port is the same afterwards."""
    client.put_object(Bucket=BUCKET, Key=named, Body=b"")
    s3.close_port()
    with pytest.raises((EndpointConnectionError, *GONE)):
        client.head_object(Bucket=BUCKET, Key=named)
    with pytest.raises(EndpointConnectionError):
        client.head_object(Bucket=BUCKET, Key=named)
    s3.open_port()
    client.head_object(Bucket=BUCKET, Key=named)


def test_an_unreachable_store_looks_like_one(client_to_nowhere: Any) -> None:
    """The proxy has no errors of its own."""
    with pytest.raises(GONE):
        client_to_nowhere.head_object(Bucket=BUCKET, Key="key")


@pytest.fixture
def client_to_nowhere(stack: Addresses) -> Iterator[Any]:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        with S3Proxy(url) as s3, closing(client_of(stack, s3.endpoint)) as client:
            yield client


def test_expectations_are_kept(s3: S3Proxy) -> None:
    """The client is asked for its body when the store asks for it, and not where the store refuses before."""
    head = b"PUT /lake/key HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    s3.fault(lambda request: s3.seen["PUT"] == 2, slow_down())
    for status in (b"403", b"503"):
        with socket.create_connection(("127.0.0.1", s3.port), 5) as connection:
            connection.sendall(head)
            answer = b""
            while piece := connection.recv(10_000):
                answer += piece
                if answer.endswith(b"100 Continue\r\n\r\n"):
                    connection.sendall(b"12345")
                if b"</Error>" in answer:
                    break
            assert answer.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"").startswith(b"HTTP/1.1 " + status)


def test_vanished_clients_leave_nothing_behind(
    stack: Addresses, direct: Any, named: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Clients that go away in the middle are no errors, and closing waits for nobody."""
    direct.put_object(Bucket=BUCKET, Key=named, Body=bytes(20_000_000))
    with S3Proxy(stack.s3) as s3, closing(client_of(stack, s3.endpoint)) as client:
        url = client.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": named})
        s3.fault(of("hung"), hang(60))
        for request in (
            f"GET {url.removeprefix(s3.endpoint)} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n\r\n",
            "PUT /lake/key HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nbegun",
            "GET /lake/hung HTTP/1.1\r\nHost: x\r\n\r\n",
            "no HTTP\r\n\r\n",
        ):
            for _ in range(3):
                with socket.create_connection(("127.0.0.1", s3.port), 5) as connection:
                    connection.sendall(request.encode())
                    time.sleep(0.02)
        staying = socket.create_connection(("127.0.0.1", s3.port), 5)
        staying.sendall(b"GET /lake/hung HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.1)
        began = time.monotonic()
    with staying:
        assert time.monotonic() - began < 1
        with pytest.raises(ConnectionResetError):
            staying.recv(1)
    gc.collect()
    assert (capfd.readouterr().err, caplog.records) == ("", [])


class _Echo(socketserver.StreamRequestHandler):
    """Sends all back; after the client has said all, one last word."""

    def handle(self) -> None:
        while piece := self.request.recv(1 << 16):
            self.request.sendall(piece)
        self.request.sendall(b"bye")


@pytest.fixture
def echo() -> Iterator[int]:
    with _Server(("127.0.0.1", 0), _Echo) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def wire(echo: int) -> Iterator[Wire]:
    with Wire("127.0.0.1", echo) as wire:
        yield wire


def connect(wire: Wire, timeout: float = 5) -> socket.socket:
    return socket.create_connection(("127.0.0.1", wire.port), timeout)


def say(connection: socket.socket, what: bytes) -> bytes:
    connection.sendall(what)
    heard = b""
    while len(heard) < len(what):
        heard += connection.recv(1 << 20)
    return heard


def test_a_wire_passes_all_on(wire: Wire) -> None:
    """Both ways, more than fits any buffer, and the one way still after the other has ended."""
    content = os.urandom(1 << 20) * 8
    with connect(wire) as connection:
        writer = threading.Thread(target=lambda: (connection.sendall(content), connection.shutdown(socket.SHUT_WR)))
        writer.start()
        heard = bytearray()
        while piece := connection.recv(1 << 20):
            heard += piece
        writer.join()
    assert heard == content + b"bye"
    assert wire.address == f"127.0.0.1:{wire.port}"


def test_a_cut_wire_resets_and_refuses(wire: Wire) -> None:
    """As if the network were gone; mended, the same address works again."""
    with connect(wire) as connection:
        assert say(connection, b"word") == b"word"
        assert wire.connections == 1
        wire.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(wire)
    assert wire.connections == 0
    wire.mend()
    with connect(wire) as connection:
        assert say(connection, b"word") == b"word"


def test_a_hanging_wire_passes_nothing_until_mended(wire: Wire) -> None:
    """Old connections and new ones hang, and lose nothing."""
    with connect(wire, 0.2) as old:
        say(old, b"word")
        wire.hang()
        with connect(wire, 0.2) as new:
            for each in (old, new):
                with pytest.raises(TimeoutError):
                    say(each, b"late")
            wire.mend()
            for each in (old, new):
                each.settimeout(5)
                assert each.recv(4) == b"late"


@pytest.mark.parametrize("slowness", [{"latency_s": 0.15}, {"bytes_per_second": 4_000}])
def test_a_slow_wire_takes_its_time(wire: Wire, slowness: dict[str, float]) -> None:
    """Each way takes so long, or passes so many bytes a second."""
    with connect(wire) as connection:
        wire.slow(**slowness)
        began = time.monotonic()
        assert say(connection, b"x" * 1000) == b"x" * 1000
        assert 0.25 < time.monotonic() - began < 1.5
        wire.mend()
        began = time.monotonic()
        say(connection, b"x" * 1000)
        assert time.monotonic() - began < 0.2


def test_a_wire_has_the_port_that_was_asked_for(wire: Wire, echo: int) -> None:
    """And says so if it cannot; a wire that is cut still holds its port."""
    with pytest.raises(OSError, match="in use"):
        Wire("127.0.0.1", echo, listen_port=wire.port)
    port = wire.port
    wire.close()
    wire.close()
    with Wire("127.0.0.1", echo, listen_port=port) as again, connect(again) as connection:
        assert say(connection, b"word") == b"word"


def test_a_wire_to_nowhere_is_reset() -> None:
    """A server that is down looks down."""
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        with (
            Wire("127.0.0.1", unheard.getsockname()[1]) as wire,
            pytest.raises(ConnectionResetError),
            connect(wire) as connection,
        ):
            connection.recv(1)
