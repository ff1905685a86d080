"""Checks between the parts of a pipeline file: format and columns, columns and partitions, table and quarantine.

Pure: parts in, mistakes out. A part that is wrong in itself comes as None, so that the others are checked all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from lakeingest.config import contract as promises
from lakeingest.config import envelope, hiding, maintenance, partition_format, parts, row_mode, table_places
from lakeingest.config.base import Mistake, no_column
from lakeingest.config.contract import Contract
from lakeingest.config.formats import AvroFormat, JsonValue, brings_schema, uses_registry
from lakeingest.config.maintenance import Maintenance, RetentionOptions
from lakeingest.config.source import Registry, Source
from lakeingest.config.storage import Storage
from lakeingest.config.transform import Transform
from lakeingest.config.values import SchemaFile
from lakeingest.record import RESERVED
from lakeingest.schema import ddl, model, transforms
from lakeingest.schema.model import SchemaError
from lakeingest.schema.readers import WIDENING, Reader, shut_out
from lakeingest.schema.transforms import TransformError

_TIME_TYPES = ("timestamp", "timestamp_ntz", "date", "int", "bigint", "string")
_FIELD_TYPES = ("tinyint", "smallint", "int", "bigint", "string", "boolean")
_COMPATIBILITY: dict[str, parts.Compatibility] = {"json": "FORWARD", "string": "NONE", "bytes": "NONE"}


def columns(decode: parts.Decode, schema: parts.Schema) -> tuple[ddl.Column, ...]:
    """The columns that a record's value becomes: the declared ones, the schema file's, or `value` for text and bytes.

    None where each record names its schema, or brings it: nobody has looked at one yet.
    """
    value = decode.value
    if brings_schema(value):
        return ()
    match value:
        case AvroFormat(schema_file=SchemaFile() as file):
            return file.columns(schema.names)
        case JsonValue():
            return ddl.parse(envelope.declared(decode.envelope, schema.columns)) if schema.columns else ()
        case _:
            return (ddl.Column("value", ddl.Atomic("string" if value.format == "string" else "binary")),)


def compatibility(decode: parts.Decode, schema: parts.Schema) -> parts.Compatibility:
    """When a record with another schema than the table's is written: as the file says, or by its format."""
    return schema.compatibility or _COMPATIBILITY.get(decode.value.format, "BACKWARD")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a file that are right in themselves; `partition` maps a position in the list to its part."""

    decode: parts.Decode | None
    schema: parts.Schema | None
    partition: Mapping[int, parts.Partition]
    table: parts.Table | None = None
    quarantine: parts.Quarantine | None = None
    gate: parts.Gate | None = None
    storage: Storage | None = None
    readers: Collection[Reader] = ()
    transform: Sequence[Transform] = ()
    registry: Registry | None = None
    contract: Contract | None = None
    trigger: parts.Trigger | None = None
    source: Source | None = None
    maintenance: Maintenance | None = None
    retention: RetentionOptions | None = None


def mistakes(file: Parts) -> Iterator[Mistake]:
    """Every disagreement between the parts."""
    decode, schema, table, partition = file.decode, file.schema, file.table, file.partition
    declared: tuple[ddl.Column, ...] = ()
    yield from _source(file.source, file.contract)
    yield from maintenance.mistakes(file.maintenance, file.retention, file.contract)
    if decode:
        yield from _subjects(decode)
        yield from _of_glue(decode, file.registry)
        yield from envelope.mistakes(decode, schema, table, file.transform)
    if decode and schema:
        yield from _format(decode, schema)
        wrong_files = tuple(_schema_files(decode, schema))
        yield from wrong_files
        if not wrong_files:
            yield from _of_schemas(decode, schema)
            declared = columns(decode, schema)
    declared, wrong = _transformed(file.transform, declared)
    yield from (Mistake(("transform", *each.path), each.text) for each in wrong)
    rule = compatibility(decode, schema) if decode and schema else None
    yield from (Mistake(*m) for m in hiding.mistakes(decode, rule, file.quarantine, [t.step for t in file.transform]))
    yield from _partition(partition, declared)
    if schema and schema.widening == "metadata" and (shut := shut_out(file.readers, {WIDENING})):
        yield Mistake(
            ("schema", "widening"),
            f'"metadata" shuts out {", ".join(shut)}, which {"is" if len(shut) == 1 else "are"} among the readers and '
            "cannot read widened columns; write rewrite or refuse, or drop schema.widening",
        )
    if table:
        yield from row_mode.mistakes(table, decode, declared)
        yield from table_places.catalog(table, file.quarantine, file.contract)
    if table and not table.identifier:
        yield Mistake(
            ("table", "path"), "required, and missing; write where the table lies, as in 's3a://lake/flights'"
        )
    else:
        yield from table_places.overlaps(table, file.quarantine, file.gate, file.contract, file.source)
    yield from _contract(
        file.contract, decode, schema, partition, comment=table.comment if table else None, trigger=file.trigger
    )
    if table and file.quarantine and file.storage and file.storage.model_fields_set:
        yield from table_places.buckets(file.storage, table, file.quarantine, file.gate)


def _partition(partition: Mapping[int, parts.Partition], declared: tuple[ddl.Column, ...]) -> Iterator[Mistake]:
    for position, part in partition.items():
        if isinstance(part, parts.TimePartition) and part.extract in ("record", "wallclock") and part.field:
            yield Mistake(
                ("partition", position, "extract"),
                f'"{part.extract}" takes no field, but field is "{part.field}"; drop one of the two',
            )
        if declared and not isinstance(part, parts.KafkaPartition) and part.field:
            yield from _field(position, part, declared)
    yield from (Mistake(*m) for m in partition_format.mistakes(partition, [column.name for column in declared]))


def _source(source: Source | None, contract: Contract | None) -> Iterator[Mistake]:
    if source is None or source.table is None:
        if source and not source.topics:
            yield Mistake(("source", "topics"), "required, and missing; as in topics: [flights]")
        return
    for name in ("bootstrap_servers", "start", "options"):
        # The default is no contradiction, only what the file itself says.
        if name in source.model_fields_set:
            yield Mistake(
                ("source", name),
                "is of Kafka, which is not asked where source.table is named: the table is read from its beginning; "
                "drop one of the two",
            )
    if contract and contract.completeness:
        yield Mistake(
            ("contract", "completeness"),
            "Kafka alone can tell until when a table is complete, and it is not asked where source.table is named; "
            "promise it of the table that source.table names, or drop one of the two",
        )


def _contract(
    contract: Contract | None,
    decode: parts.Decode | None,
    schema: parts.Schema | None,
    partition: Mapping[int, parts.Partition],
    *,
    comment: str | None,
    trigger: parts.Trigger | None,
) -> Iterator[Mistake]:
    if contract is None:
        return
    is_typed = decode and schema and decode.value.format not in ("string", "bytes")
    pairs = promises.mistakes(
        contract,
        partition,
        trigger=trigger,
        compatibility=compatibility(decode, schema) if decode and schema and is_typed else None,
        comment=comment,
    )
    yield from (Mistake(where, text) for where, text in pairs)


def _transformed(
    transform: Sequence[Transform], declared: tuple[ddl.Column, ...]
) -> tuple[tuple[ddl.Column, ...], tuple[TransformError, ...]]:
    """The columns behind the transforms, none where they are not known; and what is wrong with a transform."""
    steps = [each.step for each in transform]
    # What code of somebody's own makes, only running it tells.
    before = list(takewhile(lambda step: step.kind != "own", steps)) if declared else []
    try:
        columns = transforms.apply(before, declared)
        transforms.check_alone(steps)
    except TransformError as wrong:
        return (), (wrong,)
    return columns if len(before) == len(steps) else (), ()


def _subjects(decode: parts.Decode) -> Iterator[Mistake]:
    for side, part in (("value", decode.value), ("key", decode.key)):
        # The default is no contradiction, only what the file itself says.
        if isinstance(part, AvroFormat) and part.schema_file and "subject" in part.model_fields_set:
            yield Mistake(
                ("decode", side, "subject"),
                "schema_file means plain records that no subject of the registry belongs to; drop one of the two",
            )
        if isinstance(part, JsonValue) and part.lost_epoch:
            yield Mistake(("decode", side, "epoch"), part.lost_epoch)


def _of_glue(decode: parts.Decode, registry: Registry | None) -> Iterator[Mistake]:
    if registry is None or registry.glue is None:
        return
    for side, part in (("value", decode.value), ("key", decode.key)):
        if uses_registry(part) and "subject" in part.model_fields_set:
            yield Mistake(
                ("decode", side, "subject"),
                "has no meaning with registry.glue, where the id in a record names one version of one schema; drop it",
            )


def _format(decode: parts.Decode, schema: parts.Schema) -> Iterator[Mistake]:
    where, name = ("schema", "columns"), decode.value.format
    text = name in ("string", "bytes")
    if name == "json" and not schema.columns:
        yield Mistake(where, "required, and missing; declare the value's fields, as in 'flight INT, carrier STRING'")
    if name != "json" and schema.columns:
        reason = "whose one column is called value" if text else "whose columns the schema of the records gives"
        cure = "drop schema.columns, or write format: json"
        yield Mistake(where, f"not for decode.value.format {name}, {reason}; {cure}")
    if name == "json" and schema.columns and compatibility(decode, schema) != "FORWARD":
        for path in ddl.sources(ddl.parse(schema.columns)):
            yield Mistake(
                where,
                f"{path}: FROM needs schema.compatibility FORWARD, as under the others fields that are not declared "
                "become columns of their own names; write FORWARD, or declare the column under the field's name",
            )
    if text and schema.compatibility:
        yield Mistake(
            ("schema", "compatibility"),
            f"not for decode.value.format {name}, which has no schema that could change; drop schema.compatibility",
        )
    if decode.on_null == "write" and decode.value.format == "json" and schema.columns:
        required = ", ".join(c.name for c in ddl.parse(schema.columns) if not c.nullable)
        if required:
            yield Mistake(
                ("decode", "on_null"),
                f'"write" needs columns that may be null, but NOT NULL is declared for {required}; '
                "drop NOT NULL, or write quarantine or ignore",
            )


def _of_schemas(decode: parts.Decode, schema: parts.Schema) -> Iterator[Mistake]:
    for name in ("unsupported", "names"):
        # A default that is written out is no contradiction.
        if getattr(schema, name) != parts.Schema.model_fields[name].default and decode.value.format in (
            "json",
            "string",
            "bytes",
        ):
            yield Mistake(
                ("schema", name),
                f"not for decode.value.format {decode.value.format}, whose records bring no schema; drop it",
            )
    if schema.unsupported != "refuse":
        return
    for side, part in (("value", decode.value), ("key", decode.key)):
        if isinstance(part, AvroFormat) and part.schema_file:
            for place, reason in islice(model.json_parts(part.schema_file.schema), 1):
                yield Mistake(
                    ("decode", side, "schema_file"),
                    f"{place or 'the schema'} {reason}, which no typed column can hold, and schema.unsupported is "
                    "refuse; write schema.unsupported: json, and it becomes JSON text",
                )


def _schema_files(decode: parts.Decode, schema: parts.Schema) -> Iterator[Mistake]:
    for side, part in (("value", decode.value), ("key", decode.key)):
        if not isinstance(part, AvroFormat) or not part.schema_file:
            continue
        where, file = ("decode", side, "schema_file"), f'"{part.schema_file}"'
        try:
            names = [column.name for column in part.schema_file.columns(schema.names)]
        except SchemaError as error:
            yield Mistake(where, f"{file} is not an Avro schema that can be used: {error}; correct that file")
            continue
        if reserved := ", ".join(name for name in names if name.lower() in RESERVED):
            yield Mistake(
                where,
                f"{file}: {reserved} is lakeingest's own name of a column; rename it, or name it in schema.names",
            )


def _field(
    position: int, part: parts.TimePartition | parts.FieldPartition, declared: tuple[ddl.Column, ...]
) -> Iterator[Mistake]:
    where, name = ("partition", position, "field"), str(part.field)
    column = ddl.find(declared, name)
    if column is None:
        yield no_column(where, name, [c.name for c in declared])
        return
    allowed = _TIME_TYPES if isinstance(part, parts.TimePartition) else _FIELD_TYPES
    if str(column.type) not in allowed:
        yield Mistake(
            where,
            f'"{name}" is {column.type}, which cannot be partitioned by {part.by}; '
            f"choose a field of type {', '.join(allowed)}",
        )
