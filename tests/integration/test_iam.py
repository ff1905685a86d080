"""The policies that `lakeingest iam` prints, against MiniStack, which asks IAM: what they allow works, and no more.

One user is given the rights of one role after the other: Hadoop keeps the keys of a bucket as long as a process lives.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pyspark.sql import SparkSession
from support.pipelines import values_of
from support.pipelines.command_line import Command
from support.records import clean_records, mixed_records, produce
from support.servers import aws
from support.servers.aws import Account, User

from lakeingest.config import PipelineConfig, file
from lakeingest.errors import StorageRefused
from lakeingest.local import Addresses
from lakeingest.operations import iam
from lakeingest.pipeline import Pipeline
from lakeingest.testing.s3 import Request, S3Proxy

pytestmark = [pytest.mark.slow, pytest.mark.classic]

BUCKET = "policed"
FOLDER = f"s3a://{BUCKET}/team/lake"
SUITE = {
    "name": "iam",
    "expectations": [{"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 0, "max_value": 99}}],
}


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with aws.account(tmp_path_factory.mktemp("aws")) as made:
        made.bucket(BUCKET)
        yield made


@pytest.fixture(scope="module")
def user(account: Account) -> User:
    return account.user("pipeline")


@pytest.fixture(scope="module")
def seen() -> list[Request]:
    """Every request to S3, in order."""
    return []


@pytest.fixture(scope="module")
def endpoint(account: Account, seen: list[Request]) -> Iterator[str]:
    with S3Proxy(account.url) as proxy:
        proxy.fault(lambda request: bool(seen.append(request)), lambda exchange: exchange.refuse(500, "Never", ""))
        yield proxy.endpoint


@pytest.fixture
def pipeline(stack: Addresses, spark: SparkSession, user: User, endpoint: str, tmp_path: Path, named: str) -> Pipeline:  # noqa: PLR0917
    (tmp_path / "suite.json").write_text(json.dumps(SUITE))
    values = iam_values(stack, named, endpoint=endpoint, **user.storage)
    return Pipeline(file.from_mapping({**values, "gate": {"suite": str(tmp_path / "suite.json")}}))


def iam_values(stack: Addresses, name: str, **storage: Any) -> dict[str, Any]:
    """A pipeline in a bucket of others too."""
    values = values_of(stack, name, table={"path": f"{FOLDER}/{name}"})
    reached = {"region": aws.REGION, "path_style": True, **storage}
    return {**values, "storage": reached, "retry": {"wait": "10 minutes"}}


def action(request: Request) -> tuple[str, str]:
    """What a request needs, as IAM knows it: action and resource."""
    if not request.key:
        return "s3:ListBucket", f"arn:aws:s3:::{request.bucket}"
    actions = {"HEAD": "s3:GetObject", "GET": "s3:GetObject", "DELETE": "s3:DeleteObject", "ABORT": "s3:Abort…"}
    return actions.get(request.kind, "s3:PutObject"), f"arn:aws:s3:::{request.bucket}/{request.key}"


def used(statement: Mapping[str, Any], requests: list[tuple[str, str]]) -> bool:
    """Whether one of the requests needed it."""
    return any(
        asked in statement["Action"] and any(fnmatchcase(what, pattern) for pattern in statement["Resource"])
        for asked, what in requests
    )


class Rights:
    """Those of one role, and which of them requests made use of."""

    def __init__(self, account: Account, user: User, pipeline: Pipeline, seen: list[Request]) -> None:
        self.account, self.user, self.pipeline, self.seen = account, user, pipeline, seen

    def give(self, role: str) -> None:
        self.seen.clear()
        self.policy = iam.policy(self.pipeline.config, role)
        self.account.allow(self.user.name, self.policy.document)

    def unused(self) -> list[str]:
        """Statements that no request needed since they were given."""
        requests = [action(request) for request in self.seen]
        return [each["Sid"] for each in self.policy.document["Statement"] if not used(each, requests)]


@pytest.fixture
def rights(account: Account, user: User, pipeline: Pipeline, seen: list[Request]) -> Rights:
    return Rights(account, user, pipeline, seen)


def test_a_writer_runs_and_a_reader_audits(stack: Addresses, pipeline: Pipeline, rights: Rights) -> None:
    """By real requests, for each of which IAM was asked; no statement goes unused, and no other thing is allowed."""
    produce(stack, pipeline.config.name, mixed_records(10, 5))
    rights.give("writer")
    assert pipeline.run(until_caught_up=True).refused == 2
    assert rights.unused() == []
    rights.give("reader")
    assert pipeline.audit().conserved
    assert rights.unused() == []
    _denied(rights.account, rights.user, pipeline.config)


@pytest.mark.faults
def test_an_operator_does_what_is_to_be_done(stack: Addresses, pipeline: Pipeline, rights: Rights) -> None:
    """A table of several commits is looked at, compacted, replayed and vacuumed."""
    rights.give("writer")
    for n in range(2):
        produce(stack, pipeline.config.name, mixed_records(10, 5))
        assert pipeline.run(until_caught_up=True).refused == 2, n
    rights.give("reader")
    assert pipeline.status().tables["table"]["files"] == 2
    rights.give("operator")
    assert [each.after.count for each in pipeline.maintain()] == [1, 1, 1]
    assert pipeline.replay("again").looked == 4
    assert pipeline.discard("worthless") == 4
    assert pipeline.audit().conserved
    assert {action(request)[0] for request in rights.seen} == {"s3:ListBucket", "s3:GetObject", "s3:PutObject"}
    _refused_at_once(stack, rights.account, rights.user, pipeline)


def _refused_at_once(stack: Addresses, account: Account, user: User, pipeline: Pipeline) -> None:
    """A run that may not write ends within seconds, by name; with the right it goes on where it was."""
    produce(stack, pipeline.config.name, clean_records(5))
    account.allow(user.name, iam.policy(pipeline.config, "reader").document)
    begun = time.monotonic()
    with pytest.raises(StorageRefused, match=r"the right s3:PutObject is missing for s3a://policed/team/lake/"):
        pipeline.run(until_caught_up=True)
    assert time.monotonic() - begun < 60
    account.allow(user.name, iam.policy(pipeline.config, "writer").document)
    assert pipeline.run(until_caught_up=True).consumed == 5


def _denied(account: Account, user: User, config: PipelineConfig) -> None:
    """What each role may not do, asked of the store; and what it may, so that the denial is no other's."""
    s3 = account.client("s3", user)
    table, other = f"team/lake/{config.name}", "team/lake/payroll"
    log = f"{table}/_delta_log/00000000000000000000.json"
    account.client("s3").put_object(Bucket=BUCKET, Key=f"{other}/secret", Body=b"")

    def asked(call: Callable[..., Any], **words: Any) -> bool:
        try:
            call(Bucket=BUCKET, **words)
        except ClientError as failed:
            if failed.response["ResponseMetadata"]["HTTPStatusCode"] == 403:
                return False
            raise
        return True

    may = {
        "read": lambda: asked(s3.get_object, Key=log),
        "write": lambda: asked(s3.put_object, Key=f"{table}/x", Body=b""),
        "write quarantine": lambda: asked(s3.put_object, Key=f"{table}_quarantine/x", Body=b""),
        "delete": lambda: asked(s3.delete_object, Key=f"{table}/x"),
        "clean up the log": lambda: asked(s3.delete_object, Key=f"{table}/_delta_log/.x"),
        "list": lambda: asked(s3.list_objects_v2, Prefix=f"{table}/"),
        "list another": lambda: asked(s3.list_objects_v2, Prefix=f"{other}/"),
        "read another": lambda: asked(s3.get_object, Key=f"{other}/secret"),
        "write another": lambda: asked(s3.put_object, Key=f"{other}/secret", Body=b""),
        "write one whose name begins alike": lambda: asked(s3.put_object, Key=f"{table}2/x", Body=b""),
        "delete another": lambda: asked(s3.delete_object, Key=f"{other}/secret"),
        "delete the bucket": lambda: asked(s3.delete_bucket),
        "change the bucket's policy": lambda: asked(s3.put_bucket_policy, Policy="{}"),
    }
    write = {"write", "write quarantine", "clean up the log"}
    allowed = {"reader": {"read", "list"}}
    allowed["writer"] = allowed["reader"] | write
    allowed["operator"] = allowed["writer"] | {"delete"}
    for role, expected in allowed.items():
        account.allow(user.name, iam.policy(config, role).document)
        assert {name for name, ask in may.items() if ask()} == expected, role
    s3.close()


KMS = f"arn:aws:kms:{aws.REGION}:{aws.ACCOUNT}:key/1234abcd"
ARN = f"arn:aws:{{}}:{aws.REGION}:{aws.ACCOUNT}:{{}}"


def simulated(account: Account, policy: Mapping[str, Any], asked: str, resource: str) -> bool:
    """What IAM's simulation says: here it knows of no condition's keys, as for a HEAD, which has no prefix."""
    answer = account.client("iam").simulate_custom_policy(
        PolicyInputList=[json.dumps(policy)], ActionNames=[asked], ResourceArns=[resource]
    )
    return bool(answer["EvaluationResults"][0]["EvalDecision"] == "allowed")


def test_what_is_asked_of_glue_and_msk(account: Account, stack: Addresses) -> None:
    """By IAM's simulation: no server here asks it for them."""
    values = iam_values(stack, "iam")
    values["source"] |= {
        "bootstrap_servers": "b-1.lake.abc123.c2.kafka.us-east-1.amazonaws.com:9098",
        "options": {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"},
        "commit_to_group": "shown",
    }
    values["table"] |= {"name": "lake.iam", "catalog": "glue"}
    values["decode"] = {"value": {"format": "avro"}}
    values["registry"] = {"glue": {"registry": "ours"}}
    del values["schema"]
    config = file.from_mapping(values)
    writes = {
        ("kafka-cluster:Connect", ARN.format("kafka", "cluster/Lake/1234-5")): True,
        ("kafka-cluster:ReadData", ARN.format("kafka", "topic/lake/1234-5/iam")): True,
        ("kafka-cluster:ReadData", ARN.format("kafka", "topic/lake/1234-5/payroll")): False,
        ("kafka-cluster:ReadData", ARN.format("kafka", "topic/other/1234-5/iam")): False,
        ("kafka-cluster:WriteData", ARN.format("kafka", "topic/lake/1234-5/iam")): False,
        ("kafka-cluster:AlterGroup", ARN.format("kafka", "group/lake/1234-5/shown")): True,
        ("kafka-cluster:AlterGroup", ARN.format("kafka", "group/lake/1234-5/theirs")): False,
        ("kafka-cluster:DeleteGroup", ARN.format("kafka", "group/lake/1234-5/shown")): False,
        ("glue:GetSchemaVersion", "*"): True,
        ("glue:GetSchema", ARN.format("glue", "schema/ours/iam")): True,
        ("glue:GetSchema", ARN.format("glue", "schema/theirs/iam")): False,
        ("glue:RegisterSchemaVersion", ARN.format("glue", "schema/ours/iam")): False,
        ("glue:UpdateTable", ARN.format("glue", "table/lake/iam")): True,
        ("glue:UpdateTable", ARN.format("glue", "table/lake/payroll")): False,
        ("glue:DeleteTable", ARN.format("glue", "table/lake/iam")): False,
        ("s3:ListBucket", f"arn:aws:s3:::{BUCKET}"): True,
    }
    reads = {
        ("kafka-cluster:ReadData", ARN.format("kafka", "topic/lake/1234-5/iam")): False,
        ("glue:GetTable", ARN.format("glue", "table/lake/iam")): True,
        ("glue:UpdateTable", ARN.format("glue", "table/lake/iam")): False,
    }
    for role, expected in (("writer", writes), ("operator", writes), ("reader", reads)):
        policy = iam.policy(config, role, aws.ACCOUNT).document
        assert {each: simulated(account, policy, *each) for each in expected} == expected


def test_the_policy_of_an_access_point(account: Account, stack: Addresses) -> None:
    """Its own ARN, with object/ before a key."""
    point = f"arn:aws:s3:{aws.REGION}:{aws.ACCOUNT}:accesspoint/lake-ap"
    config = file.from_mapping(iam_values(stack, "iam", access_points={BUCKET: point}))
    policy = iam.policy(config, "writer").document
    assert simulated(account, policy, "s3:PutObject", f"{point}/object/team/lake/iam/part-0.parquet")
    assert not simulated(account, policy, "s3:PutObject", f"{point}/object/team/lake/payroll/part-0.parquet")
    assert not simulated(account, policy, "s3:PutObject", f"arn:aws:s3:::{BUCKET}/team/lake/iam/part-0.parquet")


def test_the_command_asks_nobody(lakeingest: Command, tmp_path: Path, stack: Addresses) -> None:
    """What it prints is the document alone, to be saved as a file."""
    (tmp_path / "p.yaml").write_text(json.dumps(iam_values(stack, "iam")))
    document = json.loads(lakeingest("iam", tmp_path / "p.yaml").out)
    assert document["Version"] == "2012-10-17"
    said = lakeingest("iam", tmp_path / "p.yaml", "--role", "writer", "--output", "json").data
    assert (said["policy"], said["keys"], said["role"]) == (document, None, "writer")
    assert lakeingest("iam", tmp_path / "p.yaml", "--role", "admin").code == 2
