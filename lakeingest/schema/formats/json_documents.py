"""JSON Schema texts, and what a `$ref` in one of them leads to: by URI, pointer, anchor, or a reference's name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urljoin

from lakeingest.schema.model import SchemaError

_DATA = frozenset({"enum", "const", "default", "examples", "connect.parameters"})
"""Keywords that hold data, where `$ref` is no reference."""


class Documents:
    """The targets of `$ref`. Every `$ref` is made absolute at once: a part may leave its document."""

    def __init__(self, texts: Sequence[tuple[str, str]]) -> None:
        """Read (name or URI, text) pairs; the first is the schema itself.

        Raises:
            SchemaError: one is no JSON.
        """
        self._nodes: dict[str, Any] = {}
        for name, text in texts:
            tree = self._parsed(name, text)
            old = isinstance(tree, dict) and "draft-04" in str(tree.get("$schema"))
            self._nodes.setdefault(name, self._absolute(tree, name, "id" if old else "$id"))
        self.root = self._nodes[texts[0][0]]

    @staticmethod
    def _parsed(name: str, text: str) -> Any:
        try:
            tree = json.loads(text)
            # Half a character can be written in JSON, and nowhere else.
            json.dumps(tree, ensure_ascii=False).encode()
            return tree
        except ValueError as error:
            raise SchemaError(f"{name or 'the schema'} is no JSON: {error}") from None

    def _absolute(self, tree: Any, base: str, id_word: str) -> Any:
        if isinstance(tree, list):
            return [self._absolute(part, base, id_word) for part in tree]
        if not isinstance(tree, dict):
            return tree
        copy: dict[str, Any] = {}
        if isinstance(name := tree.get(id_word), str):
            address = _join(base, name).removesuffix("#")
            self._nodes.setdefault(address, copy)
            base = base if name.startswith("#") else address
        for word in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := tree.get(word), str):
                self._nodes.setdefault(f"{base}#{anchor}", copy)
        for key, part in tree.items():
            if key in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(part, str):
                copy["$ref"] = (part, _join(base, part))
            else:
                copy[key] = part if key in _DATA else self._absolute(part, base, id_word)
        return copy

    def find(self, written: str, address: str, place: str) -> Any:
        """The target of a `$ref`, by its address, or as it is written (Confluent's references have names of their own).

        Raises:
            SchemaError: nothing has that address.
        """
        for candidate in (address, written):
            if candidate in self._nodes:
                return self._nodes[candidate]
            document, _, pointer = candidate.partition("#")
            if document in self._nodes and (not pointer or pointer.startswith("/")):
                try:
                    return _follow(self._nodes[document], pointer)
                except (KeyError, IndexError, ValueError, TypeError):
                    break
        raise SchemaError(f"{place or 'the schema'} has a $ref {written!r} that leads nowhere")


def _join(base: str, ref: str) -> str:
    if ref.startswith("#"):
        return base.partition("#")[0] + ref  # urljoin knows no urn.
    try:
        return urljoin(base, ref)
    except ValueError:
        return ref


def _follow(node: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        node = node[int(key)] if isinstance(node, list) else node[key]
    return node
