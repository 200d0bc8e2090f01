"""The trip of an argument through the calls of the package, from the text alone: who is handed it, in which files.

From a method its parameter is followed to each function that it is passed to, and to each method or property that it
is asked for, as often as they are named; what a function does with it is followed once. A *stay* is all that happens
in one file before the trip goes to another. Methods are followed where one class alone has the name.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path


@dataclass(frozen=True)
class Routine:
    """A function or a method (`owner` is its class), and its file, without the suffix."""

    file: str
    owner: str
    node: ast.FunctionDef

    def parameter(self, place: int | str) -> str | None:
        """The parameter that takes an argument, by its place after `self`, or its name."""
        given = self.node.args
        names = [each.arg for each in (*given.posonlyargs, *given.args)]
        if isinstance(place, str):
            return place if place in [*names, *(each.arg for each in given.kwonlyargs)] else None
        names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        return names[place] if place < len(names) else None


def stays(root: Path, owner: str, method: str, parameter: str) -> list[str]:
    """The files of the stays, in order, of a parameter of a method; none where there is no such method."""
    package = _Package.of(root)
    starts = [each for each in package.routines[method] if each.owner == owner]
    found = [file for each in starts[:1] for file in package.trip(each, parameter, set())]
    return [file for file, _ in groupby(found)]


@dataclass(frozen=True)
class _Package:
    """The functions of a checkout by name, and the names that each file imports, with their files."""

    routines: dict[str, list[Routine]] = field(default_factory=lambda: defaultdict(list))
    imported: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path) -> _Package:
        package = cls()
        for path in sorted((root / "tiramisu_py").rglob("*.py")):
            file, tree = path.relative_to(root).with_suffix("").as_posix(), ast.parse(path.read_text())
            package._collect(file, "", tree)
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module:
                    module = node.module.replace(".", "/")
                    names = {each.asname or each.name: (module, each.name) for each in node.names}
                    package.imported.update({(file, name): value for name, value in names.items()})
        return package

    def _collect(self, file: str, owner: str, node: ast.AST) -> None:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.FunctionDef):
                self.routines[each.name].append(Routine(file, owner, each))
            self._collect(file, each.name if isinstance(each, ast.ClassDef) else owner, each)

    def trip(self, at: Routine, parameter: str, known: set[tuple[int, str]]) -> Iterator[str]:
        """The file of each routine that the value of a parameter comes to."""
        yield at.file
        if (id(at.node), parameter) in known:
            return
        known.add((id(at.node), parameter))
        for node in (each for statement in at.node.body for each in _inner_first(statement)):
            for routine, name in self._next(at.file, node, parameter):
                yield from self.trip(routine, name, known)

    def _next(self, file: str, node: ast.AST, value: str) -> Iterator[tuple[Routine, str]]:
        """The routine, and its parameter, that an expression hands a value to."""
        if isinstance(node, ast.Attribute) and _is_name(node.value, value):
            asked = self._method(node.attr)
            if asked is not None:
                yield asked, "self"
        if isinstance(node, ast.Call):
            called = self._called(file, node.func)
            places = [*enumerate(node.args), *((each.arg, each.value) for each in node.keywords)]
            for place, given in places if called is not None else ():
                name = called.parameter(place) if called and place is not None and _is_name(given, value) else None
                if called is not None and name is not None:
                    yield called, name

    def _called(self, file: str, of: ast.expr) -> Routine | None:
        if isinstance(of, ast.Attribute):
            return self._method(of.attr) or self._function(file, of.attr)
        return self._function(file, of.id) if isinstance(of, ast.Name) else None

    def _method(self, name: str) -> Routine | None:
        found = [each for each in self.routines[name] if each.owner]
        return found[0] if len(found) == 1 else None

    def _function(self, file: str, name: str) -> Routine | None:
        plain = [each for each in self.routines[name] if not each.owner]
        own = [each for each in plain if each.file == file]
        module, original = self.imported.get((file, name), ("", ""))
        there = [each for each in self.routines[original] if module and not each.owner and each.file.startswith(module)]
        return next(iter(own or there or (plain if len(plain) == 1 else [])), None)


def _inner_first(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement, arguments before their call."""
    for each in ast.iter_child_nodes(node):
        yield from _inner_first(each)
    yield node


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
