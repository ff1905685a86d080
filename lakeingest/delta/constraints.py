"""What a table demands of its rows by itself: CHECK constraints, and NOT NULL, that somebody gave it.

Delta ends the whole commit for one row that breaks a constraint. So each record is held against them first, and is
refused where it breaks one. Delta takes a CHECK that is null for broken, and so it is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.delta.partitioning import Layout
from lakeingest.record import UNDECODED, Refusal, diagnosis
from lakeingest.schema import ddl

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STAGE = "table"
CONSTRAINT = "CONSTRAINT"
_CHECK = "delta.constraints."


@dataclass(frozen=True)
class Constraints:
    """The constraints of one table.

    Attributes:
        checks: name → condition, in Spark SQL over the table's columns.
        columns: the table's columns.
    """

    checks: Mapping[str, str]
    columns: T.StructType

    @property
    def not_null(self) -> tuple[str, ...]:
        """The columns that somebody demands not to be null."""
        return tuple(f.name for f in self.columns if f"{f.name} NOT NULL" in self.checks)

    @property
    def refusal(self) -> Refusal:
        """Refuse a record that breaks one, and name all that it breaks."""
        tests = {name: F.coalesce(F.expr(check), F.lit(False)) for name, check in self.checks.items()}
        broken = F.lit(False)
        for test in tests.values():
            broken = broken | ~test
        # Not of records that could not be decoded: their columns mean nothing.
        when = F.when(F.col(UNDECODED), False).otherwise(broken)
        return Refusal(STAGE, when, lambda: diagnosis(CONSTRAINT, F.array_join(F.array(*self._messages(tests)), "; ")))

    def _messages(self, tests: Mapping[str, Column]) -> list[Column]:
        return [
            F.when(~test, F.lit(f"the table's constraint {name}: {self.checks[name]}")) for name, test in tests.items()
        ]

    def frame(self, decided: DataFrame, layout: Layout) -> DataFrame:
        """With every column of the table, as Delta would have it: generated, or null where the record brings none."""
        computed = {c.name: c.value if c.value is not None else F.expr(c.generated or "NULL") for c in layout.columns}
        by_name = {f.name: computed.get(f.name, F.lit(None).cast(f.dataType)) for f in self.columns}
        return decided.select("*", *(c.alias(name) for name, c in by_name.items() if name not in decided.columns))


def of(properties: Mapping[str, str], table_columns: T.StructType, target_columns: T.StructType) -> Constraints | None:
    """The constraints of a table; None if it has none but what its columns are to be.

    Args:
        properties: the table's.
        table_columns, target_columns: those that it has, and those that a batch is to have.
    """
    checks = {name.removeprefix(_CHECK): check for name, check in properties.items() if name.startswith(_CHECK)}
    required = {f.name for f in target_columns if not f.nullable}
    nulls = {f"{f.name} NOT NULL": f"{ddl.quoted(f.name)} IS NOT NULL" for f in table_columns if not f.nullable}
    checks |= {name: check for name, check in nulls.items() if name.removesuffix(" NOT NULL") not in required}
    return Constraints(checks, table_columns) if checks else None
