"""A pipeline file as a notebook shows it, its options, and what a check of files found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeingest.config import PipelineConfig
from lakeingest.config.file import failure
from lakeingest.config.options import Option
from lakeingest.errors import LakeingestError, number_of
from lakeingest.operations.results.html import Listing, html
from lakeingest.operations.results.showable import Showable, TextTable

_HEADINGS = ("option", "type", "default", "meaning")
_OF_OPTION = ("path", "type", "required", "default", "example", "secret", "meaning")


def headline(config: PipelineConfig) -> str:
    """A pipeline file in one line."""
    return f"{config.name}: {config.source.text} → {config.table.identifier}"


def as_html(config: PipelineConfig, address: str) -> str:
    """A pipeline file in a few lines of HTML; none of its secrets.

    Args:
        address: where its records are, which the file need not say.
    """
    partitions = [
        "Kafka partition" if each.by == "kafka_partition" else each.field or "time" for each in config.partition
    ]
    options = {
        "table" if config.source.table else "brokers": address,
        "value": config.decode.value.format,
        "compatibility": config.compatibility,
        "gate": config.gate and config.gate.suite,
        "partitions": ", ".join(partitions) or None,
        "trigger": f"{config.trigger.every}, {number_of(config.trigger.max_records, 'record')} at most",
        "table": config.table.identifier,
        "quarantine": config.quarantine.identifier,
    }
    return html(headline(config), {"file": [{"option": name, "value": value} for name, value in options.items()]})


@dataclass(frozen=True, repr=False)
class FileCheck(Showable):
    """Pipeline files that were checked. Its listing: files.

    Attributes:
        files: one a file: file, ok, problems, notices.
        clashes: tables of two pipelines in one place, each in a sentence.
    """

    files: tuple[dict[str, Any], ...]
    clashes: tuple[str, ...] = ()

    @property
    def problems(self) -> list[str]:
        """Every mistake, each with its cure."""
        return [*(problem for each in self.files for problem in each["problems"]), *self.clashes]

    @property
    def headline(self) -> str:
        return f"{number_of(len(self.files), 'file')} checked, {number_of(len(self.problems), 'mistake')}"

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {"files": self.files}

    @property
    def text(self) -> Iterator[str]:
        for each in self.files:
            if each["ok"]:
                yield f"{each['file']}: good"
            yield from (f"  {notice}" for notice in each["notices"])

    def to_json(self) -> dict[str, Any]:
        return {"ok": not self.problems, "files": self.files}

    @property
    def failure(self) -> LakeingestError | None:
        if not self.problems:
            return None
        wrong = [each["file"] for each in self.files if not each["ok"]]
        several = f"{len(wrong)} of {len(self.files)} files" if wrong else "the pipelines together"
        return failure(wrong[0] if len(wrong) == 1 else several, self.problems)


@dataclass(frozen=True, repr=False)
class OptionHelp(Showable):
    """What an option means, or a part with options of its own: the required ones first."""

    option: Option

    @property
    def headline(self) -> str:
        return f"{self.option.path or 'pipeline file'}: {self.option.meaning}"

    @property
    def text(self) -> Iterator[TextTable]:
        if not self.option.options:
            yield TextTable(self.option.path, _HEADINGS, [self._row])
        else:
            yield TextTable(self.headline, _HEADINGS, [each._row for each in self._required_first])
        for each in self.option.options:
            if each.options:
                yield from OptionHelp(each).text

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self.option, name) for name in _OF_OPTION}
        return {**values, "options": [each.to_json() for each in self._required_first]}

    @property
    def _required_first(self) -> list[OptionHelp]:
        return [OptionHelp(each) for each in sorted(self.option.options, key=lambda each: not each.required)]

    @property
    def _row(self) -> tuple[str, str, str, str]:
        default = "required" if self.option.required else self.option.default or ""
        return self.option.name, self.option.type, default, self.option.meaning
