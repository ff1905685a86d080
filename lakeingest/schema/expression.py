"""An expression over a record's columns, in Spark's SQL: what it may be made of, its type, and when it fails.

One value for one record: no subquery, no aggregate, nothing that looks at anything but the record. What Spark would
stop a whole batch for (a division by zero, a text that is no number, an overflow) is null here, and `Expression.failed`
says so for that record alone. sqlglot reads the text; what Spark gets is written anew from what was understood, so that
the two never differ on how it is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from lakeingest.schema import ddl, decimal_bytes, functions, numbers, widths
from lakeingest.schema.expression_parts import (
    NEVER,
    Expression,
    ExpressionError,
    any_of,
    as_int,
    called,
    composed,
    fitting_arguments,
    kind_of,
    one_type,
    only_where,
    operand_types,
    quoted,
    short_text,
    sql_text,
    tried,
    unless,
)
from lakeingest.schema.functions import BOOLEAN, BYTES, DATE, FUNCTIONS, LOCAL, NULL, NUMBER, TEXT, TIME, Function

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["ExpressionError", "no_field", "read"]
_CASTS = {
    NUMBER: (NUMBER, TEXT, BOOLEAN, TIME),
    TEXT: (NUMBER, TEXT, BOOLEAN, DATE, TIME, LOCAL, BYTES),
    BOOLEAN: (NUMBER, TEXT, BOOLEAN),
    DATE: (DATE, TEXT, TIME, LOCAL),
    TIME: (TIME, TEXT, DATE, NUMBER, LOCAL),
    LOCAL: (LOCAL, TEXT, DATE, TIME),
    BYTES: (BYTES, TEXT),
    NULL: (NUMBER, TEXT, BOOLEAN, DATE, TIME, LOCAL, BYTES),
}
"""Kind → the kinds that Spark's try_cast takes it from."""
_LONGEST, _DEEPEST = 10_000, 50
_SPECIAL = "coalesce decimal_from_bytes greatest header if ifnull least nullif nvl"
"""Functions beside `FUNCTIONS`."""


@cache
def read(text: str, columns: tuple[ddl.Column, ...] | None) -> Expression:
    """Understand an expression.

    Args:
        columns: what it may ask; None where nobody knows yet: its columns and kinds are not checked then.

    Raises:
        ExpressionError: it is not understood, asks what is not there, or may not be used.
    """
    from sqlglot.errors import SqlglotError

    if len(text) > _LONGEST:
        raise ExpressionError(f"an expression of {len(text):,} characters; write one of at most {_LONGEST:,}")
    if "${" in text:
        # Spark would fill it in from its settings, or from the environment of its processes.
        raise ExpressionError("${ is not for an expression; write the value itself")
    try:
        dialect, parser = _dialect()
        tokens = dialect.tokenize(text)
        trees = parser(dialect=dialect).parse(tokens, text)
    except (SqlglotError, RecursionError, ValueError) as error:
        first = getattr(error, "errors", None) or [{}]
        where = f" in column {first[0]['col']}, or just before it" if first[0].get("col") else ""
        raise ExpressionError(f"not understood{where}; correct the expression") from None
    if len(trees) != 1 or trees[0] is None:
        raise ExpressionError("no expression; write one, as in 'price * quantity'")
    if any(token.comments for token in tokens):
        raise ExpressionError("holds a comment, or a hint; write it beside the expression")
    return _Translator(columns).read(trees[0], 0)


@cache
def _dialect() -> tuple[Any, Any]:
    """Spark's dialect, and a parser that leaves functions as they are written."""
    from sqlglot.dialects.spark import Spark

    dialect = Spark()

    class Plain(dialect.parser_class):  # type: ignore[name-defined,misc]
        FUNCTIONS: ClassVar[Mapping[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[Mapping[Any, Any]] = {}
        FUNCTION_PARSERS: ClassVar[Mapping[str, Any]] = {
            k: dialect.parser_class.FUNCTION_PARSERS[k] for k in ("CAST", "TRY_CAST")
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[Mapping[str, Any]] = {
            "CASE": dialect.parser_class.NO_PAREN_FUNCTION_PARSERS["CASE"]
        }

    return dialect, Plain


class _Translator:
    """Writes what was understood anew, part by part."""

    def __init__(self, columns: tuple[ddl.Column, ...] | None) -> None:
        self._columns = columns

    def read(self, node: Any, depth: int) -> Expression:
        """Raises:
        ExpressionError: the part may not be used.
        """
        if depth > _DEEPEST:
            raise ExpressionError(f"nested deeper than {_DEEPEST} levels; derive a part of it before")
        parts: list[Expression] = []

        def below(part: Any) -> Expression:
            parts.append(self.read(part, depth + 1))
            return parts[-1]

        expression = self._method(node)(node, below)
        if self._columns is None:
            return expression
        return replace(
            expression, widths=(*chain(*(part.widths for part in parts)), widths.of(node, parts, expression))
        )

    def _method(self, node: Any) -> Callable[[Any, Callable[[Any], Expression]], Expression]:
        """Raises:
        ExpressionError: see `read`.
        """
        name = type(node).__name__
        method: Callable[[Any, Callable[[Any], Expression]], Expression] | None = getattr(
            self, f"_{name.lower()}", None
        )
        if method is not None:
            return method
        if name in _ARITHMETIC:
            return self._arithmetic
        if name in _COMPARES:
            return self._compares
        raise ExpressionError(f"{sql_text(node)} is not for a transform; ask one value of one record")

    # Values ----------------------------------------------------------------------------------------------------------

    def _literal(self, node: exp.Literal, _: Any) -> Expression:
        if node.is_string:
            return composed(quoted(str(node.this)), TEXT)
        if not re.fullmatch(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?", str(node.this)):
            raise ExpressionError(f"{node.this} is no number that can be used; write one as in 1.5")
        return composed(str(node.this), NUMBER, number=numbers.literal(str(node.this)))

    def _null(self, _: Any, __: Any) -> Expression:
        return composed("NULL", NULL)

    def _boolean(self, node: exp.Boolean, _: Any) -> Expression:
        return composed("true" if node.this else "false", BOOLEAN)

    def _column(self, node: exp.Column, _: Any) -> Expression:
        path = [part.name for part in node.parts]
        return self._field(path)

    def _field(self, path: Sequence[str]) -> Expression:
        written = ".".join(map(ddl.quoted, path))
        columns = frozenset({".".join(path)})
        if self._columns is None:
            return Expression(written, NEVER, None, None, columns)
        type_: ddl.Type = ddl.Struct(self._columns)
        for at, step in enumerate(path):
            fields = type_.fields if isinstance(type_, ddl.Struct) else ()
            column = ddl.column_named(fields, step)
            if column is None:
                raise ExpressionError(no_field(path, at, fields))
            type_ = column.type
        return Expression(written, NEVER, type_, kind_of(type_), columns, type_ if kind_of(type_) == NUMBER else None)

    def _paren(self, node: exp.Paren, read: Any) -> Expression:
        expression: Expression = read(node.this)
        return expression

    def _dot(self, node: exp.Dot, read: Any) -> Expression:
        outer, name = read(node.this), node.expression.name
        if outer.type is None:
            return composed(f"{outer.value}.{ddl.quoted(name)}", None, outer)
        fields = outer.type.fields if isinstance(outer.type, ddl.Struct) else ()
        field = ddl.column_named(fields, name)
        if field is None:
            raise ExpressionError(no_field([sql_text(node.this), name], 1, fields))
        return composed(f"{outer.value}.{ddl.quoted(field.name)}", kind_of(field.type), outer, exact=field.type)

    def _bracket(self, node: exp.Bracket, read: Any) -> Expression:
        """An element that is not there is null, as a field that is not there."""
        if len(node.expressions) != 1:
            raise ExpressionError(f"{sql_text(node)}: write one index, as in list[0]")
        outer, index = read(node.this), read(node.expressions[0])
        match outer.type:
            case ddl.Array(element):
                self._must(index, NUMBER, node)
                return composed(f"get({outer.value}, {as_int(index)})", kind_of(element), outer, index, exact=element)
            case ddl.Map(_, value):
                return composed(
                    f"try_element_at({outer.value}, {index.value})", kind_of(value), outer, index, exact=value
                )
            case None:
                return composed(f"{outer.value}[{index.value}]", None, outer, index)
            case _:
                raise ExpressionError(f"{sql_text(node.this)} has no elements; it is {str(outer.type).upper()}")

    # Operators -------------------------------------------------------------------------------------------------------

    def _arithmetic(self, node: Any, read: Any) -> Expression:
        one, other = read(node.this), read(node.expression)
        for part in (one, other):
            self._must(part, NUMBER, node)
        kind = type(node).__name__
        try:
            number = numbers.arithmetic(kind, *operand_types(one, other))
        except numbers.TooManyDigits as found:
            raise _too_many(node, found) from None
        return tried(f"{_ARITHMETIC[kind]}({one.value}, {other.value})", NUMBER, one, other, number=number)

    def _neg(self, node: exp.Neg, read: Any) -> Expression:
        part: Expression = read(node.this)
        self._must(part, NUMBER, node)
        if type(node.this).__name__ == "Literal":
            return composed(f"-{part.value}", NUMBER, part, number=part.number)
        value = functions.written(functions.minus(part.number), part.value)
        return tried(value, NUMBER, part, number=numbers.minus(part.number))

    def _compares(self, node: Any, read: Any) -> Expression:
        one, other = read(node.this), read(node.expression)
        self._comparable(node, one, other)
        return composed(f"({one.value} {_COMPARES[type(node).__name__]} {other.value})", BOOLEAN, one, other)

    def _between(self, node: exp.Between, read: Any) -> Expression:
        one, low, high = read(node.this), read(node.args["low"]), read(node.args["high"])
        self._comparable(node, one, low)
        self._comparable(node, one, high)
        failed = any_of(one.failed, low.failed, only_where(f"coalesce({one.value} >= {low.value}, true)", high.failed))
        value = f"({one.value} BETWEEN {low.value} AND {high.value})"
        return composed(value, BOOLEAN, one, low, high, failed=failed)

    def _in(self, node: exp.In, read: Any) -> Expression:
        if not node.expressions:
            raise ExpressionError(f"{sql_text(node)}: write the values, as in carrier IN ('AA', 'UA')")
        parts = [read(node.this), *map(read, node.expressions)]
        self._alike(node, *parts)
        return composed(f"({parts[0].value} IN ({', '.join(p.value for p in parts[1:])}))", BOOLEAN, *parts)

    def _is(self, node: exp.Is, read: Any) -> Expression:
        part = read(node.this)
        constant = {"Null": "NULL", "Boolean": str(node.expression.this).upper()}.get(type(node.expression).__name__)
        if constant is None:
            raise ExpressionError(f"{sql_text(node)}: write IS NULL, IS NOT NULL, IS TRUE or IS FALSE")
        if constant != "NULL":
            self._must(part, BOOLEAN, node)
        return composed(f"({part.value} IS {constant})", BOOLEAN, part)

    def _like(self, node: exp.Like, read: Any) -> Expression:
        part, pattern = read(node.this), read(node.expression)
        self._must(part, TEXT, node)
        if type(node.expression).__name__ != "Literal":
            raise ExpressionError(f"{sql_text(node)}: write the pattern itself, in quotes")
        if re.search(r"\\(?![%_\\])", re.sub(r"\\\\", "", str(node.expression.this))):
            raise ExpressionError(f"{sql_text(node)}: a backslash stands before %, _ or another one; write it twice")
        return composed(f"({part.value} LIKE {pattern.value})", BOOLEAN, part)

    def _not(self, node: exp.Not, read: Any) -> Expression:
        part = read(node.this)
        self._must(part, BOOLEAN, node)
        return composed(f"(NOT {part.value})", BOOLEAN, part)

    def _and(self, node: exp.And, read: Any) -> Expression:
        one, other = self._operands(node, read)
        failed = any_of(one.failed, only_where(f"coalesce({one.value}, true)", other.failed))
        return composed(f"({one.value} AND {other.value})", BOOLEAN, one, other, failed=failed)

    def _or(self, node: exp.Or, read: Any) -> Expression:
        one, other = self._operands(node, read)
        return composed(
            f"({one.value} OR {other.value})",
            BOOLEAN,
            one,
            other,
            failed=any_of(one.failed, unless(one.value, other.failed)),
        )

    def _operands(self, node: Any, read: Any) -> tuple[Expression, Expression]:
        one, other = read(node.this), read(node.expression)
        for part in (one, other):
            self._must(part, BOOLEAN, node)
        return one, other

    def _dpipe(self, node: exp.DPipe, read: Any) -> Expression:
        one, other = read(node.this), read(node.expression)
        for part in (one, other):
            self._joined(part, node)
        return composed(f"concat({one.value}, {other.value})", TEXT, one, other)

    # What is asked in turn -------------------------------------------------------------------------------------------

    def _case(self, node: exp.Case, read: Any) -> Expression:
        subject = read(node.this) if node.this is not None else None
        conditions, values = [], []
        for each in node.args["ifs"]:
            when, then = read(each.this), read(each.args["true"])
            if subject is not None:
                self._comparable(node, subject, when)
                when = composed(f"({subject.value} = {when.value})", BOOLEAN, subject, when)
            self._must(when, BOOLEAN, each)
            conditions.append(when)
            values.append(then)
        default = node.args.get("default")
        last = read(default) if default is not None else composed("NULL", NULL)
        return self._chosen(node, conditions, values, last)

    def _chosen(
        self, node: Any, conditions: Sequence[Expression], values: Sequence[Expression], last: Expression
    ) -> Expression:
        kind, number = self._alike(node, *values, last)
        text = " ".join(f"WHEN {c.value} THEN {v.value}" for c, v in zip(conditions, values, strict=True))
        failed = last.failed
        for condition, value in reversed([*zip(conditions, values, strict=True)]):
            failed = any_of(
                condition.failed, only_where(condition.value, value.failed), unless(condition.value, failed)
            )
        parts, exact = (*conditions, *values, last), one_type(*values, last)
        return composed(f"CASE {text} ELSE {last.value} END", kind, *parts, failed=failed, exact=exact, number=number)

    def _first(self, node: Any, parts: Sequence[Expression]) -> Expression:
        """COALESCE: the next is asked where those before are null."""
        kind, number = self._alike(node, *parts)
        failed = parts[-1].failed
        for part in reversed(parts[:-1]):
            failed = any_of(part.failed, unless(f"{part.value} IS NOT NULL", failed))
        value = called("coalesce", parts)
        return composed(value, kind, *parts, failed=failed, exact=one_type(*parts), number=number)

    # Casts and functions ---------------------------------------------------------------------------------------------

    def _trycast(self, node: Any, read: Any) -> Expression:
        part: Expression = read(node.this)
        text = node.args["to"].sql(dialect="spark")
        try:
            ((column,),) = (ddl.parse(f"c {text}"),)
        except (ddl.DdlError, ValueError):
            raise ExpressionError(f"{sql_text(node)}: {text} is no type of a column") from None
        kind = kind_of(column.type)
        if part.kind is not None and (part.kind not in _CASTS or kind not in _CASTS[part.kind]):
            raise ExpressionError(f"{sql_text(node)}: Spark casts no {part.kind} to {str(column.type).upper()}")
        template = functions.cast(part.kind, part.number, kind, str(column.type).upper())
        return tried(functions.written(template, part.value), kind, part, exact=column.type)

    _cast = _trycast

    def _anonymous(self, node: exp.Anonymous, read: Any) -> Expression:
        name = str(node.this).lower()
        if name in ("coalesce", "ifnull", "nvl") and node.expressions:
            return self._first(node, [read(each) for each in node.expressions])
        if name == "if" and len(node.expressions) == 3:
            condition, one, other = map(read, node.expressions)
            self._must(condition, BOOLEAN, node)
            return self._chosen(node, [condition], [one], other)
        if name in ("greatest", "least") and len(node.expressions) >= 2:
            parts = [read(each) for each in node.expressions]
            kind, number = self._alike(node, *parts)
            return composed(called(name, parts), kind, *parts, exact=one_type(*parts), number=number)
        if name == "nullif" and len(node.expressions) == 2:
            one, other = map(read, node.expressions)
            kind = self._comparable(node, one, other)
            return composed(called(name, (one, other)), kind, one, other, exact=one_type(one, other), number=one.number)
        if special := {"header": self._header, "decimal_from_bytes": decimal_bytes.read}.get(name):
            return special(node, read)
        function = FUNCTIONS.get(name)
        if function is None:
            names = sorted({*FUNCTIONS, *_SPECIAL.split()})
            close = get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise ExpressionError(f"{name}(…) is not for a transform; {hint}allowed: {', '.join(names)}")
        parts = [read(each) for each in node.expressions]
        self._arguments(node, name, function, parts)
        parts = fitting_arguments(function, parts)
        first = parts[0].number
        places = int(parts[1].value) if len(parts) > 1 and callable(function.number) else 0
        number = function.number(first, places) if callable(function.number) else function.number
        template = function.template(first) if callable(function.template) else function.template
        value = called(name, parts, template)
        return (tried if function.tried else composed)(value, function.gives, *parts, number=number)

    def _header(self, node: exp.Anonymous, _: Any) -> Expression:
        """The text of the record's last header of a name; null if there is none, or if it is no UTF-8."""
        arguments = node.expressions
        if len(arguments) != 1 or type(arguments[0]).__name__ != "Literal" or not arguments[0].is_string:
            raise ExpressionError(f"{sql_text(node)}: write the header's name as a text, as in header('ce_type')")
        matches = f"filter(_headers, h -> h.key = {quoted(str(arguments[0].this))})"
        return composed(f"try_validate_utf8(CAST(try_element_at({matches}, -1).value AS STRING))", TEXT)

    def _arguments(self, node: exp.Anonymous, name: str, function: Function, parts: Sequence[Expression]) -> None:
        takes = function.takes.split()
        least = sum(1 for each in takes if each[-1] not in "?*")
        most = len(parts) if takes[-1].endswith("*") else len(takes)
        if not least <= len(parts) <= most:
            raise ExpressionError(f"{sql_text(node)}: {name} takes {' '.join(takes)}")
        for at, (part, each) in enumerate(zip(parts, node.expressions, strict=True)):
            parameter = function.argument(at)
            if parameter == "size":
                # A record must not say how long a text becomes.
                if not (type(each).__name__ == "Literal" and re.fullmatch(r"[1-9]\d{0,2}", part.value)):
                    raise ExpressionError(f"{sql_text(node)}: write a number from 1 to 999 for {sql_text(each)}")
            elif parameter == "day":
                if part.kind not in (None, NULL, DATE, TIME, LOCAL):
                    raise ExpressionError(
                        f"{sql_text(node)}: {sql_text(each)} is a {part.kind}; CAST it AS DATE or TIMESTAMP"
                    )
            elif parameter == "any":
                if name in ("concat", "concat_ws"):
                    self._joined(part, node)
                elif name == "xxhash64":
                    self._atomic(part, node)
            elif parameter in functions.MOMENTS:
                self._must(part, NUMBER, node)
                enough, cure = functions.MOMENTS[parameter]
                if part.number is not None and not enough(part.number):
                    raise ExpressionError(f"{sql_text(node)}: {sql_text(each)} is {str(part.number).upper()}; {cure}")
            else:
                self._must(part, NUMBER if parameter == "whole" else parameter, node)

    # Kinds -----------------------------------------------------------------------------------------------------------

    def _must(self, part: Expression, kind: str, node: Any) -> None:
        if part.kind not in (None, NULL, kind):
            raise ExpressionError(
                f"{sql_text(node)} takes a {kind}, and {short_text(part)} is a {part.kind}; CAST it to one"
            )

    def _atomic(self, part: Expression, node: Any) -> None:
        if part.kind is not None and part.kind not in _CASTS:
            raise ExpressionError(f"{sql_text(node)}: {short_text(part)} is {part.kind.upper()}; name a field of it")

    def _joined(self, part: Expression, node: Any) -> None:
        """Refuse what cannot be a part of a text."""
        if part.kind == BYTES:
            raise ExpressionError(f"{sql_text(node)}: {short_text(part)} is bytes; CAST it AS STRING")
        self._atomic(part, node)

    def _comparable(self, node: Any, one: Expression, other: Expression) -> str | None:
        """The one kind of both.

        Raises:
            ExpressionError: see `_alike`.
        """
        numbers = zip((one, other), operand_types(one, other), strict=True)
        return self._alike(node, *(replace(part, number=number) for part, number in numbers))[0]

    def _alike(self, node: Any, *parts: Expression) -> tuple[str | None, ddl.Type | None]:
        """The one kind of them; and the type that they become together, if that is a number.

        Raises:
            ExpressionError: they have several: Spark would cast one, and stop the batch where it cannot; or Spark would
                round a number to compare it.
        """
        kinds = dict.fromkeys(part.kind for part in parts if part.kind not in (None, NULL))
        if len(kinds) > 1:
            raise ExpressionError(
                f"{sql_text(node)} has a {' and a '.join(map(str, kinds))}; CAST one to the other's type"
            )
        unknown = any(part.kind is None for part in parts)
        kind = next(iter(kinds), None if unknown else NULL)
        try:
            return kind, numbers.common([part.number for part in parts if part.kind != NULL])
        except numbers.TooManyDigits as found:
            raise _too_many(node, found) from None


_ARITHMETIC = {"Add": "try_add", "Sub": "try_subtract", "Mul": "try_multiply", "Div": "try_divide", "Mod": "try_mod"}
_COMPARES = {"EQ": "=", "NEQ": "<>", "GT": ">", "GTE": ">=", "LT": "<", "LTE": "<=", "NullSafeEQ": "<=>"}


def _too_many(node: Any, digits: numbers.TooManyDigits) -> ExpressionError:
    return ExpressionError(
        f"{sql_text(node)} needs {digits}; a DECIMAL has 38, and Spark would round: CAST a part AS a DECIMAL with fewer"
    )


def no_field(path: Sequence[str], at: int, columns: Sequence[ddl.Column]) -> str:
    """That a step of a path is none of these columns, and which one may be meant."""
    names = [column.name for column in columns]
    close = get_close_matches(path[at].lower(), [name.lower() for name in names], n=1)
    hint = f"did you mean {next(n for n in names if n.lower() == close[0])}? " if close else ""
    around = f"field of {'.'.join(path[:at])}" if at else "column"
    return f"{'.'.join(path)} is no {around}; {hint}there: {', '.join(names) or 'none'}"
