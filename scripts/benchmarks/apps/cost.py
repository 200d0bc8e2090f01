"""What the apps cost: lines to write, and time to prove, emit and compile."""

from __future__ import annotations

import ast
import inspect
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from unittest import mock

from benchmarks.apps.programs import APPS, App
from benchmarks.common.stories import imported

ROOTS = ("algorithm", "scheduled")


@dataclass(frozen=True)
class Cost:
    """Lines of the algorithm and of the schedule, seconds of processor time, and kB of C of its own."""

    algorithm: int
    schedule: int
    check: float
    emit: float
    compile: float
    size: float


def cost(app: App) -> Cost:
    """The costs of an app on this machine, compiled once in a cache of its own."""
    f = app.story.scheduled()
    moments = [time.process_time()]
    if not (report := f.check()).ok:
        raise SystemExit(f"{f.name} is refused: {report}")
    moments.append(time.process_time())
    files = f.source()
    moments.append(time.process_time())
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"TIRAMISU_CACHE_DIR": folder}):
        before = os.times()
        f.compile(fast=imported(APPS, "story").FAST)
        after = os.times()
    spent = sum(after[2:4]) - sum(before[2:4])  # of the C compiler's processes
    size = sum(len(text) for name, text in files.items() if not name.startswith("tm_")) / 1e3
    algorithm, schedule = lines(app.story)
    return Cost(algorithm, schedule, moments[1] - moments[0], moments[2] - moments[1], spent, size)


def lines(story: ModuleType) -> tuple[int, int]:
    """Lines of code of an app's algorithm, and those that its schedule adds.

    Each is its function with the functions and names of the module that it uses, and theirs in turn. Blank lines,
    comments and docstrings are not counted.
    """
    text = Path(inspect.getfile(story)).read_text()
    defined = {name: node for node in ast.parse(text).body for name in _names(node)}
    algorithm = _used(defined, ROOTS[0])
    schedule = _used(defined, ROOTS[1]) - algorithm
    return _count(text, algorithm), _count(text, schedule)


def _names(node: ast.stmt) -> list[str]:
    """What a statement of a module defines; imports are not counted."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
    return []


def _used(defined: Mapping[str, ast.stmt], name: str) -> set[ast.stmt]:
    """The statements that define a name and all that it uses."""
    found, waiting = set[ast.stmt](), [name]
    while waiting:
        node = defined[waiting.pop()]
        if node not in found:
            found.add(node)
            waiting += [name for name in _read(node) if name in defined]
    return found


def _read(node: ast.stmt) -> set[str]:
    """The names that a statement reads and does not define inside a function of its own."""
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    inside = isinstance(node, ast.FunctionDef)
    local = {each.id for each in names if inside and isinstance(each.ctx, ast.Store)}
    return {each.id for each in names if isinstance(each.ctx, ast.Load)} - local


def _count(text: str, nodes: set[ast.stmt]) -> int:
    """The lines of code of these statements."""
    rows, counted = text.splitlines(), set[int]()
    for node in nodes:
        counted |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for part in ast.walk(node):
            if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):  # a docstring
                counted -= set(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    return sum(1 for row in counted if rows[row - 1].strip() and not rows[row - 1].strip().startswith("#"))
