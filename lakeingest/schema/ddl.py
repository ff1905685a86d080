"""Columns as DDL text, read without Spark: `flight INT, carrier STRING NOT NULL` → frozen columns.

sqlglot cuts the text into Spark's own tokens; the grammar of columns is walked here, as sqlglot's parser takes any
SQL type (Spark would refuse it later, at run time) and answers a misspelt one with "Expecting )".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any

from lakeingest.schema.ddl_types import Array, Atomic, Column, Map, Struct, Type

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

__all__ = ["Array", "Atomic", "Column", "DdlError", "Map", "Struct", "Type"]

_SYNONYMS = {
    "string": ("STRING",),
    "boolean": ("BOOLEAN",),
    "tinyint": ("TINYINT", "BYTE"),
    "smallint": ("SMALLINT", "SHORT"),
    "int": ("INT", "INTEGER"),
    "bigint": ("BIGINT", "LONG"),
    "float": ("FLOAT", "REAL"),
    "double": ("DOUBLE",),
    "decimal": ("DECIMAL", "DEC", "NUMERIC"),
    "binary": ("BINARY",),
    "date": ("DATE",),
    "timestamp": ("TIMESTAMP", "TIMESTAMP_LTZ"),
    "timestamp_ntz": ("TIMESTAMP_NTZ",),
}
_ATOMIC = {word: name for name, words in _SYNONYMS.items() for word in words}
_NESTED = {"ARRAY": "ARRAY<INT>", "MAP": "MAP<STRING, INT>", "STRUCT": "STRUCT<a: INT, b: STRING>"}
_ALLOWED = "STRING, BOOLEAN, BYTE, SHORT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), BINARY, DATE, TIMESTAMP, " + (
    "TIMESTAMP_NTZ, ARRAY<…>, MAP<…, …>, STRUCT<name: type, …>"
)
_IN_SCHEMA_JSON = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
UNSTORABLE = " ,;{}()\n\t="
"""Characters that Delta refuses in the name of a column."""
_DEEPEST = 50


class DdlError(ValueError):
    """The text declares no columns; `problems` holds one sentence for each column that is wrong."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@cache
def parse(text: str) -> tuple[Column, ...]:
    """Read DDL text, as in `flight INT, carrier STRING NOT NULL, via ARRAY<STRING>`.

    Raises:
        DdlError: for every column that cannot be read, its name, the offending text and what is allowed.
    """
    columns, problems = [], []
    for tokens in _declarations(text):
        try:
            columns.append(_ColumnParser(text, tokens).column(last=True))
        except ValueError as error:
            problems.append(str(error))
    if not columns and not problems:
        problems.append("declares no column; write columns as in 'flight INT, carrier STRING NOT NULL'")
    problems += _twice(columns, "")
    if problems:
        raise DdlError(problems)
    return tuple(columns)


def without_comments(text: str) -> str:
    """The same text without COMMENT '…', and the blanks before it.

    Raises:
        DdlError: see `parse`.
    """
    parse(text)
    parts, start = [], 0
    for tokens in _declarations(text):
        is_comment = False
        for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
            is_text = text[after.start] in "'\""
            # A column may have that name, and no type begins with a quote.
            if _word(text, token) == "COMMENT" and is_text:
                parts.append(text[start : before.end + 1])
                is_comment = True
            is_comment = is_comment and is_text
            start = after.end + 1 if is_comment else start
    return "".join((*parts, text[start:]))


def to_json(columns: Sequence[Column]) -> str:
    """The columns as Spark's schema JSON, as `StructType.json()` writes it and `StructType.fromJson` reads it."""
    return json.dumps(_plain(Struct(tuple(columns))), separators=(",", ":"), sort_keys=True)


def quoted(name: str) -> str:
    """A column's name as SQL takes any name."""
    return "`" + name.replace("`", "``") + "`"


def quoted_path(path: str) -> str:
    """The same of a field within structs: a dot stands between its names."""
    return ".".join(map(quoted, path.split(".")))


def text(value: str) -> str:
    """A text as SQL takes it; in the place of a plain ${…} Spark would put settings and environment."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{") + "'"


def column_named(columns: Sequence[Column], name: str) -> Column | None:
    """The column of this name, upper and lower case as one, as Spark has it; None if there is none."""
    return next((column for column in columns if column.name.lower() == name.lower()), None)


def sources(columns: Sequence[Column], path: str = "") -> Iterator[str]:
    """The paths of columns that are filled from fields of other names."""
    for column in columns:
        below = f"{path}.{column.name}" if path else column.name
        if column.source:
            yield below
        yield from _sources_within(column.type, below)


def _sources_within(kind: Type, path: str) -> Iterator[str]:
    match kind:
        case Struct(fields):
            yield from sources(fields, path)
        case Array(inner) | Map(_, inner):
            yield from _sources_within(inner, path)


def find(columns: Sequence[Column], path: str) -> Column | None:
    """The column, or nested field, at a dotted path through structs and maps; None if there is none."""
    for column in columns:
        if column.name == path:
            return column
        if path.startswith(column.name + "."):
            return _within(column.type, path[len(column.name) + 1 :])
    return None


def _within(kind: Type, path: str) -> Column | None:
    if isinstance(kind, Struct):
        return find(kind.fields, path)
    if isinstance(kind, Map):
        key, _, rest = path.partition(".")
        return _within(kind.value, rest) if rest else Column(key, kind.value)
    return None


def _plain(kind: Type) -> Any:
    if isinstance(kind, Atomic):
        return _IN_SCHEMA_JSON.get(kind.name, kind.name)
    if isinstance(kind, Array):
        return {"type": "array", "elementType": _plain(kind.element), "containsNull": True}
    if isinstance(kind, Map):
        key, value = _plain(kind.key), _plain(kind.value)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    fields = [
        {
            "name": field.name,
            "type": _plain(field.type),
            "nullable": field.nullable,
            "metadata": {} if field.comment is None else {"comment": field.comment},
        }
        for field in kind.fields
    ]
    return {"type": "struct", "fields": fields}


def _declarations(text: str) -> Iterator[list[Token]]:
    """The tokens of each column: cut at the commas that are not within brackets."""
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import TokenError

    try:
        tokens = Spark().tokenize(text)
    except TokenError:
        raise DdlError([f"{text!r} cannot be read: a quote or a comment is opened and never closed"]) from None
    depth, start = 0, 0
    for i, token in enumerate(tokens):
        word = _word(text, token)
        depth += (word in ("<", "(")) - (word in (">", ")"))
        if word == "," and depth <= 0:
            yield tokens[start:i]
            start = i + 1
    if tokens:
        yield tokens[start:]


def _word(text: str, token: Token) -> str:
    """The token as it is written, in upper case: with its quotes, so that a column or a comment of ',' is no comma."""
    return text[token.start : token.end + 1].upper()


def _twice(columns: Sequence[Column], owner: str) -> list[str]:
    """Spark compares names without regard to case, so that Id and id are one column."""
    names, sources = [column.name.lower() for column in columns], [column.field_name for column in columns]
    problems = [
        f"{owner}{column.name}: the field {column.field_name!r} fills another column already; drop one of the two"
        for i, column in enumerate(columns)
        if column.field_name in sources[:i] and names[i] not in names[:i]
    ]
    return problems + [
        f"{owner}{column.name}: declared twice (upper and lower case are one); rename or drop one"
        for i, column in enumerate(columns)
        if names[i] in names[:i]
    ]


class _ColumnParser:
    """Walks the tokens of one column."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text, self.tokens, self.at = text, tokens, 0
        self.owner = ""
        self.depth = 0

    def column(self, *, last: bool = False) -> Column:
        name = self._name()
        outer, self.owner = self.owner, f"{self.owner}.{name}" if self.owner else name
        self._take(":")
        kind = self._type()
        nullable = not self._take("NOT")
        if not nullable and not self._take("NULL"):
            raise self._wrong("after NOT comes NULL")
        source = self._text("FROM") if self._take("FROM") else None
        comment = self._text("COMMENT") if self._take("COMMENT") else None
        if last and self.at < len(self.tokens):
            raise self._wrong(
                "not understood here; after the type only NOT NULL, FROM 'field' and COMMENT 'text' may follow, in "
                "this order"
            )
        self.owner = outer
        return Column(name, kind, nullable, comment, source)

    def _name(self) -> str:
        token = self._next()
        plain = token is not None and (token.text.isidentifier() or token.text.replace("_", "a").isalnum())
        quoted = token is not None and self.text[token.start] == "`"
        if token is None or not (plain or quoted):
            self.at -= token is not None
            raise self._wrong("a column begins with its name, as in 'flight INT'")
        if not token.text or any(c in UNSTORABLE for c in token.text):
            raise ValueError(
                f"{token.text!r} is no name for a Delta column: it is empty, or has a blank or one of ,;{{}}()="
            )
        return token.text

    def _type(self) -> Type:
        token = self._next()
        word = "" if token is None else _word(self.text, token)
        if word in _NESTED:
            self.depth += 1
            if self.depth > _DEEPEST:
                raise ValueError(f"{self.owner}: nested deeper than {_DEEPEST} types; flatten it")
            kind = self._nested(word)
            self.depth -= 1
            return kind
        if word not in _ATOMIC:
            self.at -= token is not None
            close = get_close_matches(word, [*_ATOMIC, *_NESTED], n=1, cutoff=0.75)
            hint = f"did you mean {close[0]}? " if close else ""
            raise self._wrong(f"not a type; {hint}allowed: {_ALLOWED}")
        name = _ATOMIC[word]
        return Atomic(self._decimal() if name == "decimal" else name)

    def _nested(self, word: str) -> Type:
        self._expect("<", f"its parts are missing; write {_NESTED[word]}")
        if word == "ARRAY":
            kind: Type = Array(self._type())
        elif word == "MAP":
            key = self._type()
            self._expect(",", "a map has two types, as in MAP<STRING, INT>")
            if isinstance(key, Map):
                raise ValueError(f"{self.owner}: the key of a map may not be a map itself")
            kind = Map(key, self._type())
        else:
            fields = [self.column()]
            while self._take(","):
                fields.append(self.column())
            if problems := _twice(fields, f"{self.owner}."):
                raise DdlError(problems)
            kind = Struct(tuple(fields))
        self._expect(">", f"the < of {word} is closed by >")
        return kind

    def _decimal(self) -> str:
        precision, scale = 10, 0
        if self._take("("):
            precision = self._number()
            scale = self._number() if self._take(",") else 0
            self._expect(")", "write DECIMAL(precision, scale), as in DECIMAL(10,2)")
        if not 1 <= precision <= 38 or scale > precision:
            raise ValueError(
                f"{self.owner}: DECIMAL({precision},{scale}) does not exist; "
                "the precision is 1 to 38, the scale 0 to the precision"
            )
        return f"decimal({precision},{scale})"

    def _number(self) -> int:
        token = self._next()
        if token is None or not token.text.isdecimal() or len(token.text) > 4:
            self.at -= token is not None
            raise self._wrong("write DECIMAL(precision, scale), as in DECIMAL(10,2)")
        return int(token.text)

    def _text(self, word: str) -> str:
        start = self.at
        while self.at < len(self.tokens) and self.text[self.tokens[self.at].start] in "'\"":
            self.at += 1
        if start == self.at:
            raise self._wrong(f"after {word} comes a text in quotes")
        return "".join(token.text for token in self.tokens[start : self.at])

    def _next(self) -> Token | None:
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else None

    def _take(self, word: str) -> bool:
        matches = self.at < len(self.tokens) and _word(self.text, self.tokens[self.at]) == word
        self.at += matches
        return matches

    def _expect(self, word: str, cure: str) -> None:
        if not self._take(word):
            raise self._wrong(cure)

    def _wrong(self, cure: str) -> ValueError:
        rest = self.tokens[self.at :]
        text = repr(self.text[rest[0].start : rest[0].end + 1]) if rest else "the end"
        return ValueError(f"{self.owner or 'columns'}: {text}: {cure}")
