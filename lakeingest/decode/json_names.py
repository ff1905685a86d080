"""A record's JSON under the names of the columns, so that what hides a column hides it in `_rescued` too.

Python does it, on executors and by value: for records alone that have something to rescue.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column

from lakeingest.schema import ddl, json_text, paths, safe_names
from lakeingest.schema.json_text import Members, read, written
from lakeingest.schema.paths import ELEMENT, VALUE, step
from lakeingest.spark import python

if TYPE_CHECKING:
    from lakeingest.schema.field_names import Names
    from lakeingest.schema.model import Schema

Tree = Any
"""Of an object: name → (the column's, the tree within it). Of an array or a map: the tree of its values. Else None."""


def renamed(text: Column, renamer: Callable[[str | None], str | None]) -> Column:
    """STRING, a JSON object, under other names; null stays null."""
    modules = (paths, safe_names, json_text, sys.modules[__name__])
    return python.by_value(renamer, "STRING", modules)(text)


def renamer(tree: Tree, rule: Names) -> Callable[[str | None], str | None]:
    """What brings a record's JSON text under the names of the columns.

    Args:
        rule: the names of fields that the tree does not have.
    """
    mapping = None if isinstance(rule, str) else dict(rule)

    def of_text(text: str | None) -> str | None:
        return None if text is None else written(_renamed(read(text), tree, "", mapping))

    return of_text


def tree_of(schema: Schema, columns: Schema) -> Tree:
    """The tree of a schema, and of the same under the names of the columns."""
    if schema.type == "struct":
        pairs = zip(schema.fields, columns.fields, strict=True)
        return {field.name: (column.name, tree_of(field.schema, column.schema)) for field, column in pairs}
    return [tree_of(schema.value, columns.value)] if schema.value and columns.value else None


def tree_of_columns(columns: Sequence[ddl.Column]) -> Tree:
    """The tree of declared columns."""
    return {column.field_name: (column.name, _tree_of_type(column.type)) for column in columns}


def _tree_of_type(kind: ddl.Type) -> Tree:
    match kind:
        case ddl.Struct(fields):
            return tree_of_columns(fields)
        case ddl.Array(inner) | ddl.Map(_, inner):
            return [_tree_of_type(inner)]
    return None


def _renamed(value: Any, tree: Tree, path: str, mapping: dict[str, str] | None) -> Any:
    if isinstance(value, Members):
        if isinstance(tree, list):
            return Members([(name, _renamed(each, tree[0], path + VALUE, mapping)) for name, each in value])
        return _of_object(value, tree or {}, path, mapping)
    if isinstance(value, list):
        within = tree[0] if isinstance(tree, list) else None
        return [_renamed(each, within, path + ELEMENT, mapping) for each in value]
    return value


def _of_object(value: Members, tree: dict[str, Any], path: str, mapping: dict[str, str] | None) -> Members:
    """Fields that would have one name are the members of one object, by their own names: none hides another, and what
    hides the name hides them all.
    """
    fields_by_column = {column: {name} for name, (column, _) in tree.items()}
    columns: dict[str, str] = {}
    for name, _ in value:
        other = safe_names.safe(name) if mapping is None else mapping.get(step(path, name), name)
        columns[name] = tree[name][0] if name in tree else other
        fields_by_column.setdefault(columns[name], set()).add(name)
    members, objects_by_column = Members(), dict[str, Members]()
    for name, each in value:
        column, within = columns[name], tree[name][1] if name in tree else None
        renamed_value = _renamed(each, within, step(path, name), mapping)
        if len(fields_by_column[column]) == 1:
            members.append((column, renamed_value))
            continue
        if column not in objects_by_column:
            objects_by_column[column] = Members()
            members.append((column, objects_by_column[column]))
        objects_by_column[column].append((name, renamed_value))
    return members
