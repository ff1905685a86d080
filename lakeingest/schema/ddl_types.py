"""Columns and their types, as DDL declares them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Atomic:
    """A type without parts, under the name that Spark prints: int, bigint, decimal(10,2), …"""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Array:
    """A list of elements, any of which may be null."""

    element: Type

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True)
class Map:
    """Keys to values, any of which may be null (a key may not)."""

    key: Type
    value: Type

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True)
class Struct:
    """Named fields."""

    fields: tuple[Column, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{f.name}:{f.type}' for f in self.fields)}>"


Type: TypeAlias = Atomic | Array | Map | Struct


@dataclass(frozen=True)
class Column:
    """A column, or a field of a struct; a comment or a source makes no other column of it.

    Attributes:
        source: the field of a record that the column is filled from, where it is not the one of its name.
    """

    name: str
    type: Type
    nullable: bool = True
    comment: str | None = field(default=None, compare=False)
    source: str | None = field(default=None, compare=False)

    @property
    def field_name(self) -> str:
        """The name of the field of a record that fills the column."""
        return self.source or self.name
