"""An expression that was understood, and how one is made of others: its value, its type, and when it fails."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakeingest.schema import ddl, functions, numbers
from lakeingest.schema.functions import BOOLEAN, BYTES, DATE, LOCAL, NULL, NUMBER, TEXT, TIME, Function

_KINDS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double"), NUMBER),
    "string": TEXT,
    "boolean": BOOLEAN,
    "date": DATE,
    "timestamp": TIME,
    "timestamp_ntz": LOCAL,
    "binary": BYTES,
    "void": NULL,
}
_EXACT = {
    **{TEXT: ddl.Atomic("string"), BOOLEAN: ddl.Atomic("boolean")},
    **{DATE: ddl.Atomic("date"), TIME: ddl.Atomic("timestamp")},
}
_LARGEST = 200_000


class ExpressionError(ValueError):
    """The text is no expression that can be used; the message is a sentence with its cure."""


@dataclass(frozen=True)
class Expression:
    """An expression that was understood.

    Attributes:
        value: Spark SQL; null where it cannot be computed. It raises nothing.
        failed: Spark SQL, BOOLEAN, never null: whether it cannot be computed.
        type: the type of the value; None for a number whose type the text does not say, and where nobody knows the
            columns.
        kind: what kind of value it is; None where the columns are not known.
        columns: the columns that it asks, as paths with dots.
        number: of a number, the type that Spark makes of it; None where the columns are not known.
        widths: what each part takes of the types of its operands, beyond their values (see `schema.widths`); empty
            where the columns are not known.
    """

    value: str
    failed: str
    type: ddl.Type | None
    kind: str | None
    columns: frozenset[str] = frozenset()
    number: ddl.Type | None = None
    widths: tuple[str, ...] = ()


NEVER = "false"


def kind_of(type_: ddl.Type | None) -> str | None:
    """The kind of a column's type; None where it is not known."""
    match type_:
        case None:
            return None
        case ddl.Atomic(name):
            return NUMBER if name.startswith("decimal") else _KINDS.get(name, name)
        case _:
            return str(type_)


def composed(
    value: str,
    kind: str | None,
    *parts: Expression,
    failed: str | None = None,
    exact: ddl.Type | None = None,
    number: ddl.Type | None = None,
) -> Expression:
    """An expression made of parts. It fails where one of them does, or where `failed` says.

    Raises:
        ExpressionError: it is far too long.
    """
    columns = frozenset[str]().union(*(part.columns for part in parts))
    tests = any_of(*(part.failed for part in parts)) if failed is None else failed
    if len(value) + len(tests) > _LARGEST:
        raise ExpressionError("too large where it is computed; derive a part of it in a step before")
    number = (number or exact) if kind == NUMBER else None
    return Expression(value, tests, exact or _EXACT.get(kind or ""), kind, columns, number)


def tried(
    value: str,
    kind: str | None,
    *parts: Expression,
    exact: ddl.Type | None = None,
    number: ddl.Type | None = None,
) -> Expression:
    """One that is null although no part is: then it has failed."""
    not_null = " AND ".join(f"{part.value} IS NOT NULL" for part in parts)
    own_failure = f"({not_null} AND {value} IS NULL)" if not_null else f"({value} IS NULL)"
    failed = any_of(*(part.failed for part in parts), own_failure)
    return composed(value, kind, *parts, failed=failed, exact=exact, number=number)


def one_type(*parts: Expression) -> ddl.Type | None:
    """The type that all of them have that are not null; None if they differ, or one is not known."""
    types = {str(part.type): part.type for part in parts if part.kind != NULL}
    return next(iter(types.values())) if len(types) == 1 else None


def any_of(*tests: str) -> str:
    """A test that is true where one of these is."""
    real = [test for test in dict.fromkeys(tests) if test != NEVER]
    return f"({' OR '.join(real)})" if len(real) > 1 else real[0] if real else NEVER


def only_where(condition: str, test: str) -> str:
    """A test of failure that counts only where a condition is met: the other branch is never computed."""
    return NEVER if test == NEVER else f"(coalesce({condition}, false) AND {test})"


def unless(condition: str, test: str) -> str:
    """A test of failure that counts only where a condition is not met."""
    return NEVER if test == NEVER else f"(NOT coalesce({condition}, false) AND {test})"


def called(name: str, parts: Sequence[Expression], template: str = "") -> str:
    """The call of a function, as SQL."""
    values = [part.value for part in parts]
    if not template:
        return f"{name}({', '.join(values)})"
    return functions.written(template, values[0], values[1:])


def as_int(part: Expression) -> str:
    """A number as an INT, null where it is none: Spark would stop the batch there."""
    small = part.kind == NULL or str(part.number) in ("tinyint", "smallint", "int")
    return part.value if small else f"try_cast({part.value} AS INT)"


def fitting_arguments(function: Function, parts: Sequence[Expression]) -> list[Expression]:
    """The arguments of a function as Spark takes them: where it asks for an INT, a number that is none fails."""
    fitted = []
    for at, part in enumerate(parts):
        value = as_int(part) if function.argument(at) == "whole" else part.value
        fitted.append(part if value == part.value else tried(value, NUMBER, part, number=ddl.Atomic("int")))
    return fitted


def operand_types(one: Expression, other: Expression) -> list[ddl.Type | None]:
    """The types of both sides of an operator."""
    return [
        numbers.literal(part.value, beside.number) if re.fullmatch(r"-?\d+", part.value) else part.number
        for part, beside in ((one, other), (other, one))
    ]


def quoted(text: str) -> str:
    """A text as a literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def sql_text(node: Any) -> str:
    """The SQL of a parsed part, cut short, for a message."""
    try:
        text = str(node.sql(dialect="spark"))
    except Exception:
        # It need not be able to write what it has read.
        text = type(node).__name__
    return text if len(text) <= 60 else f"{text[:59]}…"


def short_text(part: Expression) -> str:
    """The column of a part, or its SQL cut short, for a message."""
    return next(iter(part.columns)) if len(part.columns) == 1 else part.value[:40]
