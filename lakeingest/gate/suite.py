"""Reads and checks a Great Expectations 1.x suite, without importing Great Expectations (which takes seconds).

What is checked: that it is a suite, that every expectation is one that Great Expectations knows, with arguments that
its columns can meet (see `arguments`), and that what is to be done when it fails can be done.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from lakeingest.config import Gate
from lakeingest.config.file import failure, text
from lakeingest.config.mistakes import did_you_mean
from lakeingest.gate import arguments
from lakeingest.gate.expectations import KNOWN, OF_ROWS, ROWWISE, WINDOWED, WITHOUT_SPARK
from lakeingest.gate.strftime import pattern
from lakeingest.schema import ddl

Action = Literal["warn", "quarantine", "hold", "fail"]
"""What is done when an expectation fails: note it, set the record (or the batch) aside, keep the batch back until
somebody accepts it, or end the run."""
_MILD = ("warning", "info")
_SEVERITIES = ("critical", *_MILD)
"""Great Expectations writes one with each expectation since 1.5: critical, unless somebody has chosen another."""
_TEXT = re.compile(r"\b(?:expect_\w+|unexpected_rows_expectation)\(")
_ARGUMENT = re.compile(r"(?:, )?(\w+)=")
_SHAPE = 'write {"name": "…", "expectations": [{"type": "…", "kwargs": {…}}]}'


@dataclass(frozen=True, eq=False)
class Rule:
    """One expectation of a suite.

    Attributes:
        name: as quarantine and the results name it: the type with its columns, as in
            expect_column_values_to_be_between(distance); with #2, #3, … where a suite repeats it.
        type, kwargs, meta: as the suite has them.
        compiled: whether it is evaluated as a predicate of a row (see `predicates`), and not by Great Expectations.
        action: what is done when it fails.
    """

    name: str
    type: str
    kwargs: Mapping[str, Any]
    meta: Mapping[str, Any]
    compiled: bool
    action: Action

    @property
    def columns(self) -> tuple[str, ...]:
        return arguments.columns(self.kwargs)

    @property
    def mostly(self) -> float:
        """The share of the values that must meet it."""
        return arguments.mostly(self.kwargs)

    @property
    def refuses(self) -> bool:
        """Whether it sets single records aside: what it asks of a share of them is a matter of the whole batch."""
        return self.compiled and self.mostly == 1 and self.action == "quarantine"

    @property
    def decides(self) -> bool:
        """Whether it is asked before the commit, with a pass of its own over the batch."""
        return not self.refuses and (self.action != "warn" or not self.compiled)

    @property
    def arguments_text(self) -> str:
        """Its type and arguments, as JSON."""
        return json.dumps({"type": self.type, "kwargs": self.kwargs})

    @property
    def text(self) -> str:
        """The type with all its arguments."""
        not_null = {name: value for name, value in self.kwargs.items() if value is not None}
        return f"{self.type}({', '.join(f'{name}={json.dumps(value)}' for name, value in not_null.items())})"


def brief(message: str) -> str:
    """A message in which each expectation that stands with all its arguments, as `Rule.text` has it, has its columns
    alone, as in its name.
    """
    text, at = "", 0
    for match in _TEXT.finditer(message):
        if match.start() >= at and (parsed := _arguments_at(message, match.end())) is not None:
            kwargs, end = parsed
            text += f"{message[at : match.end()]}{', '.join(arguments.columns(kwargs))})"
            at = end
    return text + message[at:]


def _arguments_at(text: str, at: int) -> tuple[dict[str, Any], int] | None:
    """The arguments that begin there, and where their parenthesis ends; None if there are none such."""
    kwargs: dict[str, Any] = {}
    while match := _ARGUMENT.match(text, at):
        try:
            kwargs[match[1]], at = json.JSONDecoder().raw_decode(text, match.end())
        except (ValueError, RecursionError):
            return None
    return (kwargs, at + 1) if text[at : at + 1] == ")" else None


@dataclass(frozen=True)
class Suite:
    """A suite, in the order of its file.

    Attributes:
        fingerprint: SHA-256 of what the suite asks, notes aside: 16 hexadecimal digits.
    """

    name: str
    path: str
    rules: tuple[Rule, ...]
    fingerprint: str

    @property
    def refusing(self) -> tuple[Rule, ...]:
        """The rules that set single records aside."""
        return tuple(rule for rule in self.rules if rule.refuses)

    @property
    def watched(self) -> tuple[Rule, ...]:
        """The other rules that are predicates of a row: what breaks them is counted in passing."""
        return tuple(rule for rule in self.rules if rule.compiled and not rule.refuses)

    @property
    def other_rules(self) -> tuple[Rule, ...]:
        """The rules that Great Expectations itself evaluates."""
        return tuple(rule for rule in self.rules if not rule.compiled)

    def check(self, columns: Sequence[ddl.Column]) -> None:
        """Hold the suite against columns that the records brought.

        Raises:
            PipelineFileError: a column is not there, or cannot be compared; `problems` holds every mistake.
        """
        texts = (
            f"{self.path}: expectations[{i}].kwargs{problem}"
            for i, rule in enumerate(self.rules)
            for problem in arguments.problems(rule.type, rule.kwargs, columns)
        )
        if mistakes := list(texts):
            raise failure(self.path, mistakes)


def load(gate: Gate, columns: Sequence[ddl.Column]) -> Suite:
    """Read the suite of a gate and check it against the columns of a record's value, if they are known.

    Raises:
        PipelineFileError: the file cannot be read, or is wrong; `problems` holds every mistake.
    """
    path = Path(gate.suite)
    document = read(path)
    texts = list(_problems(document, columns, gate))
    if texts:
        raise failure(str(path), [f"{path}: {text}" for text in texts])
    rules: list[Rule] = []
    for each in document["expectations"]:
        rules.append(_rule(each, gate, {rule.name for rule in rules}))
    rules_text = json.dumps([(r.type, r.kwargs, r.action) for r in rules], sort_keys=True)
    return Suite(document["name"], str(path), tuple(rules), hashlib.sha256(rules_text.encode()).hexdigest()[:16])


def _compiled(kind: str, kwargs: Mapping[str, Any]) -> bool:
    if kind == "expect_column_values_to_match_strftime_format":
        return pattern(kwargs["strftime_format"]) is not None
    return kind in ROWWISE


def _rule(expectation: Mapping[str, Any], gate: Gate, names: Set[str]) -> Rule:
    """The rule of an expectation that was checked, under a name that is not among `names`."""
    kind, kwargs = expectation["type"], expectation.get("kwargs", {})
    short = name = f"{kind}({', '.join(arguments.columns(kwargs))})"
    number = 1
    while name in names:
        number += 1
        name = f"{short}#{number}"
    compiled = _compiled(kind, kwargs)
    of_rows = compiled and arguments.mostly(kwargs) == 1
    action: Action = _own_action(expectation) or (gate.on_row_failure if of_rows else gate.on_batch_failure)
    if kind in WINDOWED:
        # A window costs a shuffle: worth it only where it tells which records to set aside.
        compiled = of_rows and action == "quarantine"
    return Rule(name, kind, kwargs, expectation.get("meta") or {}, compiled, action)


def _own_action(expectation: Mapping[str, Any]) -> Any:
    """The expectation's own action; None where the pipeline file decides."""
    meta = expectation.get("meta")
    lakeingest_meta = meta.get("lakeingest") if isinstance(meta, dict) else None
    action = lakeingest_meta.get("on_failure") if isinstance(lakeingest_meta, dict) else None
    return "warn" if action is None and expectation.get("severity") in _MILD else action


def read(path: Path) -> Any:
    """The JSON of a file.

    Raises:
        PipelineFileError: it cannot be read, or is no JSON.
    """
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


def is_old(document: Mapping[str, Any]) -> bool:
    """Whether a suite has the form of Great Expectations 0.x."""
    listed = document.get("expectations")
    each_old = (
        [isinstance(each, dict) and "expectation_type" in each for each in listed] if isinstance(listed, list) else []
    )
    return "expectation_suite_name" in document or any(each_old)


def _problems(document: Any, columns: Sequence[ddl.Column], gate: Gate) -> Iterator[str]:
    if not isinstance(document, dict):
        yield f"not a suite; {_SHAPE}"
        return
    if is_old(document):
        yield (
            "a suite of Great Expectations 0.x, which calls it expectation_type and expectation_suite_name; make one "
            f"of 1.x by lakeingest gate convert {gate.suite} --out NEW.json, and name that file"
        )
        return
    if not isinstance(document.get("name"), str) or not document["name"].strip():
        yield "name: required, and missing; give the suite a name"
    listed = document.get("expectations")
    if not isinstance(listed, list) or not listed:
        yield f"expectations: required, and missing or empty; {_SHAPE}"
        return
    for i, expectation in enumerate(listed):
        texts = list(problems(expectation, columns))
        for problem in texts or _failure(expectation):
            yield f"expectations[{i}]{problem}"


def problems(expectation: Any, columns: Sequence[ddl.Column]) -> Iterator[str]:
    """Problems with one expectation of a suite, whatever is to be done when it fails.

    Args:
        columns: of a record's value; empty where only the records will tell.
    """
    if not isinstance(expectation, dict):
        yield ': not an expectation; write {"type": "…", "kwargs": {…}}'
        return
    kind, kwargs = expectation.get("type"), expectation.get("kwargs", {})
    if not isinstance(kind, str) or not kind:
        yield ".type: required, and missing; name the expectation, as in expect_column_values_to_not_be_null"
    elif kind not in KNOWN:
        yield f'.type: "{kind}" is no expectation of Great Expectations; {did_you_mean(kind, [*KNOWN])}see its gallery'
    elif kind in WITHOUT_SPARK:
        yield f".type: {kind} cannot be evaluated on a batch of Spark's: {WITHOUT_SPARK[kind]}"
    elif not isinstance(kwargs, dict):
        yield ".kwargs: not a mapping; write the arguments by name"
    else:
        for problem in arguments.problems(kind, kwargs, columns):
            yield f".kwargs{problem}"


def _failure(expectation: Mapping[str, Any]) -> Iterator[str]:
    """Problems with an expectation's own severity or on_failure."""
    kind, kwargs, action = expectation["type"], expectation.get("kwargs", {}), _own_action(expectation)
    meta, severity = expectation.get("meta"), expectation.get("severity")
    if severity is not None and severity not in _SEVERITIES:
        yield f".severity: {json.dumps(severity)} is none; write one of {', '.join(_SEVERITIES)}"
    if meta is not None and not isinstance(meta, dict):
        yield ".meta: not a mapping; write notes by name"
        return
    lakeingest_meta = (meta or {}).get("lakeingest")
    if lakeingest_meta is not None and not (
        isinstance(lakeingest_meta, dict) and set(lakeingest_meta) <= {"on_failure"}
    ):
        yield '.meta.lakeingest: not understood; write {"on_failure": "quarantine"}'
    elif action is not None and action not in get_args(Action):
        yield f".meta.lakeingest.on_failure: {json.dumps(action)} is none; write one of {', '.join(get_args(Action))}"
    elif action == "quarantine" and kind in OF_ROWS:
        if not _compiled(kind, kwargs):
            yield (
                f".meta.lakeingest.on_failure: {kind} cannot be said as one predicate of a row, so that no row "
                "can be set aside for it; write warn, hold or fail, or use another expectation"
            )
        elif arguments.mostly(kwargs) < 1:
            yield (
                f".meta.lakeingest.on_failure: mostly {kwargs['mostly']} lets single rows fail, so that none can "
                "be set aside for it; leave mostly out, or write warn, hold or fail"
            )
