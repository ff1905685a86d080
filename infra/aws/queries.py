"""What asks the tables: databases of Glue, and a workgroup of Athena."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import CfnDeletionPolicy, Stack
from aws_cdk import aws_athena as athena
from aws_cdk import aws_glue as glue
from constructs import Construct
from store import Store

from lakeingest.config import PipelineConfig


class Queries(Construct):
    """The catalog and Athena.

    Attributes:
        workgroup: its name.
        workgroup_arn: its ARN.
        results: where the answers of queries lie, within the work bucket.
    """

    results = "athena/"

    def __init__(
        self, scope: Construct, name: str, pipelines: Sequence[PipelineConfig], store: Store, bytes_limit: int
    ) -> None:
        super().__init__(scope, name)
        stack = Stack.of(self)
        named = {config.table.name for config in pipelines if config.table.catalog == "glue" and config.table.name}
        for database in sorted({each.partition(".")[0] for each in named}):
            made = glue.CfnDatabase(
                self,
                f"Database-{database}",
                catalog_id=stack.account,
                database_input=glue.CfnDatabase.DatabaseInputProperty(
                    name=database, description="Tables that lakeingest writes"
                ),
            )
            made.cfn_options.deletion_policy = made.cfn_options.update_replace_policy = CfnDeletionPolicy.RETAIN
        self.workgroup = "lakeingest"
        self.workgroup_arn = f"arn:{stack.partition}:athena:{stack.region}:{stack.account}:workgroup/{self.workgroup}"
        athena.CfnWorkGroup(
            self,
            "Workgroup",
            name=self.workgroup,
            description="Queries of the tables that lakeingest writes",
            state="ENABLED",
            work_group_configuration=athena.CfnWorkGroup.WorkGroupConfigurationProperty(
                enforce_work_group_configuration=True,
                publish_cloud_watch_metrics_enabled=True,
                bytes_scanned_cutoff_per_query=bytes_limit,
                # Version 3 reads Delta tables.
                engine_version=athena.CfnWorkGroup.EngineVersionProperty(
                    selected_engine_version="Athena engine version 3"
                ),
                result_configuration=athena.CfnWorkGroup.ResultConfigurationProperty(
                    output_location=f"s3://{store.work.bucket_name}/{self.results}",
                    expected_bucket_owner=stack.account,
                    encryption_configuration=athena.CfnWorkGroup.EncryptionConfigurationProperty(
                        encryption_option="SSE_KMS", kms_key=store.key.key_arn
                    ),
                ),
            ),
        )
