"""What a pipeline keeps among its table's properties: the ledger of schemas, the partitions, for whom it was made,
its contract, where the pipeline went on if it was adopted, and of which columns there are no statistics.

They outlive the log's receipts, and spare them from repeating the ledger. A property is the pipeline's own, under a
digest of its name, and its value is in hexadecimal digits: Spark shows no property with a word such as url, password
or token in it, and puts settings and environment in the place of ${…}. The contract stands there in words too, for
whoever finds the table.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakeingest.config import PipelineConfig
from lakeingest.config.durations import duration_text
from lakeingest.delta import kinds, statistics
from lakeingest.record import OffsetRanges
from lakeingest.schema import readers
from lakeingest.schema.ledger import SchemaLedger

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_SCHEMAS, _PARTITIONS, _MAKER, _CONTRACT, _ADOPTED = "schemas", "partition", "maker", "contract", "adopted"
_STATISTICS, _ROWS = "statistics", "rows"
_PROMISES = (
    "owners",
    "freshness",
    "completeness",
    "late",
    "retention",
    "compatibility",
    "readers",
    "may_replay",
    "may_accept",
)
"""The parts of a contract in words, each a property of its own; the description is the table's comment."""


def of_config(config: PipelineConfig, ledger: SchemaLedger) -> dict[str, str]:
    """What a new table keeps: the file's partitions, for whom it is made, and the ledger if it is not empty; and what
    its readers need.
    """
    properties = {
        _name(_PARTITIONS, config.known_as): _packed(options(config)),
        _name(_MAKER, config.known_as): _packed({"name": config.known_as, "topics": [*config.source.topics]}),
    }
    if config.table.keyed:
        properties[_name(_ROWS, config.known_as)] = _packed(row_options(config))
    properties |= kinds.properties("table") | contract(config)
    properties |= readers.properties(config.readers, rows_change=config.table.alters) | _feed({}, config)
    return properties | ({_name(_SCHEMAS, config.known_as): _packed(ledger.to_json())} if ledger.entries else {})


def contract(config: PipelineConfig) -> dict[str, str]:
    """The contract of the file; empty if there is none."""
    promised = config.contract
    if promised is None:
        return {}
    followed = promised.completeness
    durations = {
        "freshness": promised.freshness,
        "late": followed.late if followed else None,
        "retention": promised.retention,
    }
    words_by_name: dict[str, str | None] = {
        **{name: duration_text(each) for name, each in durations.items() if each is not None},
        "owners": ", ".join(promised.owners) or None,
        "completeness": config.completeness if followed else None,
        "compatibility": promised.compatibility,
        "readers": ", ".join(config.readers) or None,
        "may_replay": _listed(promised.may_replay),
        "may_accept": _listed(promised.may_accept),
    }
    words = {name: words_by_name[name] for name in _PROMISES if words_by_name.get(name) is not None}
    texts = {_word(name): str(text) for name, text in words.items()}
    return {_name(_CONTRACT, config.known_as): _packed(words), **texts}


def outdated(properties: Mapping[str, str], config: PipelineConfig) -> tuple[dict[str, str], list[str]]:
    """What of the contract, of the kind and of the change feed has to be set on a table with these properties, and what
    unset.
    """
    # A table that an older version made says what it is for from the next run on.
    unmarked = partitions(properties, config.known_as) is not None and kinds.KIND not in properties
    kind = (kinds.properties("table") if unmarked else {}) | _feed(properties, config)
    target, mark = contract(config), _name(_CONTRACT, config.known_as)
    # Spark shows in place of a value with a word such as token none, so that only the packed one can be compared.
    if properties.get(mark) == target.get(mark):
        return kind, []
    return kind | target, [n for n in (mark, *map(_word, _PROMISES)) if n in properties and n not in target]


def _feed(properties: Mapping[str, str], config: PipelineConfig) -> dict[str, str]:
    """What lets Delta keep a change data feed, where the file asks for it. One that somebody has switched on stays."""
    target = {"delta.enableChangeDataFeed": "true"} if config.table.change_feed else {}
    return {name: value for name, value in target.items() if properties.get(name) != value}


def unread(
    properties: Mapping[str, str], columns: StructType, partitions: Collection[str], config: PipelineConfig
) -> dict[str, str]:
    """What a table with these properties needs so that its log has no statistics of what is masked (see `statistics`).

    Args:
        columns, partitions: the table's; partitions by their names.
    """
    mark = _name(_STATISTICS, config.known_as)
    own_value = _unpacked(properties[mark]) if mark in properties else None
    value = statistics.listed_columns(properties, own_value, columns, partitions, config.steps)
    return {} if value is None else {statistics.LISTED: value, mark: _packed(value)}


def _listed(names: Sequence[str] | None) -> str | None:
    return None if names is None else ", ".join(names) or "nobody"


def _word(name: str) -> str:
    return f"lakeingest.{_CONTRACT}.{name}"


def features(properties: Mapping[str, str]) -> set[str]:
    """The features of Delta's protocol that the table has."""
    prefix = "delta.feature."
    # A protocol older than these names says no more than the property does.
    mapped = {"columnMapping"} if properties.get("delta.columnMapping.mode", "none") != "none" else set()
    return mapped | {name.removeprefix(prefix) for name in properties if name.startswith(prefix)}


def ledger(properties: Mapping[str, str], pipeline: str) -> SchemaLedger:
    """The ledger of schemas among a table's properties; empty if none is kept."""
    value = properties.get(_name(_SCHEMAS, pipeline))
    return SchemaLedger.from_json(_unpacked(value)) if value else SchemaLedger()


def options(config: PipelineConfig) -> list[dict[str, Any]]:
    """The options of each partition in the file, as JSON has them."""
    partitions = [part.model_dump(mode="json") for part in config.partition]
    return [{**part, "extract": _extract(part)} if "extract" in part else part for part in partitions]


def _extract(part: Mapping[str, Any]) -> str:
    return part["extract"] or ("field" if part["field"] else "record")


def partitions(properties: Mapping[str, str], pipeline: str) -> tuple[Mapping[str, Any], ...] | None:
    """The options of each partition that the table was made with; None where an older version made it."""
    value = properties.get(_name(_PARTITIONS, pipeline))
    return tuple(_unpacked(value)) if value else None


def row_options(config: PipelineConfig) -> dict[str, Any]:
    """What of table.mode decides about rows, as JSON has it."""
    table = config.table
    rows = {"mode": table.mode, "keys": [*table.key_paths], "order_by": [*table.order_by], "deletes": table.deletes}
    return rows | ({"valid_from": [table.valid_from] if table.valid_from else []} if table.dated else {})


def rows_of(properties: Mapping[str, str], pipeline: str) -> dict[str, Any]:
    """The same, of the file that the table was made with."""
    value = properties.get(_name(_ROWS, pipeline))
    unkeyed = {"mode": "append", "keys": [], "order_by": [], "deletes": "remove"}
    return {**unkeyed, **(_unpacked(value) if value else {})}


def makers(properties: Mapping[str, str]) -> dict[str, list[str]]:
    """The pipeline that the table was made for, and its topics then; empty where an older version or a user made it."""
    prefix = f"lakeingest.{_MAKER}."
    entries = [_unpacked(value) for name, value in properties.items() if name.startswith(prefix)]
    return {maker["name"]: maker["topics"] for maker in entries}


def adopted(pipeline: str, adoption: Mapping[str, Any], ranges: OffsetRanges) -> dict[str, str]:
    """What a table keeps that was adopted: see `JobFields.adopted`, and the offsets where the pipeline goes on."""
    return {_name(_ADOPTED, pipeline): _packed({"adopted": dict(adoption), "offsets": ranges.to_json()})}


def adoption(properties: Mapping[str, str], pipeline: str) -> tuple[dict[str, Any], OffsetRanges] | None:
    """The same, among a table's properties; None where it was not adopted."""
    value = properties.get(_name(_ADOPTED, pipeline))
    if value is None:
        return None
    tree = _unpacked(value)
    return tree["adopted"], OffsetRanges.from_json(tree["offsets"])


def is_adopted(properties: Mapping[str, str]) -> bool:
    """Whether some pipeline adopted the table."""
    return any(name.startswith(f"lakeingest.{_ADOPTED}.") for name in properties)


def _packed(tree: Any) -> str:
    return zlib.compress(json.dumps(tree, separators=(",", ":")).encode()).hex()


def _unpacked(value: str) -> Any:
    return json.loads(zlib.decompress(bytes.fromhex(value)))


def _name(kind: str, pipeline: str) -> str:
    return f"lakeingest.{kind}.{hashlib.sha256(pipeline.encode()).hexdigest()[:16]}"
