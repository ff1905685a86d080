"""From the configuration of a sink to pipeline files: every documented option, every example, and hostile input."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from support.pipelines import connectors
from typer.testing import CliRunner

from lakeingest.cli import app
from lakeingest.config import file
from lakeingest.config.partition_format import FormatError
from lakeingest.config.per_topic import PerTopic
from lakeingest.config.pipeline import PipelineConfig
from lakeingest.errors import PipelineFileError, UsageError
from lakeingest.local import Addresses
from lakeingest.operations import connect
from lakeingest.operations.connect import joda

ENVIRONMENT = {
    "KAFKA_BOOTSTRAP_SERVERS": "kafka:9092",
    "QUARANTINE_KEY": "k" * 32,
    "SSE_CUSTOMER_KEY": base64.b64encode(b"k" * 32).decode(),
    "KMS_KEY_ARN": "arn:aws:kms:eu-west-1:123456789012:key/1234abcd",
}

COLUMNS = (
    "region STRING, user STRUCT<id: INT>, created TIMESTAMP, ts TIMESTAMP, id INT, a STRING, b STRING, card STRING, "
    "at TIMESTAMP"
)


def imported(options: Mapping[str, str], folder: Path) -> PipelineConfig:
    """The first pipeline that comes of a configuration, as the file's checker reads it."""
    made = connect.translate(options)
    text = next(iter(made.files.values()))
    if "schema.columns" in made.missing:
        text += f"schema:\n  columns: '{COLUMNS}'\n"
    path = folder / "pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    found = file.read_any(path, {**dict.fromkeys(made.environment, "x"), **ENVIRONMENT})
    return found.example if isinstance(found, PerTopic) else found


def outcome(options: Mapping[str, str], name: str) -> connect.ConnectorOption:
    """What became of one option."""
    (found,) = [option for option in connect.translate(options).options if option.name == name]
    return found


@pytest.mark.parametrize("name", connectors.EXAMPLES)
def test_every_example_becomes_a_file_that_is_checked(name: str, tmp_path: Path) -> None:
    """Each option of it is told of, once, and none is unknown."""
    options = connectors.EXAMPLES[name]
    made = connect.translate(options)
    assert sorted(option.name for option in made.options) == sorted(options)
    assert "unknown" not in {option.outcome for option in made.options}
    assert imported(options, tmp_path)


@pytest.mark.parametrize(("name", "value", "options"), connectors.cases())
def test_every_documented_option_is_known(name: str, value: str, options: Mapping[str, str], tmp_path: Path) -> None:
    """With a reason where it is not carried over, and the file that comes of it is good."""
    found = outcome(options, name)
    assert found.outcome != "unknown"
    assert found.outcome == "carried" or found.why
    assert found.outcome not in ("carried", "changed") or found.becomes
    assert imported(options, tmp_path)
    assert "hush-hush" not in str(connect.translate(options))


@pytest.mark.parametrize("name", connectors.TRANSFORMS)
def test_every_transform_becomes_steps_or_a_reason(name: str, tmp_path: Path) -> None:
    """All its options share the outcome, and the file that comes of it is good."""
    options = connectors.with_transform(connectors.TRANSFORMS[name])
    told = [o for o in connect.translate(options).options if o.name.startswith("transforms.t.")]
    assert len(told) == len(connectors.TRANSFORMS[name])
    assert len({(option.outcome, option.why) for option in told}) == 1
    assert told[0].outcome == "carried" or told[0].why
    assert imported(options, tmp_path)


def test_what_is_carried_passes_check(tmp_path: Path) -> None:
    """Each option and each transform, with columns from a registry and with declared ones: `check` of all files."""
    given = [options for _, _, options in connectors.cases()]
    for transform in connectors.TRANSFORMS.values():
        options = connectors.with_transform(transform)
        given += [options, {**options, "value.converter": connectors.JSON, "value.converter.schemas.enable": "false"}]
    environment, paths = dict(ENVIRONMENT), []
    for number, options in enumerate(given):
        own = {"name": f"n{number}", "topics": f"t{number}"}
        columns = {own["topics"]: COLUMNS} if options["value.converter"] == connectors.JSON else {}
        made = connect.translate({**options, **own}, columns=columns)
        environment = {**dict.fromkeys(made.environment, "x"), **environment}
        (text,) = made.files.values()
        paths.append(tmp_path / f"n{number}.yaml")
        paths[-1].write_text(text, encoding="utf-8")
    checked = CliRunner().invoke(app, ["check", *map(str, paths)], env=environment)
    assert checked.exit_code == 0, f"{checked.output}{checked.exception}"


def test_transforms_become_steps_in_their_order() -> None:
    """The steps that a few of them become, word by word."""
    kinds = ("ReplaceField (keep, rename)", "Cast", "MaskField (with a text)", "InsertField", "InsertField (static)")
    chain = {f"t{at}": connectors.TRANSFORMS[kind] for at, kind in enumerate(kinds)}
    options = {
        **connectors.BASE,
        "transforms": ", ".join(chain),
        **{f"transforms.{name}.{o}": v for name, given in chain.items() for o, v in given.items()},
    }
    (text,) = connect.translate(options).files.values()
    assert YAML(typ="safe").load(text)["transform"] == [
        {"keep": ["a", "b"]},
        {"rename": {"a": "x"}},
        {"cast": {"a": "INT", "b": "STRING"}},
        {"mask": {"card": {"constant": "hidden"}}},
        {"derive": {"topic": "_topic", "at": "_offset"}},
        {"derive": {"site": r"'it\'s'"}},
    ]


@pytest.mark.parametrize(
    ("predicate", "more", "outcome_of_type", "steps"),
    [
        ({"type": "TopicNameMatches", "pattern": "ord.*"}, {}, "carried", True),
        ({"type": "TopicNameMatches", "pattern": "ord"}, {}, "ignored", False),
        ({"type": "TopicNameMatches", "pattern": "ord.*"}, {"negate": "true"}, "ignored", False),
        ({"type": "TopicNameMatches", "pattern": "("}, {}, "impossible", False),
        ({"type": "RecordIsTombstone"}, {"negate": "true"}, "carried", True),
        ({"type": "RecordIsTombstone"}, {}, "ignored", False),
        ({"type": "TopicNameMatches", "pattern": "ord"}, {"negate": "true"}, "carried", True),
        ({"type": "TopicNameMatches", "pattern": "ord.*"}, {"negate": "false"}, "carried", True),
        ({"type": "HasHeaderKey", "name": "h"}, {"negate": "true"}, "impossible", False),
        ({"type": "HasHeaderKey", "name": "h"}, {}, "impossible", False),
    ],
)
def test_a_predicate_is_asked_as_far_as_it_can_be(
    predicate: Mapping[str, str], more: Mapping[str, str], outcome_of_type: str, steps: bool
) -> None:
    """By the topics' names; a value that is null is left alone by transforms of the value."""
    given = {**connectors.TRANSFORMS["ReplaceField (drop)"], "predicate": "p", **more}
    options = {
        **connectors.with_transform(given),
        "predicates": "p",
        **{f"predicates.p.{k}": v if k != "type" else f"{connectors.SMT}predicates.{v}" for k, v in predicate.items()},
    }
    made = connect.translate(options)
    assert {o.outcome for o in made.options if o.name == "transforms.t.type"} == {outcome_of_type}
    assert ("transform:" in next(iter(made.files.values()))) is steps


FILTER, TOMBSTONES = f"{connectors.SMT}Filter", "io.confluent.connect.transforms.TombstoneHandler"


@pytest.mark.parametrize(
    ("transform", "on_null"),
    [
        ({"type": FILTER, "predicate": "p"}, "ignore"),
        ({"type": FILTER, "predicate": "p", "negate": "false"}, "ignore"),
        ({"type": FILTER, "predicate": "p", "negate": "true"}, None),
        ({"type": TOMBSTONES}, "ignore"),
        ({"type": TOMBSTONES, "behavior": "warn"}, "ignore"),
        ({"type": TOMBSTONES, "behavior": "ignore"}, "ignore"),
        ({"type": TOMBSTONES, "behavior": "fail"}, "quarantine"),
        ({"type": TOMBSTONES, "predicate": "p"}, "ignore"),
        ({"type": TOMBSTONES, "predicate": "p", "negate": "true"}, "write"),
    ],
)
def test_tombstones_are_filtered_by_decode(transform: Mapping[str, str], on_null: str | None) -> None:
    """`negate: true` was taken for its opposite. A transform acts before the sink's own option; None: it is lost."""
    options = {
        **connectors.with_transform(transform),
        "behavior.on.null.values": "write",
        "predicates": "p",
        "predicates.p.type": f"{connectors.SMT}predicates.RecordIsTombstone",
    }
    made = connect.translate(options)
    found = YAML(typ="safe").load(next(iter(made.files.values())))["decode"]["on_null"]
    assert (found, made.whole) == (on_null or "write", on_null is not None)


def test_what_comes_behind_a_router_sees_its_topic() -> None:
    """Another router, a predicate on the topic's name, and InsertField, as they do in Connect."""
    router, insert = {"type": f"{connectors.SMT}RegexRouter"}, connectors.TRANSFORMS["InsertField"]
    chain = {
        "one": {**router, "regex": "(or)(.*)", "replacement": r"\$$2_$1"},
        "two": {**router, "regex": r"\$ders_or|x", "replacement": "raw"},
        "three": {**insert, "predicate": "p"},
        "four": {**connectors.TRANSFORMS["ReplaceField (drop)"], "predicate": "p", "negate": "true"},
    }
    options = {
        **connectors.BASE,
        "transforms": ",".join(chain),
        **{f"transforms.{name}.{o}": v for name, given in chain.items() for o, v in given.items()},
        "predicates": "p",
        "predicates.p.type": f"{connectors.SMT}predicates.TopicNameMatches",
        "predicates.p.pattern": "raw",
    }
    values = YAML(typ="safe").load(next(iter(connect.translate(options).files.values())))
    assert values["table"]["path"] == "s3a://lake/tables/raw"
    assert values["transform"] == [{"derive": {"topic": "'raw'", "at": "_offset"}}]


@pytest.mark.parametrize(("negate", "stays"), [("false", "IS NULL"), ("true", "IS NOT NULL")])
def test_records_are_filtered_by_a_header(negate: str, stays: str, tmp_path: Path) -> None:
    """Filter drops those for which the predicate holds."""
    options = {
        **connectors.with_transform({"type": f"{connectors.SMT}Filter", "predicate": "p", "negate": negate}),
        "predicates": "p",
        "predicates.p.type": f"{connectors.SMT}predicates.HasHeaderKey",
        "predicates.p.name": "test's",
    }
    (step,) = imported(options, tmp_path).steps
    assert step.texts == {"filtered": rf"header('test\'s') {stays}"}


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        ("'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", "'year'=yyyy/'month'=MM/'day'=dd/'hour'=HH"),
        ("YYYY/MM/dd/HH", "'year'=yyyy/'month'=MM/'day'=dd/'hour'=HH"),
        ("yyyy-MM-dd", "'day'=yyyy-MM-dd"),
        ("'date='YYYY-MM-dd/'at'=HH'h'mm", "'date='yyyy-MM-dd/'at'=HH'h'mm"),
        ("dt=YYYY-MM-dd/", "dt=yyyy-MM-dd"),
        ("'raw'/'YYYY'=YYYY", "'YYYY'=yyyy"),
    ],
)
def test_a_path_format_is_translated(text: str, spark: str) -> None:
    """Joda's YYYY is the year of era; what stands in quotes is a text; a segment without a name gets one."""
    assert joda.format_of(text, "en_US")[0] == spark


@pytest.mark.parametrize("text", ["'w'=xxxx", "'y'=YYYY-ww", "''", "'z'=ZZ", "'c'=CC", "'a", "HH'h'"])
def test_a_path_format_that_spark_does_not_have_is_refused(text: str) -> None:
    """Week years, zones and centuries, and what names nothing."""
    with pytest.raises(FormatError):
        joda.format_of(text, "en_US")


def test_several_topics() -> None:
    """By a pattern where records bring their columns; else a file for each, as each has columns of its own."""
    several = {**connectors.BASE, "topics": "a.b, c"}
    made = connect.translate(several)
    (text,) = made.files.values()
    values = YAML(typ="safe").load(text)
    assert values["source"]["topics"] == {"pattern": r"a\.b|c"}
    assert (values["name"], values["table"]["path"]) == ("orders-{topic}", "s3a://lake/tables/{topic}")
    made = connect.translate({**several, "value.converter": connectors.JSON})
    assert list(made.files) == ["orders-a.b.yaml", "orders-c.yaml"]
    assert "schema.columns" in made.missing


def test_columns_that_a_sample_told() -> None:
    """Each file has its topic's, or says that they are missing."""
    several = {**connectors.BASE, "topics": "a,b", "value.converter": connectors.JSON}
    made = connect.translate(several, columns={"a": "n BIGINT"})
    one, other = made.files.values()
    assert YAML(typ="safe").load(one)["schema"] == {"columns": "n BIGINT"}
    assert ("Fill in schema.columns" in one, "Fill in schema.columns" in other) == (False, True)
    assert "schema.columns" in made.missing
    assert "schema.columns" not in connect.translate(several, columns={"a": "n BIGINT", "b": "m DATE"}).missing


@pytest.mark.parametrize(
    ("converter", "format"), [("AWSKafkaAvroConverter", "avro"), ("jsonschema.JsonSchemaConverter", "json_schema")]
)
def test_converters_of_aws(converter: str, format: str) -> None:
    """Their schemas are AWS Glue's, whatever other registry is left in the configuration."""
    aws = {
        "value.converter": f"com.amazonaws.services.schemaregistry.kafkaconnect.{converter}",
        "value.converter.schemaAutoRegistrationEnabled": "true",
    }
    where = {"value.converter.region": "eu-west-1", "value.converter.registry.name": "lake"}
    for given, glue in ((where, {"region": "eu-west-1", "registry": "lake"}), ({}, {})):
        made = connect.translate({**connectors.BASE, **aws, **given})
        (text,) = made.files.values()
        values = YAML(typ="safe").load(text)
        assert (values["registry"], values["decode"]["value"]) == ({"glue": glue}, {"format": format})
        assert {each.outcome for each in made.options} <= {"carried", "changed", "ignored"}
        file.from_mapping({**values, "source": {**values["source"], "bootstrap_servers": "kafka:9092"}})


def test_a_worker_gives_what_the_connector_leaves_out() -> None:
    """Converters, brokers and how its consumers log in; none of it is told of as an option of the connector."""
    options = {k: v for k, v in connectors.BASE.items() if not k.startswith("value.converter")}
    worker = {
        "bootstrap.servers": "PLAINTEXT://kafka:9092",
        "group.id": "connect",
        "value.converter": connectors.JSON,
        "value.converter.schemas.enable": "false",
        "sasl.mechanism": "PLAIN",
        "consumer.sasl.mechanism": "SCRAM-SHA-512",
        "consumer.sasl.jaas.config": 'x required username="me" password="hush-hush";',
    }
    made = connect.translate(options, worker)
    (text,) = made.files.values()
    values = YAML(typ="safe").load(text)
    assert values["decode"]["value"] == {"format": "json"}
    assert values["source"]["bootstrap_servers"] == "kafka:9092"
    assert values["source"]["options"] == {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "${KAFKA_USER}",
        "sasl.password": "${KAFKA_PASSWORD}",
    }
    assert {option.name for option in made.options} == set(options)
    assert "decode.value" in connect.translate(options).missing


def test_what_a_worker_changes_is_told() -> None:
    """JsonConverter in the worker alone has an envelope, and a keystore of the worker is lost: nothing said so."""
    options = {k: v for k, v in connectors.BASE.items() if not k.startswith("value.converter")}
    worker = {"value.converter": connectors.JSON, "ssl.truststore.location": "/etc/kafka.jks", "ssl.key": "hush-hush"}
    made = connect.translate(options, worker)
    told = {option.name: option for option in made.options if option.name not in options}
    assert {name: option.outcome for name, option in told.items()} == {
        "value.converter (of the worker)": "changed",
        "consumer.override.ssl.truststore.location (of the worker)": "impossible",
        "consumer.override.ssl.key (of the worker)": "impossible",
    }
    assert "{schema, payload}" in told["value.converter (of the worker)"].why
    assert "hush-hush" not in str(made)
    assert not made.whole


def test_offsets_are_where_a_topic_begins(tmp_path: Path) -> None:
    """Each topic of a pattern begins at its own."""
    options = {**connectors.BASE, "topics": "a,b"}
    made = connect.translate(options, start={"a": {0: 7, 1: 9}})
    assert made.group == "connect-orders"
    path = tmp_path / "orders.yaml"
    path.write_text(next(iter(made.files.values())), encoding="utf-8")
    found = file.read_any(path, ENVIRONMENT)
    assert isinstance(found, PerTopic)
    assert (found.of("a").source.start, found.of("b").source.start) == ({"a": {0: 7, 1: 9}}, "earliest")


@pytest.mark.parametrize(
    "options",
    [
        {"topics": "${env:TOPIC}"},
        {"topics": "../../etc/passwd,a:b", "value.converter": connectors.JSON},
        {"value.converter": "x.Own\u2028evil: {}\x85more: 1"},
        {"name": "x\u2028y", "consumer.override.group.id": "g\u2028evil: 1"},
        {"s3.bucket.name": "${file:/x:bucket}", "name": "a/b: 'c' # {d}\n- e"},
        {"s3.region": "${nothing", "store.url": "http://x:1/${topic}"},
        {"partition.field.name": "a: b, #c", "partitioner.class": "x.FieldPartitioner"},
        {"value.converter": "", "partitioner.class": "Time", "path.format": "'" * 3},
        {"flush.size": "many", "rotate.schedule.interval.ms": "1e3", "partition.duration.ms": "-1"},
        {"transforms": "a,,b", "transforms.a.type": "", "predicates": "x"},
        {"rotate.schedule.interval.ms": "999999999999999999"},
        {"aws.secret.access.key": "", "s3.sse.customer.key": "", "s3.ssea.name": "rot13"},
        {"consumer.override.sasl.jaas.config": 'username="\\" password=x'},
    ],
)
def test_whatever_the_values_are_a_file_comes_of_them(options: Mapping[str, str]) -> None:
    """One that is YAML, and that the checker reads, or says what is wrong with."""
    given = {**connectors.BASE, **options}
    made = connect.translate(given, start={"orders": {0: 1}})
    assert not [name for name in made.files if Path(name).name != name]
    for text in made.files.values():
        values = YAML(typ="safe").load(text)
        assert "evil" not in values
        # Wrong it may be, as the connector's options are, but then it is told so.
        with suppress(PipelineFileError):
            file.from_mapping(values, {**dict.fromkeys(made.environment, "x"), **ENVIRONMENT})
    assert {option.name for option in made.options} == set(given)


ROLE = "arn:aws:iam::123456789012:role/writer"
PROVIDER = "s3.credentials.provider"


@pytest.mark.parametrize(
    ("options", "storage"),
    [
        ({"s3.ssea.name": "AES256"}, {"encryption": {"type": "SSE-S3"}}),
        ({"s3.ssea.name": "aws:kms"}, {"encryption": {"type": "SSE-KMS"}}),
        (
            {"s3.ssea.name": "aws:kms", "s3.sse.kms.key.id": ENVIRONMENT["KMS_KEY_ARN"]},
            {"encryption": {"type": "SSE-KMS", "key": ENVIRONMENT["KMS_KEY_ARN"]}},
        ),
        (
            {"s3.ssea.name": "aws:kms", "s3.sse.kms.key.id": "1234abcd"},
            {"encryption": {"type": "SSE-KMS", "key": "${KMS_KEY_ARN}"}},
        ),
        (
            {"s3.ssea.name": "AES256", "s3.sse.customer.key": "hush"},
            {"encryption": {"type": "SSE-C", "key": "${SSE_CUSTOMER_KEY}"}},
        ),
        ({"s3.acl.canned": "bucket-owner-full-control"}, {"acl": "bucket-owner-full-control"}),
        ({"s3.acl.canned": "public-read"}, {"options": {"fs.s3a.acl.default": "PublicRead"}}),
        (
            {f"{PROVIDER}.sts.role.arn": ROLE, f"{PROVIDER}.sts.role.external.id": "us"},
            {"role": {"arn": ROLE, "external_id": "us"}},
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_how_s3_is_asked(options: Mapping[str, str], storage: Mapping[str, Any], tmp_path: Path) -> None:
    """Encryption, role and ACL become options of storage, and the file is good."""
    given = {**connectors.BASE, **options}
    found = YAML(typ="safe").load(next(iter(connect.translate(given).files.values())))["storage"]
    assert {name: value for name, value in found.items() if name != "region"} == storage
    assert imported(given, tmp_path)


def test_no_secret_is_written_or_told() -> None:
    """In the file stands a variable; the one that Connect's provider names, where there is one."""
    secrets = {
        **connectors.EXAMPLES["cloud"],
        "aws.secret.access.key": "${file:/opt/keys.properties:my.secret}",
        "value.converter.schema.registry.basic.auth.user.info": "u:hush-hush",
        "s3.proxy.password": "hush-hush",
        "s3.sse.customer.key": "hush-hush",
        "value.converter.schema.registry.url": "https://me:hush-hush@registry:8081",
        "s3.proxy.url": "https://me:hush-hush@proxy:3128",
        "store.url": "https://me:hush-hush@store:9000",
        "unknown.url": "https://me:hush-hush@store:9000",
    }
    made = connect.translate(secrets)
    assert "hush-hush" not in str(made)
    assert "${MY_SECRET}" in next(iter(made.files.values()))
    assert {"MY_SECRET", "KAFKA_API_SECRET", "SCHEMA_REGISTRY_USER_INFO"} <= set(made.environment)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector"}, "no S3 sink that is known"),
        ({"connector.class": "org.apache.iceberg.connect.IcebergSinkConnector"}, "no S3 sink that is known"),
        ({"name": "x"}, "connector.class is missing"),
        ({**connectors.BASE, "topics": " , "}, "neither topics nor topics.regex"),
    ],
)
def test_what_cannot_be_imported_is_refused(options: Mapping[str, str], said: str) -> None:
    """With a cure."""
    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        connect.translate(options)
    assert caught.value.cure


@pytest.mark.parametrize(
    "held",
    [
        dict(connectors.BASE),
        {"name": "orders", "config": {k: v for k, v in connectors.BASE.items() if k != "name"}},
        {"orders": {"info": {"name": "orders", "config": dict(connectors.BASE), "tasks": []}}},
        {"name": "orders", "config": {**connectors.BASE, "flush.size": 1000}, "tasks": [], "type": "sink"},
    ],
)
def test_json_is_read_in_each_of_its_forms(held: Mapping[str, Any], tmp_path: Path) -> None:
    """As a REST interface takes it and gives it, with numbers too."""
    path = tmp_path / "connector.json"
    path.write_text(json.dumps(held), encoding="utf-8")
    assert connect.read(path) == connectors.BASE


def test_properties_are_read_as_java_reads_them(tmp_path: Path) -> None:
    """Comments, colons, continued lines, escapes."""
    path = tmp_path / "connector.properties"
    path.write_text("# a\n! b\nname = x\ntopics: a,\\\n   b\npath.format='year'\\=YYYY\nempty=\n", encoding="utf-8")
    assert connect.read(path) == {"name": "x", "topics": "a,b", "path.format": "'year'=YYYY", "empty": ""}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n "name": "x"\n "config": {}\n}', ":3:2: not JSON: a comma is missing before it"),
        ('{"name": "x", }', ":1:15: not JSON"),
        ('{"a": {"b": "1"}, "c": {"d": "2"}}', "no options of one connector"),
        ('["a"]', "no options of one connector"),
        ('{"name": "x", "name": "y"}', "name stands twice"),
        ('{"config": {"topics": ["a"]}}', "topics: no text"),
        ("", "no options"),
        ("[" * 100_000, "nested too deeply"),
        ("a=\\u12", "u"),
    ],
)
def test_a_configuration_that_cannot_be_read_says_where(text: str, said: str, tmp_path: Path) -> None:
    """With the line, and never with what stands there, which may be a secret."""
    path = tmp_path / "connector.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape(said)):
        connect.read(path)


def test_the_brokers_have_the_name_that_the_stack_gives_them() -> None:
    """`eval "$(lakeingest stack env)"` set one name, the imported file asked for another, the pages for a third."""
    assert {*connect.translate(connectors.BASE).environment} <= {*Addresses(*"abcde").env()}


def test_the_command(tmp_path: Path) -> None:
    """Writes the files, tells of each option, and ends with 1 if something is impossible or unknown."""
    config = tmp_path / "connector.json"
    config.write_text(json.dumps({**connectors.BASE, "made.up": "1"}), encoding="utf-8")
    run = CliRunner()
    asked = ["import-confluent", str(config), "--to", str(tmp_path / "made")]
    found = run.invoke(app, [*asked, "--output", "json"])
    assert found.exit_code == 1
    told = json.loads(found.stdout)
    assert told["files"] == [str(tmp_path / "made" / "orders.yaml")]
    assert told["options"][0] == {
        "name": "made.up",
        "value": "1",
        "outcome": "unknown",
        "becomes": "",
        "why": "no option of this sink or of Connect that is known: correct it, or drop it",
    }
    again = run.invoke(app, asked)
    assert isinstance(again.exception, UsageError)
    assert "exists; nothing was written" in str(again.exception)
    text = run.invoke(app, [*asked, "--force"]).stdout
    # A path is not broken, however long it is on this machine.
    assert max(map(len, text.replace(str(tmp_path), "").splitlines())) <= 80
    config.write_text(json.dumps(connectors.BASE), encoding="utf-8")
    dry = run.invoke(app, ["import-confluent", str(config), "--dry-run", "--to", str(tmp_path / "other")])
    assert dry.exit_code == 0
    assert "path: s3a://lake/tables/orders" in dry.stdout
    assert not (tmp_path / "other").exists()
