"""The form of messages: one sentence in lower case, without a full stop and without marks around names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiramisu_py import errors

PACKAGE = Path(errors.__file__).parent
#: What is called with a message: the errors, a violation, and the fault of a statement.
CARRIERS = {"Violation", "fault", *(name for name, kind in vars(errors).items() if isinstance(kind, type))}
#: Variables that hold messages and what repairs them.
NAMES = {"message", "repair", "advice"}

FAULTS = {
    "ends with a full stop": re.compile(r"(?<!\.)\.\s*$"),
    "begins with a capital letter": re.compile(r"^[A-Z][a-z]+ "),
    "has two sentences": re.compile(r"[^.]\. +[A-Z]"),
    "has backquotes": re.compile("`"),
    "has two spaces": re.compile(r"\S  +\S"),
}


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The messages of a module with their lines; what is inserted is written ``{}``."""
    for node in ast.walk(tree):
        found: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CARRIERS:
            found = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.Assign) and {getattr(target, "id", "") for target in node.targets} & NAMES:
            found = [node.value]
        for one in found:
            parts = one.values if isinstance(one, ast.JoinedStr) else [one]
            words = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts]
            if isinstance(one, ast.JoinedStr | ast.Constant) and len("".join(words).split()) > 2:
                yield one.lineno, "".join(words)


def faults(text: str) -> list[str]:
    """The rules that a message breaks."""
    return [fault for fault, wrong in FAULTS.items() if wrong.search(text)]


@pytest.mark.parametrize("room", sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()))
def test_a_message_is_one_sentence_without_marks(room: str) -> None:
    modules = {path: ast.parse(path.read_text()) for path in sorted((PACKAGE / room).rglob("*.py"))}
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line} {fault}: {text}"
        for path, tree in modules.items()
        for line, text in texts(tree)
        for fault in faults(text)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_messages_of_a_module_are_found() -> None:
    source = """
message = f"{x} has no loop here"
raise CommandError(f"no loop {x} here", repair="name a loop")
"""
    assert list(texts(ast.parse(source))) == [(2, "{} has no loop here"), (3, "no loop {} here"), (3, "name a loop")]


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("{} has no loop i: it has the loops j, k", []),
        ("write a list, [..]", []),
        ("MPI has no such call", []),
        ("{} has no loop i.", ["ends with a full stop"]),
        ("The loop i is gone", ["begins with a capital letter"]),
        ("{} is wrong. Choose another one", ["has two sentences"]),
        ("loop `i` is gone", ["has backquotes"]),
        ("loop i  is gone", ["has two spaces"]),
    ],
)
def test_a_message_that_breaks_a_rule_is_found(text: str, broken: list[str]) -> None:
    assert faults(text) == broken
