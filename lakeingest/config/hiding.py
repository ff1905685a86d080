"""Checks of masks and drops against the rest of a pipeline file, and notices of readable rests. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from lakeingest.config import parts
from lakeingest.config.formats import JsonKey, KeyFormat
from lakeingest.schema import ddl, hidden
from lakeingest.schema.transforms import TransformError, TransformStep

_SHORTEST_KEY = 16

Found: TypeAlias = tuple[tuple[str | int, ...], str]
"""A mistake: where, and what it is."""


def mistakes(
    decode: parts.Decode | None,
    compatibility: parts.Compatibility | None,
    quarantine: parts.Quarantine | None,
    steps: Sequence[TransformStep],
) -> Iterator[Found]:
    """Mistakes: options that are missing, fields that cannot be hidden."""
    yield from _of_new_columns(compatibility, steps)
    if quarantine is not None:
        yield from _of_bytes(quarantine, steps)
    if decode is not None:
        yield from _of_key(decode.key, steps)


def notices(
    decode: parts.Decode,
    compatibility: parts.Compatibility,
    quarantine: parts.Quarantine,
    steps: Sequence[TransformStep],
) -> Iterator[str]:
    """Notices of fields that masks and drops leave readable: whoever masks a field should know it."""
    masked, keeps = _masked(steps), any(step.kind == "keep" for step in steps)
    dropped = [name for step in steps if step.kind == "drop" for name in step.names]
    if keeps and not any(hidden.RESCUED in step.names for step in steps if step.kind == "keep"):
        yield "transform: keep leaves fields that no column takes out of _rescued, too; to have them, keep _rescued"
    if not masked and not dropped:
        return
    if _makes_columns(compatibility, steps) and hidden.paths(steps, hidden.RESCUED):
        yield (
            f"transform hides _rescued, and under {compatibility} new fields become columns, in the clear; to hide "
            "these too, write schema.compatibility: FORWARD, or keep with the columns that may be seen"
        )
    columns = ", ".join(dict.fromkeys((*masked, *dropped)))
    if clear := list(_in_the_clear(decode, steps)):
        yield (
            f"transform hides {columns}; written as it came, in quarantine too: {', '.join(clear)}; mask or drop "
            "these, too, if they may hold the same, as in mask: {_key: null}"
        )
    if quarantine.keep_bytes in (None, "plain"):
        yield (
            f"quarantine keeps the bytes of refused records as they came, {columns} among them; write "
            "quarantine.keep_bytes: encrypted, or never"
        )
    elif quarantine.keep_bytes == "never":
        yield (
            "quarantine keeps no bytes of refused records: these cannot be replayed, and what Kafka deletes of them is "
            "lost; write quarantine.keep_bytes: encrypted to have them"
        )


def _in_the_clear(decode: parts.Decode, steps: Sequence[TransformStep]) -> Iterator[str]:
    """Parts of a record that no step hides, or hides in part."""
    is_kept = {
        hidden.KEY: True,
        hidden.HEADERS: decode.headers,
        hidden.RESCUED: decode.value.format not in ("string", "bytes"),
    }
    for column in (name for name, has in is_kept.items() if has):
        hidden_paths = hidden.paths(steps, column)
        if column not in (path.lower() for path in hidden_paths):
            yield f"{column} but for {', '.join(hidden_paths)}" if hidden_paths else column


def _masked(steps: Sequence[TransformStep]) -> list[str]:
    """Masked fields, and dropped parts of key and headers."""
    dropped = [path for column in (hidden.KEY, hidden.HEADERS) for path in hidden.paths(steps, column)]
    return list(dict.fromkeys([path for step in steps for path in step.masks] + dropped))


def _makes_columns(compatibility: parts.Compatibility, steps: Sequence[TransformStep]) -> bool:
    """Whether a field that the file does not name becomes a column."""
    return compatibility != "FORWARD" and not any(step.kind == "keep" for step in steps)


def _of_new_columns(compatibility: parts.Compatibility | None, steps: Sequence[TransformStep]) -> Iterator[Found]:
    """Fields that are hidden in _rescued alone, although they become columns."""
    if compatibility is None or not _makes_columns(compatibility, steps):
        return
    for at, step in enumerate(steps):
        for path in hidden.paths([step], hidden.RESCUED):
            if field := path.partition(".")[2]:
                yield (
                    ("transform", at, step.kind, path),
                    f"under {compatibility} {field} becomes a column as soon as a record has it, and stands in the "
                    f"clear there; write schema.compatibility: FORWARD, or keep with the columns that may be seen, or "
                    f"{step.kind}: {field} (and declare it in schema.columns where the format is json)",
                )


def _of_key(key: KeyFormat, steps: Sequence[TransformStep]) -> Iterator[Found]:
    """Mistakes: parts of a declared key that a step cannot hide."""
    kinds = {"string": ddl.Atomic("string"), "bytes": ddl.Atomic("binary")}
    kind = ddl.Struct(ddl.parse(key.columns)) if isinstance(key, JsonKey) else kinds.get(key.format)
    try:
        if kind is not None:
            hidden.key(steps, kind)
    except TransformError as wrong:
        yield ("transform", *wrong.path), wrong.text


def _of_bytes(quarantine: parts.Quarantine, steps: Sequence[TransformStep]) -> Iterator[Found]:
    where = ("quarantine", "keep_bytes")
    masked = _masked(steps)
    if masked and quarantine.keep_bytes is None:
        yield (
            where,
            f"required, and missing: {', '.join(masked)} is hidden, and the bytes of refused records would show it; "
            "write encrypted (and quarantine.encryption_key), never, or plain if whoever reads quarantine may see it",
        )
    encrypted, key = quarantine.keep_bytes == "encrypted", quarantine.encryption_key
    if encrypted and (key is None or len(key.get_secret_value()) < _SHORTEST_KEY):
        yield (
            ("quarantine", "encryption_key"),
            f"required for keep_bytes: encrypted, {_SHORTEST_KEY} characters at least; "
            "as in encryption_key: ${QUARANTINE_KEY}",
        )
    if key is not None and not encrypted:
        yield (("quarantine", "encryption_key"), "encrypts nothing; write keep_bytes: encrypted, or drop it")
