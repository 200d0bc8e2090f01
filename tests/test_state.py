"""Nothing outlives a call but what it returns: the sources have no state in modules, and no caches there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "tiramisu_py").rglob("*.py"))

#: Where functions remember results for good, and why they may.
REMEMBERED = {
    ("tiramisu_py/toolchain/gpu/runtime.py", "_loaded"): "a library stays loaded for as long as its process runs",
    ("tiramisu_py/toolchain/files/entries.py", "_settled"): "a file in the same state has the same checksum",
    ("tiramisu_py/toolchain/compilers/tools.py", "_said"): "a script before a compiler is asked once a process",
    ("tiramisu_py/toolchain/gpu/runtime.py", "_opened"): "a library stays loaded for as long as its process runs",
    ("tiramisu_py/algorithm/reserved.py", "_library"): "a file of the package is read once, and never changes",
    ("tiramisu_py/program/machine/instruction_costs.py", "_table"): "a file of the package never changes",
    ("tiramisu_py/tuning/learned/samples/clocks.py", "package_key"): "the package's files never change",
    ("tiramisu_py/tuning/learned/samples/clocks.py", "_values"): "the same random numbers for each type",
    ("tiramisu_py/jax.py", "of_sizes"): "a function of a framework, kept by that function",
    ("tiramisu_py/torch/host_gathers.py", "_kernel"): "indexing of tensors has no object that could keep its kernels",
    ("tiramisu_py/torch/unified_tensors.py", "tensor_class"): "torch has one class for all tensors of a kind",
}

#: The variables of modules that change, and why.
KEPT = {
    ("tiramisu_py/language/running.py", "_MACHINE"): "the words of a kernel belong to the interpretation around them",
    ("tiramisu_py/torch/functions.py", "_NUMBERS"): "torch registers operators by name for the whole process",
    ("tiramisu_py/torch/offloading.py", "_OPEN"): "torch's hooks are those of the process: a second cache is refused",
    ("tiramisu_py/torch/tensor_files.py", "_OWN"): "a thread has one buffer for its files",
}

#: Where something is written into an object beside its fields, and why: see `Expr`.
WRITTEN_INTO = {
    "tiramisu_py/algorithm/operands.py": "an expression keeps its key",
    "tiramisu_py/algorithm/traversal.py": "a node keeps what is asked of it again and again: `kept_on_node`",
    "tiramisu_py/dependence/vector_padding.py": "a statement keeps its whole vectors, for a width and context",
    "tiramisu_py/ir/rewriting.py": "statements keep the kinds and names in them",
    "tiramisu_py/passes/share_expressions.py": "an expression keeps that it is shared",
    "tiramisu_py/ir/arithmetic/simplify.py": "an expression keeps that it is simple",
    "tiramisu_py/graphs/tracing.py": "what a model assigns to an edge as an attribute is refused, but these fields",
    "tiramisu_py/function/applying/scheduled.py": "a function gets the state of the one that it is a copy of",
}

#: What makes a container, and is of no use in a module unless something is put into it later.
CONTAINERS = {"dict", "list", "set", "bytearray", "Counter", "OrderedDict", "defaultdict", "deque"}
#: What has no other use than to change.
STATE = {"ContextVar", "Lock", "RLock", "WeakKeyDictionary", "WeakSet", "WeakValueDictionary", "count", "local"}
CACHES = {"cache", "lru_cache"}
WRITING = {
    "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "sort", "update",
}  # fmt: skip


def faults(path: str, source: str) -> Iterator[str]:
    """What a module keeps between calls."""
    tree = ast.parse(source)
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    kept = {name for module, name in KEPT if module == path}
    for statement in (statement for body in bodies for statement in body):
        names = {target.id for target in _targets(statement) if isinstance(target, ast.Name)}
        if isinstance(statement, ast.Assign | ast.AnnAssign) and _is_state(statement.value) and not names & kept:
            yield f"{path}:{statement.lineno}: {ast.unparse(statement)[:60]}"
    own = _tables(tree)
    shared = own | {alias.asname or alias.name for node in ast.walk(tree) for alias in _imported(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield f"{path}:{node.lineno}: global {', '.join(node.names)}"
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ():
            if _name(decorator) in CACHES and (path, node.name) not in REMEMBERED:  # type: ignore[union-attr]
                yield f"{path}:{node.lineno}: {node.name} remembers its results"  # type: ignore[attr-defined]
        for target in _written(node):
            if isinstance(target, ast.Attribute) and target.attr == "__dict__" and path not in WRITTEN_INTO:
                yield f"{path}:{target.lineno}: {ast.unparse(target)} is written into"
            if not isinstance(target, ast.Name) or target.id not in shared - kept or _is_local(tree, node, target.id):
                continue
            if target.id in own or target.id.isupper() or not isinstance(node, ast.Call):  # else a module's function
                yield f"{path}:{target.lineno}: {target.id} of a module is written to"


def _is_state(value: ast.expr | None) -> bool:
    """Whether a module's or a class's variable is there to be changed."""
    if isinstance(value, ast.Dict | ast.List | ast.Set):
        return not ast.unparse(value)[1:-1]
    if not isinstance(value, ast.Call):
        return False
    return _name(value) in STATE | CACHES or (_name(value) in CONTAINERS and not value.args and not value.keywords)


def _tables(tree: ast.Module) -> set[str]:
    """The variables of a module."""
    targets = [t for s in tree.body if isinstance(s, ast.Assign | ast.AnnAssign) for t in _targets(s)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _imported(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.Import | ast.ImportFrom) else []


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign | ast.Delete):
        return node.targets
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []


def _written(node: ast.AST) -> list[ast.expr]:
    """What a node writes into: ``x`` in ``x[i] = y``, ``x.a = y``, ``del x[i]`` and ``x.append(y)``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITING:
        return [node.func.value]
    return [target.value for target in _targets(node) if isinstance(target, ast.Subscript | ast.Attribute)]


def _name(node: ast.expr) -> str:
    """The last name of ``a.b(...)``, ``b(...)``, ``b[...]`` or ``b``."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_local(tree: ast.Module, inside: ast.AST, name: str) -> bool:
    """Whether a function around a node has a variable of its own of this name."""
    around = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.Lambda) and inside in ast.walk(f)]
    return any(_declares(function, name) for function in around)


def _declares(function: ast.FunctionDef | ast.Lambda, name: str) -> bool:
    arguments = function.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    stored = [n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return name in stored or any(one is not None and one.arg == name for one in given)


def test_no_module_keeps_anything_between_calls() -> None:
    found = [fault for path in SOURCES for fault in faults(path.relative_to(ROOT).as_posix(), path.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "_seen = {}",
        "_seen: dict[str, int] = dict()",
        "_flows = weakref.WeakKeyDictionary()",
        "_numbers = itertools.count()",
        "_lock = threading.Lock()",
        "class A:\n    seen: list[int] = []",
        "@functools.cache\ndef f(x): ...",
        "@lru_cache(maxsize=8)\ndef f(x): ...",
        "class A:\n    @cache\n    def f(self): ...",
        "found = functools.cache(read)",
        "def f():\n    global _last\n    _last = 1",
        "_NAMES = {1: 2}\ndef f(x):\n    _NAMES[x] = 1",
        "_NAMES = [1]\ndef f(x):\n    _NAMES.append(x)",
        "from a import NAMES\ndef f(x):\n    NAMES.setdefault(x, 1)",
        "from a import b\ndef f(x):\n    b.last = x",
        "_NAMES = {1: 2}\ndef f(x):\n    del _NAMES[x]",
        "def f(e):\n    e.__dict__['kept'] = 1",
    ],
)
def test_state_in_a_module_is_found(source: str) -> None:
    assert list(faults("tiramisu_py/some.py", source))


@pytest.mark.parametrize(
    "source",
    [
        "_NAMES = {1: 2}\ndef f(x):\n    return _NAMES[x]",
        "_NAMES = {1: 2}\ndef f(_NAMES, x):\n    _NAMES[x] = 1",
        "def f(x):\n    found = {}\n    found[x] = 1\n    return found",
        "class A:\n    def __init__(self):\n        self.found = {}",
    ],
)
def test_constants_and_variables_of_a_call_are_no_state(source: str) -> None:
    assert not list(faults("tiramisu_py/some.py", source))


def test_each_exception_is_still_one() -> None:
    for path, name in REMEMBERED:
        assert f"def {name}(" in (ROOT / path).read_text(), name
    for path, name in KEPT:
        assert f"\n{name}" in (ROOT / path).read_text(), name
    for path in WRITTEN_INTO:
        assert "__dict__" in (ROOT / path).read_text(), path
