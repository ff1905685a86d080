"""The buckets: those of the tables, one for what may be made again, one for the logs of access; and their key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import aws_cdk
from accepted import accept
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from lakeingest.config import PipelineConfig, location

NONCURRENT_DAYS = 30
"""How long what was deleted or replaced can be had back; as long as Delta keeps its log."""
RESULTS_DAYS = 14


class Store(Construct):
    """Buckets.

    Attributes:
        key: encrypts what lies in them.
        tables: name → the bucket, of all that the pipeline files name.
        work: results of queries, logs and code.
    """

    def __init__(self, scope: Construct, name: str, pipelines: Sequence[PipelineConfig]) -> None:
        super().__init__(scope, name)
        self.key = kms.Key(
            self,
            "Key",
            description="Tables, results, logs and alarms of lakeingest",
            enable_key_rotation=True,
            removal_policy=aws_cdk.RemovalPolicy.RETAIN,
        )
        self._logs = self._bucket("AccessLogs", encryption=s3.BucketEncryption.S3_MANAGED)
        accept(self._logs, "CKV_AWS_18", "It holds the logs of access; its own would have no end.")
        self.work = self._bucket("Work", **self._encrypted, lifecycle=(_expiring("athena/"), _expiring("logs/")))
        self.tables = {
            # A bucket's name is the pipeline file's, so that both cannot disagree.
            bucket: self._bucket(bucket, bucket_name=bucket, **self._encrypted)
            for bucket in sorted(set(_buckets(pipelines)))
        }

    @property
    def _encrypted(self) -> dict[str, object]:
        return {
            "encryption": s3.BucketEncryption.KMS,
            "encryption_key": self.key,
            # One request to KMS for many objects.
            "bucket_key_enabled": True,
            "server_access_logs_bucket": self._logs,
        }

    def _bucket(self, name: str, *, lifecycle: Sequence[s3.LifecycleRule] = (), **options: object) -> s3.Bucket:
        made = s3.Bucket(
            self,
            name,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            versioned=True,
            lifecycle_rules=[_cleaning(), *lifecycle],
            removal_policy=aws_cdk.RemovalPolicy.RETAIN,
            **options,  # type: ignore[arg-type]
        )
        return made


def _cleaning() -> s3.LifecycleRule:
    """Never anything that is current: which files of a table are needed, its log alone knows."""
    return s3.LifecycleRule(
        id="what nobody can see",
        abort_incomplete_multipart_upload_after=aws_cdk.Duration.days(7),
        noncurrent_version_expiration=aws_cdk.Duration.days(NONCURRENT_DAYS),
        expired_object_delete_marker=True,
    )


def _expiring(prefix: str) -> s3.LifecycleRule:
    return s3.LifecycleRule(id=f"old {prefix}", prefix=prefix, expiration=aws_cdk.Duration.days(RESULTS_DAYS))


def _buckets(pipelines: Iterable[PipelineConfig]) -> Iterable[str]:
    places = (location.place(path) for config in pipelines for path in config.paths)
    return (place.bucket for place in places if place.on_s3)
