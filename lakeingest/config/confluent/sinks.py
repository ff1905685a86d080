"""The sinks that are known by their connector.class, and their options under the names of Confluent's own sink."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakeingest.config.confluent.translation import Translation
from lakeingest.errors import UsageError


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
    said = f"connector.class {name!r} is no S3 sink that is known" if name else "connector.class is missing"
    titles = ", ".join(dict.fromkeys(sink.title for sink in _SINKS.values()))
    raise UsageError(said, cure=f"name the configuration of one of these: {titles}")


def begin(sink: Sink, options: Mapping[str, str], worker: Mapping[str, str]) -> Translation:
    """A translation of a sink's options, under Confluent's names, and of those of its worker that it does not set.

    Raises:
        UsageError: what the sink says otherwise is not understood.
    """
    renamed = {sink.names.get(name, name): value for name, value in options.items()}
    names = {sink.names[name]: name for name in options if name in sink.names}
    given = {**_of_worker(worker), **renamed}
    made = {name: value for name, value in sink.more(options).items() if name not in given}
    return Translation({**given, **made}, names, made.keys(), given.keys() - renamed.keys())


def _of_worker(worker: Mapping[str, str]) -> dict[str, str]:
    """What a worker's options say of all its connectors: the converters, and how its consumers reach Kafka."""
    kept = {name: value for name, value in worker.items() if name.startswith(("key.converter", "value.converter"))}
    reach = {name: value for name, value in worker.items() if name.startswith(("security.", "sasl.", "ssl."))}
    own = {name: value for name, value in worker.items() if name.startswith("consumer.")}
    consumer = {f"consumer.override.{name.removeprefix('consumer.')}": value for name, value in own.items()}
    brokers = {"bootstrap.servers": worker["bootstrap.servers"]} if "bootstrap.servers" in worker else {}
    return {**kept, **brokers, **{f"consumer.override.{name}": value for name, value in reach.items()}, **consumer}


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
        if found := _FORMATS.get(options.get(option, "").upper()):
            more[f"{side}.converter"] = found
    return more


def _aiven(options: Mapping[str, str]) -> dict[str, str]:
    """Aiven's sink names its objects by a template: by the Kafka partition, or by times in it."""
    template = options.get("file.name.template", "")
    letters = re.findall(r"\{\{\s*timestamp:unit=(yyyy|MM|dd|HH)\s*\}\}", template)
    if not letters:
        return {}
    names = {"yyyy": "year", "MM": "month", "dd": "day", "HH": "hour"}
    source = options.get("file.name.timestamp.source", options.get("timestamp.source", "wallclock")).lower()
    return {
        "partitioner.class": "TimeBasedPartitioner",
        "path.format": "/".join(f"'{names[each]}'={each}" for each in dict.fromkeys(letters)),
        "partition.duration.ms": "3600000" if "HH" in letters else "86400000",
        "timestamp.extractor": "Record" if source == "event" else "Wallclock",
    }


_KCQL = re.compile(
    r"(?is)\s*insert\s+into\s+(?P<bucket>[^\s:`]+)(?::(?P<prefix>\S+))?\s+select\s+(?P<fields>.+?)\s+from\s+"
    r"(?P<topic>`[^`]+`|\S+)(?P<rest>.*)"
)


def _lenses(options: Mapping[str, str]) -> dict[str, str]:
    """Lenses' sink says bucket, topic, partitions and sizes in KCQL; one statement is taken.

    Raises:
        UsageError: it is no such statement, or several.
    """
    text = options.get("connect.s3.kcql", "")
    if ";" in text.strip().rstrip(";"):
        raise UsageError(
            "connect.s3.kcql holds several statements", cure="import a configuration with one statement for each table"
        )
    found = _KCQL.fullmatch(text.strip().rstrip(";"))
    if found is None:
        raise UsageError(
            "connect.s3.kcql is no statement that is understood",
            cure="write it as in: INSERT INTO bucket:prefix SELECT * FROM topic",
        )
    more = {"s3.bucket.name": found["bucket"], "topics": options.get("topics", found["topic"].strip("`"))}
    if found["fields"].strip() != "*":
        pairs = [re.split(r"(?i)\s+as\s+", each.strip()) for each in found["fields"].split(",")]
        more |= {
            "transforms": "kcql",
            "transforms.kcql.type": "ReplaceField$Value",
            "transforms.kcql.include": ",".join(pair[0] for pair in pairs),
            "transforms.kcql.renames": ",".join(":".join(pair) for pair in pairs if len(pair) > 1),
        }
    if by := re.search(r"(?i)partitionby\s+([\w.`]+(?:\s*,\s*[\w.`]+)*)", found["rest"]):
        fields = [each.strip().strip("`").removeprefix("_value.") for each in by[1].split(",")]
        of_partition = fields in (["_partition"], ["_topic", "_partition"])
        more["partitioner.class"] = "DefaultPartitioner" if of_partition else "FieldPartitioner"
        more["partition.field.name"] = ",".join(each for each in fields if each not in ("_topic", "_partition"))
    if count := re.search(r"(?i)flush[._]count'?\s*=\s*(\d+)", found["rest"]):
        more["flush.size"] = count[1]
    if seconds := re.search(r"(?i)flush[._]interval'?\s*=\s*(\d+)", found["rest"]):
        more["rotate.schedule.interval.ms"] = f"{seconds[1]}000"
    return more


def _iceberg(options: Mapping[str, str]) -> dict[str, str]:
    """The Iceberg sink has a catalog's table, and no partitions by folder."""
    more = {}
    if options.get("iceberg.tables.evolve-schema-enabled", "").lower() == "true":
        more["schema.compatibility"] = "BACKWARD"
    by = [each.strip() for each in options.get("iceberg.tables.default-partition-by", "").split(",") if each.strip()]
    times = [re.fullmatch(r"(year|month|day|hour)s?\((\w+)\)", each) for each in by]
    if by and len(by) == 1 and times[0]:
        unit, column = times[0].groups()
        formats = {"year": "'year'=yyyy", "month": "'month'=yyyy-MM", "day": "'day'=yyyy-MM-dd"}
        more |= {
            "partitioner.class": "TimeBasedPartitioner",
            "timestamp.extractor": "RecordField",
            "timestamp.field": column,
            "path.format": formats.get(unit, "'hour'=yyyy-MM-dd-HH"),
            "partition.duration.ms": "3600000" if unit == "hour" else "86400000",
        }
    elif by and not any(times):
        more |= {"partitioner.class": "FieldPartitioner", "partition.field.name": ",".join(by)}
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
    r"io\.aiven\.kafka\.connect\.s3\.AivenKafkaConnectS3SinkConnector": Sink(
        "Aiven's S3 sink",
        {
            "aws.s3.bucket.name": "s3.bucket.name",
            "aws_s3_bucket": "s3.bucket.name",
            "aws.s3.region": "s3.region",
            "aws_s3_region": "s3.region",
            "aws.s3.endpoint": "store.url",
            "aws_s3_endpoint": "store.url",
            "aws.s3.prefix": "topics.dir",
            "aws_s3_prefix": "topics.dir",
            "file.name.prefix": "topics.dir",
            "aws_access_key_id": "aws.access.key.id",
            "aws_secret_access_key": "aws.secret.access.key",
            "aws.sts.role.arn": "s3.credentials.provider.sts.role.arn",
            "aws.sts.role.external.id": "s3.credentials.provider.sts.role.external.id",
            "aws.sts.role.session.name": "s3.credentials.provider.sts.role.session.name",
            "file.max.records": "flush.size",
            "file.compression.type": "s3.compression.type",
            "output_compression": "s3.compression.type",
            "aws.s3.part.size.bytes": "s3.part.size",
            "aws.s3.sse.algorithm": "s3.ssea.name",
            "file.name.timestamp.timezone": "timezone",
            "timestamp.timezone": "timezone",
        },
        _aiven,
    ),
    r"(io|com)\.(lenses|datamountaineer)\.streamreactor\..*S3SinkConnector\w*": Sink(
        "Lenses' S3 sink",
        {
            "connect.s3.aws.region": "s3.region",
            "connect.s3.aws.access.key": "aws.access.key.id",
            "connect.s3.aws.secret.key": "aws.secret.access.key",
            "connect.s3.custom.endpoint": "store.url",
            "connect.s3.aws.custom.endpoint": "store.url",
            "connect.s3.compression.codec": "s3.compression.type",
            "connect.s3.compression.level": "s3.compression.level",
        },
        _lenses,
    ),
    r"(io\.tabular|org\.apache|com\.databricks)\.iceberg\.connect\.IcebergSinkConnector": Sink(
        "the Iceberg sink",
        {"iceberg.control.commit.interval-ms": "rotate.schedule.interval.ms"},
        _iceberg,
    ),
}
"""A pattern of connector.class → the sink."""
