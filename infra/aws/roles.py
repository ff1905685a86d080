"""The roles of a pipeline: who writes it, who reads its tables, who operates it.

What a role may do with the tables, the catalog and Kafka is the answer of `lakeingest iam`, and stands nowhere here.
The rest concerns what this stack makes: its key, its work bucket, Athena, the jobs.
"""

from __future__ import annotations

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from compute import Compute
from constructs import Construct
from queries import Queries
from store import Store

from lakeingest.config import PipelineConfig
from lakeingest.operations import iam as rights

_LOGS = "logs/"
_QUERY = tuple(
    f"athena:{action}"
    for action in ("StartQueryExecution", "StopQueryExecution", "GetQueryExecution", "GetQueryResults", "GetWorkGroup")
)
_JOBS = tuple(
    f"emr-serverless:{action}"
    for action in ("StartJobRun", "CancelJobRun", "GetJobRun", "ListJobRuns", "GetApplication", "GetDashboardForJobRun")
)


class Roles(Construct):
    """Three roles.

    Attributes:
        writer: of the job that runs the pipeline.
        reader: of whoever asks the tables by Athena.
        operator: of whoever looks after the pipeline.
    """

    def __init__(
        self, scope: Construct, config: PipelineConfig, store: Store, queries: Queries, compute: Compute
    ) -> None:
        super().__init__(scope, "Roles")
        stack = Stack.of(self)
        job = iam.ServicePrincipal(
            "emr-serverless.amazonaws.com",
            conditions={
                "StringEquals": {"aws:SourceAccount": stack.account},
                "ArnLike": {"aws:SourceArn": compute.application.attr_arn},
            },
        )
        # Which of the account's people and programs may take a role, the account's own policies say.
        people = iam.AccountPrincipal(stack.account)
        self.writer, self.reader, self.operator = (
            iam.Role(
                self,
                role,
                role_name=f"lakeingest-{config.name}-{role}",
                assumed_by=job if role == "writer" else people,
                inline_policies={"tables": iam.PolicyDocument.from_json(tables_policy(config, role, stack.account))},
            )
            for role in ("writer", "reader", "operator")
        )
        for role in (self.writer, self.operator):
            store.key.grant_encrypt_decrypt(role)
        store.key.grant_decrypt(self.reader)
        store.work.grant_read(self.writer, "code/*")
        store.work.grant_put(self.writer, f"{_LOGS}*")
        store.work.grant_read(self.operator, f"{_LOGS}*")
        for role in (self.reader, self.operator):
            store.work.grant_read_write(role, f"{queries.results}*")
            role.add_to_principal_policy(_allow(_QUERY, queries.workgroup_arn))
        runs = f"{compute.application.attr_arn}/jobruns/*"
        self.operator.add_to_principal_policy(_allow(_JOBS, compute.application.attr_arn, runs))
        self.operator.add_to_principal_policy(
            iam.PolicyStatement(
                actions=["iam:PassRole"],
                resources=[self.writer.role_arn],
                conditions={"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}},
            )
        )


def tables_policy(config: PipelineConfig, role: str, account: str) -> dict[str, Any]:
    """What `lakeingest iam` says of a role; of one whose keys assume `storage.role`, what these keys need."""
    found = rights.policy(config, role, account=account)
    return found.keys or found.document


def _allow(actions: tuple[str, ...], *resources: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=list(resources))
