"""Which rights in AWS a pipeline needs, from its file alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lakeingest.config import PipelineConfig, file
from lakeingest.config.per_topic import PerTopic
from lakeingest.errors import UsageError
from lakeingest.operations import iam

KMS = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd"
ROLE = "arn:aws:iam::123456789012:role/lake-writer"


def config(**more: Any) -> PipelineConfig:
    values = {
        "name": "flights",
        "source": {"topics": ["flights"], "bootstrap_servers": "kafka:9092"},
        "schema": {"columns": "n INT"},
        "table": {"path": "s3a://lake/team/flights"},
    }
    return file.from_mapping({**values, **more})


TABLES = [f"arn:aws:s3:::lake/team/flights{of}/*" for of in ("", "_quarantine", "_removed")]


def rights(role: str, found: PipelineConfig, **more: Any) -> dict[str, list[str]]:
    """Action → resources."""
    actions: dict[str, list[str]] = {}
    for each in iam.policy(found, role, **more).document["Statement"]:
        for action in each["Action"]:
            actions.setdefault(action, []).extend(each["Resource"])
    return actions


def test_a_writer() -> None:
    """It deletes in the logs alone; what it looks at above the tables are single keys."""
    assert rights("writer", config()) == {
        "s3:ListBucket": ["arn:aws:s3:::lake"],
        "s3:GetObject": [
            *TABLES,
            "arn:aws:s3:::lake/team/flights",
            "arn:aws:s3:::lake/team",
            "arn:aws:s3:::lake/team/_delta_log",
            "arn:aws:s3:::lake/_delta_log",
            "arn:aws:s3:::lake/team/flights_quarantine",
            "arn:aws:s3:::lake/team/flights_removed",
        ],
        "s3:PutObject": (
            written := ["arn:aws:s3:::lake/team/flights/*", "arn:aws:s3:::lake/team/flights_quarantine/*"]
        ),
        "s3:AbortMultipartUpload": written,
        "s3:DeleteObject": [
            "arn:aws:s3:::lake/team/flights/_delta_log/*",
            "arn:aws:s3:::lake/team/flights_quarantine/_delta_log/*",
        ],
    }


def test_a_writer_that_maintains_its_tables() -> None:
    """Its run deletes files, and lists what expires."""
    every = rights("writer", config(maintenance={"every": "1 day"}))
    assert every["s3:DeleteObject"] == TABLES
    assert "arn:aws:s3:::lake/team/flights_removed/*" in every["s3:PutObject"]


def test_a_reader() -> None:
    """It looks whether there is a list of what was taken out, which need not be."""
    looked_at = [*TABLES, "arn:aws:s3:::lake/team/flights_removed"]
    assert rights("reader", config()) == {"s3:ListBucket": ["arn:aws:s3:::lake"], "s3:GetObject": looked_at}


def test_an_operator_exports_where_it_is_told() -> None:
    found = rights("operator", config(), export_to=["s3a://handed-on/flights/", "/data/flights"])
    assert "arn:aws:s3:::handed-on/flights/*" in found["s3:DeleteObject"]
    assert "arn:aws:s3:::lake/team/flights/*" in found["s3:DeleteObject"]
    assert found["s3:ListBucket"] == ["arn:aws:s3:::lake", "arn:aws:s3:::handed-on"]
    assert "handed-on" not in str(rights("writer", config(), export_to=["s3a://handed-on/flights/"]))


def test_a_head_has_no_prefix() -> None:
    """So it must be allowed without one: S3 would answer 403 to a HEAD of what is not there."""
    (listed, *_) = iam.policy(config(), "writer").document["Statement"]
    assert listed["Condition"] == {
        "StringLikeIfExists": {
            "s3:prefix": [
                "team/flights/*",
                "team/flights",
                "team/",
                "team/_delta_log/",
                "_delta_log/",
                "team/flights_quarantine/*",
                "team/flights_quarantine",
                "team/flights_removed/*",
                "team/flights_removed",
            ]
        }
    }


def test_what_a_pipeline_is_fed_from_is_read_only() -> None:
    found = config(source={"table": "s3://bronze/all"}, table={"path": "s3n://lake/flights"})
    assert "arn:aws:s3:::bronze/all/*" in rights("writer", found)["s3:GetObject"]
    assert "bronze" not in str(rights("writer", found)["s3:PutObject"])
    assert "bronze" not in str(rights("reader", found))


def test_the_key_by_way_of_s3_alone() -> None:
    """An alias is no resource of a policy's."""
    for arn, resource, aliases in (
        (KMS, KMS, None),
        (KMS.replace("key/1234abcd", "alias/lake"), "arn:aws:kms:eu-west-1:123456789012:key/*", "alias/lake"),
    ):
        found = config(storage={"encryption": {"type": "SSE-KMS", "key": arn}})
        for role, actions in (("writer", ["kms:Decrypt", "kms:GenerateDataKey"]), ("reader", ["kms:Decrypt"])):
            key = iam.policy(found, role).document["Statement"][-1]
            assert (key["Action"], key["Resource"]) == (actions, [resource])
            assert key["Condition"]["StringEquals"] == {"kms:ViaService": "s3.eu-west-1.amazonaws.com"}
            assert key["Condition"].get("ForAnyValue:StringEquals", {}).get("kms:ResourceAliases") == aliases
    for said in ({"type": "SSE-KMS"}, {"type": "SSE-S3"}):
        assert "kms:" not in str(iam.policy(config(storage={"encryption": said}), "writer"))


def test_a_role_and_the_keys_that_assume_it_have_a_policy_each() -> None:
    """The bucket's rights are the role's; Glue is asked with the keys."""
    found = config(
        table={"path": "s3a://lake/flights", "name": "lake.flights", "catalog": "glue"},
        storage={"region": "eu-west-1", "role": {"arn": ROLE}},
    )
    policy = iam.policy(found, "writer")
    assert {action.partition(":")[0] for each in policy.document["Statement"] for action in each["Action"]} == {"s3"}
    assert policy.keys is not None
    assume, catalog = policy.keys["Statement"]
    assert (assume["Action"], assume["Resource"]) == (["sts:AssumeRole"], [ROLE])
    # The role's account may be another than that of the keys.
    assert "arn:aws:glue:eu-west-1:*:table/lake/flights" in catalog["Resource"]
    assert any(ROLE in note for note in policy.notes)


def test_an_acl_is_a_right_of_its_own() -> None:
    assert "s3:PutObjectAcl" in rights("writer", config(storage={"acl": "bucket-owner-full-control"}))


@pytest.mark.parametrize(
    ("region", "partition"), [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov"), ("eu-west-1", "aws")]
)
def test_other_partitions(region: str, partition: str) -> None:
    found = rights("reader", config(storage={"region": region}))
    assert found["s3:ListBucket"] == [f"arn:{partition}:s3:::lake"]


MSK = "b-1.lake.a1b2c3.c2.kafka.eu-west-1.amazonaws.com:9098"


@pytest.mark.parametrize(
    ("servers", "resource"),
    [
        (MSK, "arn:aws:kafka:eu-west-1:*:cluster/????/*"),
        (MSK.replace("-1.lake", "-1-public.Lake-2"), "arn:aws:kafka:eu-west-1:*:cluster/????-2/*"),
        # Of the cluster AWSKafkaTutorialCluster.
        (MSK.replace("lake", "awskafkatutorialclust"), f"arn:aws:kafka:eu-west-1:*:cluster/{'?' * 21}*/*"),
        (MSK.replace("amazonaws.com", "api.aws"), "arn:aws:kafka:eu-west-1:*:cluster/????/*"),
        (MSK.replace("eu-west-1", "cn-north-1"), "arn:aws-cn:kafka:cn-north-1:*:cluster/????/*"),
        (MSK.replace("eu-west-1", "us-gov-west-1"), "arn:aws-us-gov:kafka:us-gov-west-1:*:cluster/????/*"),
        ("boot-x.c3.kafka-serverless.us-east-1.amazonaws.com:9098", "arn:aws:kafka:us-east-1:*:cluster/*/*"),
        ("kafka.internal:9098", "arn:aws:kafka:*:*:cluster/*/*"),
    ],
)
def test_the_cluster_by_the_names_of_its_brokers(servers: str, resource: str) -> None:
    source = {
        "topics": ["flights"],
        "bootstrap_servers": servers,
        "options": {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"},
    }
    found = config(source=source)
    assert rights("writer", found)["kafka-cluster:Connect"] == [resource]
    notes = " ".join(iam.policy(found, "writer").notes)
    assert "write --account" in notes
    assert "the brokers do not tell the cluster's name as it is written" in notes
    assert "kafka-cluster" not in str(rights("reader", config(source=source)))


def test_a_schema_is_asked_for_by_its_id() -> None:
    """The id names no registry, and AWS allows the question by no registry's ARN."""
    source = {"topics": ["flights"], "bootstrap_servers": "kafka:9092"}
    values = {"name": "flights", "source": source, "table": {"path": "s3a://lake/flights"}}
    avro = {"decode": {"value": {"format": "avro"}}, "registry": {"glue": {"registry": "ours"}}}
    found = rights("writer", file.from_mapping({**values, **avro}))
    assert found["glue:GetSchemaVersion"] == ["*"]
    assert found["glue:GetSchema"] == ["arn:aws:glue:*:*:registry/ours", "arn:aws:glue:*:*:schema/ours/*"]


def test_each_statement_has_an_id_of_its_own() -> None:
    """IAM refuses a policy in which two are alike, as those of these buckets would be."""
    found = config(table={"path": "s3a://lake-1/flights"}, quarantine={"path": "s3a://lake1/refused"})
    ids = [each["Sid"] for each in iam.policy(found, "writer").document["Statement"]]
    assert len(set(ids)) == len(ids) == 10
    assert all(each.isalnum() for each in ids)


@pytest.mark.parametrize("place", ["s3a://lake/*", "s3a://*/x", "s3a://lake/${aws:username}", "s3a://lake", "x", ""])
def test_an_export_that_cannot_be(place: str) -> None:
    """It is refused as `export --to` refuses it: a * would let the operator delete in the whole bucket."""
    with pytest.raises(UsageError, match="--export-to"):
        iam.policy(config(), "operator", export_to=[place])


def test_it_fits_into_a_policy() -> None:
    """A managed policy has 6,144 characters at most, blanks not counted; a user's own 2,048, a role's 10,240."""
    found = config(
        table={"path": "s3a://lake/a/rather/deep/folder/of/tables/flights", "name": "lake.flights", "catalog": "glue"},
        contract={"completeness": {}},
        partition=[{"by": "time", "extract": "record"}],
        storage={"encryption": {"type": "SSE-KMS", "key": KMS}},
    )
    text = json.dumps(iam.policy(found, "operator").document)
    assert len(re.sub(r"\s", "", text)) < 6144


@pytest.mark.parametrize(
    ("role", "account", "changes", "told"),
    [
        ("admin", None, {}, '--role "admin" is no role'),
        ("", None, {}, '--role "" is no role'),
        ("writer", "12", {}, '--account "12" is no number of an account'),
        ("writer", "１２３４５６７８９０１２", {}, "is no number of an account"),
        ("writer", None, {"table": {"path": "/data/flights"}}, "nothing of pipeline 'flights' is in AWS"),
        ("writer", None, {"table": {"name": "lake.flights"}}, "nothing of pipeline 'flights' is in AWS"),
    ],
)
def test_mistakes(role: str, account: str | None, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        iam.policy(config(**changes), role, account)


def test_what_is_left_to_others_is_told() -> None:
    found = config(
        table={"path": "s3a://lake/flights", "name": "lake.flights", "catalog": "glue"},
        quarantine={"name": "lake.refused"},
        storage={"region": "eu-west-1", "options": {"fs.s3a.proxy.host": "p"}},
    )
    notes = " ".join(iam.policy(found, "writer").notes)
    assert "Glue is asked in the region of AWS_REGION, where that is set; here it is eu-west-1's" in notes
    assert "lake.refused: known by name" in notes
    assert "storage.options" in notes
    assert "write --account" in notes


@pytest.mark.parametrize(
    ("pattern", "begins"),
    [
        ("orders-.*", "orders-"),
        ("orders-*", "orders"),
        (r"a\.b(c|d)?", ""),
        (r"a\.b[cd]", "a.b"),
        (".*", ""),
        ("a|b", ""),
    ],
)
def test_topics_of_a_pattern(tmp_path: Path, pattern: str, begins: str) -> None:
    """A file for many topics asked for one of them; its policy is for each topic that begins as the pattern does."""
    values = {
        "name": "{topic}_in",
        "source": {"topics": {"pattern": pattern}, "bootstrap_servers": "kafka:9092"},
        "schema": {"columns": "n INT"},
        "table": {"path": "s3a://lake-{topic}/raw/{topic}"},
    }
    (tmp_path / "p.yaml").write_text(json.dumps(values))
    found = file.read_any(tmp_path / "p.yaml", {})
    assert isinstance(found, PerTopic)
    made = iam.policy_of_pattern(found, "reader")
    (read, looked_at) = (each["Resource"] for each in made.document["Statement"] if "s3:GetObject" in each["Action"])
    assert looked_at == [f"arn:aws:s3:::lake-{begins}*/raw/{begins}*_removed"]
    tables = [f"{begins}*", f"{begins}*_quarantine", f"{begins}*_removed"]
    assert read == [f"arn:aws:s3:::lake-{begins}*/raw/{table}/*" for table in tables]
    assert all(each["Sid"].isalnum() for each in made.document["Statement"])
    assert f"begins with {begins!r}" in made.notes[-1]
