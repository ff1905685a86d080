"""Of which columns Delta keeps statistics in its log: of none that may hold, in the clear, what the pipeline masks.

Delta keeps the least and the greatest value of the first 32 columns of each file. Whoever reads the log reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from lakeingest.schema import ddl, hidden

if TYPE_CHECKING:
    from pyspark.sql import types as T

    from lakeingest.schema.transforms import TransformStep

LISTED, _FIRST = "delta.dataSkippingStatsColumns", "delta.dataSkippingNumIndexedCols"
_DEFAULT = 32
_REDACTED = "(redacted)"


def listed_columns(
    properties: Mapping[str, str],
    own_value: str | None,
    columns: T.StructType,
    partitions: Collection[str],
    steps: Sequence[TransformStep],
) -> str | None:
    """What `LISTED` has to be; None where nothing needs to be changed.

    Args:
        properties, columns, partitions: the table's; partitions by their names.
        own_value: what the pipeline has set it to; None if it has not.
    """
    clear = in_the_clear(steps)
    if not clear:
        return None
    now = properties.get(LISTED)
    if now is not None and now != own_value and _REDACTED not in now:
        # Somebody chose these: they stay, but for those that show what is masked.
        chosen = [name.strip() for name in now.split(",")]
        allowed = [name for name in chosen if name.replace("`", "").partition(".")[0].lower() not in clear]
        return None if allowed == chosen else ",".join(allowed)
    most = int(properties.get(_FIRST, _DEFAULT))
    leaves = [each for f in columns if f.name not in partitions for each in _leaves(f, "")]
    indexed = leaves[:most] if most >= 0 else leaves
    if not any(_top(name) in clear for name, _ in indexed):
        return None
    value = ",".join(name for name, kind in indexed if _top(name) not in clear and _skips(kind))
    return None if value == own_value else value


def in_the_clear(steps: Sequence[TransformStep]) -> set[str]:
    """The columns beside those of the value that are not masked whole, where something is masked."""
    if not hidden.hides(steps):
        return set()
    return {name for name in hidden.COLUMNS if name not in (path.lower() for path in hidden.paths(steps, name))}


def _skips(kind: T.DataType) -> bool:
    """Whether Delta lets the property name a column of this type."""
    # Not above: who reads a table's properties needs no Spark.
    from pyspark.sql import types as T

    return isinstance(kind, (T.NumericType, T.DateType, T.TimestampType, T.TimestampNTZType, T.StringType))


def _leaves(field: T.StructField, before: str) -> Iterator[tuple[str, T.DataType]]:
    name = before + ddl.quoted(field.name)
    if field.dataType.typeName() == "struct":
        for each in cast("T.StructType", field.dataType):
            yield from _leaves(each, f"{name}.")
    else:
        yield name, field.dataType


def _top(path: str) -> str:
    return path.partition("`.`")[0].strip("`").lower()
