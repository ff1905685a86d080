"""Code of one's own in a pipeline: what a class has to be, and how the file's name of it becomes one.

A pipeline file alone runs no code: it only names it, as module:Class, or as an entry point of the group "lakeingest".
Whoever runs the pipeline allows it: `--allow-code`, or `lakeingest.load(FILE, allow_code=True)`.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lakeingest.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column

GROUP = "lakeingest"
REFUSED = "_refused"
"""What a `Step` may return beside its columns: STRING, why the record is refused; null if it is not."""
NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*|[A-Za-z0-9][\w.-]*")


@runtime_checkable
class Step(Protocol):
    """A step of `transform`: columns that are computed from a record's own. Made without arguments.

    It is a decoder where decode.value.format is bytes, whose column is `value` BINARY; a partitioner where the table is
    partitioned by a column that it makes.

    Attributes:
        columns: what it makes, or makes anew, as DDL. A null in a column that is NOT NULL refuses the record.
    """

    columns: str

    def compute(self, columns: Mapping[str, Column]) -> Mapping[str, Column]:
        """A Column for each of `columns`, of nothing but the record: no aggregate, no window, nothing random.

        None may raise for any record, which would stop the batch: name a reason under "_refused" instead.

        Args:
            columns: name → Column of the record's columns as the step before left them, and of _topic STRING,
                _partition INT, _offset BIGINT and _timestamp TIMESTAMP.
        """


@runtime_checkable
class Listener(Protocol):
    """Hears what a run or a maintenance does. Made without arguments, for each; what it raises is warned of, and ends
    none.
    """

    def heard(self, pipeline: str, event: Any) -> None:
        """Something happened.

        Args:
            event: one of lakeingest.ingest.events: `Started`, `Matched`, `Looked`, `Committed`, `Retrying`,
                `CatalogUpdate`, `GroupUpdate`, `Ended`; and of a maintenance `Maintained`. More may come: leave
                out what is not known.
        """


@cache
def step(name: str) -> Step:
    """The step of this name.

    Raises:
        UsageError: it cannot be imported or made, or is no `Step`.
    """
    instance = _instance_of(name)
    if not isinstance(instance, Step) or not isinstance(instance.columns, str):
        raise UsageError(
            f"{name} is no step: it lacks columns (DDL text) or compute(columns)",
            cure="see lakeingest.extend.Step, or docs/how-to/own-code.md",
        )
    return instance


def listeners(names: Sequence[str]) -> list[Listener]:
    """The listeners of these names.

    Raises:
        UsageError: one cannot be imported or made, or is no `Listener`.
    """
    instances = [_instance_of(name) for name in names]
    for name, each in zip(names, instances, strict=True):
        if not isinstance(each, Listener):
            raise UsageError(
                f"{name} is no listener: it lacks heard(pipeline, event)", cure="see lakeingest.extend.Listener"
            )
    return instances


def tell(listening: Sequence[Listener], pipeline: str, event: Any) -> None:
    """Tell listeners of an event; one that fails is warned of."""
    for each in listening:
        try:
            each.heard(pipeline, event)
        except Exception as failed:
            warnings.warn(f"listener {type(each).__name__} failed: {failed!r}; the run goes on", stacklevel=2)


def _instance_of(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        if attribute:
            return getattr(importlib.import_module(module), attribute)()
        entries = entry_points(group=GROUP, name=name)
        if entries:
            return next(iter(entries)).load()()
    except Exception as failed:
        raise UsageError(
            f"{name} cannot be used: {type(failed).__name__}: {failed}",
            cure="install its package in this environment, or name the folder in PYTHONPATH; the class is made without "
            "arguments",
        ) from failed
    names = ", ".join(sorted(each.name for each in entry_points(group=GROUP))) or "there are none"
    raise UsageError(
        f"no installed package has an entry point {name!r} in the group {GROUP!r} ({names})",
        cure="write module:Class, or install the package",
    )
