"""The stack: buckets, catalog, queries, compute, and for each pipeline its job, roles and alarms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aws_cdk
from alarms import Alarms
from compute import Compute, Job
from constructs import Construct
from queries import Queries
from roles import Roles
from store import Store

from lakeingest.config import PipelineConfig


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the context says.

    Attributes:
        pipelines: file → what it says.
        release: label of the EMR release.
        schedule: of EventBridge Scheduler, how often each pipeline is run until it is caught up.
        bytes_limit: most bytes that one query of Athena may read.
        secrets: variables of the pipeline files: name → ARN of the secret that holds the value.
        variables: variables of the pipeline files that are no secrets: name → value.
    """

    pipelines: Mapping[Path, PipelineConfig]
    release: str
    schedule: str
    bytes_limit: int
    secrets: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


class LakeStack(aws_cdk.Stack):
    """All that the pipelines need in one account and region, besides the network and Kafka, which are there."""

    def __init__(self, scope: Construct, name: str, settings: Settings, *, env: aws_cdk.Environment) -> None:
        super().__init__(scope, name, env=env, description="lakeingest: Kafka records into Delta tables on S3")
        configs = list(settings.pipelines.values())
        names = [config.name for config in configs]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise SystemExit(f"two pipeline files have the name {', '.join(twice)}; a pipeline has one writer")
        store = Store(self, "Store", configs)
        queries = Queries(self, "Queries", configs, store, int(settings.bytes_limit))
        compute = Compute(self, "Compute", configs, store, settings.release)
        Alarms(self, "Alarms", compute.application, store.key)
        for file, config in settings.pipelines.items():
            part = Construct(self, config.name)
            roles = Roles(part, config, store, queries, compute)
            Job(part, file, config, compute=compute, roles=roles, settings=settings)
