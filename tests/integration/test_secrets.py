"""Secrets leak nowhere: a real run with Spark's event log and INFO logging is searched for each of them.

Kafka's password, the object store's keys and the registry's password are given in the pipeline file and by a variable.
One run goes well; in another Spark's Kafka client refuses the broker's certificate, with all options in its hands.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession
from support.pipelines import values_of
from support.records import produce, registered
from support.records.registered import record
from support.servers import s3_client
from support.servers.brokers import Authority, Cluster, SaslSsl

from lakeingest import cli
from lakeingest.config import file
from lakeingest.kafka import reader
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.record import OffsetRange, OffsetRanges

pytestmark = [pytest.mark.slow, pytest.mark.classic]

LAKEINGEST = [sys.executable, "-c", "from lakeingest.cli import main; main()"]
TOPIC = "secrets"
BUCKET = "sealed-secrets"
"""One of its own: a process opens a bucket with one key."""
VARIABLE = "SECRETS_S3_KEY"
# Spark gives the root the level of its gateway for Python.
LOG4J = """rootLogger.level=info
logger.gateway.name=org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level=info
rootLogger.appenderRef.stderr.ref=stderr
appender.stderr.type=Console
appender.stderr.name=stderr
appender.stderr.target=SYSTEM_ERR
appender.stderr.layout.type=PatternLayout
appender.stderr.layout.pattern=%d %p %c: %m%n%ex
"""


def spellings(secret: str) -> set[bytes]:
    """The secret as it is, in a URL, in hexadecimal digits, and within whatever was encoded as base64."""
    raw = secret.encode()
    encoded = {base64.b64encode(b"x" * shift + raw)[4:-4] for shift in range(3)}
    return {raw, quote(secret, safe="").encode(), raw.hex().encode(), *encoded}


def leaks(evidence: bytes, known: Mapping[str, str]) -> list[str]:
    """Which secrets are in it, each with what stands around it."""
    found = []
    for name, secret in known.items():
        for spelling in spellings(secret):
            if (at := evidence.find(spelling)) >= 0:
                found.append(f"{name}: {evidence[max(0, at - 80) : at + 20]!r}")
    return found


@dataclass
class Run:
    """What a process showed to others, while it ran and afterwards."""

    code: int = -1
    out: bytes = b""
    err: bytes = b""
    state: bytes = b""
    commands: set[bytes] = field(default_factory=set)
    environments: set[bytes] = field(default_factory=set)


@dataclass(frozen=True)
class Scene:
    """A pipeline with secrets, and the folders of its processes.

    Attributes:
        refused: the value of a record that is refused: quarantine alone may have it.
    """

    stack: Addresses
    cluster: Cluster
    folder: Path
    secrets: Mapping[str, str]
    refused: str

    def values(self, **options: str) -> dict[str, Any]:
        """What the pipeline file holds; `options` are added to the source's."""
        proof = {"ssl.certificate.location": str(self.folder / "tls" / "client.pem")}
        proof["ssl.key.location"] = str(self.folder / "tls" / "client.key")
        return values_of(
            self.stack,
            TOPIC,
            source={
                "bootstrap_servers": self.cluster.bootstrap,
                "options": {**self.cluster.client_options("ingest"), **proof, **options},
            },
            decode={"value": {"format": "avro"}},
            retry={"wait": "0 seconds"},
            schema={"columns": None},
            registry={
                "url": self.stack.registry,
                "options": {"basic.auth.user.info": f"reader:{self.secrets['registry']}"},
            },
            table={"path": f"s3a://{BUCKET}/{TOPIC}"},
            storage={
                "secret_key": f"${{{VARIABLE}}}",
                "encryption": {"type": "SSE-C", "key": self.secrets["encryption"]},
            },
        )

    def file(self, **options: str) -> Path:
        path = self.folder / "pipeline.yaml"
        # JSON is YAML too.
        path.write_text(json.dumps(self.values(**options)))
        return path

    def environment(self) -> dict[str, str]:
        """Spark's own settings as an operator may have them: an event log, INFO, and folders of their own."""
        conf, temporary = self.folder / "conf", self.folder / "temporary"
        for each in (conf, temporary, self.folder / "events"):
            each.mkdir(exist_ok=True)
        (conf / "log4j2.properties").write_text(LOG4J)
        settings = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (self.folder / "events").as_uri(),
            "spark.eventLog.compress": "false",
            "spark.local.dir": str(temporary),
            "spark.hadoop.hadoop.tmp.dir": str(temporary),
        }
        (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        return {
            **os.environ,
            "LAKEINGEST_STATE": str(self.folder / "state"),
            "LAKEINGEST_DRIVER_MEMORY": "1g",
            "SPARK_CONF_DIR": str(conf),
            "TMPDIR": str(temporary),
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={temporary}",
            VARIABLE: self.stack.s3_secret_key,
        }

    def run(self, file: Path) -> Run:
        """`lakeingest run` to its end, watched."""
        seen, ended = Run(), threading.Event()
        command = [*LAKEINGEST, "run", str(file), "--until-caught-up"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, env=self.environment(), start_new_session=True, **pipes)
        watch = threading.Thread(target=watched, args=(process.pid, seen, ended))
        watch.start()
        try:
            seen.out, seen.err = process.communicate(timeout=240)
        finally:
            process.kill()
            ended.set()
            watch.join()
        # The next run begins the log anew.
        seen.code, seen.state = process.returncode, files(self.folder / "state")
        return seen


def watched(pid: int, seen: Run, ended: threading.Event) -> None:
    """Keep what any user (cmdline) and the same user (environ) may read of the process's tree."""
    while not ended.wait(0.2):
        for each in tree(pid):
            for kind, kept in (("cmdline", seen.commands), ("environ", seen.environments)):
                try:
                    kept.add(Path(f"/proc/{each}/{kind}").read_bytes())
                except OSError:
                    continue


def tree(pid: int) -> set[int]:
    """The process and all that descend from it."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


@pytest.fixture(scope="module")
def scene(stack: Addresses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("scene")
    words = {name: f"{name}{secrets.token_hex(16)}" for name in ("kafka", "registry")}
    client = s3_client(stack)
    client.create_bucket(Bucket=BUCKET)
    client.close()
    words["encryption"] = base64.b64encode(secrets.token_bytes(32)).decode()
    authority = Authority(folder / "tls")
    broker, client = authority.certify("broker", "127.0.0.1"), authority.certify("client", "ingest")
    # A line of the key's own: Spark's reader gets its text.
    words["key"] = client.key.read_text().splitlines()[2]
    sasl_ssl = SaslSsl({"ingest": words["kafka"]}, authority.file, broker.certificate, broker.key)
    with Cluster(folder / "kafka", sasl_ssl=sasl_ssl) as cluster:
        writer = registered.avro(stack, f"{TOPIC}-value", record("Secret", n="int"))
        beside = replace(stack, kafka=cluster.direct)
        refused = secrets.token_hex(16)
        produce(beside, TOPIC, [*(writer(n=n) for n in range(20)), refused.encode()])
        yield Scene(stack, cluster, folder, {**words, "s3": stack.s3_secret_key}, refused)


@pytest.fixture(scope="module")
def good(scene: Scene) -> Run:
    """A run that ingests all."""
    return scene.run(scene.file())


@pytest.fixture(scope="module")
def bad(scene: Scene, good: Run) -> Run:
    """A run that fails in a Spark job: "range" is a word of librdkafka's, and to Java a class that it does not find."""
    beside = replace(scene.stack, kafka=scene.cluster.direct)
    produce(beside, TOPIC, [b"one more"])
    return scene.run(scene.file(**{"partition.assignment.strategy": "range"}))


@pytest.mark.pinned
def test_the_runs_are_what_they_should_be(good: Run, bad: Run) -> None:
    """One ingests, one fails where the options are in Spark's hands."""
    assert (good.code, re.search(rb" (WARNING|ERROR) ", good.err)) == (0, None)
    assert b"20 to the table, 1 to quarantine" in good.out
    assert bad.code == 4, bad.err
    assert b"partition.assignment.strategy" in bad.state


PLACES: dict[str, Callable[[Scene, Run], tuple[bytes, bytes]]] = {
    "what it wrote": lambda scene, run: (run.out + run.err, b"error" if run.code else b"caught up"),
    "command lines": lambda scene, run: (b"\n".join(run.commands), b"SparkSubmit"),
    "environments": lambda scene, run: (others(run.environments), b"LAKEINGEST_STATE"),
    "state": lambda scene, run: (run.state, b"INFO org.apache.spark"),
    "event log": lambda scene, run: (files(scene.folder / "events"), b"SparkListenerSQLExecutionStart"),
    "temporary files": lambda scene, run: (files(scene.folder / "temporary"), b""),
    "tables": lambda scene, run: (objects(scene), b'"commitInfo"'),
}
"""Place → all that is found there, and what must be found if the search is to mean anything."""


@pytest.mark.pinned
@pytest.mark.parametrize("place", PLACES)
def test_secrets_are_nowhere(scene: Scene, good: Run, bad: Run, place: str) -> None:
    """Neither a good nor a failing run leaves a secret, in whatever spelling."""
    for run in (good, bad):
        evidence, mark = PLACES[place](scene, run)
        assert mark in evidence
        secret = scene.secrets if place == "tables" else {**scene.secrets, "refused": scene.refused}
        assert leaks(evidence, secret) == []


def others(environments: set[bytes]) -> bytes:
    """All variables but the one by which the user gave a secret himself."""
    variables = b"\0".join(environments).split(b"\0")
    return b"\0".join(each for each in variables if not each.startswith(f"{VARIABLE}=".encode()))


def files(folder: Path) -> bytes:
    """Names and contents of all files. Spark deletes its own while we look."""
    found = []
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                found.append(str(path).encode() + b"\n" + path.read_bytes())
    return b"\n".join(found)


def objects(scene: Scene) -> bytes:
    """Names and contents of all objects of table and quarantine, and what is noted with them."""
    client, found = s3_client(scene.stack), []
    key = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": base64.b64decode(scene.secrets["encryption"])}
    for each in client.list_objects_v2(Bucket=BUCKET, Prefix=TOPIC)["Contents"]:
        if not each["Key"].endswith("/"):
            answer = client.get_object(Bucket=BUCKET, Key=each["Key"], **key)
            found += [each["Key"].encode(), answer["Body"].read(), str(answer["Metadata"]).encode()]
    client.close()
    return b"\n".join(found)


def test_a_search_finds_what_is_there() -> None:
    """Plain, in a URL, and in the middle of what was encoded as base64."""
    known = {"word": "p/ss+" + "w" * 20}
    for text in (
        known["word"],
        quote(known["word"], safe=""),
        base64.b64encode(b"u:" + known["word"].encode()).decode(),
    ):
        assert leaks(f"before {text} after".encode(), known)
    assert leaks(b"p/ss+", known) == []


@pytest.fixture
def inside(scene: Scene, good: Run, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """The scene for this process."""
    monkeypatch.setenv(VARIABLE, scene.stack.s3_secret_key)
    return scene


@pytest.mark.parametrize(
    "command", ["check", "status --output json", "status", "audit", "quarantine list", "run --until-caught-up"]
)
def test_no_command_tells_a_secret(
    inside: Scene,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Whatever it prints, as text or as JSON, and as an error."""
    options = {"sasl.mechanism": "SCRAM-SHA-256"} if command == "status" else {}
    produce(replace(inside.stack, kafka=inside.cluster.direct), TOPIC, [b"one more"])
    monkeypatch.setattr(sys, "argv", ["lakeingest", *command.split(), str(inside.file(**options))])
    capfd.readouterr()
    with pytest.raises(SystemExit):
        cli.main()
    shown = "".join(capfd.readouterr())
    assert shown
    assert leaks(shown.encode(), inside.secrets) == []


def test_no_plan_tells_a_secret(inside: Scene, spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    """`explain` of what is read from Kafka names offsets and no options, and SET hides those of s3a."""
    ingestion = Pipeline(file.read(inside.file(), os.environ))
    _ = ingestion.spark
    ranges = OffsetRanges((OffsetRange(TOPIC, 0, 0, 5),))
    records = reader.frame(spark, ingestion.config.source, inside.cluster.bootstrap, TOPIC, ranges)
    records.explain("extended")
    plan = "".join(capfd.readouterr())
    settings = "\n".join(f"{row['key']} {row['value']}" for row in spark.sql("SET").collect())
    assert "Kafka" in plan
    assert "fs.s3a.secret.key" in settings
    assert leaks((plan + settings).encode(), inside.secrets) == []
