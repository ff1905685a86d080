"""What runs the pipelines: an application of EMR Serverless, and for each pipeline a schedule that starts its job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import aws_cdk
from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from spark_options import FOLDER, on_emr
from store import Store

from lakeingest.config import PipelineConfig

if TYPE_CHECKING:
    from roles import Roles
    from stack import Settings

_DRIVER = "spark.emr-serverless.driverEnv"


class Compute(Construct):
    """The application, within the network of the brokers.

    Attributes:
        application: of EMR Serverless.
        code: where the packed environment and the jars lie; see infra/emr/package.py.
    """

    def __init__(
        self, scope: Construct, name: str, pipelines: Sequence[PipelineConfig], store: Store, release: str
    ) -> None:
        super().__init__(scope, name)
        self.code = f"s3://{store.work.bucket_name}/code"
        self.key = store.key
        workers = self._network(pipelines)
        self.application = emr.CfnApplication(
            self,
            "Application",
            name="lakeingest",
            release_label=release,
            type="SPARK",
            architecture="X86_64",
            auto_start_configuration=emr.CfnApplication.AutoStartConfigurationProperty(enabled=True),
            auto_stop_configuration=emr.CfnApplication.AutoStopConfigurationProperty(
                enabled=True, idle_timeout_minutes=15
            ),
            maximum_capacity=emr.CfnApplication.MaximumAllowedResourcesProperty(cpu="64 vCPU", memory="256 GB"),
            network_configuration=emr.CfnApplication.NetworkConfigurationProperty(
                security_group_ids=[workers.security_group_id], subnet_ids=self._subnets.value_as_list
            ),
            # One run of each pipeline: a second one would be fenced off.
            scheduler_configuration=emr.CfnApplication.SchedulerConfigurationProperty(
                max_concurrent_runs=len(pipelines), queue_timeout_minutes=15
            ),
            monitoring_configuration=emr.CfnApplication.MonitoringConfigurationProperty(
                s3_monitoring_configuration=emr.CfnApplication.S3MonitoringConfigurationProperty(
                    log_uri=f"s3://{store.work.bucket_name}/logs/", encryption_key_arn=store.key.key_arn
                ),
                # The service's own copy would be encrypted by another key.
                managed_persistence_monitoring_configuration=(
                    emr.CfnApplication.ManagedPersistenceMonitoringConfigurationProperty(enabled=False)
                ),
            ),
        )

    def _network(self, pipelines: Sequence[PipelineConfig]) -> ec2.SecurityGroup:
        """The group of the workers, which may speak to the brokers at the ports of the pipeline files."""
        stack = Stack.of(self)

        def parameter(name: str, kind: str, text: str) -> aws_cdk.CfnParameter:
            return aws_cdk.CfnParameter(stack, name, type=kind, description=text)

        vpc = parameter("Vpc", "AWS::EC2::VPC::Id", "The network of the brokers")
        self._subnets = parameter(
            "Subnets", "List<AWS::EC2::Subnet::Id>", "Private subnets that reach S3, Glue, KMS and the brokers"
        )
        brokers = parameter("Brokers", "AWS::EC2::SecurityGroup::Id", "The security group of the brokers")
        network = ec2.Vpc.from_vpc_attributes(
            self, "Network", vpc_id=vpc.value_as_string, availability_zones=["unknown"]
        )
        workers = ec2.SecurityGroup(
            self, "Workers", vpc=network, description="Workers of lakeingest", allow_all_outbound=False
        )
        there = ec2.SecurityGroup.from_security_group_id(self, "There", brokers.value_as_string, mutable=True)
        for port in sorted(set(_ports(pipelines))):
            workers.add_egress_rule(there, ec2.Port.tcp(port), "brokers")
            there.add_ingress_rule(workers, ec2.Port.tcp(port), "workers of lakeingest")
        workers.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "S3, Glue, KMS, a registry")
        # Spark's driver and executors speak to each other at ports that they choose.
        workers.add_ingress_rule(workers, ec2.Port.all_tcp(), "driver and executors")
        workers.add_egress_rule(workers, ec2.Port.all_tcp(), "driver and executors")
        return workers


def _ports(pipelines: Sequence[PipelineConfig]) -> Sequence[int]:
    servers = (config.source.bootstrap_servers or "" for config in pipelines)
    return [int(each.rpartition(":")[2]) for text in servers for each in text.split(",") if ":" in each]


class Job(Construct):
    """The schedule that runs a pipeline until it is caught up."""

    def __init__(
        self,
        scope: Construct,
        file: Path,
        config: PipelineConfig,
        *,
        compute: Compute,
        roles: Roles,
        settings: Settings,
    ) -> None:
        super().__init__(scope, "Job")
        script = assets.Asset(self, "Script", path=str(FOLDER / "job.py"))
        # The whole folder: a pipeline file names others beside it.
        files = assets.Asset(self, "Files", path=str(file.parent))
        for asset in (script, files):
            asset.grant_read(roles.writer)
        missed = sqs.Queue(
            self,
            "Missed",
            encryption=sqs.QueueEncryption.KMS,
            encryption_master_key=compute.key,
            enforce_ssl=True,
            retention_period=aws_cdk.Duration.days(14),
        )
        starts = iam.Role(
            self,
            "Starts",
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            ),
        )
        starts.add_to_policy(
            iam.PolicyStatement(actions=["emr-serverless:StartJobRun"], resources=[compute.application.attr_arn])
        )
        starts.add_to_policy(
            iam.PolicyStatement(
                actions=["iam:PassRole"],
                resources=[roles.writer.role_arn],
                conditions={"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}},
            )
        )
        missed.grant_send_messages(starts)
        compute.key.grant_decrypt(starts)
        if settings.secrets:
            roles.writer.add_to_policy(
                iam.PolicyStatement(
                    actions=["secretsmanager:GetSecretValue"], resources=sorted(set(settings.secrets.values()))
                )
            )
        secret = {name: f"EMR.secret@{arn}" for name, arn in settings.secrets.items()}
        variables = {f"{_DRIVER}.{name}": value for name, value in {**settings.variables, **secret}.items()}
        options = on_emr(compute.code, files.s3_object_url, settings.release) | variables
        scheduler.CfnSchedule(
            self,
            "Schedule",
            name=f"lakeingest-{config.name}",
            description=f"Runs the pipeline {config.name} until it is caught up",
            schedule_expression=settings.schedule,
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            kms_key_arn=compute.key.key_arn,
            target=scheduler.CfnSchedule.TargetProperty(
                arn=f"arn:{Stack.of(self).partition}:scheduler:::aws-sdk:emrserverless:startJobRun",
                role_arn=starts.role_arn,
                dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(arn=missed.queue_arn),
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_retry_attempts=3, maximum_event_age_in_seconds=900
                ),
                input=Stack.of(self).to_json_string(
                    {
                        "ApplicationId": compute.application.attr_application_id,
                        "ClientToken": "<aws.scheduler.execution-id>",
                        "ExecutionRoleArn": roles.writer.role_arn,
                        "Name": config.name,
                        "JobDriver": {
                            "SparkSubmit": {
                                "EntryPoint": script.s3_object_url,
                                "EntryPointArguments": ["run", file.name, "--until-caught-up", "--log-format", "json"],
                            }
                        },
                        "ConfigurationOverrides": {
                            "ApplicationConfiguration": [{"Classification": "spark-defaults", "Properties": options}]
                        },
                        "ExecutionTimeoutMinutes": 360,
                    }
                ),
            ),
        )
