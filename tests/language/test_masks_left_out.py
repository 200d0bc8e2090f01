"""Each mask of each example of block programs, left out: refused with the element, the sizes and the line."""

from __future__ import annotations

import ast
import importlib.util
import linecache
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BLOCKS = Path(__file__).resolve().parents[2] / "examples" / "blocks"
#: The examples: the function that declares one, and the kernels in it.
DECLARED = {
    "vector_add": [("sum_of_vectors", "add")],
    "softmax": [("rows", "softmax")],
    "gemm": [("product", "matmul")],
    "attention": [("attended", "attention")],
    "layer_norm": [("normalised", "forward"), ("gradients", "backward")],
    "attention_backward": [("attended", "forward"), ("gradients", "of_columns"), ("gradients", "of_rows")],
}
_WORDS = ("load", "store", "accumulate")


def module_of(name: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", BLOCKS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def masked(tree: ast.AST) -> list[ast.Call]:
    """The calls of a kernel's words that have a mask."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    found = [call for call in calls if call.func.attr in _WORDS and any(k.arg == "mask" for k in call.keywords)]  # type: ignore[attr-defined]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def kernel_tree(name: str, kernel: str) -> ast.FunctionDef:
    """The source of a kernel of an example."""
    (tree,) = (
        node
        for node in ast.parse((BLOCKS / f"{name}.py").read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == kernel
    )
    return tree


def cases() -> Iterator[tuple[str, str, str, int]]:
    for name, kernels in DECLARED.items():
        for declare, kernel in kernels:
            yield from ((name, declare, kernel, k) for k in range(len(masked(kernel_tree(name, kernel)))))


CASES = list(cases())


def test_the_examples_have_so_many_masks() -> None:
    assert len(CASES) >= 40


@pytest.mark.parametrize(("name", "declare", "kernel", "number"), CASES, ids=lambda each: str(each))
def test_a_mask_that_is_left_out_is_refused(name: str, declare: str, kernel: str, number: int) -> None:
    tree = kernel_tree(name, kernel)
    call = masked(tree)[number]
    call.keywords = [each for each in call.keywords if each.arg not in ("mask", "other")]
    text = ast.unparse(tree)
    line = next(row for row in text.splitlines() if ast.unparse(call) in row)
    module = module_of(name)
    setattr(module, kernel, _kernel(text, f"{name}_{kernel}_{number}.py", module))
    options = {"split": 2} if (name, number) == ("gemm", 2) else {}  # the mask of the programs that share a sum
    made: Any = getattr(module, declare)(**options)
    violation = made[0].check().violations[0]
    assert violation.kind == "bounds" and violation.witness.params and max(violation.witness.params.values()) <= 2
    said = str(violation)
    assert re.search(r"program \(\d|reads \w+\[|stores \w+\[", said) and "mask" in said, said
    assert line.strip()[:30] in said or f"{name}_{kernel}_{number}.py" in said, said


def _kernel(text: str, file: str, module: ModuleType) -> Any:
    """A kernel whose source is a text."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = vars(module)
    exec(compile(text, file, "exec"), names)
    return names[ast.parse(text).body[0].name]  # type: ignore[attr-defined]


def test_the_function_without_a_change_is_accepted() -> None:
    for name, kernels in DECLARED.items():
        for declare, _ in kernels:
            assert getattr(module_of(name), declare)()[0].check().ok, (name, declare)
