"""The sinks that are known by their connector.class, and their options under the names of Confluent's own sink."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakeingest.errors import UsageError
from lakeingest.operations.connect.translation import Translation


@dataclass(frozen=True)
class Sink:
    """A sink.

    Attributes:
        title: what it is called.
        names: its name of an option → Confluent's.
        more: options that Confluent's sink needs and that this one says otherwise, from the options as given.
    """

    title: str
    names: Mapping[str, str]
    more: Callable[[Mapping[str, str]], dict[str, str]] = lambda _: {}


def of(options: Mapping[str, str]) -> Sink:
    """The sink of a configuration.

    Raises:
        UsageError: it is none that is known.
    """
    name = options.get("connector.class", "").strip()
    for pattern, sink in _SINKS.items():
        if re.fullmatch(pattern, name):
            return sink
    message = f"connector.class {name!r} is no S3 sink that is known" if name else "connector.class is missing"
    titles = ", ".join(dict.fromkeys(sink.title for sink in _SINKS.values()))
    raise UsageError(message, cure=f"name the configuration of one of these: {titles}")


def begin(sink: Sink, options: Mapping[str, str], worker: Mapping[str, str]) -> Translation:
    """A translation of a sink's options, under Confluent's names, and of those of its worker that it does not set."""
    renamed = {sink.names.get(name, name): value for name, value in options.items()}
    names = {sink.names[name]: name for name in options if name in sink.names}
    options_of_file = {**_of_worker(worker), **renamed}
    derived = {name: value for name, value in sink.more(options).items() if name not in options_of_file}
    return Translation({**options_of_file, **derived}, names, derived.keys(), options_of_file.keys() - renamed.keys())


def _of_worker(worker: Mapping[str, str]) -> dict[str, str]:
    """Options of a worker that hold for all its connectors: converters, and how its consumers reach Kafka."""
    converters = {
        name: value for name, value in worker.items() if name.startswith(("key.converter", "value.converter"))
    }
    reach = {name: value for name, value in worker.items() if name.startswith(("security.", "sasl.", "ssl."))}
    consumer_options = {name: value for name, value in worker.items() if name.startswith("consumer.")}
    consumer = {
        f"consumer.override.{name.removeprefix('consumer.')}": value for name, value in consumer_options.items()
    }
    brokers = {"bootstrap.servers": worker["bootstrap.servers"]} if "bootstrap.servers" in worker else {}
    return {
        **converters,
        **brokers,
        **{f"consumer.override.{name}": value for name, value in reach.items()},
        **consumer,
    }


_FORMATS = {
    "AVRO": "io.confluent.connect.avro.AvroConverter",
    "JSON_SR": "io.confluent.connect.json.JsonSchemaConverter",
    "PROTOBUF": "io.confluent.connect.protobuf.ProtobufConverter",
    "JSON": "org.apache.kafka.connect.json.JsonConverter",
    "STRING": "org.apache.kafka.connect.storage.StringConverter",
    "BYTES": "org.apache.kafka.connect.converters.ByteArrayConverter",
}


def _cloud(options: Mapping[str, str]) -> dict[str, str]:
    """Confluent Cloud's sink partitions by time as it comes, and has schemaless JSON without an envelope."""
    more = {"value.converter.schemas.enable": "false", "key.converter.schemas.enable": "false"}
    hourly = options.get("time.interval", "HOURLY").upper() != "DAILY"
    if "partitioner.class" not in options:
        more["partitioner.class"] = "TimeBasedPartitioner"
        more["timestamp.extractor"] = "RecordField" if options.get("timestamp.field") else "Record"
        more["partition.duration.ms"] = "3600000" if hourly else "86400000"
        more["path.format"] = "'year'=YYYY/'month'=MM/'day'=dd" + ("/'hour'=HH" if hourly else "")
    for side, option in (("value", "input.data.format"), ("key", "input.key.format")):
        if converter := _FORMATS.get(options.get(option, "").upper()):
            more[f"{side}.converter"] = converter
    return more


_SINKS: dict[str, Sink] = {
    r"io\.confluent\.connect\.s3\.S3SinkConnector": Sink("Confluent's S3 sink", {}),
    r"S3_SINK|S3SinkV2|S3_SINK_V2": Sink(
        "Confluent Cloud's S3 sink",
        {
            "kafka.api.key": "kafka.key",
            "kafka.api.secret": "kafka.secret",
        },
        _cloud,
    ),
    r"com\.(spredfast|deviantart|adobe)\..*S3SinkConnector": Sink(
        "the block-gzip S3 sink",
        {
            "s3.bucket": "s3.bucket.name",
            "s3.prefix": "topics.dir",
            "s3.endpoint": "store.url",
            "s3.path_style": "s3.path.style.access.enabled",
        },
    ),
}
"""A pattern of connector.class → the sink."""
