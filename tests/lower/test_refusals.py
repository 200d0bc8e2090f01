"""Nothing that is proven is refused afterwards: lowering and the emitters have no refusals of their own."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from importlib import resources

import pytest

#: Refusals after the proof, by module, each with its reason. What else cannot go on is a `CompilerDefect`, an error of
#: the compiler: a condition of the proof, or a command, has to say so before.
ALLOWED = {
    "executed_order.py": "isl may give up on the loops that it made; nothing that is proven tells before",
    "emitter.py": "the name of a C function is checked where the text is made, for functions without a program too",
}


def raised(room: str) -> Iterator[tuple[str, str]]:
    """The module and the class of everything that a room raises by name."""
    folders = [resources.files("tiramisu_py").joinpath(room)]
    while folders:
        for entry in folders.pop().iterdir():
            if entry.is_dir():
                folders.append(entry)
            elif entry.name.endswith(".py"):
                for node in ast.walk(ast.parse(entry.read_text(encoding="utf-8"))):
                    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                        yield entry.name, ast.unparse(node.exc.func)


@pytest.mark.parametrize("room", ["lower", "ir", "passes", "backends"])
def test_a_refusal_after_the_proof_needs_a_reason(room: str) -> None:
    found = Counter(module for module, error in raised(room) if error == "UnsupportedError")
    assert set(found) <= set(ALLOWED), "make it a condition of the check, or a CompilerDefect that cannot be reached"


def test_what_cannot_be_reached_says_that_it_is_a_defect() -> None:
    assert any(error == "CompilerDefect" for _, error in raised("lower"))
