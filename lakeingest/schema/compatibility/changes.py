"""The difference of two schemas, field by field, for people and for JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from lakeingest.schema.compatibility.verdict import promotes
from lakeingest.schema.compatibility.widening import delta_widens
from lakeingest.schema.model import SYMBOLS, Schema, column_type, json_parts, type_text
from lakeingest.schema.paths import ELEMENT, KEY, VALUE, step

ChangeKind: TypeAlias = Literal[
    "added", "removed", "widened", "changed", "loosened", "tightened", "renamed", "default", "symbols", "doc"
]
_PARTED = ("struct", "array", "map")


@dataclass(frozen=True)
class Change:
    """One difference.

    Attributes:
        path: of the part, as in `stops[].tags{}.zip`; empty for the record itself.
        kind: added and removed are fields; widened and changed are types (changed: Connect does not read the old one
            as the new one); loosened may be null now, tightened may not any more; renamed is the name of a struct, an
            enum or a logical type, or of a field whose alias names its column. A field under a new name without an
            alias is one removed and one added.
        text: for people, as in `+ gust DOUBLE`, `- old STRING`, `~ wind INT → BIGINT`.
    """

    path: str
    kind: ChangeKind
    text: str

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def changes(old: Schema | None, new: Schema) -> tuple[Change, ...]:
    """The differences from old to new, in the fields' order, added fields last; versions do not count.

    Without an old schema every field is an added one.
    """
    if old is None:
        return tuple(_added(field.name, field.schema) for field in new.fields) or (_added("", new),)
    return tuple(_differences(old, new, ""))


def _differences(old: Schema, new: Schema, path: str) -> Iterator[Change]:
    if old == new:
        return
    yield from _type(old, new, path)
    if old.optional != new.optional:
        text = "NOT NULL → NULL" if new.optional else "NULL → NOT NULL"
        yield _differs(path, "loosened" if new.optional else "tightened", text)
    if old.default != new.default:
        yield _differs(path, "default", f"DEFAULT {old.default or 'none'} → {new.default or 'none'}")
    if old.doc != new.doc:
        yield _differs(path, "doc", "documentation")
    if old.type == new.type:
        yield from _parts(old, new, path)


def _type(old: Schema, new: Schema, path: str) -> Iterator[Change]:
    """Changes of the value's own type and name."""
    was, now = ("" if schema.type in _PARTED and old.type == new.type else type_text(schema) for schema in (old, new))
    if was != now:
        yield _differs(path, "widened" if _wider(old, new) else "changed", f"{was} → {now}")
    elif old.name != new.name:
        yield _differs(path, "renamed", f"named {old.name or 'nothing'} → {new.name or 'nothing'}")
    old_symbols, new_symbols = ((schema.parameter(SYMBOLS) or "").split(",") for schema in (old, new))
    if set(old_symbols) != set(new_symbols) and old.parameter(SYMBOLS) and new.parameter(SYMBOLS):
        signed = [f"+ {s}" for s in new_symbols if s not in old_symbols] + [
            f"- {s}" for s in old_symbols if s not in new_symbols
        ]
        yield _differs(path, "symbols", " ".join(signed))


def _wider(old: Schema, new: Schema) -> bool:
    if old.type in _PARTED or new.type in _PARTED:
        return False
    plain = old.name == new.name and old.type != new.type and promotes(old.type, new.type)
    return plain or delta_widens(str(column_type(old)), str(column_type(new)))


def _parts(old: Schema, new: Schema, path: str) -> Iterator[Change]:
    has = {field.name: field.schema for field in new.fields}
    for field in old.fields:
        below = step(path, field.name)
        if field.name in has:
            yield from _differences(field.schema, has[field.name], below)
        else:
            yield Change(below, "removed", f"- {below} {type_text(field.schema)}")
    if old.key and new.key:
        yield from _differences(old.key, new.key, path + KEY)
    if old.value and new.value:
        yield from _differences(old.value, new.value, path + (VALUE if new.type == "map" else ELEMENT))
    old_names = {field.name for field in old.fields}
    yield from (_added(step(path, field.name), field.schema) for field in new.fields if field.name not in old_names)


def _added(path: str, schema: Schema) -> Change:
    words = ["+", path or "(record)", type_text(schema)]
    words += [] if schema.optional else ["NOT NULL"]
    words += [] if schema.default is None else ["DEFAULT", schema.default]
    words += [f"(JSON text: {place or 'it'} {reason})" for place, reason in json_parts(schema, path)]
    return Change(path, "added", " ".join(words))


def _differs(path: str, kind: ChangeKind, text: str) -> Change:
    return Change(path, kind, f"~ {path or '(record)'} {text}")
