"""Reads the configuration of a connector: JSON, as Connect's REST interface takes and gives it, or Java properties."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakeingest.errors import UsageError

_LARGEST = 1 << 20


def read(path: Path) -> dict[str, str]:
    """The options of one connector, or of a worker: name → value as text.

    JSON may be the options alone, {"name": …, "config": {…}}, or what `GET /connectors/NAME` and
    `GET /connectors?expand=info` answer for one connector.

    Raises:
        UsageError: the file cannot be read, or holds no connector's options.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST + 1).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}:{line}: not UTF-8 text", cure="save the file as UTF-8") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path} cannot be read ({reason})", cure="check the path") from None
    if len(text) > _LARGEST:
        raise UsageError(f"{path} is larger than {_LARGEST:,} bytes", cure="name the configuration of one connector")
    if text.lstrip()[:1] in ("{", "["):
        return _of_json(path, text)
    return _of_properties(path, text)


def _of_json(path: Path, text: str) -> dict[str, str]:
    try:
        document = json.loads(text, object_pairs_hook=lambda pairs: _once(path, pairs))
    except json.JSONDecodeError as error:
        # The place is behind what is missing; a comma belongs to the end of the line before.
        missing = "a comma is missing before it" if "',' delimiter" in error.msg else error.msg
        raise UsageError(
            f"{path}:{error.lineno}:{error.colno}: not JSON: {missing}",
            cure="correct that place (a comma stands behind each option but the last)",
        ) from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply", cure="name the configuration of a connector") from None
    options = _config(document)
    if options is None:
        raise UsageError(
            f"{path}: no options of one connector",
            cure='write {"name": …, "config": {"connector.class": …}}, as Connect\'s REST interface has it',
        )
    if bad := [name for name, value in options.items() if isinstance(value, Mapping | list)]:
        raise UsageError(f"{path}: {', '.join(bad)}: no text", cure="write each option's value as a text")
    return {name: _text(value) for name, value in options.items() if value is not None}


def _once(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"{path}: {', '.join(twice)} stands twice", cure="keep one of them")
    return dict(pairs)


def _config(document: Any) -> dict[str, Any] | None:
    """The options within the answers of Connect; the connector's name is one of them."""
    if not isinstance(document, Mapping):
        return None
    if isinstance(document.get("config"), Mapping):
        name_option = {"name": document["name"]} if "name" in document else {}
        return {**name_option, **document["config"]}
    inner = [value for value in document.values() if isinstance(value, Mapping)]
    if not inner:
        return dict(document)
    (only,) = inner if len(inner) == 1 else (None,)
    return _config(only.get("info", only)) if only is not None and len(document) == 1 else None


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool | int | float) else str(value)


def _of_properties(path: Path, text: str) -> dict[str, str]:
    import javaproperties

    try:
        properties = javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError as error:
        raise UsageError(f"{path}: {error}", cure=r"write \u and four hexadecimal digits") from None
    if not any(properties.values()):
        raise UsageError(f"{path}: no options", cure="write name=value in each line, or JSON")
    return dict(properties)
