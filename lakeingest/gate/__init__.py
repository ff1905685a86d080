"""Reads and checks a Great Expectations 1.x suite, without importing Great Expectations (which takes seconds).

What is checked: that it is a suite, that every expectation is one that Great Expectations knows, with the arguments
that it needs, that its columns exist, and that its patterns and bounds can be met.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakeingest.config import Pipeline
from lakeingest.config.file import failure, text
from lakeingest.config.mistakes import meant
from lakeingest.gate.known import EVERYWHERE, KNOWN
from lakeingest.record import RESERVED
from lakeingest.schema import ddl

NOTICE = "The gate's suite is checked, and not enforced yet: no record is refused for breaking an expectation."
"""What `check` and `run` say of a pipeline with a gate."""

_COLUMN_ARGUMENTS = ("column", "column_A", "column_B")
_BOUNDED = ("expect_column_values_to_be_between", "expect_column_value_lengths_to_be_between")
_LISTS = ("value_set", "regex_list", "column_list", "like_pattern_list", "value_pairs_set")
_LONGEST_PATTERN = 1000
_SHAPE = 'write {"name": "…", "expectations": [{"type": "…", "kwargs": {…}}]}'


@dataclass(frozen=True)
class Expectation:
    """One expectation of a suite: its type (`expect_…`), its arguments and its notes."""

    type: str
    kwargs: Mapping[str, Any]
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """A suite, in the order of its file."""

    name: str
    expectations: tuple[Expectation, ...]


def load(pipeline: Pipeline) -> Suite | None:
    """The suite of a pipeline, checked against the columns of its value; None without a gate.

    Raises:
        PipelineFileError: as `read` does.
    """
    return read(Path(pipeline.gate.suite), pipeline.columns) if pipeline.gate else None


def read(path: Path, columns: Sequence[ddl.Column]) -> Suite:
    """Read a suite and check it against the columns of a record's value.

    Raises:
        PipelineFileError: the file cannot be read, or is wrong; `problems` holds every mistake.
    """
    document = _document(path)
    problems = list(_problems(document, columns))
    if problems:
        raise failure(str(path), [f"{path}: {problem}" for problem in problems])
    listed = (Expectation(e["type"], e.get("kwargs", {}), e.get("meta") or {}) for e in document["expectations"])
    return Suite(document["name"], tuple(listed))


def _document(path: Path) -> Any:
    try:
        return json.loads(text(path))
    except FileNotFoundError:
        problem = f"{path}: no such file; gate.suite is relative to the pipeline file"
    except OSError as error:
        problem = f"{path}: cannot be read ({error.strerror}); check the path and its permissions"
    except UnicodeDecodeError:
        problem = f"{path}: not UTF-8; save the file as UTF-8"
    except json.JSONDecodeError as error:
        problem = f"{path}:{error.lineno}: not JSON: {error.msg} in column {error.colno}; mend it there or just above"
    except RecursionError:
        problem = f"{path}: not a suite: nested too deep"
    except ValueError:
        problem = f"{path}: not JSON: a number of thousands of digits, or a path with a NUL character; mend it"
    raise failure(str(path), [problem])


def _problems(document: Any, columns: Sequence[ddl.Column]) -> Iterator[str]:
    if not isinstance(document, dict):
        yield f"not a suite; {_SHAPE}"
        return
    if not isinstance(document.get("name"), str) or not document["name"].strip():
        yield "name: required, and missing; give the suite a name"
    listed = document.get("expectations")
    if not isinstance(listed, list) or not listed:
        yield f"expectations: required, and missing or empty; {_SHAPE}"
        return
    for i, expectation in enumerate(listed):
        for problem in _expectation(expectation, columns):
            yield f"expectations[{i}]{problem}"


def _expectation(expectation: Any, columns: Sequence[ddl.Column]) -> Iterator[str]:
    if not isinstance(expectation, dict):
        yield ': not an expectation; write {"type": "…", "kwargs": {…}}'
        return
    kind, kwargs = expectation.get("type"), expectation.get("kwargs", {})
    if not isinstance(kind, str) or not kind:
        old = (
            "; a suite of Great Expectations 0.x calls it expectation_type" if "expectation_type" in expectation else ""
        )
        yield f".type: required, and missing{old}; name the expectation, as in expect_column_values_to_not_be_null"
    elif kind not in KNOWN:
        yield f'.type: "{kind}" is no expectation of Great Expectations; {meant(kind, list(KNOWN))}see its gallery'
    elif not isinstance(kwargs, dict):
        yield ".kwargs: not a mapping; write the arguments by name"
    else:
        for problem in _arguments(kind, kwargs, columns):
            yield f".kwargs{problem}"


def _arguments(kind: str, kwargs: Mapping[str, Any], columns: Sequence[ddl.Column]) -> Iterator[str]:
    required, optional = KNOWN[kind]
    for name in sorted(required - set(kwargs)):
        yield f".{name}: required by {kind}, and missing"
    for name in sorted(set(kwargs) - required - optional - EVERYWHERE):
        allowed = sorted(required | optional)
        yield f".{name}: {kind} has no such argument; {meant(name, allowed)}allowed: {', '.join(allowed)}"
    for name in _LISTS:
        if name in kwargs and not (isinstance(kwargs[name], list) and kwargs[name]):
            yield f".{name}: not a list with values; write [one, other]"
    yield from _columns(kind, kwargs, columns)
    yield from _bounds(kind, kwargs)
    yield from _patterns(kwargs)


def _columns(kind: str, kwargs: Mapping[str, Any], columns: Sequence[ddl.Column]) -> Iterator[str]:
    named = {f".{name}": kwargs[name] for name in _COLUMN_ARGUMENTS if name in kwargs}
    if isinstance(kwargs.get("column_list"), list) and not kind.startswith("expect_table"):
        named |= {f".column_list[{i}]": name for i, name in enumerate(kwargs["column_list"])}
    for where, name in named.items():
        if not isinstance(name, str):
            yield f"{where}: not the name of a column; write it in quotes"
        # Without columns: records bring their schema, and nobody knows it before the run.
        elif columns and name not in RESERVED and ddl.find(columns, name) is None:
            known = [c.name for c in columns]
            yield f'{where}: "{name}" is not among the columns; {meant(name, known)}declared: {", ".join(known)}'


def _bounds(kind: str, kwargs: Mapping[str, Any]) -> Iterator[str]:
    low, high, mostly = kwargs.get("min_value"), kwargs.get("max_value"), kwargs.get("mostly")
    if kind in _BOUNDED and low is None and high is None:
        yield f": {kind} needs min_value, max_value or both"
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        yield f".min_value: {low} is above max_value {high}, so that no value can pass; swap them"
    if mostly is not None and not (isinstance(mostly, int | float) and 0 <= mostly <= 1):
        yield f".mostly: {json.dumps(mostly)} is not a share; write a number from 0 to 1"


def _patterns(kwargs: Mapping[str, Any]) -> Iterator[str]:
    listed = kwargs.get("regex_list")
    patterns = {f".regex_list[{i}]": p for i, p in enumerate(listed)} if isinstance(listed, list) else {}
    if "regex" in kwargs:
        patterns[".regex"] = kwargs["regex"]
    for where, pattern in patterns.items():
        if isinstance(pattern, str) and len(pattern) > _LONGEST_PATTERN:
            yield f"{where}: a pattern of {len(pattern)} characters; write one of at most {_LONGEST_PATTERN}"
            continue
        try:
            # Spark's patterns are Java's: \p{…} is right there, and unknown to Python.
            re.compile(re.sub(r"\\[pP]\{\w+\}", "x", pattern))
        except TypeError:
            yield f"{where}: not a pattern; write it in quotes"
        except (re.error, OverflowError, RecursionError) as error:
            yield f"{where}: {json.dumps(pattern)} is not a regular expression: {error}; mend it"
