"""Where records come from, and their schemas: the parts `source` and `registry` of the pipeline file."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field, model_validator

from lakeingest.config.base import Part
from lakeingest.config.values import (
    Brokers,
    Duration,
    RegistryOptions,
    SourceOptions,
    Start,
    TablePlace,
    Topics,
    Url,
)


class Source(Part):
    """Which Kafka topics are read, and from where: from Kafka, or from a table that has their records as bytes."""

    topics: Topics = Field(
        (),
        description="The topics to read, all of them into the one table; or {pattern: REGEX}, for a "
        "pipeline and a table for each topic that it matches: {topic} in name and table stands for it. Required, but "
        "with source.table: there, left out, all that the table has when the run begins.",
        examples=[["flights"]],
    )
    table: TablePlace | None = Field(
        None,
        description="A bronze table to read instead of Kafka, a path or a name: one that lakeingest wrote, with "
        "decode.value.format bytes. No broker is asked then.",
        examples=["s3a://lake/bronze"],
    )
    bootstrap_servers: Brokers | None = Field(
        None,
        description="Brokers as host:port,host:port. Left out: those of the running embedded stack.",
        examples=["localhost:9092"],
    )
    start: Start = Field(
        "earliest",
        description="Where a topic begins that the table has never seen: earliest, latest, or at offsets, as in "
        "{flights: {0: 1500, 1: 1498}}; a partition that is not named begins at its earliest.",
    )
    options: SourceOptions = Field(
        default_factory=dict,
        description="Further Kafka client options (security.protocol, sasl.username, …), never printed.",
        examples=[{"security.protocol": "SSL"}],
    )

    commit_to_group: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._-]+$",
        max_length=255,
        description="A consumer group to which the table's offsets are committed after each commit, for tools that "
        "show its lag (Burrow, kafka-consumer-groups.sh). They are never read back, and no run stops for them. It must "
        "be nobody else's. Default: none.",
        examples=["lakeingest-flights"],
    )

    @property
    def text(self) -> str:
        """The table or topics, as text."""
        return ", ".join([*([self.table] if self.table else []), *self.topics])

    @model_validator(mode="after")
    def _commits_to_kafka(self) -> Source:
        if self.table is not None and self.commit_to_group is not None:
            raise ValueError(
                "commit_to_group is for Kafka's offsets, and source.table is read without asking Kafka, which may hold "
                "none of them any more; drop one of the two"
            )
        return self

    @model_validator(mode="after")
    def _starts_in_topics(self) -> Source:
        if isinstance(self.start, dict) and (strange := [each for each in self.start if each not in self.topics]):
            raise ValueError(f"start names {', '.join(strange)}, which is not among topics; correct one of the two")
        return self


class GlueRegistry(Part):
    """AWS Glue Schema Registry, as the registry that records name their schema by. Needs lakeingest[glue]."""

    registry: str = Field(
        "default-registry",
        pattern=r"^[A-Za-z0-9_$#.-]+$",
        max_length=255,
        description="The registry's name. A record's schema is found by its id alone; the name says where the newest "
        "version of a topic's schema is looked for before a record came.",
        examples=["lake"],
    )
    region: str | None = Field(
        None,
        min_length=1,
        description="AWS region. Left out: what boto3 finds (AWS_REGION, a profile), else storage.region.",
        examples=["eu-west-1"],
    )
    endpoint: Url | None = Field(
        None,
        description="URL of Glue, where it is not the region's own. Left out: what boto3 finds "
        "(AWS_ENDPOINT_URL_GLUE), else the region's.",
        examples=["https://vpce-0abc.glue.eu-west-1.vpce.amazonaws.com"],
    )


class Registry(Part):
    """The schema registry that records in Avro, Protobuf and JSON Schema name their schema by."""

    url: Url | None = Field(
        None,
        description="Its http or https URL, or several of one registry with commas between them. "
        "Left out: the running embedded stack's.",
        examples=["https://registry.example.com"],
    )
    options: RegistryOptions = Field(
        default_factory=dict,
        description="Further options of confluent-kafka's SchemaRegistryClient (basic.auth.user.info, "
        "bearer.auth.credentials.source, bearer.auth.token, ssl.ca.location, …), never printed.",
        examples=[{"ssl.ca.location": "/etc/ssl/registry.pem"}],
    )
    glue: GlueRegistry | None = Field(
        None,
        description="AWS Glue Schema Registry instead of one with Confluent's API, for the formats avro and "
        "json_schema; {} takes its defaults. The keys are those that boto3 finds, else those of storage.",
        examples=[{"registry": "lake", "region": "eu-west-1"}],
    )
    wait: Duration = Field(
        timedelta(seconds=30),
        description="How long a registry that does not answer is waited for, before the run ends with an error; "
        "nothing is lost.",
        json_schema_extra={"default": "30 seconds"},
    )

    @model_validator(mode="after")
    def _is_one(self) -> Registry:
        if self.glue is not None and (of_http := [name for name in ("url", "options") if getattr(self, name)]):
            raise ValueError(f"names two registries, glue and {' and '.join(of_http)}; drop one of the two")
        return self
