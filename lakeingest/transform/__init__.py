"""The transforms of a batch: a record's columns, step by step, in the pass that decodes and writes it.

A record for which an expression cannot be computed is refused, one that a condition leaves out is dropped as declared;
the first of both counts. The steps themselves, and what they make of columns, are in `schema.transforms`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from lakeingest import extend
from lakeingest.errors import UsageError
from lakeingest.record import RESCUED, Refusal, count_where, diagnosis
from lakeingest.schema import ddl, hidden
from lakeingest.schema.transforms import OF_RECORD, Stage, leaves
from lakeingest.spark import types
from lakeingest.transform import masks

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

STAGE = "transform"
FAILED, LEFT_OUT, WHY = "_transform_failed", "_transform_left_out", "_transform_why"
"""The expression that could not be computed, and the condition that was not met: INT, its number; null if none. What
code of somebody's own says of a record that it refuses: STRING.
"""
_WITHHELD = "not told, as transform masks fields; look the record up where its bytes may be seen"


def frame(decoded: DataFrame, stages: Sequence[Stage], table: StructType) -> DataFrame:
    """The frame with the table's columns of the value in place of the record's, and with FAILED and LEFT_OUT.

    Args:
        decoded: has the columns that the first stage sees, among others.
        table: the types that the table takes them as; those that no stage leaves are null.
    """
    nothing = F.lit(None).cast("int")
    value_frame = decoded.withColumns({FAILED: nothing, LEFT_OUT: nothing, WHY: nothing.cast("string")})
    if RESCUED in decoded.columns:
        value_frame = value_frame.withColumn(RESCUED, masks.rescued(F.col(RESCUED), hidden.rescued(stages)))
    other_columns = [name for name in value_frame.columns if name not in {column.name for column in stages[0].before}]
    number = 0
    for stage in stages:
        try:
            value_frame = _after_step(value_frame, stage, other_columns, number)
            # Spark Connect looks at a frame when it is asked something of it, and not before.
            _ = value_frame.columns
        except PySparkException as wrong:
            message = str(wrong).strip().splitlines()[0]
            raise UsageError(
                f"transform[{stage.at}]: Spark cannot do it: {message}", cure="correct the step"
            ) from wrong
        number += len(stage.expressions)
    names = {column.name for column in stages[-1].after}
    columns = (
        (F.col(ddl.quoted(f.name)) if f.name in names else nothing).cast(f.dataType).alias(f.name) for f in table
    )
    return value_frame.select(*map(F.col, map(ddl.quoted, other_columns)), *columns)


def _after_step(frame: DataFrame, stage: Stage, other_columns: Sequence[str], number: int) -> DataFrame:
    """The frame behind a step.

    Args:
        other_columns: the columns that are no value's.
        number: the number of the step's first expression among all.
    """
    if stage.step.kind == "where":
        return _after_conditions(frame, stage, number)
    if stage.step.kind == "own":
        return _own_code(frame, stage, other_columns, number)
    values = list(_masked(frame, stage) if stage.step.kind == "mask" else _values(stage))
    failed = _first(FAILED, [each.failed for each in stage.expressions.values()], number)
    frame = masks.of_record(frame, stage)
    return frame.select(*(F.col(ddl.quoted(name)) for name in other_columns if name != FAILED), failed, *values)


def _own_code(frame: DataFrame, stage: Stage, other_columns: Sequence[str], number: int) -> DataFrame:
    """The columns that code of somebody's own computes, and why it refuses records.

    Raises:
        UsageError: it cannot make them.
    """
    (name,) = stage.step.names
    values = {column.name: F.col(ddl.quoted(column.name)) for column in (*stage.before, *OF_RECORD)}
    declared = {column.name.lower() for column in ddl.parse(extend.step(name).columns)}
    try:
        computed = {key.lower(): value for key, value in extend.step(name).compute(values).items()}
        reasons = [computed.pop(extend.REFUSED, F.lit(None)).cast("string")]
        if computed.keys() != declared:
            raise ValueError(f"it made {', '.join(computed) or 'nothing'}, and declares {', '.join(sorted(declared))}")
        for column in stage.after:
            if column.name.lower() in declared:
                # In a cast Spark takes nothing that makes several rows of one.
                value = computed[column.name.lower()].cast(types.of_columns([column])[0].dataType)
                values[column.name] = value
                if not column.nullable:
                    reasons.append(F.when(value.isNull(), F.lit(f"{column.name} is required, and null")))
        untouched = F.col(FAILED).isNull() & F.col(LEFT_OUT).isNull()
        why = F.coalesce(WHY, F.when(untouched, F.coalesce(*reasons))).alias(WHY)
        after = [values[column.name].alias(column.name) for column in stage.after]
        frame = frame.select(*(F.col(ddl.quoted(each)) for each in other_columns if each != WHY), why, *after)
        _ = frame.columns
    except Exception as failed:
        raise UsageError(
            f"transform[{stage.at}].own: {name} makes no columns: {type(failed).__name__}: {failed}",
            cure="correct the class; see lakeingest.extend.Step",
        ) from failed
    return frame.withColumn(FAILED, _first(FAILED, [f"{WHY} IS NOT NULL"], number))


def _values(stage: Stage) -> Iterator[Column]:
    step = stage.step
    if step.kind == "flatten":
        names = {name.lower() for name in step.names}
        for column in stage.before:
            flat = column.name.lower() in names
            paths = leaves(column) if flat else [(ddl.quoted(column.name), column)]
            yield from (F.expr(path).alias(leaf.name) for path, leaf in paths)
        return
    old = {name.lower(): before for before, name in step.texts.items()} if step.kind == "rename" else {}
    for column in stage.after:
        if column.name in stage.expressions:
            yield F.expr(stage.expressions[column.name].value).alias(column.name)
        else:
            name = old.get(column.name.lower(), column.name)
            value = F.col(ddl.quoted(name))
            within = [
                ddl.quoted_path(path.split(".", 1)[1])
                for path in step.names
                if path.lower().startswith(f"{name.lower()}.")
            ]
            yield (value.dropFields(*within) if within and step.kind == "drop" else value).alias(column.name)


def _masked(frame: DataFrame, stage: Stage) -> Iterator[Column]:
    for column in stage.before:
        yield masks.hidden_value(frame, F.col(ddl.quoted(column.name)), column.name, stage.step.masks).alias(
            column.name
        )


def _after_conditions(frame: DataFrame, stage: Stage, number: int) -> DataFrame:
    """Condition by condition: one that cannot be computed for a record is the last that it is held against."""
    for at, each in enumerate(stage.expressions.values(), number):
        unmet = f"NOT {each.failed} AND NOT coalesce({each.value}, false)"
        frame = frame.withColumns({FAILED: _first(FAILED, [each.failed], at), LEFT_OUT: _first(LEFT_OUT, [unmet], at)})
    return frame


def _first(name: str, tests: Sequence[str], number: int) -> Column:
    """The column as it is, or the number of the first test that is true."""
    real = [(at, test) for at, test in enumerate(tests, number) if test != "false"]
    untouched = f"{FAILED} IS NULL AND {LEFT_OUT} IS NULL"
    cases = [F.when(F.expr(f"{untouched} AND ({test})"), F.lit(at)) for at, test in real]
    return F.coalesce(F.col(name), *cases).alias(name)


def refusal(stages: Sequence[Stage]) -> Refusal:
    """The refusal of a record for which an expression cannot be computed."""

    def why() -> Column:
        message, hides = F.lit(None).cast("string"), hidden.hides([stage.step for stage in stages])
        for at, (stage, name) in enumerate(_numbered(stages)):
            expression = stage.expressions[name]
            columns = ", ".join(sorted(expression.columns))
            text = F.lit(f"transform[{stage.at}].{stage.step.kind}.{name} cannot be computed of {columns}")
            if stage.step.kind == "own":
                # What it says may be a value that is masked.
                reason = F.lit(_WITHHELD) if hides else F.left(F.col(WHY), F.lit(500))
                text = F.concat(F.lit(f"transform[{stage.at}].own.{name}: "), reason)
            message = F.when(F.col(FAILED) == at, text).otherwise(message)
        return diagnosis("NOT_COMPUTED", message)

    return Refusal(STAGE, F.col(FAILED).isNotNull(), why)


def without_values(refused: Refusal) -> Refusal:
    """The same, whose message tells no value of the record: it may be what is masked later."""

    def why() -> Column:
        return F.struct(refused.diagnosis()["reason"].alias("reason"), F.lit(_WITHHELD).alias("message"))

    return replace(refused, diagnosis=refused.withheld or why)


def counts(stages: Sequence[Stage], dropped: Column) -> list[Column]:
    """What counts the records that are dropped because they did not meet a condition; see `left_out`.

    Args:
        dropped: BOOLEAN, never null: whether one is, and for no other reason.
    """
    return [count_where(dropped & (F.col(LEFT_OUT) == at)).alias(f"{LEFT_OUT}_{at}") for at, _ in _conditions(stages)]


def left_out(stages: Sequence[Stage], values: Mapping[str, Any]) -> dict[str, int]:
    """What was counted, by the conditions' names.

    Args:
        values: the values of `counts`.
    """
    by_condition = Counter[str]()
    for at, name in _conditions(stages):
        by_condition[name] += values[f"{LEFT_OUT}_{at}"]
    return {name: count for name, count in by_condition.items() if count}


def _conditions(stages: Sequence[Stage]) -> Iterator[tuple[int, str]]:
    for at, (stage, name) in enumerate(_numbered(stages)):
        if stage.step.kind == "where":
            yield at, name


def _numbered(stages: Sequence[Stage]) -> Iterator[tuple[Stage, str]]:
    for stage in stages:
        yield from ((stage, name) for name in stage.expressions)
