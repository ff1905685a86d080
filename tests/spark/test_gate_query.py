"""A suite's own SQL asks about the batch alone: it runs nothing, reads no other table and no file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.pipelines.suites import COLUMNS, problems

from lakeingest.gate import query

GOOD = (
    "SELECT * FROM {batch} WHERE n > 200",
    "select b.user, count(*) from {batch} b group by b.user having count(*) > 1;",
    "SELECT user FROM {batch} WHERE `table` IS NULL OR text = \"x\" OR text RLIKE '^[a-z]{{3}}$' OR text = r'\\d'",
    "WITH t AS (SELECT n FROM {batch}), u AS (SELECT * FROM t) "
    "SELECT * FROM t JOIN u ON t.n = u.n WHERE t.n IN (SELECT n FROM {batch})",
    "SELECT n, count(*) FILTER (WHERE m > 1), row_number() OVER (PARTITION BY n ORDER BY m DESC) FROM {batch} "
    "GROUP BY n, m",
    "SELECT CAST(n AS DECIMAL(10,2)), n::string, CASE WHEN n > 1 THEN 1 ELSE 2 END, filter(l, e -> e > 1) FROM {batch}",
    "SELECT d - INTERVAL 1 DAY, DATE '2020-01-01', l[0], s.`a-b`, date_add(d, 1), extract(YEAR FROM d) FROM {batch}",
    "SELECT * FROM {batch} WHERE (n, m) IN (SELECT n, m FROM {batch}) AND n BETWEEN 1 AND 2 AND n <=> m AND NOT n = 1",
    "SELECT trim(BOTH 'x' FROM text), lower(text) || 'y', -n % 2 FROM {batch} b LEFT JOIN {batch} c USING (n, text)",
    "SELECT n FROM {batch} UNION ALL (SELECT n FROM {batch} EXCEPT SELECT n FROM {batch} ORDER BY n LIMIT 3)",
    "SELECT DISTINCT text FROM (SELECT * FROM {batch}) AS t WHERE EXISTS (SELECT 1 FROM {batch} c WHERE c.n = t.n)",
    "SELECT sum(n) OVER (ORDER BY m ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM {batch}",
    "SELECT percentile(n, 0.5) FROM {batch} HAVING percentile(n, 0.5) > 3",
)  # fmt: skip


LATER = {"try_to_date"}
"""What Spark 4.1 brought."""


@pytest.mark.parametrize("asked", GOOD)
def test_what_asks_the_batch_is_let_through(tmp_path: Path, spark: SparkSession, asked: str) -> None:
    """Subqueries, WITH, windows and Spark's pure functions; and Spark takes it as well."""
    assert problems(tmp_path, "unexpected_rows_expectation", unexpected_rows_query=asked) == []
    spark.createDataFrame([], COLUMNS).createOrReplaceTempView("a_batch")
    spark.sql(asked.rstrip(";").format(batch="a_batch")).collect()


def test_every_function_is_one_of_sparks_own(spark: SparkSession) -> None:
    """None whose name somebody else may give to another one; try_cast is SQL's own syntax."""
    own = {row["function"] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert query._FUNCTIONS - own - LATER == {"try_cast"}
