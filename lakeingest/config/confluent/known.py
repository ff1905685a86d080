"""Options that need no rule: each group has one reason why nothing comes of it here.

The names are those of Confluent's S3 sink (its configuration reference), Confluent Cloud's, Kafka Connect's own, and of
the other sinks.
"""

from __future__ import annotations

import re

from lakeingest.config.confluent.translation import Outcome, Translation

_SPARK_WRITES = "Spark writes the files, with a memory and retries of its own"
_NO_OBJECTS = "a table's files are named by Delta"
_DELTA_COMMITS = "a commit to the table is one conditional write, whatever the number of files"
_COORDINATES = "_topic, _partition, _offset, _timestamp, _key and _headers are columns of the table"
_QUARANTINE = "quarantine is the dead-letter queue, always: `lakeingest quarantine list FILE`"
_PARQUET = "a table's files are Parquet, with the codec of table.compression"
_RETRY = "retry.wait says how long a run tries again; nothing is lost where it ends"
_CLOUD = "it is for Confluent Cloud's own service"
_TASKS = "Spark shares the partitions out among its cores; one pipeline reads all"
_REGISTRY = "schemas are read by their id, and kept as long as a run lasts"
_COLUMNS = "decimals, unions, enums and oneofs become columns by one rule, without options: see `lakeingest plan`"
_OWN_COLUMNS = "the table's columns are those of the records: no other schema is generated for it"
_CONSUMER = "it tunes Connect's consumer; what brokers ask for is written as source.options, in librdkafka's names"
_ICEBERG = "the table is a Delta table, whose log is its catalog"

_GROUPS: tuple[tuple[Outcome, str, str], ...] = (
    (
        "ignored",
        _SPARK_WRITES,
        r"s3\.part\.size|s3\.part\.retries|s3\.elastic\.buffer\.(enable|init\.capacity)|s3\.http\.send\.expect\.continue|"
        r"s3\.send\.digest|partitioner\.max\.open\.files|max\.write\.duration\.ms|s3\.compression\.level|"
        r"schema\.cache\.size|schemas\.cache\.config|compressed_(block|file)_size|local\.buffer\.dir|storage\.class|"
        r"connect\.s3\.(local\.tmp\.directory|pool\.max\.connections|http\..*|seek\.max\.files)|aws\.s3\.fetch\..*|"
        r"aws\.s3\.buffer\.size",
    ),
    (
        "ignored",
        _NO_OBJECTS,
        r"file\.delim|directory\.delim|filename\.offset\.zero\.pad\.width|format\.bytearray\.(extension|separator)|"
        r"max\.files\.scan\.limit|file\.name\.template|file\.name\.timestamp\.source|timestamp\.source|"
        r"file\.prefix\.template|format\.(value|key)\.(delimiter|encoding)|connect\.s3\.(padding\..*|indexes\..*)",
    ),
    (
        "ignored",
        _DELTA_COMMITS,
        r"enable\.conditional\.writes|rotate\.file\.on\.partition\.change|connect\.s3\.(exactly\.once\.enable|"
        r"disable\.flush\.count|ordering\.type|delete\.mode|write\.mode)",
    ),
    (
        "changed",
        _COORDINATES,
        r"store\.kafka\.(keys|headers)|format\.output\.fields|format\.output\.envelope|output_fields|"
        r"format\.output\.fields\.value\.encoding|format\.include\.keys|connect\.s3\.source\.write\.watermark\.headers",
    ),
    (
        "ignored",
        _COORDINATES,
        r"keys\.format\.class|headers\.format\.class|header\.converter(\..*)?",
    ),
    (
        "changed",
        _QUARANTINE,
        r"errors\.deadletterqueue\.topic\.name|report\.null\.values\.to\.dlq|reporter\.(result|error)\.topic\.name",
    ),
    (
        "ignored",
        _QUARANTINE,
        r"errors\.deadletterqueue\..*|errors\.log\.(enable|include\.messages)|reporter\..*|errors\.kafka\..*|"
        r"auto\.restart\.on\.user\.error",
    ),
    (
        "changed",
        _PARQUET,
        r"format\.class|avro\.codec|s3\.compression\.type|output\.data\.format|format\.output\.type|format|"
        r"json\.decimal\.format",
    ),
    (
        "ignored",
        _RETRY,
        r"retry\.backoff\.ms|s3\.retry\.backoff\.ms|shutdown\.timeout\.ms|errors\.retry\.(timeout|delay\.max\.ms)|"
        r"aws\.s3\.backoff\..*|connect\.s3\.(max\.retries|retry\.interval|error\.policy)|max\.retries|"
        r"iceberg\.control\.commit\.timeout-ms",
    ),
    (
        "ignored",
        _CLOUD,
        r"kafka\.(auth\.mode|service\.account\.id|endpoint|region|cluster\.id)|csfle\..*|sr\.service\.account\.id|"
        r"authentication\.method|provider\.integration\.id|customer\.managed\..*|confluent\.(license|topic)(\..*)?|"
        r"connect\.progress\.enabled|cloud\.(environment|provider)|max\.poll\.(interval\.ms|records)",
    ),
    (
        "ignored",
        _TASKS,
        r"tasks\.max(\.enforce)?|config\.action\.reload|iceberg\.control\.commit\.threads|"
        r"consumer\.override\.(max\.poll\..*|fetch\..*|max\.partition\.fetch\.bytes|session\.timeout\.ms|"
        r"heartbeat\.interval\.ms|partition\.assignment\.strategy|client\.id|request\.timeout\.ms|receive\.buffer\.bytes)",
    ),
    ("ignored", _CONSUMER, r"consumer\.override\..*"),
    ("ignored", _OWN_COLUMNS, r"schema\.generator\.class"),
    (
        "ignored",
        _REGISTRY,
        r"(key|value)\.converter\.(enhanced\.avro\.schema\.support|enhanced\.protobuf\.schema\.support|"
        r"connect\.meta\.data|schemas\.cache\.(config|size)|auto\.register\.schemas|use\.latest\.version|"
        r"use\.latest\.with\.metadata|latest\.compatibility\.strict|latest\.cache\..*|scrub\.invalid\.names|"
        r"normalize\.schemas|max\.schemas\.per\.subject|encoding|replace\.null\.with\.default|ignore\.default\.for\.nullables|"
        r"key\.subject\.name\.strategy|context\.name|schema\.registry\.(request|retries|max\.retries).*|"
        r"schemaAutoRegistrationEnabled|avroRecordType|compression|compatibility|cacheSize|timeToLiveMillis|schemaName)|"
        r"enhanced\.avro\.schema\.support|connect\.meta\.data|key\.subject\.name\.strategy|value\.converter\.schemas\.enable",
    ),
    (
        "changed",
        _COLUMNS,
        r"(key|value)\.converter\.(decimal\.format|flatten\..*|generate\..*|int\.for\.enums|object\.additional\.properties|"
        r"optional\.for\..*|use\.optional\.for\.nonrequired|wrapper\.for\..*|allow\.optional\.map\.keys|"
        r"use\.integer\.for\.enums)|allow\.optional\.map\.keys",
    ),
    ("ignored", "the key is kept as it came", r"key\.converter\..*"),
    (
        "impossible",
        "s3a writes no tags: let the bucket's lifecycle and inventory go by the table's prefix",
        r"s3\.object\.tagging(\.key\.value\.pairs)?|connect\.s3\.tags",
    ),
    ("ignored", "nothing is tagged", r"s3\.object\.behavior\.on\.tagging\.error"),
    (
        "impossible",
        "a table has one schema, and no folder for each: make a pipeline for each topic",
        r"s3\.schema\.partition\.affix\.type",
    ),
    (
        "impossible",
        "the table is changed by appending alone: rows are never updated by a key",
        r"iceberg\.tables\.(upsert-mode-enabled|cdc-field|default-id-columns)",
    ),
    (
        "impossible",
        "one table takes all records of a topic: write a pipeline for each, with transform: [{where: …}]",
        r"iceberg\.tables\.(route-field|dynamic-enabled)|iceberg\.table\..*",
    ),
    ("ignored", _ICEBERG, r"iceberg\.(catalog|hadoop|kafka|control|connect|coordinator|hadoop-conf-dir|tables)(\..*)?"),
)
_COMPILED = tuple((outcome, why, re.compile(pattern)) for outcome, why, pattern in _GROUPS)
_BECOMES = {_PARQUET: "table.compression", _QUARANTINE: "quarantine", _COORDINATES: "decode", _COLUMNS: "decode.value"}


def rest(t: Translation) -> None:
    """Tell of the options that no rule has taken; one that nobody knows is unknown."""
    for name in list(t.given):
        for outcome, why, pattern in _COMPILED:
            if pattern.fullmatch(name):
                t.tell(name, outcome, _BECOMES.get(why, "") if outcome == "changed" else "", why)
                break
        else:
            t.tell(name, "unknown", why="no option of this sink or of Connect that is known: correct it, or drop it")
