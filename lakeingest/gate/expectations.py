"""The expectations that Great Expectations knows, with their arguments: a table, as importing it takes seconds.

tests/unit/gate/test_gate.py holds it against the installed Great Expectations.
"""

from __future__ import annotations

import re
from types import MappingProxyType

_TABLE = """
expect_column_distinct_values_to_be_in_set: column value_set
expect_column_distinct_values_to_contain_set: column value_set
expect_column_distinct_values_to_equal_set: column value_set
expect_column_kl_divergence_to_be_less_than: column | partition_object threshold \
    internal_weight_holdout tail_weight_holdout bucketize_data min_value max_value
expect_column_max_to_be_between: column | min_value max_value strict_min strict_max
expect_column_mean_to_be_between: column | min_value max_value strict_min strict_max
expect_column_median_to_be_between: column | min_value max_value strict_min strict_max
expect_column_min_to_be_between: column | min_value max_value strict_min strict_max
expect_column_most_common_value_to_be_in_set: column value_set | ties_okay
expect_column_pair_values_a_to_be_greater_than_b: column_A column_B | mostly or_equal ignore_row_if
expect_column_pair_values_to_be_equal: column_A column_B | mostly ignore_row_if
expect_column_pair_values_to_be_in_set: column_A column_B value_pairs_set | mostly ignore_row_if
expect_column_proportion_of_non_null_values_to_be_between: column | min_value max_value strict_min strict_max
expect_column_proportion_of_unique_values_to_be_between: column | min_value max_value strict_min strict_max
expect_column_quantile_values_to_be_between: column quantile_ranges | allow_relative_error
expect_column_stdev_to_be_between: column | min_value max_value strict_min strict_max
expect_column_sum_to_be_between: column | min_value max_value strict_min strict_max
expect_column_to_exist: column | column_index
expect_column_type_to_be: column type_
expect_column_unique_value_count_to_be_between: column | min_value max_value strict_min strict_max
expect_column_value_lengths_to_be_between: column | mostly min_value max_value strict_min strict_max
expect_column_value_lengths_to_equal: column value | mostly
expect_column_value_z_scores_to_be_less_than: column threshold double_sided | mostly
expect_column_values_to_be_between: column | mostly min_value max_value strict_min strict_max
expect_column_values_to_be_dateutil_parseable: column | mostly
expect_column_values_to_be_decreasing: column | mostly strictly
expect_column_values_to_be_in_set: column value_set | mostly
expect_column_values_to_be_in_type_list: column | mostly type_list
expect_column_values_to_be_increasing: column | mostly strictly
expect_column_values_to_be_json_parseable: column | mostly
expect_column_values_to_be_null: column | mostly
expect_column_values_to_be_of_type: column type_ | mostly
expect_column_values_to_be_unique: column | mostly
expect_column_values_to_match_json_schema: column json_schema | mostly
expect_column_values_to_match_like_pattern: column like_pattern | mostly escape
expect_column_values_to_match_like_pattern_list: column like_pattern_list | mostly match_on escape
expect_column_values_to_match_regex: column | mostly regex
expect_column_values_to_match_regex_list: column regex_list | mostly match_on
expect_column_values_to_match_strftime_format: column strftime_format | mostly
expect_column_values_to_not_be_in_set: column value_set | mostly
expect_column_values_to_not_be_null: column | mostly
expect_column_values_to_not_be_outliers: column | mostly method multiplier
expect_column_values_to_not_match_like_pattern: column like_pattern | mostly escape
expect_column_values_to_not_match_like_pattern_list: column like_pattern_list | mostly escape
expect_column_values_to_not_match_regex: column regex | mostly
expect_column_values_to_not_match_regex_list: column regex_list | mostly
expect_compound_columns_to_be_unique: column_list | mostly ignore_row_if
expect_multicolumn_sum_to_equal: column_list sum_total | mostly ignore_row_if
expect_multicolumn_values_to_be_equal: column_list | mostly ignore_row_if
expect_query_results_to_match_comparison: base_query comparison_data_source_name comparison_query | mostly
expect_select_column_values_to_be_unique_within_record: column_list | mostly ignore_row_if
expect_table_column_count_to_be_between: | min_value max_value
expect_table_column_count_to_equal: value
expect_table_columns_to_match_ordered_list: | column_list
expect_table_columns_to_match_set: | column_set exact_match
expect_table_row_count_to_be_between: | min_value max_value strict_min strict_max
expect_table_row_count_to_equal: value
expect_table_row_count_to_equal_other_table: other_table_name
unexpected_rows_expectation: unexpected_rows_query
"""

EVERYWHERE = frozenset({"batch_id", "catch_exceptions", "condition_parser", "result_format", "row_condition"})
"""Arguments that expectations may have beside their own."""

WITHOUT_SPARK = MappingProxyType(
    {
        "expect_column_values_to_be_dateutil_parseable": "use expect_column_values_to_match_strftime_format",
        "expect_query_results_to_match_comparison": "it needs a data source of its own, which a batch has not",
        "expect_table_row_count_to_equal_other_table": "it needs another table, which a batch has not",
    }
)
"""Those that can be evaluated neither as a predicate nor by Great Expectations on a batch of Spark's, and why."""


def _read() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    table = {}
    for line in _TABLE.strip().splitlines():
        name, _, arguments = line.partition(":")
        required, _, optional = arguments.partition("|")
        table[name] = (frozenset(required.split()), frozenset(optional.split()))
    return table


KNOWN = MappingProxyType(_read())
"""Type of expectation → the arguments that it requires, those that it may have."""

OF_ROWS = frozenset(
    name
    for name in KNOWN
    if re.match("expect_(column_values?|column_pair_values|multicolumn|compound_columns|select_column_values)_", name)
)
"""Expectations of Great Expectations about a row; all others are about a batch."""

ROWWISE = OF_ROWS - {
    "expect_column_value_z_scores_to_be_less_than",
    "expect_column_values_to_be_dateutil_parseable",
    "expect_column_values_to_be_decreasing",
    "expect_column_values_to_be_increasing",
    "expect_column_values_to_be_json_parseable",
    "expect_column_values_to_match_json_schema",
    "expect_column_values_to_not_be_outliers",
}
"""Those of them that are one predicate of a row (see rules.py)."""

WINDOWED = frozenset({"expect_column_values_to_be_unique", "expect_compound_columns_to_be_unique"})
"""Those of them that look at the other rows too, by a window: Spark counts no such thing in passing."""
