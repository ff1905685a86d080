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
        members = []
        for name, each in value:
            below = step(path, name)
            other = safe_names.safe(name) if mapping is None else mapping.get(below, name)
            column, within = (tree or {}).get(name, (other, None))
            members.append((column, _renamed(each, within, below, mapping)))
        return Members(members)
    if isinstance(value, list):
        within = tree[0] if isinstance(tree, list) else None
        return [_renamed(each, within, path + ELEMENT, mapping) for each in value]
    return value
