"""Who is told when a job fails, and when none succeeds any more."""

from __future__ import annotations

import aws_cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

SILENT_HOURS = 2
"""So long without a job that succeeded, and an alarm is raised."""


class Alarms(Construct):
    """A topic of SNS, and alarms on the events that EMR Serverless sends of its jobs.

    Lag is in no metric of CloudWatch: what `run --listen` publishes is for Prometheus. A pipeline that lags is one
    whose jobs take long or fail.
    """

    def __init__(self, scope: Construct, name: str, application: emr.CfnApplication, key: kms.Key) -> None:
        super().__init__(scope, name)
        self._application = application
        self.topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True, display_name="lakeingest")
        for service in ("cloudwatch.amazonaws.com", "events.amazonaws.com"):
            key.add_to_resource_policy(
                iam.PolicyStatement(
                    principals=[iam.ServicePrincipal(service)],
                    actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                    resources=["*"],
                    conditions={"StringEquals": {"aws:SourceAccount": aws_cdk.Stack.of(self).account}},
                )
            )
        failed = self._rule("Failed", ["FAILED", "CANCELLED"])
        # The event itself says which job it was, and why.
        failed.add_target(targets.SnsTopic(self.topic))
        self._alarm("JobFailed", failed, "A job of lakeingest failed or was cancelled", minutes=5, at_least=1)
        succeeded = self._rule("Succeeded", ["SUCCESS"])
        self._alarm("NoneSucceeds", succeeded, f"No job of lakeingest succeeded for {SILENT_HOURS} hours")

    def _rule(self, name: str, states: list[str]) -> events.Rule:
        return events.Rule(
            self,
            name,
            description=f"Jobs of lakeingest that end as {' or '.join(states)}",
            event_pattern=events.EventPattern(
                source=["aws.emr-serverless"],
                detail_type=["EMR Serverless Job Run State Change"],
                detail={"state": states, "applicationId": [self._application.attr_application_id]},
            ),
        )

    def _alarm(
        self, name: str, rule: events.Rule, text: str, *, minutes: int = 60 * SILENT_HOURS, at_least: int = 0
    ) -> None:
        """Raised by so many events or more; without a number, by none."""
        metric = cloudwatch.Metric(
            namespace="AWS/Events",
            metric_name="MatchedEvents",
            dimensions_map={"RuleName": rule.rule_name},
            statistic="Sum",
            period=aws_cdk.Duration.minutes(minutes),
        )
        compare = cloudwatch.ComparisonOperator
        alarm = metric.create_alarm(
            self,
            name,
            alarm_description=text,
            evaluation_periods=1,
            threshold=at_least or 1,
            comparison_operator=(
                compare.GREATER_THAN_OR_EQUAL_TO_THRESHOLD if at_least else compare.LESS_THAN_THRESHOLD
            ),
            # Without events there is no metric.
            treat_missing_data=(
                cloudwatch.TreatMissingData.NOT_BREACHING if at_least else cloudwatch.TreatMissingData.BREACHING
            ),
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
