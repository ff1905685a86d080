"""What an ordered list of transforms makes of a record's columns. Pure: columns in, columns out, and SQL for Spark.

Each step sees the columns as the one before it left them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias

from lakeingest import extend
from lakeingest.errors import UsageError
from lakeingest.schema import ddl, hidden
from lakeingest.schema.expression import no_field, read
from lakeingest.schema.expression_parts import Expression, ExpressionError

Kind: TypeAlias = Literal["rename", "drop", "keep", "cast", "mask", "derive", "flatten", "where", "own"]


@dataclass(frozen=True)
class Mask:
    """A mask of a value.

    Attributes:
        kind: null; hash (SHA-256 of a salt and its text, in hexadecimal digits); last (*** and its last characters);
            constant.
        text: the salt, or the constant.
        kept_characters: how many characters are kept.
    """

    kind: Literal["null", "hash", "last", "constant"]
    text: str = field(default="", repr=False)
    kept_characters: int = 0


@dataclass(frozen=True)
class TransformStep:
    """One step of the list.

    Attributes:
        kind: what it does.
        names: the columns that are dropped, kept or flattened; the class, of an own step.
        masks: a field, dotted within structs → how it is hidden. Masks and names of a drop may also lead to _key,
            _headers.NAME and _rescued (see `hidden`).
        texts: old name → new name; column → type; new column → SQL; name of a condition → SQL.
    """

    kind: Kind
    names: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    masks: Mapping[str, Mask] = field(default_factory=dict)


class TransformError(ValueError):
    """A step cannot be done.

    Attributes:
        path: where in the list: the step's position, its kind, and the entry within it.
        text: what is wrong, a sentence with its cure.
    """

    def __init__(self, path: tuple[str | int, ...], text: str) -> None:
        super().__init__(f"transform[{path[0]}].{'.'.join(map(str, path[1:]))}: {text}")
        self.path, self.text = path, text


@dataclass(frozen=True)
class Stage:
    """A step with the columns that it sees.

    Attributes:
        at: its position in the list.
        before, after: the columns before it, and behind it.
        expressions: what it computes: new column → SQL, or name of a condition → SQL.
    """

    at: int
    step: TransformStep
    before: tuple[ddl.Column, ...]
    after: tuple[ddl.Column, ...]
    expressions: Mapping[str, Expression] = field(default_factory=dict)


def plannable(steps: Sequence[TransformStep]) -> bool:
    """Whether the columns behind the steps can be told without running code of somebody's own."""
    return not any(step.kind == "own" for step in steps)


def apply(steps: Sequence[TransformStep], columns: Sequence[ddl.Column]) -> tuple[ddl.Column, ...]:
    """The columns behind all steps.

    Raises:
        TransformError: a step names what is not there, or cannot be done with it.
    """
    result = tuple(columns)
    for stage in stages(steps, columns):
        result = stage.after
    return result


def stages(steps: Sequence[TransformStep], columns: Sequence[ddl.Column]) -> Iterator[Stage]:
    """The steps in their order, each with its columns.

    Raises:
        TransformError: see `apply`.
    """
    before = tuple(columns)
    for at, step in enumerate(steps):
        stage = _StageBuilder(at, step, before).stage()
        yield stage
        before = stage.after


def check_alone(steps: Sequence[TransformStep]) -> None:
    """Read the expressions, where nobody knows the columns yet.

    Raises:
        TransformError: one is not understood, or may not be used.
    """
    for at, step in enumerate(steps):
        for name, text in step.texts.items() if step.kind in ("derive", "where") else ():
            try:
                read(text, None)
            except ExpressionError as wrong:
                raise TransformError((at, step.kind, name), str(wrong)) from None


@dataclass(frozen=True)
class _StageBuilder:
    at: int
    step: TransformStep
    before: tuple[ddl.Column, ...]

    def stage(self) -> Stage:
        kinds: Mapping[Kind, Callable[[], Stage]] = {
            "rename": self._rename,
            "drop": self._drop,
            "keep": self._keep,
            "cast": self._cast,
            "mask": self._mask,
            "derive": self._derive,
            "flatten": self._flatten,
            "where": self._where,
            "own": self._own_code,
        }
        stage = kinds[self.step.kind]()
        names = [column.name.lower() for column in stage.after]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise self._wrong(self._entry(twice), f"there would be two columns {twice}; rename one of them, or drop it")
        if not stage.after:
            raise TransformError((self.at, self.step.kind), "no column is left; a table needs one at least")
        return stage

    def _entry(self, name: str) -> str:
        """The entry of the step that makes a column, as far as it is told from the name."""
        return next((key for key, text in self.step.texts.items() if name in (key.lower(), text.lower())), name)

    def _wrong(self, entry: str, text: str) -> TransformError:
        return TransformError((self.at, self.step.kind, entry), text)

    def _to(self, after: Sequence[ddl.Column], **expressions: Expression) -> Stage:
        return Stage(self.at, self.step, self.before, tuple(after), expressions)

    def _column(self, name: str) -> ddl.Column:
        column = ddl.column_named(self.before, name)
        if column is None:
            raise self._wrong(name, no_field([name], 0, self.before))
        return column

    def _rename(self) -> Stage:
        new = {self._column(old).name: name for old, name in self.step.texts.items()}
        return self._to([replace(c, name=new.get(c.name, c.name)) for c in self.before])

    def _drop(self) -> Stage:
        columns = self.before
        for path in self.step.names:
            if hidden.column_of(path) is None:
                columns = at_path(columns, self._way(path), lambda _: None, self._at(path))
        return self._to(columns)

    def _keep(self) -> Stage:
        names = {self._column(name).name for name in self.step.names if name.lower() not in hidden.COLUMNS}
        return self._to([c for c in self.before if c.name in names])

    def _cast(self) -> Stage:
        expressions, after = {}, list(self.before)
        for name, text in self.step.texts.items():
            column = self._column(name)
            expressions[column.name] = expression = self._read(name, f"CAST({ddl.quoted(column.name)} AS {text})")
            after[after.index(column)] = replace(column, type=self._type(name, expression))
        return self._to(after, **expressions)

    def _derive(self) -> Stage:
        expressions, after = {}, list(self.before)
        for name, text in self.step.texts.items():
            expression, old = self._read(name, text), ddl.column_named(after, name)
            # A column that is computed anew keeps its place, and its name as it is written.
            new = ddl.Column(old.name if old else name, self._type(name, expression))
            if old is None:
                after.append(new)
            else:
                after[after.index(old)] = new
            expressions[new.name] = expression
        return self._to(after, **expressions)

    def _type(self, entry: str, expression: Expression) -> ddl.Type:
        if expression.type is None:
            raise self._wrong(entry, "its type is not told; write it, as in CAST(price * amount AS DOUBLE)")
        return expression.type

    def _where(self) -> Stage:
        conditions = {name: self._read(name, text) for name, text in self.step.texts.items()}
        for name, condition in conditions.items():
            if condition.kind not in ("boolean", "null", None):
                raise self._wrong(name, f"no condition, but a {condition.kind}; write one, as in amount > 0")
        return self._to(self.before, **conditions)

    def _own_code(self) -> Stage:
        (name,) = self.step.names
        try:
            columns = ddl.parse(extend.step(name).columns)
        except (UsageError, ddl.DdlError) as wrong:
            raise self._wrong(name, str(wrong)) from wrong
        new = {column.name.lower(): column for column in columns}
        after = [new.pop(column.name.lower(), column) for column in self.before]
        return self._to([*after, *new.values()], **{name: Expression("", "", None, None)})

    def _read(self, name: str, text: str) -> Expression:
        try:
            return read(text, (*self.before, *OF_RECORD))
        except ExpressionError as wrong:
            raise self._wrong(name, str(wrong)) from None

    def _flatten(self) -> Stage:
        names = {}
        for name in self.step.names:
            column = self._column(name)
            if not isinstance(column.type, ddl.Struct):
                raise self._wrong(name, f"{name} is {str(column.type).upper()}, and has no fields; name a STRUCT")
            names[column.name] = column
        after: list[ddl.Column] = []
        for column in self.before:
            after += [leaf for _, leaf in leaves(column)] if column.name in names else [column]
        return self._to(after)

    def _mask(self) -> Stage:
        after = self.before
        for path, mask in self.step.masks.items():
            if hidden.column_of(path) is None:
                after = at_path(after, self._way(path), partial(masked, mask, self._at(path)), self._at(path))
            else:
                hidden.check(path, mask, self._at(path))
        return self._to(after)

    def _way(self, path: str) -> list[str]:
        """The names of a path through structs.

        Raises:
            TransformError: a column has this very name, and would stay as it is.
        """
        if "." in path and ddl.column_named(self.before, path) is not None:
            cure = f'rename it first, as in rename: {{"{path}": {path.replace(".", "_")}}}'
            raise self._wrong(path, f"a column has this very name, and a dot leads to a field of a struct; {cure}")
        return path.split(".")

    def _at(self, entry: str) -> Callable[[str], TransformError]:
        return lambda text: self._wrong(entry, text)


OF_RECORD = (
    ddl.Column("_topic", ddl.Atomic("string")),
    ddl.Column("_partition", ddl.Atomic("int")),
    ddl.Column("_offset", ddl.Atomic("bigint")),
    ddl.Column("_timestamp", ddl.Atomic("timestamp")),
)
"""What an expression may ask besides: where and when the record came."""


def leaves(column: ddl.Column) -> Iterator[tuple[str, ddl.Column]]:
    """What becomes of a struct when it is flattened: the path of each value in SQL, and its column."""

    def walk(path: str, name: str, outer: ddl.Column) -> Iterator[tuple[str, ddl.Column]]:
        if not isinstance(outer.type, ddl.Struct):
            yield path, replace(outer, name=name)
            return
        for each in outer.type.fields:
            below = replace(each, nullable=outer.nullable or each.nullable)
            yield from walk(f"{path}.{ddl.quoted(each.name)}", f"{name}_{each.name}", below)

    yield from walk(ddl.quoted(column.name), column.name, column)


def masked(mask: Mask, wrong: Callable[[str], TransformError], column: ddl.Column) -> ddl.Column:
    """The column as a mask leaves it.

    Raises:
        TransformError: it cannot be masked in this way.
    """
    if mask.kind == "null":
        return replace(column, nullable=True)
    kind = str(column.type)
    if mask.kind != "hash" and kind != "string":
        raise wrong(f"{mask.kind} is for text, and {column.name} is {kind.upper()}; write hash, or null")
    if not isinstance(column.type, ddl.Atomic) or kind in ("binary", "variant"):
        raise wrong(f"hash is for texts, numbers and times, and {column.name} is {kind.upper()}; write null")
    return replace(column, type=ddl.Atomic("string"))


def at_path(
    columns: tuple[ddl.Column, ...],
    path: Sequence[str],
    change: Callable[[ddl.Column], ddl.Column | None],
    wrong: Callable[[str], TransformError],
) -> tuple[ddl.Column, ...]:
    """The columns with one changed, or gone, at a path through structs.

    Raises:
        TransformError: there is none at this path.
    """
    name, *rest = path
    column = ddl.column_named(columns, name)
    if column is None:
        raise wrong(no_field([name], 0, columns))
    if not rest:
        new = change(column)
    elif not isinstance(column.type, ddl.Struct):
        raise wrong(f"{name} is {str(column.type).upper()}, and has no fields; name the column")
    else:
        within = at_path(column.type.fields, rest, change, wrong)
        if not within:
            raise wrong(f"no field of {name} is left; name the column")
        new = replace(column, type=ddl.Struct(within))
    return tuple(replaced for c in columns if (replaced := new if c is column else c) is not None)
