"""What the servers of a pipeline say against its file, without a run: topics that are not there, and where the registry
asks less than the table.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakeingest.config import PipelineConfig
from lakeingest.config.formats import AvroFormat, JsonSchemaFormat, ProtobufFormat, uses_registry
from lakeingest.config.per_topic import PerTopic
from lakeingest.errors import LakeingestError
from lakeingest.ingest import endpoints
from lakeingest.kafka.broker import Broker

_ENOUGH = {"BACKWARD": ("BACKWARD", "FULL"), "FORWARD": ("FORWARD", "FULL"), "FULL": ("FULL",)}
"""schema.compatibility → the levels of a registry whose versions all fit, _TRANSITIVE or not (Confluent, "Schema
Evolution and Compatibility")."""


def topics(file: PipelineConfig | PerTopic) -> Iterator[str]:
    """Listed topics that Kafka has not, and a pattern that none matches; or why Kafka was not asked."""
    config = file.example if isinstance(file, PerTopic) else file
    if config.source.table is not None:
        return
    try:
        broker = Broker(config.source, endpoints.addresses(config)[0])
        if isinstance(file, PerTopic):
            if not any(file.pattern.fullmatch(name) for name in broker.names()):
                yield f"source.topics.pattern: {file.pattern.pattern!r} matches no topic that is there"
        else:
            broker.topics()
    except LakeingestError as failed:
        yield f"source.topics: {failed.what}; {failed.cure}"


def disagreements(config: PipelineConfig) -> Iterator[str]:
    """Where the registry takes versions of the value's schema whose records the table would refuse.

    Raises:
        RegistryUnreachable, RegistryRefused: see `Registry`.
    """
    value, mode = config.decode.value, config.compatibility
    if not isinstance(value, AvroFormat | ProtobufFormat | JsonSchemaFormat) or not uses_registry(value):
        return
    if mode == "NONE":
        return
    registry = endpoints.registry(config)
    how = "glue:UpdateSchema" if config.registry.glue else "PUT /config/{name}"
    # Only by the strategy topic the file tells the subject; for the others the level of all holds.
    names = [registry.topic_subject(topic, "value") for topic in config.source.topics]
    for name in names if getattr(value, "subject", "topic") == "topic" else names[:1]:
        level = registry.compatibility(name)
        if level and level.removesuffix("_TRANSITIVE") not in _ENOUGH[mode]:
            yield (
                f"schema.compatibility is {mode}, and the registry takes {level} for {name}: records of a version that "
                f"is not {mode} go to quarantine; let the registry ask {mode} of new versions "
                f"({how.format(name=name)}), or write another schema.compatibility"
            )
