"""Encryption, roles, access points and the like, against a store that has them: MiniStack, which asks IAM too."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from support.oracle import assert_exactly_once, topic_manifest
from support.pipelines import values_of
from support.pipelines.command_line import Command
from support.records import clean_records, mixed_records, produce
from support.servers import aws
from support.servers.aws import Account, User, allow
from support.servers.log_stores import Driver, refusal

from lakeingest.config import Storage, file
from lakeingest.errors import LakeingestError, StorageRefused
from lakeingest.local import Addresses, artifacts
from lakeingest.operations import iam
from lakeingest.pipeline import Pipeline
from lakeingest.spark import failures, s3a
from lakeingest.testing.s3 import Request, S3Proxy

pytestmark = [pytest.mark.slow, pytest.mark.classic, pytest.mark.pinned]

KEY = f"arn:aws:kms:{aws.REGION}:{aws.ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
CUSTOMER = base64.b64encode(bytes(range(32))).decode()
SSE = "x-amz-server-side-encryption"


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with aws.account(tmp_path_factory.mktemp("aws")) as made:
        made.bucket("secured")
        yield made


@pytest.fixture(scope="module")
def driver(account: Account) -> Iterator[Driver]:
    """It finds STS as AWS's client does, by the environment."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ENDPOINT_URL_STS", account.url)
        patched.setenv("AWS_REGION", aws.REGION)
        made = Driver(artifacts.fetch("spark"))
    yield made
    made.close()


@pytest.fixture
def proxy(account: Account) -> Iterator[S3Proxy]:
    with S3Proxy(account.url) as made:
        yield made


@pytest.fixture
def seen(proxy: S3Proxy) -> list[Request]:
    """All requests of the test, in order."""
    found: list[Request] = []

    def note(request: Request) -> bool:
        found.append(request)
        return False

    proxy.fault(note, lambda exchange: exchange.refuse(500, "Never", ""))
    return found


@pytest.fixture(scope="module")
def writer(account: Account) -> User:
    return account.user("writer", allow("s3:*", "sts:AssumeRole"))


@pytest.fixture
def storage(proxy: S3Proxy, writer: User) -> Callable[..., Storage]:
    def make(**more: Any) -> Storage:
        said = {"endpoint": proxy.endpoint, "region": aws.REGION, "path_style": True, **writer.storage, **more}
        return Storage.model_validate(said)

    return make


def once(driver: Driver, path: str, conf: Any) -> None:
    """A version is written once, by one of two; whoever writes its very bytes is told that it did."""
    driver.write(path, ["ours"], conf)
    driver.write(path, ["ours"], conf)
    with pytest.raises(Py4JJavaError) as error:
        driver.write(path, ["theirs"], conf)
    assert refusal(error)[0] == "java.nio.file.FileAlreadyExistsException"
    assert driver.read(path, conf) == ["ours"]


def version(named: str) -> str:
    return f"s3a://secured/{named}/_delta_log/00000000000000000000.json"


OPTIONS = {
    "SSE-S3": ({"encryption": {"type": "SSE-S3"}}, {SSE: "AES256"}),
    "SSE-KMS": ({"encryption": {"type": "SSE-KMS", "key": KEY}}, {SSE: "aws:kms", f"{SSE}-aws-kms-key-id": KEY}),
    "SSE-C": ({"encryption": {"type": "SSE-C", "key": CUSTOMER}}, {f"{SSE}-customer-key": CUSTOMER}),
    "requester pays": ({"requester_pays": True}, {"x-amz-request-payer": "requester"}),
    "ACL": ({"acl": "bucket-owner-full-control"}, {"x-amz-acl": "bucket-owner-full-control"}),
}
"""What storage says, and which headers that makes."""


@pytest.mark.parametrize("option", OPTIONS)
def test_the_log_store_keeps_its_promise(
    driver: Driver, storage: Callable[..., Storage], seen: list[Request], named: str, option: str
) -> None:
    """With each option: the store is asked for it with each PUT, and a version is written once."""
    said, headers = OPTIONS[option]
    once(driver, version(named), driver.conf(**s3a.s3a_options(storage(**said))))
    puts = [request for request in seen if request.kind == "PUT"]
    assert len(puts) >= 3
    assert all(headers.items() <= request.headers.items() for request in puts)


@pytest.mark.parametrize("option", ["SSE-C", "ACL"])
def test_the_log_store_on_the_embedded_store(driver: Driver, stack: Addresses, named: str, option: str) -> None:
    """SeaweedFS, which encrypts with a customer's key for real; of a key of its own it has none without settings."""
    keys = {"access_key": stack.s3_access_key, "secret_key": stack.s3_secret_key}
    said = Storage.model_validate({"endpoint": stack.s3, "path_style": True, **keys, **OPTIONS[option][0]})
    path = version(named).replace("secured", "lake")
    once(driver, path, driver.conf(**s3a.s3a_options(said)))
    if option == "SSE-C":
        plain = said.model_copy(update={"encryption": None})
        with pytest.raises(Py4JJavaError, match="Status Code: 400"):
            driver.read(path, driver.conf(**s3a.s3a_options(plain)))


@pytest.mark.faults
def test_a_pipeline_sealed_by_a_customers_key(
    stack: Addresses, spark: SparkSession, account: Account, writer: User, named: str
) -> None:
    """Spark and Delta write and read all of it with the key, and nobody reads it without."""
    account.bucket("sealed")
    values = values_of(stack, named, table={"path": f"s3a://sealed/{named}"})
    reached = {"endpoint": account.url, "region": aws.REGION, "path_style": True, **writer.storage}
    values["storage"] = {**reached, "encryption": {"type": "SSE-C", "key": CUSTOMER}}
    pipeline = Pipeline(file.from_mapping(values))
    wanted = produce(stack, named, mixed_records(20))
    assert pipeline.run(until_caught_up=True).consumed == 20
    assert_exactly_once(spark, pipeline, wanted)
    assert pipeline.audit().conserved
    pipeline.maintain("compact").check()
    assert pipeline.audit().conserved
    s3 = account.client("s3")
    objects = [each["Key"] for each in s3.list_objects_v2(Bucket="sealed")["Contents"]]
    assert len([key for key in objects if key.endswith(".parquet")]) >= 2
    for key in objects:
        if not key.endswith("/"):
            with pytest.raises(ClientError, match="400"):
                s3.head_object(Bucket="sealed", Key=key)
    s3.close()


@pytest.mark.faults
def test_a_pipeline_under_a_role(  # noqa: PLR0917
    stack: Addresses,
    spark: SparkSession,
    account: Account,
    writer: User,
    proxy: S3Proxy,
    seen: list[Request],
    named: str,
    tmp_path: Path,
) -> None:
    """A user who may assume a role and nothing else: the role has what `lakeingest iam` prints, and each step takes it.

    When the role loses the right to write, the run ends at once by name; with the right it goes on where it was.
    """
    account.bucket("assumed")
    assumes = account.user(named, allow("sts:AssumeRole"))
    values = values_of(stack, named, table={"path": f"s3a://assumed/{named}"})
    values |= {"retry": {"wait": "10 minutes"}}
    values["storage"] = {"endpoint": proxy.endpoint, "region": aws.REGION, "path_style": True}
    ours = Pipeline(file.from_mapping({**values, "storage": {**values["storage"], **writer.storage}}))
    arn = account.role(named, assumes, "ours", iam.policy(ours.config, "writer").document)
    values["storage"] |= {**assumes.storage, "role": {"arn": arn, "external_id": "ours"}}
    (tmp_path / "p.yaml").write_text(json.dumps(values))

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        whole = [sys.executable, "-c", "from lakeingest.cli import main; main()", *words, "--output", "json"]
        env = {**os.environ, "AWS_ENDPOINT_URL_STS": account.url, "AWS_REGION": aws.REGION}
        return subprocess.run(whole, check=False, capture_output=True, text=True, cwd=tmp_path, env=env, timeout=300)

    produce(stack, named, mixed_records(20))
    ran = command("run", "p.yaml", "--until-caught-up")
    assert (ran.returncode, json.loads(ran.stdout)["consumed"]) == (0, 20), ran.stderr
    assert command("audit", "p.yaml").returncode == 0
    assert {request.access_key for request in seen}.isdisjoint({assumes.access_key, ""})
    account.give(named, iam.policy(ours.config, "reader").document)
    produce(stack, named, clean_records(5))
    begun = time.monotonic()
    ended = command("run", "p.yaml", "--until-caught-up")
    assert time.monotonic() - begun < 100
    assert ended.returncode != 0
    assert f"the right s3:PutObject is missing for s3a://assumed/{named}" in ended.stderr
    account.give(named, iam.policy(ours.config, "writer").document)
    assert json.loads(command("run", "p.yaml", "--until-caught-up").stdout)["consumed"] == 5
    assert ours.audit().conserved
    assert_exactly_once(spark, ours, topic_manifest(stack, named))


@pytest.fixture
def doctor(
    stack: Addresses, account: Account, lakeingest: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    """What `lakeingest doctor` finds of a store."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", account.url)

    def look(user: User, **said: Any) -> dict[str, Any]:
        values = values_of(stack, "doctor", table={"path": "s3a://secured/doctor"})
        reached = {"endpoint": account.url, "region": aws.REGION, "path_style": True, **user.storage}
        values["storage"] = {**reached, **said}
        (tmp_path / "p.yaml").write_text(json.dumps(values))
        findings: list[dict[str, Any]] = lakeingest(
            "doctor", tmp_path / "p.yaml", "--no-spark", "--output", "json"
        ).data["findings"]
        return next(each for each in findings if each["about"] == "store")

    return look


def test_the_doctor_asks_alike(doctor: Callable[..., dict[str, Any]], account: Account, writer: User) -> None:
    """Under the role, and with all that a PUT says besides; the role that cannot be assumed is told without Spark."""
    sealed = {"type": "SSE-C", "key": CUSTOMER}
    alone = account.user("assumes", allow("sts:AssumeRole"))
    trusted = {"arn": account.role("doctor", alone, "ours", allow("s3:*")), "external_id": "ours"}
    assert doctor(alone)["state"] == "bad"
    found = doctor(alone, role=trusted, encryption=sealed, requester_pays=True, acl="bucket-owner-full-control")
    assert (found["state"], found["what"].partition(": ")[2]) == (
        "good",
        "written to, and a second writer was refused (412)",
    )
    for encryption in ({"type": "SSE-KMS", "key": KEY}, {"type": "SSE-S3"}):
        assert doctor(writer, encryption=encryption)["state"] == "good"
    found = doctor(alone, role={**trusted, "external_id": "theirs"})
    assert found["what"].startswith("the role of storage.role cannot be assumed: ")


def test_twice_encrypted_is_asked_for(
    driver: Driver, storage: Callable[..., Storage], seen: list[Request], named: str
) -> None:
    """DSSE-KMS: no store here has it, so what is asked for is all that is known."""
    conf = driver.conf(**s3a.s3a_options(storage(encryption={"type": "DSSE-KMS", "key": KEY})))
    with pytest.raises(Py4JJavaError, match="Invalid x-amz-server-side-encryption value: aws:kms:dsse"):
        driver.write(version(named), ["ours"], conf)
    asked = next(request.headers for request in seen if request.kind == "PUT")
    assert {SSE: "aws:kms:dsse", f"{SSE}-aws-kms-key-id": KEY}.items() <= asked.items()


def test_a_role_writes(
    driver: Driver, storage: Callable[..., Storage], seen: list[Request], named: str, role: dict[str, str]
) -> None:
    """The keys that STS gives are the ones that S3 is asked with, and not the user's."""
    said = storage(role=role)
    once(driver, version(named), driver.conf(**s3a.s3a_options(said)))
    assert said.access_key is not None
    assert {request.access_key for request in seen}.isdisjoint({said.access_key.get_secret_value(), ""})


def test_an_access_point(driver: Driver, account: Account, writer: User, named: str) -> None:
    """The path has the bucket's name, and the request goes to the access point's host, through a proxy of HTTP's."""
    arn = account.access_point("lake-ap", "secured")
    with aws.by_host(account) as proxy:
        said = Storage.model_validate(
            {
                "region": aws.REGION,
                **writer.storage,
                "access_points": {"secured": arn},
                "options": {
                    "fs.s3a.proxy.host": "127.0.0.1",
                    "fs.s3a.proxy.port": str(proxy.port),
                    "fs.s3a.connection.ssl.enabled": "false",
                },
            }
        )
        once(driver, version(named), driver.conf(**s3a.s3a_options(said)))
    assert set(proxy.hosts) == {f"lake-ap-{aws.ACCOUNT}.s3-accesspoint.{aws.REGION}.amazonaws.com"}


@pytest.fixture(scope="module")
def role(account: Account, writer: User) -> dict[str, str]:
    return {"arn": account.role("lake", writer, "ours", allow("s3:*")), "external_id": "ours"}


def refused(driver: Driver, said: Storage, path: str, *, read: bool = False) -> LakeingestError:
    """What it means that the store refused, which took seconds and no minutes."""
    conf, begun = driver.conf(**s3a.s3a_options(said)), time.monotonic()
    with pytest.raises(Py4JJavaError) as error:
        driver.read(path, conf) if read else driver.write(path, ["ours"], conf)
    assert time.monotonic() - begun < 10
    return failures.translate(path, error.value)


@pytest.mark.parametrize("wrong", [{"external_id": "theirs"}, {"arn": f"arn:aws:iam::{aws.ACCOUNT}:role/none"}])
def test_a_role_that_cannot_be_assumed(
    driver: Driver, storage: Callable[..., Storage], named: str, role: dict[str, str], wrong: dict[str, str]
) -> None:
    failed = refused(driver, storage(role={**role, **wrong}), version(named))
    assert isinstance(failed, StorageRefused)
    assert failed.what.startswith("the role of storage.role cannot be assumed: ")
    assert "storage.role.external_id" in failed.cure


def test_a_role_that_may_not_write(
    driver: Driver, account: Account, storage: Callable[..., Storage], writer: User, named: str
) -> None:
    reader = account.role(named, writer, "ours", allow("s3:GetObject", "s3:ListBucket"))
    failed = refused(driver, storage(role={"arn": reader, "external_id": "ours"}), version(named))
    assert isinstance(failed, StorageRefused)
    assert failed.what.startswith(f"the right s3:PutObject is missing for {version(named)}: ")


def test_a_key_that_is_another(driver: Driver, storage: Callable[..., Storage], named: str) -> None:
    """A HEAD tells no more than 403, so both reasons are told; no key stands in any of it."""
    mine = {"type": "SSE-C", "key": CUSTOMER}
    theirs = {"type": "SSE-C", "key": base64.b64encode(b"k" * 32).decode()}
    driver.write(version(named), ["ours"], driver.conf(**s3a.s3a_options(storage(encryption=mine))))
    s3a._KEYS["secured"] = s3a.Keys("storage.access_key and storage.secret_key", customer_key=True)
    failed = refused(driver, storage(encryption=theirs), version(named), read=True)
    del s3a._KEYS["secured"]
    assert isinstance(failed, StorageRefused)
    assert "write storage.encryption.key that the table was written with" in failed.cure
    assert CUSTOMER not in str(failed)
    assert theirs["key"] not in str(failed)


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (
            (403, "AccessDenied", "User: x is not authorized to perform: kms:GenerateDataKey on resource: y"),
            "may not be",
        ),
        ((400, "KMS.DisabledException", f"{KEY} is disabled."), "cannot be used"),
        ((400, "KMS.NotFoundException", "Invalid arn us-west-2"), "cannot be used"),
    ],
    ids=["denied", "disabled", "elsewhere"],
)
def test_a_key_of_kms_that_is_denied(
    driver: Driver, proxy: S3Proxy, storage: Callable[..., Storage], answer: tuple[int, str, str], what: str
) -> None:
    """As AWS words it: no store here asks KMS."""
    fault = proxy.fault(lambda request: request.kind == "PUT", lambda exchange: exchange.refuse(*answer))
    failed = refused(driver, storage(encryption={"type": "SSE-KMS", "key": KEY}), version(what[:3]))
    assert fault.hits == 1
    assert isinstance(failed, StorageRefused)
    assert failed.what.startswith(f"the key in KMS that encrypts bucket secured {what}")
