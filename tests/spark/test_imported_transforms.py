"""What becomes of a record by the transforms of a connector, as Kafka Connect's documentation and source have it."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from ruamel.yaml import YAML
from support.pipelines import connectors

from lakeingest import transform
from lakeingest.config import file
from lakeingest.operations import connect
from lakeingest.record import HEADERS
from lakeingest.schema import ddl, transforms
from lakeingest.spark import types

DDL = "id INT, a STRING, b STRING, card STRING, at TIMESTAMP"
WHOLE: dict[str, Any] = {"id": 1, "a": "x", "b": "5", "card": "4111", "at": "2015-04-02T08:00:00.123456Z"}
FILTER = {"type": f"{connectors.SMT}Filter", "predicate": "p"}
ROUTER = {"type": f"{connectors.SMT}RegexRouter", "regex": "(.*)s", "replacement": "$1_raw"}
HEADER = {"type": f"{connectors.SMT}predicates.HasHeaderKey", "name": "h"}
TOPIC = {"type": f"{connectors.SMT}predicates.TopicNameMatches", "pattern": "orders"}
DROP = connectors.TRANSFORMS["ReplaceField (drop)"]


def without(*names: str, **more: Any) -> dict[str, Any]:
    return {name: value for name, value in {**WHOLE, **more}.items() if name not in names}


def named(name: str) -> tuple[dict[str, str], ...]:
    return (dict(connectors.TRANSFORMS[name]),)


BROKERS, UNIX = {"KAFKA_BOOTSTRAP_SERVERS": "kafka:9092"}, 1_427_961_600_123
RUNS: dict[str, tuple[tuple[dict[str, str], ...], dict[str, str], dict[str, Any] | None]] = {
    **{
        name: (named(name), {}, expected)
        for name, expected in {
            "ReplaceField (drop)": without("a", "b"),
            "ReplaceField (keep, rename)": {"x": "x", "b": "5"},
            # `exclude` is stronger than `include`; a field that is left out is not renamed.
            "ReplaceField (drop, keep, rename)": {"x": "x", "id": 1},
            "ReplaceField (swap)": without(a="5", b="x"),
            "Cast": None,
            "MaskField": without(card=None),
            "MaskField (with a text)": without(card="hidden"),
            "InsertField": without(topic="orders", at=42),
            "InsertField (static)": without(site="it's"),
            "InsertField (all)": without(t="orders", p=3, o=42, ts="2024-01-01T00:00:00.000000Z", site="it's"),
            "InsertField (own names)": without(t="orders", o=42),
            "InsertField (no value)": WHOLE,
            "TimestampConverter (unix)": without(at=UNIX),
            "TimestampConverter (unix, seconds)": without(at=UNIX // 1000),
            "TimestampConverter (unix, milliseconds)": without(at=UNIX),
            "TimestampConverter (unix, microseconds)": without(at=UNIX * 1000 + 456),
            "TimestampConverter (unix, nanoseconds)": without(at=UNIX * 1_000_000 + 456_000),
            "TimestampConverter (date)": without(at="2015-04-02"),
            "TimestampConverter (timestamp)": WHOLE,
            "HeaderFrom (move)": without("a", "b"),
            "HeaderFrom (copy)": WHOLE,
            "SetSchemaMetadata": WHOLE,
            "ValueToKey": WHOLE,
            "ExtractField (key)": WHOLE,
            "InsertHeader": WHOLE,
            "TombstoneHandler": WHOLE,
        }.items()
    },
    "Cast (what fits)": (
        ({"type": f"{connectors.SMT}Cast$Value", "spec": "b:int64,id:string"},),
        {},
        without(b=5, id="1"),
    ),
    "Filter": ((FILTER,), HEADER, None),
    "Filter, negated": (({**FILTER, "negate": "true"},), HEADER, WHOLE),
    "of the topic": (({**DROP, "predicate": "p"},), TOPIC, without("a", "b")),
    "of other topics": (({**DROP, "predicate": "p", "negate": "true"},), TOPIC, WHOLE),
    "behind a router": ((ROUTER, {**DROP, "predicate": "p"}), TOPIC, WHOLE),
    "of a routed topic": ((ROUTER, *named("InsertField")), {}, without(topic="order_raw", at=42)),
}
"""A chain of transforms, a predicate p, and what becomes of the record, which has a header h; None where it is gone."""


def test_what_becomes_of_a_record(spark: SparkSession) -> None:
    """What is carried, or changed, does what the connector does; it was never run."""
    kafka = spark.sql(
        f"SELECT 'orders' AS _topic, 3 AS _partition, 42L AS _offset, TIMESTAMP'2024-01-01 00:00:00Z' AS _timestamp, "
        f"array(struct('h' AS key, X'31' AS value)) AS {HEADERS}, 1 AS id, 'x' AS a, '5' AS b, '4111' AS card, "
        "TIMESTAMP'2015-04-02 08:00:00.123456Z' AS at"
    )
    frames = []
    for name, (chain, predicate, _) in RUNS.items():
        options = {
            **connectors.BASE,
            "value.converter": connectors.JSON,
            "value.converter.schemas.enable": "false",
            "transforms": ",".join(f"t{n}" for n, _ in enumerate(chain)),
            **{f"transforms.t{n}.{o}": value for n, given in enumerate(chain) for o, value in given.items()},
            **{f"predicates.p.{o}": value for o, value in predicate.items()},
        }
        made = connect.translate(options, columns={"orders": DDL})
        assert not [each for each in made.options if each.outcome in ("impossible", "unknown")], name
        (text,) = made.files.values()
        config = file.from_mapping(
            YAML(typ="safe").load(text), {**dict.fromkeys(made.environment, "k" * 32), **BROKERS}
        )
        stages = tuple(transforms.stages(config.steps, ddl.parse(DDL)))
        frame = transform.frame(kafka, stages, types.of_columns(stages[-1].after)) if stages else kafka
        values = F.to_json(
            F.struct(*(column.name for column in config.columns)),
            {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"},
        )
        gone = (F.col(transform.LEFT_OUT).isNotNull() | F.col(transform.FAILED).isNotNull()) if stages else F.lit(False)
        frames.append(frame.select(F.lit(name).alias("name"), F.when(~gone, values).alias("json")))
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionAll(frame)
    found = {row["name"]: json.loads(row["json"]) if row["json"] else None for row in whole.collect()}
    assert found == {name: expected for name, (_, _, expected) in RUNS.items()}
