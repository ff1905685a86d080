"""The outcome of each option that no function of `rules` decides: one table.

The names are those of Confluent's S3 sink (its configuration reference), Confluent Cloud's, the block-gzip sink's, and
Kafka Connect's own.
"""

from __future__ import annotations

import re
from typing import cast

from lakeingest.operations.connect.translation import Outcome, Translation

_TABLE = """
carried|decode.value|
    input.data.format
carried|decode.key|
    input.key.format
ignored||_key holds the key's bytes; write decode.key to decode it
    key.converter
changed|decode.on_null: quarantine|a record without a value is set aside; the task does not die
    behavior.on.null.values
changed|decode.on_null: write|such a row's partitions are null
    tombstone.encoded.partition
impossible||a strategy of one's own: records are read by their id all the same
    (value.converter.)?value.subject.name.strategy
ignored||registry.options say it by themselves
    value.converter.(schema.registry.)?(basic|bearer).auth.credentials.source
impossible||a Java keystore: write ssl.ca.location (PEM) into registry.options
    value.converter.schema.registry.ssl.*
ignored||write the context into registry.url: https://HOST/contexts/.NAME
    schema.context.name
changed|schema.columns|without a registry the declared columns hold; what is not declared goes to _rescued (FORWARD)
    schema.compatibility
ignored||the table's columns are those of the records: no other schema is generated for it
    schema.generator.class
ignored||schemas are read by their id, and kept as long as a run lasts
    (key|value).converter.(enhanced.avro.schema.support|enhanced.protobuf.schema.support|connect.meta.data|
    schemas.cache.(config|size)|auto.register.schemas|use.latest.version|use.latest.with.metadata|
    latest.compatibility.strict|latest.cache.*|scrub.invalid.names|normalize.schemas|max.schemas.per.subject|
    encoding|replace.null.with.default|ignore.default.for.nullables|key.subject.name.strategy|context.name|
    schema.registry.(request|retries|max.retries)(*)|schemaAutoRegistrationEnabled|avroRecordType|
    compression|compatibility|cacheSize|timeToLiveMillis|schemaName)
    enhanced.avro.schema.support connect.meta.data key.subject.name.strategy value.converter.schemas.enable
changed|decode.value|decimals, unions, enums, oneofs become columns by one rule, without options: see `lakeingest plan`
    (key|value).converter.(decimal.format|flatten.*|generate.*|int.for.enums|object.additional.properties|
    optional.for.*|use.optional.for.nonrequired|wrapper.for.*|allow.optional.map.keys|use.integer.for.enums)
    allow.optional.map.keys
ignored||the key is kept as it came
    key.converter.*
changed|decode|_topic, _partition, _offset, _timestamp, _key and _headers are columns of the table
    store.kafka.(keys|headers) format.include.keys
ignored||_topic, _partition, _offset, _timestamp, _key and _headers are columns of the table
    keys.format.class headers.format.class header.converter(.*)?
carried|partition|
    time.interval
ignored||off
    rotate.(schedule.)?interval.ms
ignored||a commit to the table is one conditional write, whatever the number of files
    enable.conditional.writes rotate.file.on.partition.change
impossible||a table has one schema, and no folder for each: make a pipeline for each topic
    s3.schema.partition.affix.type
carried|quarantine|refused records are kept, and can be replayed
    errors.tolerance
changed|quarantine|quarantine is the dead-letter queue, always: `lakeingest quarantine list FILE`
    errors.deadletterqueue.topic.name report.null.values.to.dlq reporter.(result|error).topic.name
ignored||quarantine is the dead-letter queue, always: `lakeingest quarantine list FILE`
    errors.deadletterqueue.* errors.log.(enable|include.messages) reporter.* errors.kafka.*
    auto.restart.on.user.error
ignored||retry.wait says how long a run tries again; nothing is lost where it ends
    retry.backoff.ms s3.retry.backoff.ms shutdown.timeout.ms errors.retry.(timeout|delay.max.ms) max.retries
carried|table.path|
    s3.bucket.name
changed|table.path|the table lies beside the sink's objects, under tables/
    topics.dir
changed|table.compression: zstd|Spark's Parquet has zstd, snappy, gzip and none
    parquet.codec
changed|table.compression|a table's files are Parquet, with the codec of table.compression
    format.class avro.codec s3.compression.type output.data.format format json.decimal.format
ignored||a table's files are named by Delta
    file.delim directory.delim filename.offset.zero.pad.width format.bytearray.(extension|separator)
    max.files.scan.limit format.(value|key).(delimiter|encoding)
ignored||Spark writes the files, with a memory and retries of its own
    s3.part.size s3.part.retries s3.elastic.buffer.(enable|init.capacity) s3.http.send.expect.continue
    s3.send.digest partitioner.max.open.files max.write.duration.ms s3.compression.level schema.cache.size
    schemas.cache.config compressed_(block|file)_size local.buffer.dir storage.class
ignored||AWS takes the bucket as part of the host's name
    s3.path.style.access.enabled
ignored||no role is named
    s3.credentials.provider.sts.role.(session.name|external.id)
impossible||an option of that provider's own: see storage.options
    s3.credentials.provider.*
ignored||empty
    s3.sse.customer.key
ignored||s3.ssea.name is not aws:kms
    s3.sse.kms.key.id
ignored||the bucket's own encryption holds
    s3.ssea.name
ignored||off
    s3.wan.mode
impossible||not understood: write fs.s3a.proxy.host and .port into storage.options
    s3.proxy.url
impossible||s3a writes no tags: let the bucket's lifecycle and inventory go by the table's prefix
    s3.object.tagging(.key.value.pairs)?
ignored||nothing is tagged
    s3.object.behavior.on.tagging.error
ignored||consumer.override.bootstrap.servers holds
    bootstrap.servers
ignored||the table's log holds the offsets; --offsets takes the group's once; source.commit_to_group shows the lag
    consumer.override.group.id
carried|source.options|a variable of the environment takes the secret's place
    kafka.(key|secret)
ignored||Spark shares the partitions out among its cores; one pipeline reads all
    tasks.max(.enforce)? config.action.reload
    consumer.override.(max.poll.*|fetch.*|max.partition.fetch.bytes|session.timeout.ms|heartbeat.interval.ms|
    partition.assignment.strategy|client.id|request.timeout.ms|receive.buffer.bytes)
ignored||it tunes Connect's consumer; what brokers ask for is written as source.options, in librdkafka's names
    consumer.override.*
ignored||it is for Confluent Cloud's own service
    kafka.(auth.mode|service.account.id|endpoint|region|cluster.id) csfle.* sr.service.account.id
    authentication.method provider.integration.id customer.managed.* confluent.(license|topic)(.*)?
    cloud.(environment|provider) max.poll.(interval.ms|records)
"""
"""A line with outcome|option of the pipeline file that it becomes|reason, and below it the options' names.

In a name a dot is a dot, * stands for any text, and (a|b) is a choice; a line that ends with | goes on in the next.
The first row that has a name holds.
"""


def _pattern(names: str) -> re.Pattern[str]:
    joined = "|".join(re.sub(r"\|\s+", "|", names).split())
    return re.compile(joined.replace(".", r"\.").replace("*", ".*"), re.DOTALL)


_ROWS = tuple(
    (cast("Outcome", outcome), becomes, why, _pattern(names))
    for outcome, becomes, why, names in re.findall(r"(\w+)\|(.*)\|(.*)\n((?: +.*\n)+)", _TABLE)
)


def of_others(t: Translation) -> None:
    """Tell of each option that no rule has decided."""
    for name in list(t.options):
        for outcome, becomes, why, pattern in _ROWS:
            if pattern.fullmatch(name):
                t.tell(name, outcome, becomes, why)
                break
        else:
            t.tell(name, "unknown", why="no option of this sink or of Connect that is known: correct it, or drop it")
