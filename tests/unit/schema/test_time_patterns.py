"""The parts of Java's patterns of dates and times."""

from __future__ import annotations

import pytest

from lakeingest.schema.time_patterns import from_joda, runs, tokens


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("", ""),
        ("yyyy-MM", "yyyy|-|MM"),
        ("ddMM", "dd|MM"),
        ("HH'h'mm", "HH|h|mm"),
        ("HH'o''clock'", "HH|o'clock"),
        ("yy''MM", "yy|'|MM"),
        ("''''", "'"),
        ("'[yyyy]'", "[yyyy]"),
        ("[yyyy]", "[|yyyy|]"),
        ("yyyy\ndd", "yyyy|\n|dd"),
    ],
)
def test_a_pattern_is_cut_into_its_parts(pattern: str, texts: str) -> None:
    """Quoted text is one part, and two quotes are one."""
    assert "|".join(run or text for run, text in tokens(pattern)) == texts


def test_quoted_letters_are_no_runs() -> None:
    """Reserved signs are runs, so that no pattern has them by mistake."""
    assert runs("'yyyy'MM'['ss]") == ["MM", "ss", "]"]


def test_the_year_of_joda_is_another_letter() -> None:
    """Quoted text stays."""
    assert from_joda("'Y'YYYY-MM'at'") == "'Y'yyyy-MM'at'"
