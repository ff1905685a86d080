"""A suite of Great Expectations 0.x, or one with texts as `row_condition`, → the form of 1.x. Pure.

What changes no meaning is rewritten; what 1.x cannot ask, or asks in another way, is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lakeingest.gate import condition_text, suite
from lakeingest.gate.condition_text import NotExact

_RENAMED = {"expect_multicolumn_values_to_be_unique": "expect_select_column_values_to_be_unique_within_record"}
_SHOWN = ("include_config", "profiler_config", "profiler_details")
"""Arguments of 0.x that say what a result shows, or where the other arguments came from."""
_SWITCHES = {
    "parse_strings_as_datetimes": "1.x reads no text as a time; let the records' columns be DATE or TIMESTAMP",
    "output_strftime_format": "1.x writes no time as text",
    "allow_cross_type_comparisons": "1.x compares no values of several types",
    "auto": "its arguments were to be estimated from data; write them",
}
"""Arguments of 0.x that change what is asked, where they are set; and why 1.x cannot."""
_PARAMETER = "$PARAMETER"
_PARAMETERS = ("evaluation_parameters", "suite_parameters")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


class Converted:
    """A suite that was converted.

    Attributes:
        document: as 1.x writes it; an expectation that is refused is left out.
        changes: what was rewritten, a sentence each.
        refused: what cannot be converted, each with its place and why.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.changes: list[str] = []
        self.refused: list[str] = []
        self._parameters = {k: v for name in _PARAMETERS for k, v in _mapping(document.get(name)).items()}
        name = document.get("name", document.get("expectation_suite_name"))
        if not isinstance(name, str) or not name.strip():
            self.refused.append("name: required, and missing; give the suite a name")
        listed = document.get("expectations")
        if not isinstance(listed, list) or not listed:
            self.refused.append("expectations: required, and missing or empty")
            listed = []
        expectations = [self._expectation(f"expectations[{i}]", each) for i, each in enumerate(listed)]
        meta = {k: v for k, v in _mapping(document.get("meta")).items() if k != "great_expectations_version"}
        self.document = {"name": name, "expectations": [each for each in expectations if each], "meta": meta}
        if "expectation_suite_name" in document:
            self.changes.append("expectation_suite_name is called name")
        for key in (*_PARAMETERS, "data_asset_type"):
            if document.get(key):
                self.changes.append(f"{key} is left out: nothing asks it any more")

    def _expectation(self, place: str, each: Any) -> dict[str, Any] | None:
        if not isinstance(each, dict):
            self.refused.append(f'{place}: not an expectation; write {{"type": "…", "kwargs": {{…}}}}')
            return None
        kind, kwargs = each.get("type", each.get("expectation_type")), each.get("kwargs", {})
        place = f"{place} {kind}" if isinstance(kind, str) else place
        if not isinstance(kwargs, dict):
            self.refused.append(f"{place}.kwargs: not a mapping; write the arguments by name")
            return None
        before = len(self.refused)
        if kind in _RENAMED:
            self.changes.append(f"{place} is called {_RENAMED[kind]}")
            kind = _RENAMED[kind]
        parts = {name: each[name] for name in ("meta", "notes", "severity", "description") if each.get(name)}
        result = {"type": kind, "kwargs": dict(self._arguments(f"{place}.kwargs", kwargs)), **parts}
        if len(self.refused) == before:
            self.refused += [f"{place}{problem}" for problem in suite.problems(result, ())]
        return result if len(self.refused) == before else None

    def _arguments(self, place: str, kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, value in kwargs.items():
            try:
                if name in _SWITCHES and value:
                    raise NotExact(_SWITCHES[name])
                if name in (*_SHOWN, *_SWITCHES, "condition_parser") or (name == "row_condition" and not value):
                    continue
                if name == "row_condition" and isinstance(value, str):
                    condition = condition_text.converted(value, kwargs.get("condition_parser"))
                    self.changes.append(f"{place}.row_condition: {value} → {json.dumps(condition, ensure_ascii=False)}")
                    yield name, condition
                else:
                    yield name, self._filled_in(f"{place}.{name}", value)
            except NotExact as why:
                value_text = f" {json.dumps(value, ensure_ascii=False)[:80]}" if value is not True else ""
                self.refused.append(f"{place}.{name}{value_text}: {why}")

    def _filled_in(self, place: str, value: Any) -> Any:
        """An argument with the values of evaluation parameters, where they are written in the suite."""
        if isinstance(value, list):
            return [self._filled_in(place, each) for each in value]
        if not isinstance(value, dict):
            return value
        if _PARAMETER not in value:
            return {name: self._filled_in(place, each) for name, each in value.items()}
        parameter = value[_PARAMETER]
        if not isinstance(parameter, str) or parameter not in self._parameters:
            raise NotExact(
                "what is computed, or comes from another run, cannot be filled in, and evaluation_parameters has no "
                "value of that name; write the value itself"
            )
        self.changes.append(f"{place}: {json.dumps(self._parameters[parameter])}, the value of {parameter}")
        return self._parameters[parameter]
