"""What Tab and `?` show of the Python API: each public method explains itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import lakeingest

METHODS = [lakeingest.load, *(m for n, m in vars(lakeingest.Pipeline).items() if inspect.isfunction(m) and n[0] != "_")]


def sections(function: Callable[..., Any]) -> dict[str, str]:
    """Section → its text; the first is called "" and has no name."""
    parts = re.split(r"^(Args|Returns|Raises|Example):\n", inspect.getdoc(function) or "", flags=re.MULTILINE)
    return dict(zip(["", *parts[1::2]], parts[::2], strict=True))


@pytest.mark.parametrize("function", METHODS, ids=lambda f: f.__name__)
def test_a_docstring_names_every_argument_and_what_is_raised(function: Callable[..., Any]) -> None:
    """It begins with one sentence of at most 120 characters; arguments and results have types."""
    told, signature = sections(function), inspect.signature(function)
    assert len(told[""].splitlines()[0]) <= 120
    arguments = signature.parameters.keys() - {"self"}
    named = re.findall(r"^    (\w[\w, ]*): ", told.get("Args", ""), flags=re.MULTILINE)
    assert {name for names in named for name in names.split(", ")} == arguments
    assert all(signature.parameters[name].annotation is not inspect.Parameter.empty for name in arguments)
    assert signature.return_annotation is not inspect.Signature.empty
    assert "Raises" in told


@pytest.mark.parametrize("function", METHODS, ids=lambda f: f.__name__)
def test_an_example_is_python_that_calls_it(function: Callable[..., Any]) -> None:
    """With arguments that it takes."""
    example = sections(function).get("Example", "")
    if not example:
        return
    compile(inspect.cleandoc("\n" + example), function.__name__, "exec")
    assert f".{function.__name__}(" in example
