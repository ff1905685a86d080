"""The outcome of a connector's options, and the values of the pipeline file made from them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Outcome: TypeAlias = Literal["carried", "changed", "impossible", "ignored", "unknown"]

HIDDEN = "a variable of the environment takes the secret's place"
_PROVIDED = re.compile(r"\$\{(\w+):(?:[^{}:]*:)*([^{}:]+)\}")
"""A value that Connect asks a config provider for (KIP-297): ${provider:path:key}, or ${env:NAME}."""
_SECRET = re.compile(
    r"(?i)secret|password|passphrase|token|credential|user[.]?info|jaas|api[.]key|access[._]key|customer[.]key|"
    r"ssl[.]key|account[.]key|license"
)


_LOGIN = re.compile(r"(://)[^/@\s]*@")
"""A user, and a password as a rule, within a URL."""


@dataclass(frozen=True)
class ConnectorOption:
    """An option of a connector, and what became of it.

    Attributes:
        value: as it was given; "***" if it may be a secret.
        becomes: the options of the pipeline file that it became, empty if none.
        why: why it is not carried over as it is, and what will be seen, or what to do instead.
    """

    name: str
    value: str
    outcome: Outcome
    becomes: str = ""
    why: str = ""


def is_secret(name: str) -> bool:
    """Whether the value of an option may be a secret, by its name."""
    return bool(_SECRET.search(name)) and not name.endswith((".class", ".source", "provider"))


@dataclass
class Translation:
    """Takes the options one by one, and remembers what became of each.

    Attributes:
        options: name → value, under Confluent's names, of what is still to be looked at.
        names: Confluent's name → the name that it was given under, where that is another.
        implied: names of options that another one implies: they are not told of.
        of_worker: names of those that the worker sets: they are told of where they are not carried over as they are.
        outcomes: what became of each option, in the order in which it was looked at.
        file: the pipeline file's values.
        notes: path of an option of the pipeline file → the comment above it.
        environment: the variables that the pipeline file asks for.
        missing: option of the pipeline file → why it cannot be known from here.
        routed: what a transform calls the topic in the bucket; empty if none does.
    """

    options: dict[str, str]
    names: Mapping[str, str] = field(default_factory=dict)
    implied: Collection[str] = ()
    of_worker: Collection[str] = ()
    outcomes: list[ConnectorOption] = field(default_factory=list)
    file: dict[str, Any] = field(default_factory=dict)
    notes: dict[tuple[str, ...], str] = field(default_factory=dict)
    environment: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    routed: str = ""

    def __contains__(self, name: str) -> bool:
        return name in self.options

    def get(self, name: str, default: str = "") -> str:
        """The value of an option, blanks around it left out; it stays to be told of."""
        return self.options.get(name, default).strip()

    def whole(self, name: str) -> int | None:
        """The value of an option that is a whole number; None if it is not given, or no such number."""
        return int(self.get(name)) if re.fullmatch(r"-?\d{1,18}", self.get(name)) else None

    def yes(self, name: str) -> bool | None:
        """Whether an option is true; None if it is not given."""
        return self.get(name).lower() == "true" if name in self.options else None

    def tell(self, name: str, outcome: Outcome, becomes: str = "", why: str = "") -> None:
        """Note what became of an option, if it was given."""
        if name in self.options:
            origin, value = self.names.get(name, name), self.options.pop(name)
            if name in self.of_worker:
                if outcome not in ("changed", "impossible"):
                    return
                origin = f"{origin} (of the worker)"
            if name not in self.implied:
                text = "***" if is_secret(name) else _LOGIN.sub(r"\1***@", value)
                self.outcomes.append(ConnectorOption(origin, text, outcome, becomes, why))

    def set(self, path: str, value: Any, note: str = "") -> None:
        """Write an option of the pipeline file, with a comment above it."""
        *parts, last = path.split(".")
        within = self.file
        for part in parts:
            within = within.setdefault(part, {})
        within[last] = value
        if note:
            self.notes[*parts, last] = note

    def set_entry(self, path: str, name: str, value: str) -> None:
        """Write an entry of one of the maps of the pipeline file, whose names have dots: source.options, …"""
        *parts, last = path.split(".")
        within = self.file
        for part in (*parts, last):
            within = within.setdefault(part, {})
        within[name] = value

    def carry(self, name: str, path: str, key: str = "", *, secret: str = "", why: str = "") -> None:
        """Write an option's value at a path, as the entry `key` of a map or as the option itself, and note it.

        Args:
            secret: the variable that takes the value's place, where Connect asks no provider for it.
            why: by default, that a variable takes the place of a secret.
        """
        if name in self.options:
            value = self.secret(name, secret) if secret else self.text(name)
            if key:
                self.set_entry(path, key, value)
            else:
                self.set(path, value)
            self.tell(name, "carried", path, why or (HIDDEN if secret else ""))

    def variable(self, name: str) -> str:
        """`${NAME}`, filled in from the environment when the pipeline file is read."""
        if name not in self.environment:
            self.environment.append(name)
        return f"${{{name}}}"

    def has_login(self, name: str) -> bool:
        """Whether an option is a URL with a user in it."""
        return bool(_LOGIN.search(self.get(name)))

    def secret(self, name: str, variable: str) -> str:
        """The variable that stands for the secret value of an option."""
        match = _PROVIDED.fullmatch(self.get(name))
        return self.variable(_variable(match[2]) if match else variable)

    def text(self, name: str, default: str = "") -> str:
        """The value of an option as the pipeline file has it: what Connect asks a provider for becomes a variable, a
        user and password within a URL are left out.
        """
        parts, at, value = [], 0, _LOGIN.sub(r"\1", self.get(name, default))
        for match in _PROVIDED.finditer(value):
            parts += [value[at : match.start()].replace("${", "$${"), self.variable(_variable(match[2]))]
            at = match.end()
        return "".join([*parts, value[at:].replace("${", "$${")])


def _variable(key: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "_", key).strip("_").upper()
    return name if name[:1].isalpha() else f"V_{name}"


def simple(value: str) -> str:
    """The name of a Java class without its package, and without $Key and $Value."""
    return value.rpartition(".")[2].partition("$")[0]
