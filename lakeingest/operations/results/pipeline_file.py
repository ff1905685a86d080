"""A pipeline file, as a notebook shows it."""

from __future__ import annotations

from lakeingest.config import PipelineConfig
from lakeingest.errors import number_of
from lakeingest.operations.results.html import html


def headline(config: PipelineConfig) -> str:
    """A pipeline file in one line."""
    return f"{config.name}: {config.source.text} → {config.table.identifier}"


def as_html(config: PipelineConfig, address: str) -> str:
    """A pipeline file in a few lines of HTML; none of its secrets.

    Args:
        address: where its records are, which the file need not say.
    """
    partitions = [
        "Kafka partition" if each.by == "kafka_partition" else each.field or "time" for each in config.partition
    ]
    options = {
        "table" if config.source.table else "brokers": address,
        "value": config.decode.value.format,
        "compatibility": config.compatibility,
        "gate": config.gate and config.gate.suite,
        "partitions": ", ".join(partitions) or None,
        "trigger": f"{config.trigger.every}, {number_of(config.trigger.max_records, 'record')} at most",
        "table": config.table.identifier,
        "quarantine": config.quarantine.identifier,
    }
    return html(headline(config), {"file": [{"option": name, "value": value} for name, value in options.items()]})
