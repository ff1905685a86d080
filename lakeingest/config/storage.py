"""Options of S3: keys, role, encryption, access points. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import timedelta
from typing import Annotated, Literal
from urllib.parse import urlparse

from pydantic import AfterValidator, Field, model_validator

from lakeingest.config.base import Part
from lakeingest.config.urls import is_http
from lakeingest.config.values import Duration, Kind, Secret, StorageOptions

_KMS = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:(key|alias)/[A-Za-z0-9/_-]+")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]+", re.ASCII)
_ACCESS_POINT = re.compile(r"arn:aws[a-z-]*:s3:[a-z0-9-]+:[0-9]{12}:accesspoint/[a-z0-9][a-z0-9-]{1,48}[a-z0-9]")
_SHORTEST, _LONGEST = timedelta(minutes=15), timedelta(hours=12)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TAKEN = {
    "encryption": ("encryption.algorithm", "encryption.key", "server-side-encryption"),
    "role": ("assumed.role.",),
    "access_points": ("accesspoint.arn",),
    "requester_pays": ("requester.pays.enabled",),
    "acl": ("acl.default",),
}
"""Option → the ends of the Hadoop options that say the same; one of the two is enough."""

Acl = Literal["private", "authenticated-read", "bucket-owner-read", "bucket-owner-full-control"]


def _role_arn(value: str) -> str:
    if not _ROLE.fullmatch(value):
        raise ValueError("not the ARN of a role; write it as in arn:aws:iam::123456789012:role/lake-writer")
    return value


def _access_points(value: dict[str, str]) -> dict[str, str]:
    for bucket, arn in value.items():
        if not _ACCESS_POINT.fullmatch(arn):
            raise ValueError(
                f"{bucket} has no ARN of an access point; write it as in "
                "arn:aws:s3:eu-west-1:123456789012:accesspoint/lake-writer"
            )
    return value


def _endpoint(value: str) -> str:
    if "@" in value:
        raise ValueError("holds credentials; write them as storage.access_key and storage.secret_key")
    if not is_http(value):
        # S3A would take it, and speak plain http.
        raise ValueError("not an http or https URL; write one as in 'https://s3.example.com:9000', or drop it for AWS")
    return value


Endpoint = Annotated[str, AfterValidator(_endpoint), Kind("http or https URL")]
AccessPoints = Annotated[dict[str, str], AfterValidator(_access_points), Kind("map of bucket: ARN")]


class Encryption(Part):
    """How S3 encrypts what is written."""

    type: Literal["SSE-S3", "SSE-KMS", "DSSE-KMS", "SSE-C"] = Field(
        description="SSE-S3: by a key of S3's own. SSE-KMS, DSSE-KMS: by a key in KMS, once or twice. SSE-C: by a key "
        "that each request brings, so that only who has it can read.",
        examples=["SSE-KMS"],
    )
    key: Secret | None = Field(
        None,
        description="SSE-KMS and DSSE-KMS: the ARN of the key; left out, the account's aws/s3 key. SSE-C: 32 bytes in "
        "Base64; whoever loses them cannot read the table.",
        examples=["arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"],
    )

    @property
    def secret(self) -> str:
        """The key; "" where there is none. Never print that of SSE-C."""
        return self.key.get_secret_value() if self.key else ""

    @property
    def kms_key(self) -> str | None:
        """The ARN of the key in KMS; None where KMS is not asked, or for the account's own key."""
        return (self.secret or None) if self.type.endswith("KMS") else None

    @model_validator(mode="after")
    def _has_its_key(self) -> Encryption:
        if self.type == "SSE-S3" and self.key is not None:
            raise ValueError("SSE-S3 takes no key, S3 has its own; drop key, or write type: SSE-KMS or SSE-C")
        if self.kms_key and not _KMS.fullmatch(self.kms_key):
            raise ValueError(
                f"key is not the ARN of a key in KMS, which {self.type} takes; write it as in "
                "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-…, or drop key for the account's aws/s3 key"
            )
        if self.type == "SSE-C" and not _is_customer_key(self.secret):
            raise ValueError(
                "SSE-C takes a key of 32 bytes in Base64; write key: ${SSE_KEY}, and make one by "
                "`openssl rand -base64 32`"
            )
        return self


def _is_customer_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 32
    except (binascii.Error, ValueError):
        return False


class Role(Part):
    """The IAM role that S3 is asked under."""

    arn: Annotated[str, AfterValidator(_role_arn)] = Field(
        description="The role's ARN.", examples=["arn:aws:iam::123456789012:role/lake-writer"]
    )
    external_id: Secret | None = Field(
        None,
        description="What the role's trust policy asks for as sts:ExternalId.",
        examples=["${EXTERNAL_ID}"],
    )
    session_name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_+=,.@-]{2,64}$",
        description="The session's name, as CloudTrail shows it. Default: the user's name and host, as Hadoop has it.",
        examples=["lakeingest-flights"],
    )
    duration: Duration = Field(
        timedelta(hours=1),
        description="How long a session lasts before a new one is asked for: 15 minutes to 12 hours, and not longer "
        "than the role allows (1 hour, where the base keys are a role's themselves).",
        json_schema_extra={"default": "1 hour"},
    )

    @property
    def external(self) -> str | None:
        return self.external_id.get_secret_value() if self.external_id else None

    @model_validator(mode="after")
    def _lasts(self) -> Role:
        if not _SHORTEST <= self.duration <= _LONGEST:
            raise ValueError("duration is out of STS's range; write 15 minutes to 12 hours")
        return self


class Storage(Part):
    """How S3 is reached; left out: the embedded stack's, or what the platform provides."""

    endpoint: Endpoint | None = Field(
        None, description="URL of an S3 server that is not AWS.", examples=["http://localhost:9000"]
    )
    region: str | None = Field(None, description="AWS region.", examples=["us-east-1"])
    access_key: Secret | None = Field(
        None,
        description="Access key id. Left out: the platform's credential chain.",
        examples=["${AWS_ACCESS_KEY_ID}"],
    )
    secret_key: Secret | None = Field(None, description="Secret access key.", examples=["${AWS_SECRET_ACCESS_KEY}"])
    session_token: Secret | None = Field(
        None, description="Token of temporary credentials.", examples=["${AWS_SESSION_TOKEN}"]
    )
    path_style: bool = Field(False, description="Whether the bucket is part of the path instead of the host name.")
    role: Role | None = Field(
        None,
        description="The IAM role that S3 is asked under, assumed with the keys above or the platform's. STS is asked "
        "in the region that AWS_REGION names, which the environment must have. The role is for S3 alone: Glue and MSK "
        "are asked with the keys themselves.",
    )
    encryption: Encryption | None = Field(
        None, description="How S3 encrypts what is written. Left out: as the bucket does by default."
    )
    access_points: AccessPoints = Field(
        default_factory=dict,
        description="Buckets that are reached by an access point: the paths keep the bucket's name.",
        examples=[{"lake": "arn:aws:s3:eu-west-1:123456789012:accesspoint/lake-writer"}],
    )
    requester_pays: bool = Field(False, description="Whether who asks pays, which buckets of others may want.")
    acl: Acl | None = Field(
        None,
        description="The canned ACL of each object, for a bucket of another account whose owner is to own them. Left "
        "out: none, which buckets without ACLs (the default of AWS) need.",
        examples=["bucket-owner-full-control"],
    )
    options: StorageOptions = Field(
        default_factory=dict,
        description="Further Hadoop options (fs.s3a.…), never printed.",
        examples=[{"fs.s3a.proxy.host": "proxy.example.com"}],
    )

    @property
    def aws_keys(self) -> dict[str, str]:
        """Its keys under the names that boto3 has for them; none where the platform's are taken. Never print them."""
        secrets = {
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "aws_session_token": self.session_token,
        }
        return {name: secret.get_secret_value() for name, secret in secrets.items() if secret is not None}

    @property
    def beyond_arrow(self) -> str:
        """Why Arrow's client cannot be let in as S3A is; "" where it can. What S3 or KMS encrypts, any can read."""
        if self.encryption and self.encryption.type == "SSE-C":
            return "storage.encryption is SSE-C, whose key Arrow's client of S3 cannot send"
        if self.access_points:
            return "storage.access_points are not known to Arrow's client of S3"
        if self.requester_pays:
            return "storage.requester_pays cannot be said by Arrow's client of S3"
        if self.role and self.aws_keys:
            return "storage.role is assumed by Arrow's client with the platform's keys alone"
        return ""

    @model_validator(mode="after")
    def _agrees(self) -> Storage:
        for option, ends in _TAKEN.items():
            twice = [name for name in self.options if any(end in name for end in ends)]
            if getattr(self, option) and twice:
                raise ValueError(f"{option} and options {', '.join(twice)} say the same; drop the one in options")
        if self.access_points and self.endpoint:
            raise ValueError(
                "access_points are AWS's, whose address is in their ARN, and endpoint names another; drop one of the "
                "two"
            )
        for bucket, arn in self.access_points.items():
            self._check_region(arn, f"the access point of {bucket}")
        if self.encryption and self.encryption.kms_key and not self.endpoint:
            self._check_region(self.encryption.kms_key, "encryption.key")
        if self.encryption and self.encryption.type == "SSE-C":
            if not self._is_private:
                raise ValueError(
                    "encryption SSE-C sends its key with each request, and endpoint is not https; write https://, or "
                    "another type"
                )
            if where := [name for name in self.options if name.endswith((".endpoint", ".ssl.enabled"))]:
                raise ValueError(
                    f"encryption SSE-C sends its key with each request, and options {', '.join(where)} may send it in "
                    "plain text; write endpoint: https://… instead"
                )
        return self

    def _check_region(self, arn: str, option: str) -> None:
        region = arn.split(":")[3]
        if self.region is not None and region != self.region:
            raise ValueError(
                f"{option} is in {region}, and region is {self.region}: S3 reaches none across regions; correct one of "
                "the two"
            )

    @property
    def _is_private(self) -> bool:
        """Whether nobody on the way reads a request."""
        url = urlparse(self.endpoint or "https://")
        return url.scheme == "https" or url.hostname in _LOOPBACK
