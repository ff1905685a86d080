"""How S3 is asked: what storage takes, what S3A and the others make of it, and what is refused."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pydantic import ValidationError

from lakeingest.config import Storage, file
from lakeingest.delta.reader.log import Unreadable, store
from lakeingest.errors import PipelineFileError
from lakeingest.spark import s3a

KMS = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd"
CUSTOMER = base64.b64encode(b"k" * 32).decode()
ROLE = "arn:aws:iam::123456789012:role/team/lake-writer"
POINT = "arn:aws:s3:eu-west-1:123456789012:accesspoint/lake-writer"
GOOD = {
    "name": "a",
    "source": {"topics": ["a"]},
    "schema": {"columns": "n INT"},
    "table": {"path": "s3a://lake/a"},
}


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ({"encryption": {"type": "SSE-S3"}}, {"encryption.algorithm": "AES256"}),
        ({"encryption": {"type": "SSE-KMS"}}, {"encryption.algorithm": "SSE-KMS"}),
        ({"encryption": {"type": "SSE-KMS", "key": KMS}}, {"encryption.algorithm": "SSE-KMS", "encryption.key": KMS}),
        ({"encryption": {"type": "DSSE-KMS", "key": KMS}}, {"encryption.algorithm": "DSSE-KMS", "encryption.key": KMS}),
        (
            {"encryption": {"type": "SSE-C", "key": CUSTOMER}},
            {"encryption.algorithm": "SSE-C", "encryption.key": CUSTOMER},
        ),
        ({"requester_pays": True}, {"requester.pays.enabled": "true"}),
        ({"acl": "bucket-owner-full-control"}, {"acl.default": "BucketOwnerFullControl"}),
        ({"access_points": {"lake": POINT}}, {"bucket.lake.accesspoint.arn": POINT}),
        ({}, {}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_in_hadoops_words(said: dict[str, Any], options: dict[str, str]) -> None:
    found = s3a.s3a_options(Storage.model_validate(said))
    assert found == {f"fs.s3a.{name}": value for name, value in options.items()}


@pytest.mark.parametrize(
    ("said", "base"),
    [
        ({}, "TemporaryAWSCredentialsProvider,org.apache.hadoop.fs.s3a.Simple"),
        ({"access_key": "k", "secret_key": "s"}, "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"),
        ({"access_key": "k", "secret_key": "s", "session_token": "t"}, "TemporaryAWSCredentialsProvider"),
        ({"options": {"fs.s3a.aws.credentials.provider": "my.Own"}}, "my.Own"),
    ],
)
def test_a_role_is_assumed_with_the_keys_that_there_are(said: dict[str, Any], base: str) -> None:
    """Hadoop would by itself take access key and secret key alone for that, and neither a machine's role nor yours."""
    role = {"arn": ROLE, "external_id": "us", "session_name": "flights", "duration": "2 hours"}
    found = s3a.s3a_options(Storage.model_validate({**said, "role": role}))
    assert found["fs.s3a.aws.credentials.provider"].endswith(".AssumedRoleCredentialProvider")
    assert base in found["fs.s3a.assumed.role.credentials.provider"]
    given = {name: value for name, value in found.items() if ".assumed.role." in name}
    assert given == {
        "fs.s3a.assumed.role.credentials.provider": given["fs.s3a.assumed.role.credentials.provider"],
        "fs.s3a.assumed.role.arn": ROLE,
        "fs.s3a.assumed.role.external.id": "us",
        "fs.s3a.assumed.role.session.name": "flights",
        "fs.s3a.assumed.role.session.duration": "7200s",
    }


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"encryption": {"type": "SSE-S3", "key": KMS}}, "SSE-S3 takes no key, S3 has its own; drop key"),
        ({"encryption": {"type": "SSE-KMS", "key": "alias/mine"}}, "key is not the ARN of a key in KMS"),
        ({"encryption": {"type": "SSE-KMS", "key": ROLE}}, "key is not the ARN of a key in KMS"),
        ({"encryption": {"type": "SSE-C"}}, "SSE-C takes a key of 32 bytes in Base64"),
        ({"encryption": {"type": "SSE-C", "key": "aHVzaA=="}}, "SSE-C takes a key of 32 bytes in Base64"),
        ({"encryption": {"type": "SSE-C", "key": "hush" * 11}}, "SSE-C takes a key of 32 bytes in Base64"),
        ({"encryption": {"type": "SSE-C", "key": "hüsh"}}, "SSE-C takes a key of 32 bytes in Base64"),
        (
            {"endpoint": "http://store:9000", "encryption": {"type": "SSE-C", "key": CUSTOMER}},
            "SSE-C sends its key with each request, and endpoint is not https",
        ),
        (
            {"options": {"fs.s3a.endpoint": "http://store"}, "encryption": {"type": "SSE-C", "key": CUSTOMER}},
            "options fs.s3a.endpoint may send it in plain text",
        ),
        (
            {"options": {"fs.s3a.connection.ssl.enabled": "false"}, "encryption": {"type": "SSE-C", "key": CUSTOMER}},
            "options fs.s3a.connection.ssl.enabled may send it in plain text",
        ),
        # Of these S3A would make plain http.
        ({"endpoint": ""}, "not an http or https URL"),
        ({"endpoint": "s3.eu-west-1.amazonaws.com"}, "not an http or https URL"),
        ({"endpoint": "store:9000"}, "not an http or https URL"),
        ({"endpoint": "http://store:port"}, "not an http or https URL"),
        ({"endpoint": "http://me:hush@store:9000"}, "holds credentials; write them as storage.access_key"),
        ({"region": "us-east-1", "encryption": {"type": "SSE-KMS", "key": KMS}}, "encryption.key is in eu-west-1, and"),
        ({"role": {"arn": ROLE.replace("1", "１")}}, "not the ARN of a role"),
        ({"role": {"arn": "lake-writer"}}, "not the ARN of a role; write it as in arn:aws:iam::"),
        ({"role": {"arn": ROLE, "duration": "14 minutes"}}, "duration is out of STS's range; write 15 minutes to 12"),
        ({"role": {"arn": ROLE, "duration": "13 hours"}}, "duration is out of STS's range; write 15 minutes to 12"),
        ({"role": {"arn": ROLE, "session_name": "two words"}}, "session_name"),
        ({"access_points": {"lake": "lake-writer"}}, "lake has no ARN of an access point; write it as in"),
        ({"access_points": {"lake": POINT}, "region": "us-east-1"}, "the access point of lake is in eu-west-1, and"),
        ({"access_points": {"lake": POINT}, "endpoint": "https://s3"}, "access_points are AWS's, whose address is"),
        ({"acl": "public-read"}, "Input should be"),
        (
            {"encryption": {"type": "SSE-S3"}, "options": {"fs.s3a.encryption.algorithm": "SSE-KMS"}},
            "encryption and options fs.s3a.encryption.algorithm say the same; drop the one in options",
        ),
        (
            {"role": {"arn": ROLE}, "options": {"fs.s3a.assumed.role.arn": ROLE}},
            "role and options fs.s3a.assumed.role.arn say the same",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_mistakes(said: dict[str, Any], told: str) -> None:
    """Each is told in a sentence, and what may be a key is not."""
    with pytest.raises(ValidationError) as caught:
        Storage.model_validate(said)
    assert told in str(caught.value)
    assert "hush" not in str(caught.value)
    assert "aHVza" not in str(caught.value)
    with pytest.raises(PipelineFileError) as refused:
        file.from_mapping({**GOOD, "storage": said})
    assert "hush" not in str(refused.value)


def test_keys_that_stand_in_an_address_are_not_told() -> None:
    """As they stand in the file: what is wrong is told, and not they."""
    said = {**GOOD, "source": {"topics": ["a"], "bootstrap_servers": "me:hush@kafka:9092"}}
    for wrong in (said, {**GOOD, "storage": {"endpoint": "http://me:hush@store:9000"}}):
        with pytest.raises(PipelineFileError) as refused:
            file.from_mapping(wrong)
        assert "…@" in str(refused.value)
        assert "hush" not in str(refused.value)


def test_an_access_point_of_no_table() -> None:
    with pytest.raises(PipelineFileError, match="names other, which is the bucket of no table; its keys are"):
        file.from_mapping({**GOOD, "storage": {"access_points": {"other": POINT, "lake": POINT}}})


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"encryption": {"type": "SSE-C", "key": CUSTOMER}}, "SSE-C"),
        ({"access_points": {"lake": POINT}}, "access_points"),
        ({"requester_pays": True}, "requester_pays"),
        ({"role": {"arn": ROLE}, "access_key": "k", "secret_key": "s"}, "role"),
    ],
)
def test_what_only_s3a_can_do_is_left_to_spark(said: dict[str, Any], why: str) -> None:
    """Arrow's client would ask without it, and be denied, or let in as somebody else."""
    with pytest.raises(Unreadable, match=why):
        store("s3a://lake/a", Storage.model_validate({"region": "eu-west-1", **said}))


def test_what_arrow_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """It assumes the same role, and what KMS encrypts is nothing that a reader has to know of."""
    from pyarrow import fs

    asked: dict[str, Any] = {}
    monkeypatch.setattr(fs, "S3FileSystem", lambda **said: asked.update(said))
    said = {"role": {"arn": ROLE, "external_id": "us"}, "encryption": {"type": "SSE-KMS", "key": KMS}}
    store("s3a://lake/a", Storage.model_validate({"region": "eu-west-1", **said}))
    assert (asked["role_arn"], asked["external_id"], asked["session_name"]) == (ROLE, "us", None)


def test_no_secret_is_shown() -> None:
    said = Storage.model_validate({"encryption": {"type": "SSE-C", "key": CUSTOMER}})
    assert CUSTOMER not in f"{said!r} {said} {said.model_dump_json()}"
