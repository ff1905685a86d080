"""An object store that is slow, away, or lies about what it did, and credentials that run out."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.faults import BUCKET, Cell, first_tries, large, ride_out

from lakeingest.errors import StorageUnreachable
from lakeingest.local import addresses
from lakeingest.testing.s3 import (
    Act,
    Request,
    S3Proxy,
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

SPOILT: dict[str, Callable[[], Act]] = {
    "503": slow_down,
    "500": internal_error,
    "reset": cut,
    "lost answer": lose_answer,
}
REQUESTS = ("PUT", "MULTIPART_CREATE", "PART", "COMPLETE", "LIST", "HEAD", "GET")
PATIENT = {"retry": {"wait": "10 minutes"}}


def _of(cell: Cell, request: Request) -> bool:
    """Whether a request is about the cell's tables; a listing names them in its query."""
    return cell.name in request.key or cell.name in request.query.get("prefix", "")


def spoil(cell: Cell, s3: S3Proxy, kind: str, spoilt: str) -> None:
    """Two requests of a kind go wrong while a batch of the cell's kind is committed."""
    cell.bucket = BUCKET
    if kind in ("MULTIPART_CREATE", "PART", "COMPLETE"):
        large(cell)
    cell.produce(200)
    fault = s3.fault(lambda request: request.kind == kind and _of(cell, request), SPOILT[spoilt](), times=2)
    begun = time.monotonic()
    cell.run(**PATIENT)
    taken = time.monotonic() - begun
    assert fault.hits, f"no {kind} in {s3.seen}"
    s3.clear()
    assert cell.run().consumed == 0
    cell.check(f"{spoilt} on {kind}", f"went on, {fault.hits} spoilt", taken)


@pytest.mark.faults
@pytest.mark.parametrize("request_kind", REQUESTS)
@pytest.mark.parametrize("spoilt", SPOILT)
def test_a_request_goes_wrong(cell: Cell, s3: S3Proxy, spoilt: str, request_kind: str) -> None:
    """Each kind of request may fail or lose its answer: the run goes on by itself."""
    spoil(cell, s3, request_kind, spoilt)


@pytest.mark.slow
def test_a_request_goes_wrong_the_shorter_choice(cells: dict[str, Cell], s3: S3Proxy) -> None:
    """One of the above: a commit's own."""
    spoil(cells["evolving"], s3, "PUT", "lost answer")


def commits(cell: Cell) -> Callable[[Request], bool]:
    return lambda request: request.kind == "PUT" and cell.name in request.key and request.text != ""


@pytest.mark.faults
def test_every_commit_loses_its_answer(cell: Cell, s3: S3Proxy) -> None:
    """A commit whose answer is lost is neither made twice nor taken for another's: one version each."""
    cell.bucket = BUCKET
    cell.produce(400)
    # The second one finds what the first one wrote.
    fault = s3.fault(first_tries(commits(cell)), lose_answer(), times=None)
    begun = time.monotonic()
    cell.run(**PATIENT, trigger={"max_records": 100})
    taken = time.monotonic() - begun
    s3.clear()
    versions = cell.spark.sql(f"DESCRIBE HISTORY delta.`{cell.table}`").where("operation = 'WRITE'").count()
    assert (versions, fault.hits >= 4) == (4, True)
    cell.check("lost answer on every log PUT", "no double commit, no conflict", taken)


@pytest.mark.faults
@pytest.mark.parametrize("name", ["half answers", "slow bodies"])
def test_answers_come_badly(cell: Cell, s3: S3Proxy, name: str) -> None:
    """Reads that end half-way, and bodies at 200 kB/s."""
    cell.bucket = BUCKET
    cell.produce(100)
    cell.run()
    cell.produce(200)
    act = half_answer() if name == "half answers" else slow(200_000)
    fault = s3.fault(
        lambda r: r.kind in ("GET", "PUT") and cell.name in r.key, act, times=3 if "half" in name else None
    )
    begun = time.monotonic()
    cell.run(**PATIENT)
    assert fault.hits
    cell.check(name, "went on", time.monotonic() - begun)


@pytest.mark.faults
@pytest.mark.parametrize("what", ["_last_checkpoint", ".checkpoint"])
def test_the_logs_checkpoint_fails_and_then_all(cell: Cell, s3: S3Proxy, what: str) -> None:
    """Delta's own checkpoint of the log is not written, and then the run ends: the next reads the log without it."""
    cell.bucket = BUCKET
    cell.produce(100)
    cell.run()
    cell.spark.sql(f"ALTER TABLE delta.`{cell.table}` SET TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    cell.produce(400)
    ended = threading.Event()

    def fails(request: Request) -> bool:
        mine = cell.name in request.key and request.kind in ("PUT", "MULTIPART_CREATE") and what in request.key
        if mine:
            ended.set()
        return ended.is_set()

    s3.fault(fails, denied())
    with pytest.raises(StorageUnreachable):
        cell.run(trigger={"max_records": 100})
    assert ended.is_set()
    s3.clear()
    cell.recover(f"failed PUT of the log's {what.strip('._')}, then the end", "exit 4; went on from the log")


@pytest.mark.faults
def test_throttled_for_a_minute(cells: dict[str, Cell], s3: S3Proxy) -> None:
    """503 to three requests of four, for a minute."""
    dice = random.Random(1)

    def throttle() -> None:
        s3.fault(lambda _: dice.random() < 0.75, slow_down())

    ride_out(cells, "S3 throttled for a minute", throttle, s3.clear, 60, s3=s3)


@pytest.mark.faults
def test_refusing_for_five_minutes(cells: dict[str, Cell], s3: S3Proxy) -> None:
    """Nothing listens for five minutes."""
    ride_out(cells, "S3 refusing for five minutes", s3.close_port, s3.open_port, 300, s3=s3)


@pytest.mark.faults
def test_hanging_for_two_minutes(cells: dict[str, Cell], s3: S3Proxy) -> None:
    """Every request hangs, for two minutes."""
    ride_out(cells, "S3 hanging for two minutes", lambda: s3.fault(lambda _: True, hang(120)), s3.clear, 120, s3=s3)


@pytest.mark.faults
def test_credentials_expire_and_are_renewed(cells: dict[str, Cell], s3: S3Proxy) -> None:
    """Every request is refused as expired for twenty seconds; then the keys are good again."""
    ride_out(cells, "credentials expired, renewed", lambda: s3.fault(lambda _: True, expired()), s3.clear, 20, s3=s3)


@contextmanager
def vending(answer: Callable[[], dict[str, str]]) -> Iterator[str]:
    """A server that gives out credentials, as ECS and EKS have one for each container."""

    class Vending(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer()).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Vending)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/credentials"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.faults
def test_credentials_are_rotated(cells: dict[str, Cell], s3: S3Proxy, stack_state: Path) -> None:
    """A container's own keys change every few seconds; the first ones are denied from then on, and the run goes on."""
    stack = cells["clean"].stack
    keys = [(stack.s3_access_key, stack.s3_secret_key)]

    def answer() -> dict[str, str]:
        expires = datetime.now(UTC) + timedelta(seconds=70)
        known = {"AccessKeyId": keys[-1][0], "SecretAccessKey": keys[-1][1]}
        return known | {"Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def rotate() -> None:
        settings = stack_state / "stack" / "data" / "s3" / "s3.json"
        known = json.loads(settings.read_text())
        known["identities"][0]["credentials"].append({"accessKey": "rotated", "secretKey": "rotated-secret"})
        settings.write_text(json.dumps(known))
        record = addresses.read(stack_state)
        assert record is not None
        os.kill(record.servers["s3"].pid or 0, signal.SIGHUP)
        time.sleep(5)
        s3.fault(lambda request: request.access_key == stack.s3_access_key, denied())
        keys.append(("rotated", "rotated-secret"))

    provider = "software.amazon.awssdk.auth.credentials.ContainerCredentialsProvider"
    storage = {"access_key": None, "secret_key": None, "options": {"fs.s3a.aws.credentials.provider": provider}}
    with vending(answer) as url:
        env = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url}
        ride_out(cells, "credentials rotated", rotate, lambda: None, 20, s3=s3, storage=storage, env=env)
