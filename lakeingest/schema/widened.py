"""Steps that would make another row of a record, because a column became wider than its schema says. Pure.

Records of an old schema may share a batch with the first one of a new schema, which widens a column. Their rows must be
the ones that they would have had in a batch of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakeingest.schema import ddl
from lakeingest.schema.transforms import Stage, TransformError, TransformStep, stages


def barring(steps: Sequence[TransformStep], old: Sequence[ddl.Column], new: Sequence[ddl.Column]) -> str | None:
    """The first step that gives another result for an old value once its column is wider; None if no step does.

    Args:
        old, new: the columns before the steps. Only the types of those that both have are compared.

    Returns:
        A sentence with the column, the step and the cure.
    """
    wide = _widened(tuple(old), new)
    if wide == tuple(old):
        return None
    try:
        # A new schema for which the steps cannot be done is refused for that.
        stage_pairs = zip(stages(steps, old), stages(steps, wide), strict=True)
        return next((why for was, now in stage_pairs for why in _differing(was, now)), None)
    except TransformError:
        return None


def _widened(old: tuple[ddl.Column, ...], new: Sequence[ddl.Column]) -> tuple[ddl.Column, ...]:
    """The old columns with the new types."""
    column_pairs = [(column, ddl.column_named(new, column.name)) for column in old]
    return tuple(replace(was, type=_type(was.type, now.type)) if now else was for was, now in column_pairs)


def _type(old: ddl.Type, new: ddl.Type) -> ddl.Type:
    match old, new:
        case ddl.Struct(fields), ddl.Struct(others):
            return ddl.Struct(_widened(fields, others))
        case ddl.Array(element), ddl.Array(other):
            return ddl.Array(_type(element, other))
        case ddl.Map(key, value), ddl.Map(other_key, other):
            return ddl.Map(_type(key, other_key), _type(value, other))
        case ddl.Atomic(), ddl.Atomic():
            return new
    return old


def _differing(was: Stage, now: Stage) -> Iterator[str]:
    """What is to be said of a step, entry by entry."""
    for name, expression in was.expressions.items():
        own_code = was.step.kind == "own"
        # Nobody knows which columns a class of one's own asks.
        paths = [column.name for column in was.before] if own_code else sorted(expression.columns)
        column_pairs = [(_at(was.before, path.lower()), _at(now.before, path.lower())) for path in paths]
        wider = [(old[0], old[1], new[1]) for old, new in column_pairs if old and new and old != new]
        if wider and (own_code or expression.widths != now.expressions[name].widths):
            yield _sentence(was, name, *wider[0])


def _at(columns: Sequence[ddl.Column], path: str) -> tuple[str, ddl.Type] | None:
    """A column, or a field within it, as an expression names it, and its type.

    Args:
        path: in lower case; a name in it may have dots.
    """
    for column in columns:
        name, written = column.name.lower(), column.name if column.name.isidentifier() else ddl.quoted(column.name)
        if path == name:
            return written, column.type
        if path.startswith(f"{name}.") and isinstance(column.type, ddl.Struct):
            within = _at(column.type.fields, path[len(name) + 1 :])
            return within and (f"{written}.{within[0]}", within[1])
    return None


def _sentence(stage: Stage, name: str, path: str, old: ddl.Type, new: ddl.Type) -> str:
    wide = str(new).upper()
    if not isinstance(new, ddl.Atomic):
        cure = f"write a CAST around each value of {path} that the step asks"
    elif stage.step.kind in ("cast", "own"):
        cure = f"write cast: {{{path}: {wide}}} in a step before it"
    else:
        cure = f"write CAST({path} AS {wide}) in the step"
    text = f"{path} is {str(old).upper()} in the table and {wide} in the record, and the step makes another value of it"
    return f"{TransformError((stage.at, stage.step.kind, name), text)}: {cure}, then replay"
