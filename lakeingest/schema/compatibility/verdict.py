"""May a record be written under the table's schema? The rules of Confluent's Kafka Connect S3 sink. Pure.

`check` and `explain` are its rules to the letter: what a record is told here, the sink tells it too. What becomes of
the record on a Delta table, where the current schema outlives files and restarts, is in `decision`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from lakeingest.schema.model import NUMBERS, SYMBOL_DEFAULT, SYMBOLS, Kind, Schema, type_text
from lakeingest.schema.paths import ELEMENT, KEY, VALUE, step

Mode: TypeAlias = Literal["NONE", "BACKWARD", "FORWARD", "FULL"]

_IGNORED = re.compile(r"(^|\.)(doc|alias(es)?|namespace)(\.|$)")
"""Parameters that say nothing of the data, as in `io.confluent.connect.avro.field.doc.wind`."""


class Verdict(StrEnum):
    """The result of a check. The last two are errors, and not verdicts, in Confluent's sink."""

    OK = "OK"
    DIFFERENT_SCHEMA = "DIFFERENT_SCHEMA"
    DIFFERENT_VERSION = "DIFFERENT_VERSION"
    DIFFERENT_TYPE = "DIFFERENT_TYPE"
    DIFFERENT_NAME = "DIFFERENT_NAME"
    DIFFERENT_PARAMS = "DIFFERENT_PARAMS"
    INCOMPATIBLE_OPTIONALITY = "INCOMPATIBLE_OPTIONALITY"
    MISSING_REQUIRED_FIELD = "MISSING_REQUIRED_FIELD"
    SCHEMA_PRESENCE = "SCHEMA_PRESENCE"
    VERSION_REQUIRED = "VERSION_REQUIRED"


_SENTENCES = {
    Verdict.OK: "",
    Verdict.DIFFERENT_SCHEMA: "the schema of {source} is not the one of {target}",
    Verdict.DIFFERENT_VERSION: "version {has} in {source}, {wants} in {target}",
    Verdict.DIFFERENT_TYPE: "{has} in {source}, {wants} in {target}",
    Verdict.DIFFERENT_NAME: "named {has} in {source}, {wants} in {target}",
    Verdict.DIFFERENT_PARAMS: "{has} in {source}, {wants} in {target}",
    Verdict.INCOMPATIBLE_OPTIONALITY: "may be null in {source}, is required and without a default in {target}",
    Verdict.MISSING_REQUIRED_FIELD: "{wants} is required and without a default in {target}, missing in {source}",
    Verdict.SCHEMA_PRESENCE: "can't mix records with and without a schema: {has} in {source}, {wants} in {target}",
    Verdict.VERSION_REQUIRED: "a schema version is required: {has} in {source}, {wants} in {target}",
}


@dataclass(frozen=True)
class PlacedVerdict:
    """A verdict, and where it was come to.

    Attributes:
        verdict: the first rule that failed.
        path: of the part that failed, as in `stops[].tags{}.zip`; empty for the record itself.
        has, wants: what the source and the target have there.
    """

    verdict: Verdict
    path: str = ""
    has: str = ""
    wants: str = ""

    def text(self, source: str = "the record", target: str = "the table") -> str:
        """A sentence for people, empty for OK: `address.zip: STRING in the record, INT in the table`."""
        sentence = _SENTENCES[self.verdict].format(has=self.has, wants=self.wants, source=source, target=target)
        return f"{self.path}: {sentence}" if self.path else sentence


def check(record: Schema | None, current: Schema | None, mode: Mode) -> Verdict:
    """May a record of this schema be written while `current` is in force? None stands for records without a schema.

    OK: yes, projected to `current` if need be. Any other: in Confluent's sink the current schema must change first.
    """
    return explain(record, current, mode).verdict


def explain(record: Schema | None, current: Schema | None, mode: Mode) -> PlacedVerdict:
    """The verdict of `check`, and where it was come to. The first that fails, in Confluent's order:

    1. both absent, or the very same schema: compatible;
    2. exactly one absent: refused in every mode;
    3. mode NONE: whatever differs (version, documentation and optionality too) is another schema;
    4. a version is unknown: refused, as the modes cannot tell older from newer;
    5. the structural check;
    6. the version: BACKWARD and FULL change for a newer one, FORWARD for an older one.
    """
    if record == current:  # 1
        return PlacedVerdict(Verdict.OK)
    if record is None or current is None:  # 2
        return PlacedVerdict(Verdict.SCHEMA_PRESENCE, has=_presence(record), wants=_presence(current))
    if mode == "NONE":  # 3
        return PlacedVerdict(Verdict.DIFFERENT_SCHEMA)
    return _versioned(record, current, mode)


def _versioned(record: Schema, current: Schema, mode: Mode) -> PlacedVerdict:
    if record.version is None or current.version is None:  # 4
        return PlacedVerdict(Verdict.VERSION_REQUIRED, has=_version(record), wants=_version(current))
    if failure := structural(record, current):  # 5
        return failure
    older, newer = record.version < current.version, record.version > current.version
    if older if mode == "FORWARD" else newer:  # 6
        return PlacedVerdict(Verdict.DIFFERENT_VERSION, has=str(record.version), wants=str(current.version))
    return PlacedVerdict(Verdict.OK)


def structural(source: Schema, target: Schema, path: str = "") -> PlacedVerdict | None:
    """Can what was written with `source` be read as `target`? None if so, else the first failure, depth first.

    At every level: type, name, parameters, optionality; then the parts that both have, a struct's in the order of the
    target; then the fields that the target requires. Versions, documentation and fields of the source alone are
    not looked at.
    """
    if failure := _level(source, target, path):
        return failure
    for below, inner, outer in _shared(source, target, path):
        if failure := structural(inner, outer, below):
            return failure
    return _missing(source, target, path)


def promotes(source: Kind, target: Kind) -> bool:
    """Whether Connect reads the one type as the other: the same, or a number as a wider number."""
    if source == target:
        return True
    return source in NUMBERS and target in NUMBERS and NUMBERS.index(source) <= NUMBERS.index(target)


def _level(source: Schema, target: Schema, path: str) -> PlacedVerdict | None:
    """The four rules of one level."""
    if not promotes(source.type, target.type):
        return PlacedVerdict(Verdict.DIFFERENT_TYPE, path, type_text(source), type_text(target))
    if source.name != target.name:
        return PlacedVerdict(Verdict.DIFFERENT_NAME, path, source.name or "nothing", target.name or "nothing")
    if failure := _parameters(source, target, path):
        return failure
    if source.optional and not target.optional and target.default is None:
        return PlacedVerdict(Verdict.INCOMPATIBLE_OPTIONALITY, path, "NULL", "NOT NULL")
    return None


def _parameters(source: Schema, target: Schema, path: str) -> PlacedVerdict | None:
    if source.parameters == target.parameters:
        return None
    has, wants = (
        {name: value for name, value in schema.parameters if not _IGNORED.search(name)} for schema in (source, target)
    )
    has.pop(SYMBOL_DEFAULT, None)
    has_default = wants.pop(SYMBOL_DEFAULT, None) is not None
    # Avro reads a symbol that the target lacks as the target's default.
    if (
        SYMBOLS in has
        and SYMBOLS in wants
        and (has_default or set(has[SYMBOLS].split(",")) <= set(wants[SYMBOLS].split(",")))
    ):
        del has[SYMBOLS], wants[SYMBOLS]
    if has == wants:
        return None
    differing = [name for name in sorted(has.keys() | wants.keys()) if has.get(name) != wants.get(name)]
    texts = [", ".join(f"{name} {side.get(name, 'none')}" for name in differing) for side in (has, wants)]
    return PlacedVerdict(Verdict.DIFFERENT_PARAMS, path, *texts)


def _shared(source: Schema, target: Schema, path: str) -> Iterator[tuple[str, Schema, Schema]]:
    """(path, the source's, the target's) of each part that both have."""
    if source.fields and target.fields:
        has = {field.name: field.schema for field in source.fields}
        for field in target.fields:
            if field.name in has:
                yield step(path, field.name), has[field.name], field.schema
    if source.key and target.key:
        yield path + KEY, source.key, target.key
    if source.value and target.value:
        yield path + (VALUE if target.type == "map" else ELEMENT), source.value, target.value


def _missing(source: Schema, target: Schema, path: str) -> PlacedVerdict | None:
    """A field without which the target cannot be filled."""
    has = {field.name for field in source.fields}
    for field in target.fields:
        if field.name not in has and not field.schema.optional and field.schema.default is None:
            return PlacedVerdict(
                Verdict.MISSING_REQUIRED_FIELD, step(path, field.name), "nothing", type_text(field.schema)
            )
    return None


def _presence(schema: Schema | None) -> str:
    return "none" if schema is None else "one"


def _version(schema: Schema) -> str:
    return "unknown" if schema.version is None else str(schema.version)
