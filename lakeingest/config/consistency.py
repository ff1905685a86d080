"""What the parts of a pipeline file must agree on: format and columns, columns and partitions, table and quarantine.

Pure: parts in, mistakes out. A part that is wrong in itself comes as None, so that the others are checked all the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import combinations, takewhile

from lakeingest.config import contract as promises
from lakeingest.config import hiding, location, partition_format, parts
from lakeingest.config.contract import Contract
from lakeingest.config.formats import AvroFormat, JsonValue, ProtobufFormat, uses_registry
from lakeingest.config.storage import Storage
from lakeingest.config.transform import Transform
from lakeingest.config.values import SchemaFile
from lakeingest.schema import ddl, transforms
from lakeingest.schema.readers import WIDENING, Reader, shut_out
from lakeingest.schema.transforms import TransformError

_TIME_TYPES = ("timestamp", "timestamp_ntz", "date", "int", "bigint", "string")
_FIELD_TYPES = ("tinyint", "smallint", "int", "bigint", "string", "boolean")
_COMPATIBILITY: dict[str, parts.Compatibility] = {"json": "FORWARD", "string": "NONE", "bytes": "NONE"}
_GLUE_NAME = re.compile(r"[a-z0-9_]{1,255}\.[a-z0-9_]{1,255}")
"""database.table: Athena knows names of these characters, and Glue folds upper case."""


@dataclass(frozen=True)
class Mistake:
    """One disagreement: where (option names and positions), and what it is, cure included."""

    path: tuple[str | int, ...]
    text: str


def columns(decode: parts.Decode, schema: parts.Schema) -> tuple[ddl.Column, ...]:
    """The columns that a record's value becomes: the declared ones, the schema file's, or `value` for text and bytes.

    None where each record names its schema in the registry: nobody has asked there yet.
    """
    value = decode.value
    if uses_registry(value):
        return ()
    match value:
        case AvroFormat(schema_file=SchemaFile() as file):
            return file.columns
        case JsonValue():
            return ddl.parse(schema.columns) if schema.columns else ()
        case _:
            return (ddl.Column("value", ddl.Atomic("string" if value.format == "string" else "binary")),)


def aside(table: parts.Table, quarantine: parts.Quarantine) -> str:
    """What the table of refused records is known by: a path, or a name."""
    return quarantine.identifier or table.identifier.rstrip("/") + "_quarantine"


def results(table: parts.Table, gate: parts.Gate | None) -> str:
    """What the table of a gate's results is known by: a path, or a name."""
    return (gate.results if gate else None) or table.identifier.rstrip("/") + "_expectations"


def completeness(table: parts.Table, contract: Contract | None) -> str:
    """What the table of completeness is known by: a path, or a name."""
    followed = contract.completeness if contract else None
    return (followed.table if followed else None) or table.identifier.rstrip("/") + "_completeness"


def compatibility(decode: parts.Decode, schema: parts.Schema) -> parts.Compatibility:
    """When a record with another schema than the table's is written: as the file says, or by its format."""
    return schema.compatibility or _COMPATIBILITY.get(decode.value.format, "BACKWARD")


def mistakes(
    decode: parts.Decode | None,
    schema: parts.Schema | None,
    partition: Mapping[int, parts.Partition],
    *,
    table: parts.Table | None,
    quarantine: parts.Quarantine | None,
    gate: parts.Gate | None,
    storage: Storage | None,
    readers: Collection[Reader],
    transform: Sequence[Transform] = (),
    registry: parts.Registry | None = None,
    contract: Contract | None = None,
    trigger: parts.Trigger | None = None,
    source: parts.Source | None = None,
) -> Iterator[Mistake]:
    """Every disagreement between the parts that are given; `partition` maps a position in the list to its part."""
    declared: tuple[ddl.Column, ...] = ()
    yield from _source(source, contract)
    if decode:
        yield from _subjects(decode)
        yield from _of_glue(decode, registry)
    if decode and schema:
        yield from _format(decode, schema)
        declared = columns(decode, schema)
    declared, wrong = _transformed(transform, declared)
    yield from (Mistake(("transform", *each.path), each.text) for each in wrong)
    rule = compatibility(decode, schema) if decode and schema else None
    steps = [each.step for each in transform]
    yield from (Mistake(*each) for each in hiding.mistakes(decode, rule, quarantine, steps))
    for position, part in partition.items():
        if isinstance(part, parts.TimePartition) and part.extract in ("record", "wallclock") and part.field:
            yield Mistake(
                ("partition", position, "extract"),
                f'"{part.extract}" takes no field, but field is "{part.field}"; drop one of the two',
            )
        if declared and not isinstance(part, parts.KafkaPartition) and part.field:
            yield from _field(position, part, declared)
    for where, text in partition_format.mistakes(partition, [column.name for column in declared]):
        yield Mistake(where, text)
    if schema and schema.widening == "metadata" and (shut := shut_out(readers, {WIDENING})):
        yield Mistake(
            ("schema", "widening"),
            f'"metadata" shuts out {", ".join(shut)}, which {"is" if len(shut) == 1 else "are"} among the readers and '
            "cannot read widened columns; write rewrite or refuse, or drop schema.widening",
        )
    if table:
        yield from _catalog(table, quarantine, contract)
    if table and not table.identifier:
        yield Mistake(
            ("table", "path"), "required, and missing; write where the table lies, as in 's3a://lake/flights'"
        )
    else:
        yield from _places(table, quarantine, gate, contract, source)
    yield from _contract(contract, decode, schema, partition, comment=table.comment if table else None, trigger=trigger)
    if table and quarantine and storage and storage.model_fields_set:
        yield from _buckets(storage, table, quarantine, gate)


def _buckets(
    storage: Storage, table: parts.Table, quarantine: parts.Quarantine, gate: parts.Gate | None
) -> Iterator[Mistake]:
    tables = [each for each in (table.identifier, quarantine.identifier, gate and gate.results) if each]
    if table.name and not any(map(location.is_path, tables)):
        yield Mistake(
            ("storage",),
            "says how the buckets of paths are reached, and the tables have names alone; drop it, and let the "
            "Spark session reach the buckets of its catalog (spark.hadoop.fs.s3a.…)",
        )
    if strange := sorted(storage.access_points.keys() - {location.place(each).bucket for each in tables}):
        yield Mistake(
            ("storage", "access_points"),
            f"names {', '.join(strange)}, which is the bucket of no table; its keys are the buckets of table.path, "
            "quarantine.path and gate.results",
        )


def _source(source: parts.Source | None, contract: Contract | None) -> Iterator[Mistake]:
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


def notices(declared: Sequence[ddl.Column], partition: Sequence[parts.Partition]) -> Iterator[str]:
    """What is no mistake, but depends on what the records bring: a text may be a time, or none."""
    for position, part in enumerate(partition):
        if not isinstance(part, parts.TimePartition) or not part.field:
            continue
        column = ddl.find(declared, part.field)
        if column is not None and str(column.type) == "string":
            yield (
                f"partition[{position}]: {part.field} is a text: where it is an ISO-8601 date or time "
                "(2024-02-29T23:30:00Z), or milliseconds since 1970, the record has a partition; any other goes to "
                "quarantine (NO_PARTITION_TIME)"
            )


def _subjects(decode: parts.Decode) -> Iterator[Mistake]:
    for side, part in (("value", decode.value), ("key", decode.key)):
        # The default is no contradiction, only what the file itself says.
        if isinstance(part, AvroFormat) and part.schema_file and "subject" in part.model_fields_set:
            yield Mistake(
                ("decode", side, "subject"),
                "schema_file means plain records that no subject of the registry belongs to; drop one of the two",
            )


def _of_glue(decode: parts.Decode, registry: parts.Registry | None) -> Iterator[Mistake]:
    if registry is None or registry.glue is None:
        return
    for side, part in (("value", decode.value), ("key", decode.key)):
        if isinstance(part, ProtobufFormat):
            yield Mistake(
                ("decode", side, "format"),
                "protobuf cannot be read with registry.glue yet; write avro or json_schema, or let the producer use a "
                "serializer of Confluent's framing, and name its registry as registry.url",
            )
        elif uses_registry(part) and "subject" in part.model_fields_set:
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


def _field(
    position: int, part: parts.TimePartition | parts.FieldPartition, declared: tuple[ddl.Column, ...]
) -> Iterator[Mistake]:
    where, name = ("partition", position, "field"), str(part.field)
    column = ddl.find(declared, name)
    if column is None:
        names = [c.name for c in declared]
        close = get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        yield Mistake(where, f'"{name}" is not among the columns; {hint}declared: {", ".join(names)}')
        return
    allowed = _TIME_TYPES if isinstance(part, parts.TimePartition) else _FIELD_TYPES
    if str(column.type) not in allowed:
        yield Mistake(
            where,
            f'"{name}" is {column.type}, which cannot be partitioned by {part.by}; '
            f"choose a field of type {', '.join(allowed)}",
        )


def _catalog(table: parts.Table, quarantine: parts.Quarantine | None, contract: Contract | None) -> Iterator[Mistake]:
    # The default is no contradiction, only what the file itself says.
    if "catalog" in table.model_fields_set and not table.name:
        yield Mistake(
            ("table", "catalog"),
            "needs table.name, by which a catalog knows the table; write it, or drop table.catalog",
        )
    if table.catalog != "glue":
        return
    for part, name in ("table", table.name), ("quarantine", quarantine and quarantine.name):
        if name and not _GLUE_NAME.fullmatch(name):
            yield Mistake(
                (part, "name"), f'"{name}" is no name in Glue; write database.table, in lower case, as in lake.flights'
            )
    if not (table.path and location.place(table.path).on_s3):
        yield Mistake(
            ("table", "catalog"),
            'glue knows tables on S3 alone; write table.path as in "s3a://lake/flights", or drop table.catalog',
        )
    if contract and contract.completeness and not location.is_path(completeness(table, contract)):
        yield Mistake(
            ("contract", "completeness", "table"),
            "a name is one of Spark's catalog, and table.catalog is glue; write a path, as in s3a://lake/complete",
        )
    if quarantine and quarantine.name and quarantine.path and not location.place(quarantine.path).on_s3:
        yield Mistake(
            ("quarantine", "name"),
            "glue knows tables on S3 alone; drop it, or write quarantine.path as in s3a://lake/q",
        )


def _places(
    table: parts.Table | None,
    quarantine: parts.Quarantine | None,
    gate: parts.Gate | None,
    contract: Contract | None,
    source: parts.Source | None,
) -> Iterator[Mistake]:
    """Two tables in one place: Delta's vacuum deletes whatever it does not know within a table's folder."""
    tables: dict[tuple[str, ...], str] = {}
    if source and source.table:
        tables["source", "table"] = source.table
    if table:
        tables["table", "path" if table.path else "name"] = table.identifier
    if gate and table and gate.results is None:
        tables["gate", "results"] = results(table, gate)
    if quarantine and (table or quarantine.identifier):
        place = aside(table, quarantine) if table else quarantine.identifier
        tables["quarantine", "path" if location.is_path(place) else "name"] = place
    if gate and gate.results is not None:
        tables["gate", "results"] = gate.results
    if contract and contract.completeness and (table or contract.completeness.table):
        place = completeness(table, contract) if table else str(contract.completeness.table)
        tables["contract", "completeness", "table"] = place
    for (one, place), (other, other_place) in combinations(tables.items(), 2):
        if location.one_place(place, other_place):
            yield Mistake(
                other,
                f'"{other_place}" and {".".join(one)} "{place}" are the same or lie within each other; '
                f"write a {'path beside it' if location.is_path(place) else 'name'}, "
                f'as in "{place.rstrip("/")}_{other[-2]}"',
            )
