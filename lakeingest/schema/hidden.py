"""Parts of a record that steps hide besides columns: fields that no column takes, the key, the headers. Pure.

A field is hidden if a step masks it, drops it, or does not keep it. `_rescued` holds fields under the names that the
record gives them. So each hidden column is followed back to its field, through every rename and flatten before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lakeingest.schema import ddl

if TYPE_CHECKING:
    from lakeingest.schema.transforms import Mask, Stage, TransformStep

KEY, HEADERS, RESCUED = "_key", "_headers", "_rescued"
COLUMNS = (KEY, HEADERS, RESCUED)
"""The columns of a record that its value does not give, and that mask and drop reach."""

Path = tuple[str, ...]
"""A field's names, from the outermost one, in lower case."""


def column_of(path: str) -> str | None:
    """The column among `COLUMNS` that a path of a step leads to; None if it leads to one of the value's."""
    top = path.partition(".")[0].lower()
    return top if top in COLUMNS else None


def paths(steps: Sequence[TransformStep], column: str) -> tuple[str, ...]:
    """The paths of mask and drop that lead to one of `COLUMNS`."""
    hidden_paths = (path for step in steps if step.kind in ("mask", "drop") for path in (*step.names, *step.masks))
    return tuple(path for path in hidden_paths if column_of(path) == column)


def hides(steps: Sequence[TransformStep]) -> bool:
    """Whether something of a record is masked, or its key or headers are dropped: nothing shows its values then."""
    return any(step.masks for step in steps) or any(paths(steps, column) for column in (KEY, HEADERS))


def check(path: str, mask: Mask | None, wrong: Callable[[str], Exception]) -> None:
    """Raise what `wrong` makes of a sentence, if a path within `COLUMNS` cannot be hidden in this way.

    Args:
        mask: how it is masked; None if it is dropped.
    """
    column, whole = column_of(path), "." not in path
    if mask is None or mask.kind == "null":
        return
    if column == RESCUED:
        raise wrong(f"{RESCUED} holds JSON, of which fields are left out; write null")
    if column == HEADERS and whole:
        raise wrong(f"{HEADERS} is a list; name one header, as in {HEADERS}.user, or write null")


def key(steps: Sequence[TransformStep], kind: ddl.Type) -> ddl.Type | None:
    """The type of the column _key behind the steps; None if they drop it.

    Args:
        kind: the type that keys are decoded into.

    Raises:
        TransformError: a step names what the key does not have, or cannot hide it in this way.
    """
    from lakeingest.schema.transforms import TransformError, at_path, masked

    columns: tuple[ddl.Column, ...] = (ddl.Column(KEY, kind),)
    for at, step in enumerate(steps):
        for path in paths([step], KEY):

            def wrong(text: str, at: int = at, step: TransformStep = step, path: str = path) -> TransformError:
                return TransformError((at, step.kind, path), text)

            mask = step.masks.get(path)
            change = partial(masked, mask, wrong) if mask else lambda _: None
            columns = at_path(columns, path.split("."), change, wrong)
            if not columns:
                return None
    return columns[0].type


@dataclass(frozen=True)
class Hidden:
    """The fields that `_rescued` may not hold.

    Attributes:
        removed_paths: fields that are left out, with all that is within them; () stands for all.
        only: the fields that are kept, with all that is within them; None if it is all the others.
    """

    removed_paths: frozenset[Path] = frozenset()
    only: frozenset[Path] | None = None

    def __bool__(self) -> bool:
        return bool(self.removed_paths) or self.only is not None

    def within(self, name: str) -> Hidden:
        """The hidden parts of a field."""
        removed_paths = frozenset(path[1:] for path in self.removed_paths if path[:1] == (name,))
        only = None if self.only is None else frozenset(path[1:] for path in self.only if path[0] == name)
        return Hidden(removed_paths, None if only is None or () in only else only)

    @property
    def kept_names(self) -> tuple[str, ...] | None:
        """The outermost names of the fields that are kept; None if it is all the others."""
        return None if self.only is None else tuple(sorted({path[0] for path in self.only}))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The outermost names of fields that are left out whole."""
        return tuple(sorted(path[0] for path in self.removed_paths if len(path) == 1))

    @property
    def looked_into(self) -> tuple[str, ...]:
        """The outermost names of fields within which something is hidden."""
        names = {path[0] for path in (*self.removed_paths, *(self.only or ())) if path}
        return tuple(sorted(name for name in names - set(self.left_out) if self.within(name)))


def rescued(stages: Sequence[Stage]) -> Hidden:
    """Fields that `_rescued` may not hold behind these stages."""
    origins: dict[str, Path] = {column.name.lower(): (column.name.lower(),) for column in stages[0].before}
    removed_paths, only = set[Path](), frozenset[Path]()
    keeps = False
    for stage in stages:
        step, names = stage.step, {name.lower() for name in stage.step.names}
        if step.kind == "rename":
            new = {old.lower(): name.lower() for old, name in step.texts.items()}
            origins = {new.get(name, name): path for name, path in origins.items()}
        elif step.kind == "flatten":
            for column in stage.before:
                if column.name.lower() in names and (origin := origins.pop(column.name.lower(), None)):
                    origins |= dict(_leaves(column.name, origin, column.type))
        elif step.kind in ("mask", "drop"):
            for path in (*step.names, *step.masks):
                top, *rest = path.lower().split(".")
                if top in origins or top == RESCUED:
                    removed_paths.add((*origins.get(top, ()), *rest))
                if step.kind == "drop" and not rest:
                    origins.pop(top, None)
        elif step.kind == "keep":
            removed_paths |= {path for name, path in origins.items() if name not in names}
            origins = {name: path for name, path in origins.items() if name in names}
            if RESCUED not in names:
                keeps, only = True, frozenset(origins.values())
    return Hidden(frozenset(removed_paths), only if keeps else None)


def _leaves(name: str, origin: Path, kind: ddl.Type) -> Iterator[tuple[str, Path]]:
    if not isinstance(kind, ddl.Struct):
        yield name.lower(), origin
        return
    for field in kind.fields:
        yield from _leaves(f"{name}_{field.name}", (*origin, field.name.lower()), field.type)
