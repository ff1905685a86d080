"""Two drivers, one table, no append lost: the log store against a real S3 server, and Delta's own beside it."""

import contextlib
import fcntl
import http.client
import http.server
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import termios
import threading
import time
import uuid
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from support.servers import spark_versions
from support.servers.log_stores import Driver, refusal, untranslated

from lakeingest.local import artifacts
from lakeingest.spark import jvm

REPO = Path(__file__).resolve().parents[2]
DELTAS_OWN = "io.delta.storage.S3SingleDriverLogStore"


@pytest.fixture(scope="module")
def jars(request):
    """What a Spark session needs."""
    listing = request.config.getoption("jars")
    return spark_versions.jars(Path(listing)) if listing else artifacts.fetch("spark")


@pytest.fixture(scope="module")
def drivers(jars):
    """Two JVMs, as two drivers have them."""
    both = Driver(jars), Driver(jars)
    yield both
    for driver in both:
        driver.close()


@pytest.fixture(scope="module", autouse=True)
def errors_as_py4j_raises_them():
    """Those of the gateways that tests use by themselves, too."""
    with untranslated():
        yield


@pytest.fixture
def driver(drivers):
    return drivers[0]


@pytest.fixture
def s3a(stack):
    """The settings that reach the S3 server."""
    return {
        "fs.s3a.endpoint": stack.s3,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": stack.s3_access_key,
        "fs.s3a.secret.key": stack.s3_secret_key,
        "fs.s3a.retry.interval": "10ms",
    }


@pytest.fixture
def version():
    """A version to be committed, of a table that nobody has."""
    return f"s3a://lake/logstore-{uuid.uuid4()}/_delta_log/00000000000000000000.json"


# --- the promise -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def paused_writer(driver, path, conf, store, scratch):
    """A writer that has passed its checks and waits with its commit half written; yields how to let it go on."""
    fifo, outcome = scratch / "actions", []
    os.mkfifo(fifo)
    feed = os.open(fifo, os.O_RDWR)
    os.write(feed, b"the first's\n")

    def run():
        actions = driver.jvm.java.io.BufferedReader(driver.jvm.java.io.FileReader(str(fifo))).lines().iterator()
        try:
            driver.write(path, actions, conf, store)
            outcome.append("acknowledged")
        except Py4JJavaError as error:
            outcome.append(error.java_exception.getClass().getName())

    thread = threading.Thread(target=run)
    thread.start()
    while struct.unpack("i", fcntl.ioctl(feed, termios.FIONREAD, b"\0" * 4))[0]:
        time.sleep(0.01)  # until the writer takes its first line it is still checking

    def go_on():
        os.close(feed)
        thread.join()
        return outcome[0]

    yield go_on


@pytest.mark.parametrize(
    ("store", "first_writer", "kept"),
    [
        (DELTAS_OWN, "acknowledged", "the first's"),
        (jvm.LOG_STORE, "java.nio.file.FileAlreadyExistsException", "the second's"),
    ],
    ids=["delta", "lakeingest"],
)
def test_of_two_drivers_one_commits(drivers, s3a, version, tmp_path, store, first_writer, kept):  # noqa: PLR0917
    """Both drivers see no version 0; Delta's own store tells both that they committed it, ours tells one."""
    one, other = drivers
    with paused_writer(one, version, one.conf(**s3a), store, tmp_path) as go_on:
        other.write(version, ["the second's"], other.conf(**s3a), store)  # acknowledged
        assert go_on() == first_writer
    assert one.read(version, one.conf(**s3a)) == [kept]


@contextlib.contextmanager
def appender(jars, table, stack, log_store):
    """A Spark driver in its own process; yields how to give it an order, which returns how to get its answer."""
    command = [sys.executable, str(REPO / "tests" / "support" / "servers" / "appender.py")]
    command += [os.pathsep.join(map(str, jars)), table, stack.s3, stack.s3_access_key, stack.s3_secret_key, log_store]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def order(line):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            return lambda: json.loads(process.stdout.readline())

        try:
            yield order
            process.stdin.close()
        finally:
            if sys.exc_info()[0]:
                process.kill()


@pytest.mark.faults
def test_racing_drivers_lose_no_commit(stack, jars):
    """Two Spark drivers append to one table while a third compacts it: every acknowledged commit is a version.

    A lost append would lack its row too. A compaction that took an append's place would have compacted without it.
    """
    table = f"s3a://lake/race-{uuid.uuid4()}"
    with contextlib.ExitStack() as drivers:
        one, other, third = (drivers.enter_context(appender(jars, table, stack, jvm.LOG_STORE)) for _ in range(3))
        ready, *warm = one("create"), other("append 0"), third("optimize 0")
        assert (ready(), *(answer() for answer in warm)) == ({"created": table}, {"acknowledged": 0}, {"compacted": 0})
        warm = other("append 1"), third("optimize 1")  # a cold driver would only lose
        begun = 2 + sum(answer().get("compacted", 0) for answer in warm)
        running = one("append 20"), other("append 20"), third("optimize 4")
        *appended, compacted = [answer() for answer in running]
        assert appended == [{"acknowledged": 20}, {"acknowledged": 20}]
        assert compacted["compacted"] > 0
        assert one("count")() == {"rows": 42, "versions": begun + 40 + compacted["compacted"]}


# --- what else the store answers ---------------------------------------------------------------------------------


def test_equal_bytes_are_our_own_commit(driver, s3a, version):
    """A version that is there with our very bytes (they hold a txnId) was committed by us; any other was not."""
    conf = driver.conf(**s3a)
    driver.write(version, ["ours", "ü"], conf)
    driver.write(version, ["ours", "ü"], conf)
    with pytest.raises(Py4JJavaError) as error:
        driver.write(version, ["theirs"], conf)
    assert refusal(error) == ("java.nio.file.FileAlreadyExistsException", version)
    assert driver.read(version, conf) == ["ours", "ü"]


def test_overwriting_stays_plain(driver, s3a, version):
    """What Delta asks to overwrite is overwritten."""
    conf = driver.conf(**s3a)
    driver.write(version, ["old"], conf)
    driver.write(version, ["new"], conf, overwrite=True)
    assert driver.read(version, conf) == ["new"]


@pytest.mark.parametrize(
    ("setting", "value", "cure"),
    [
        ("fs.s3a.performance.flags", "create", "remove that flag"),
        ("fs.s3a.performance.flags", "mkdir, create", "remove that flag"),
        ("fs.s3a.performance.flags", "*", "remove that flag"),
        ("fs.s3a.bucket.lake.performance.flags", "create", "remove that flag"),
        ("fs.s3a.create.performance", "true", "remove that flag"),
        ("fs.s3a.create.conditional.enabled", "false", "remove that setting"),
        ("fs.s3a.bucket.lake.create.conditional.enabled", "false", "remove that setting"),
    ],
)
def test_settings_that_overwrite_in_silence_are_refused(driver, s3a, version, setting, value, cure):  # noqa: PLR0917
    """However it is spelled, a setting that takes the condition away stops the first commit and names its cure."""
    with pytest.raises(Py4JJavaError) as error:
        driver.write(version, ["ours"], driver.conf(**s3a, **{setting: value}))
    thrown, message = refusal(error)
    assert thrown == "java.io.IOException"
    assert message.startswith(jvm.REFUSAL)
    assert cure in message


def test_a_file_system_without_the_option_is_refused(driver, tmp_path):
    """Local files, as EMRFS or an older Hadoop: by its class, since the first conditional PUT is refused."""
    with pytest.raises(Py4JJavaError) as error:
        driver.write((tmp_path / "0.json").as_uri(), ["ours"], driver.conf())
    named = r"[\w.]+LocalFileSystem of Hadoop [\d.]+ cannot create a file only if there is none; use S3A"
    assert re.match(rf"Unsafe store: file:/// cannot commit safely: {named}", refusal(error)[1])
    assert list(tmp_path.iterdir()) == []


# --- a network that does what networks do ------------------------------------------------------------------------


class Wire(http.server.ThreadingHTTPServer):
    """Hands every request on to the S3 server, but treats conditional PUTs, one after the other, as told.

    `fates` holds, per conditional PUT: "pass" (also when none is left), "lose the answer", or a status to answer with
    instead of asking the server.
    """

    daemon_threads = False

    def __init__(self, upstream, *fates):
        super().__init__(("127.0.0.1", 0), Relay)
        self.upstream = upstream.removeprefix("http://")
        self.fates = list(fates)
        self.conditional_puts = []

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,)).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Relay(http.server.BaseHTTPRequestHandler):
    """One request on its way through the Wire."""

    protocol_version = "HTTP/1.1"

    def relay(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fate = "pass"
        if self.command == "PUT" and "If-None-Match" in self.headers:
            self.server.conditional_puts.append(self.path)
            fate = self.server.fates.pop(0) if self.server.fates else "pass"
        status, headers, answer = (fate, {}, b"") if isinstance(fate, int) else self.ask(body)
        self.close_connection = True
        if fate != "lose the answer":
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(answer)), "Connection": "close"}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

    do_GET = do_PUT = do_POST = do_DELETE = relay  # noqa: N815 (the names are http.server's)

    def do_HEAD(self):
        status, headers, _ = self.ask(b"")
        self.send_response(status)
        for name, value in {**headers, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()

    def ask(self, body):
        with contextlib.closing(http.client.HTTPConnection(self.server.upstream)) as upstream:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name not in ("Expect", "Connection"):
                    upstream.putheader(name, value)
            upstream.endheaders(body)
            answer = upstream.getresponse()
            ours = {"Transfer-Encoding", "Connection", "Date", "Server"}
            return answer.status, {k: v for k, v in answer.getheaders() if k not in ours}, answer.read()

    def log_message(self, *_):
        """Say nothing."""


def over(wire, s3a):
    return {**s3a, "fs.s3a.endpoint": wire.url}


def test_a_lost_answer_is_no_conflict(driver, s3a, version):
    """The PUT arrives and its answer does not: the second PUT meets our own object, and the commit is ours."""
    with Wire(s3a["fs.s3a.endpoint"], "pass", "pass", "lose the answer") as wire:
        driver.write(version, ["ours"], driver.conf(**over(wire, s3a)))
        assert len(wire.conditional_puts) == 4  # the probe's two, the lost one, the one that met it
    assert driver.read(version, driver.conf(**s3a)) == ["ours"]


def test_a_conflicting_request_under_way_is_waited_for(driver, s3a, version):
    """AWS answers 409 while another PUT of the same name is undecided: nobody has won yet, so ask again."""
    with Wire(s3a["fs.s3a.endpoint"], "pass", "pass", 409, 409) as wire:
        driver.write(version, ["ours"], driver.conf(**over(wire, s3a)))
    assert driver.read(version, driver.conf(**s3a)) == ["ours"]


def test_the_probe_is_made_once_and_leaves_nothing_behind(driver, s3a, version):
    """The first commit to a store asks whether it is honest, later ones do not, and only versions lie in the log."""
    log, _, first = version.rpartition("/")
    with Wire(s3a["fs.s3a.endpoint"]) as wire:
        conf = driver.conf(**over(wire, s3a))
        for name in (first, "00000000000000000001.json"):
            driver.write(f"{log}/{name}", ["ours"], conf)
    assert [".lakeingest-probe-" in path for path in wire.conditional_puts] == [True, True, False, False]
    assert driver.names(log, driver.conf(**s3a)) == [first, "00000000000000000001.json"]


def test_a_store_that_ignores_the_condition_is_refused(driver, s3a, version):
    """A store that accepts both PUTs of the probe gets no commit."""
    with Wire(s3a["fs.s3a.endpoint"], 200, 200) as wire, pytest.raises(Py4JJavaError) as error:
        driver.write(version, ["ours"], driver.conf(**over(wire, s3a)))
    assert "does not honour If-None-Match" in refusal(error)[1]
    assert [".lakeingest-probe-" in path for path in wire.conditional_puts] == [True, True]


# --- the jar -----------------------------------------------------------------------------------------------------


def test_the_jar_is_built_from_its_source(tmp_path):
    """Who compiles the source gets the very jar that is shipped."""
    javac = shutil.which("javac")
    if not javac or " 17." not in subprocess.check_output([javac, "-version"], text=True):
        pytest.skip("the bytes are promised for javac 17 only")
    built = tmp_path / "built.jar"
    subprocess.run([sys.executable, str(REPO / "infra" / "build_jar.py"), str(built)], check=True)
    assert built.read_bytes() == jvm.JAR.read_bytes()
