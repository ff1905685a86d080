"""The texts of a `row_condition` → the form of Great Expectations 1.x, where that asks exactly the same. Pure.

Three parsers of Great Expectations read such texts: its own (`col("x") == 1`, and nothing behind it), pandas' `query`
and Spark's SQL. Comparisons of one column with a value, tests for null, lists, and what joins them, are understood;
everything else is refused. To Spark a comparison with null is neither true nor false. To pandas it is false, so that
`!=` and `not` are true of a null.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

from lakeingest.gate.arguments import negated

_OWN = re.compile(
    r"""\s*col\("(?P<column>[^"]+)"\)\s*(?:(?P<null>(?i:\.notnull\(\)))|(?P<operator>==|!=|<=|>=|<|>)\s*(?:
        (?P<number>[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)
        |(?P<date>date\(\s*)?(?:"(?P<double>[^\s"'][^"']*)"|'(?P<single>[^\s"'][^"']*)')\s*(?(date)\)))\s*)\s*\Z""",
    re.VERBOSE,
)
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|(?P<text>'[^'\\]*'(?!')|"[^"\\]*"(?!"))
        |(?P<column>`[^`]+`|[A-Za-z_]\w*(?:\.(?!(?:isnull|isna|notnull|notna|isin)\()[A-Za-z_]\w*)*)
        |(?P<method>\.(?:isnull|isna|notnull|notna)\(\s*\)|\.isin\()
        |(?P<sign><=>|<=|>=|==|!=|<>|[-=<>()\[\],&|~]))""",
    re.VERBOSE,
)
_WORDS = {
    "spark": frozenset(
        ("and", "or", "not", "is", "in", "between", "null", "true", "false", "like", "rlike", "case", "cast")
    ),
    "pandas": frozenset(("and", "or", "not", "in", "True", "False", "None", "index")),
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MOST, _MOST_DIGITS = 100, 15
"""Conditions that Great Expectations takes in one, and digits that each kind of number holds."""

_LARGEST = 10**18

Condition = dict[str, Any]


class NotExact(ValueError):
    """The text is not understood, or 1.x cannot ask the same; the message says what of it."""


class _Tree(NamedTuple):
    """`and` or `or` of several; with one condition and no parts a leaf."""

    kind: str
    parts: Sequence[_Tree] = ()
    leaf: Condition = {}  # noqa: RUF012


def converted(text: str, parser: str | None) -> Condition:
    """The condition as 1.x writes it.

    Args:
        parser: `condition_parser`: spark, pandas, or great_expectations under one of its names.

    Raises:
        NotExact: see there.
    """
    if parser in ("great_expectations", "great_expectations__experimental__"):
        return _great_expectations(text)
    if parser not in _WORDS:
        raise NotExact(f"condition_parser {parser!r} is none of great_expectations, pandas and spark")
    if len(text) > 10_000:
        raise NotExact("it has more than 10,000 characters")
    return _normal(_Reader(text, parser).whole())


def _great_expectations(text: str) -> Condition:
    match = _OWN.match(text)
    if match is None:
        raise NotExact(
            'great_expectations reads one comparison of col("name") with a number or a text, or .notnull(); what '
            "stands behind that it leaves out in silence"
        )
    if match["null"]:
        return _nullity(match["column"], is_null=False)
    value = _number(match["number"]) if match["number"] else match["double"] or match["single"]
    return _comparison(match["column"], match["operator"], value)


def _nullity(column: str, *, is_null: bool) -> Condition:
    return {"type": "nullity", "column": {"name": column}, "is_null": is_null}


def _comparison(column: str, operator: str, value: Any) -> Condition:
    return {"type": "comparison", "column": {"name": column}, "operator": operator, "parameter": value}


def _number(text: str) -> int | float:
    if len(re.sub(r"[eE].*|\D", "", text).strip("0")) > _MOST_DIGITS and not re.fullmatch(r"[+-]?\d{1,18}", text):
        raise NotExact(f"{text} has more digits than each kind of number holds")
    number = int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    if abs(number) > _LARGEST:
        raise NotExact(f"{text} is larger than each kind of number holds")
    return number


def _negation(tree: _Tree, parser: str) -> _Tree:
    """What is true where a tree is not: to Spark neither is true of a null."""
    if tree.kind != "leaf":
        return _Tree("or" if tree.kind == "and" else "and", [_negation(part, parser) for part in tree.parts])
    other = _Tree("leaf", leaf=negated(tree.leaf))
    if parser == "spark" or tree.leaf["type"] == "nullity":
        return other
    return _Tree("or", [_Tree("leaf", leaf=_nullity(tree.leaf["column"]["name"], is_null=True)), other])


def _normal(tree: _Tree) -> Condition:
    """Great Expectations takes an `or` of `and`s, and no other nesting."""
    alternatives = _alternatives(tree)
    parts = [each[0] if len(each) == 1 else {"type": "and", "conditions": each} for each in alternatives]
    return parts[0] if len(parts) == 1 else {"type": "or", "conditions": parts}


def _alternatives(tree: _Tree) -> list[list[Condition]]:
    if tree.kind == "leaf":
        return [[tree.leaf]]
    lists = [_alternatives(part) for part in tree.parts]
    if tree.kind == "or":
        alternatives = [each for part in lists for each in part]
    else:
        alternatives = []
        for combination in product(*lists):
            alternatives.append(list({str(leaf): leaf for part in combination for leaf in part}.values()))
            _check_size(alternatives)
    _check_size(alternatives)
    return alternatives


def _check_size(alternatives: list[list[Condition]]) -> None:
    if sum(map(len, alternatives)) > _MOST:
        raise NotExact(f"written out, it has more than the {_MOST} conditions that Great Expectations takes")


class _Reader:
    """Reads the tokens of a text from left to right, by pandas' rules or Spark's."""

    def __init__(self, text: str, parser: str) -> None:
        self._text, self._parser, self._at = text, parser, 0
        self._sql = parser == "spark"
        self._depth = 0
        self._kind, self._token = "", ""
        self._next()

    def whole(self) -> _Tree:
        tree = self._joined("or")
        if self._kind:
            raise self._unread()
        return tree

    def _next(self) -> str:
        """Go on to the next token; the one before is returned."""
        token, match = self._token, _TOKEN.match(self._text, self._at)
        rest = self._text[self._at :].strip()
        if match is None and rest:
            raise NotExact(f"not understood from {rest[:40]!r}")
        self._kind, self._token = (match.lastgroup or "", match[0].strip()) if match else ("", "")
        self._at = match.end() if match else len(self._text)
        word = self._token.lower() if self._sql else self._token
        if self._kind == "column" and word in _WORDS[self._parser]:
            self._kind, self._token = "word", word
        if not self._sql and self._token in ("&", "|"):
            self._kind, self._token = "word", {"&": "and", "|": "or"}[self._token]
        return token

    def _unread(self) -> NotExact:
        return NotExact(f"not understood at {self._token!r}" if self._kind else "it ends too early")

    def _if_next(self, *tokens: str) -> bool:
        if self._token in tokens and self._kind in ("word", "sign"):
            self._next()
            return True
        return False

    def _must(self, token: str) -> None:
        if not self._if_next(token):
            raise self._unread()

    def _joined(self, word: str) -> _Tree:
        below = self._negated if word == "and" else lambda: self._joined("and")
        parts = [below()]
        while self._if_next(word):
            parts.append(below())
        return parts[0] if len(parts) == 1 else _Tree(word, parts)

    def _negated(self) -> _Tree:
        self._depth += 1
        if self._depth > 50:
            raise NotExact("nested deeper than 50 levels")
        try:
            if self._if_next("not"):
                return _negation(self._negated(), self._parser)
            if not self._sql and self._token == "~":
                self._next()
                if self._token != "(":
                    raise NotExact("~ stands before something else than a parenthesis; put one around it")
                return _negation(self._negated(), self._parser)
            if self._if_next("("):
                tree = self._joined("or")
                self._must(")")
                return tree
            return self._test()
        finally:
            self._depth -= 1

    def _test(self) -> _Tree:
        if self._kind == "column":
            return self._of_column(self._column())
        value, operator = self._value(), self._operator()
        if self._kind != "column" or operator is None:
            raise self._unread()
        column = self._column()
        tests = [self._compared(column, _TURNED.get(operator, operator), value)]
        if not self._sql and (second := self._operator()):
            tests.append(self._compared(column, second, self._value()))
        return _Tree("and", tests) if len(tests) > 1 else tests[0]

    def _column(self) -> str:
        token = self._next()
        if not self._sql and "." in token and not token.startswith("`"):
            raise NotExact(f"{token} is code of pandas, and no column")
        return token.strip("`")

    def _of_column(self, column: str) -> _Tree:
        if self._kind == "method":
            return self._method(column, self._next())
        if self._sql and self._if_next("is"):
            is_null = not self._if_next("not")
            self._must("null")
            return _Tree("leaf", leaf=_nullity(column, is_null=is_null))
        if operator := self._operator():
            return self._compared(column, operator, self._value())
        turned = self._if_next("not")
        if self._if_next("in"):
            tree = self._listed(column, "(" if self._sql else "[")
        elif self._sql and self._if_next("between"):
            low = self._value()
            self._must("and")
            tests = [self._compared(column, ">=", low), self._compared(column, "<=", self._value())]
            tree = _Tree("and", tests)
        elif not turned and (self._kind in ("", "word") or self._token == ")"):
            tree = _Tree("leaf", leaf=_comparison(column, "==", True))
        else:
            raise self._unread()
        return _negation(tree, self._parser) if turned else tree

    def _method(self, column: str, name: str) -> _Tree:
        if self._sql:
            raise NotExact(f"{column}{name} is no SQL")
        if name == ".isin(":
            tree = self._listed(column, "[")
            self._must(")")
            return tree
        return _Tree("leaf", leaf=_nullity(column, is_null=name.startswith(".is")))

    def _operator(self) -> str | None:
        operators = ("==", "!=", "<", "<=", ">", ">=", *(("=", "<>") if self._sql else ()))
        if self._kind != "sign" or self._token not in operators:
            return None
        return {"=": "==", "<>": "!="}.get(token := self._next(), token)

    def _compared(self, column: str, operator: str, value: Any) -> _Tree:
        if operator == "!=" and not self._sql:
            return _negation(_Tree("leaf", leaf=_comparison(column, "==", value)), self._parser)
        return _Tree("leaf", leaf=_comparison(column, operator, value))

    def _listed(self, column: str, opening: str) -> _Tree:
        self._must(opening)
        values = [self._value()]
        while self._if_next(","):
            values.append(self._value())
        self._must({"(": ")", "[": "]"}[opening])
        kinds = {str if isinstance(value, str) else bool if isinstance(value, bool) else float for value in values}
        if len(kinds) > 1 or bool in kinds:
            raise NotExact("Great Expectations takes a list of numbers, or one of texts")
        return _Tree("leaf", leaf=_comparison(column, "IN", values))

    def _value(self) -> Any:
        sign = "-" if self._if_next("-") else ""
        if self._kind == "number":
            return _number(sign + self._next())
        if self._kind == "text" and not sign:
            return self._next()[1:-1]
        if self._kind == "word" and self._token.lower() in ("true", "false") and not sign:
            return self._next().lower() == "true"
        if self._kind == "column":
            raise NotExact(f"{self._token} stands where a value is needed: 1.x compares a column with a value alone")
        raise self._unread()
