"""The source of a kernel: its syntax tree, its constants, and refusals that show the line."""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
from collections.abc import Callable
from dataclasses import field
from typing import Any

from tiramisu_py.errors import DeclarationError, TiramisuError
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class BlockSource:
    """A function as it is written. `constants` are its arguments annotated ``tl.constexpr``."""

    function: Callable[..., Any]
    name: str
    file: str
    first: int
    lines: tuple[str, ...]
    tree: ast.FunctionDef
    arguments: tuple[str, ...]
    constants: frozenset[str]
    defaults: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> BlockSource:
        """Read the source of a function; raises `DeclarationError` where there is none."""
        name = getattr(function, "__name__", repr(function))
        try:
            lines, first = inspect.getsourcelines(function)
            file = inspect.getsourcefile(function) or "?"
        except (OSError, TypeError):
            raise DeclarationError(
                f"tm.jit reads the source of {name}, and there is none: write the kernel in a file (or a cell)"
            ) from None
        (tree,) = ast.parse(textwrap.dedent("".join(lines))).body
        if not isinstance(tree, ast.FunctionDef):
            raise DeclarationError(f"tm.jit takes a function, def {name}(...), and this is {type(tree).__name__}")
        given = tree.args
        if given.vararg or given.kwarg:
            raise DeclarationError(f"{name} takes *arguments: a kernel names each argument")
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        constants = frozenset(each.arg for each in every if _is_constant(each.annotation))
        signature = inspect.signature(function)
        defaults = {k: p.default for k, p in signature.parameters.items() if p.default is not inspect.Parameter.empty}
        names = tuple(each.arg for each in every)
        return cls(function, name, file, first, tuple(lines), tree, names, constants, defaults)

    def line(self, node: ast.AST) -> int:
        """The line of a node in the file."""
        return self.first + getattr(node, "lineno", 1) - 1

    def place(self, node: ast.AST) -> str:
        """``gemm.py:12, in matmul``."""
        return f"{os.path.basename(self.file)}:{self.line(node)}, in {self.name}"

    def text(self, node: ast.AST) -> str:
        """The line of a node as it is written."""
        return self.lines[getattr(node, "lineno", 1) - 1].strip()

    def refusal(self, node: ast.AST, why: str) -> SourceError:
        """The error about a node, with its place and its line."""
        return SourceError(f"{self.place(node)}: {why}\n    {self.text(node)}")

    def located(self, node: ast.AST, error: TiramisuError) -> TiramisuError:
        """An error of a declaration with the place in the kernel."""
        return error if isinstance(error, SourceError) else self.refusal(node, str(error))


class SourceError(DeclarationError):
    """A kernel's source that cannot be used; the message has the file, the line and the kernel."""


def _is_constant(annotation: ast.expr | None) -> bool:
    """Whether an annotation is ``tl.constexpr``."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.rsplit(".", 1)[-1] == "constexpr"
    found = annotation.attr if isinstance(annotation, ast.Attribute) else getattr(annotation, "id", "")
    return found == "constexpr"
