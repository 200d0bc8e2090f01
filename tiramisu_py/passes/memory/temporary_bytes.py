"""The most bytes that the temporaries of a function have at a time, from its loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tiramisu_py.algorithm.domains.extents_from_arguments import extent_value
from tiramisu_py.algorithm.expressions import Const, Expr, Iter, Param
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import ArgumentError, DeclarationError
from tiramisu_py.ir import Allocate, BeginArray, EndArray, For, Let, LoopFunction, MemoryBlock, Node
from tiramisu_py.ir.rewriting import children
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.storage import Memory


def temporary_bytes(function: LoopFunction, params: Mapping[str, int], threads: int = 1) -> dict[str, int]:
    """The most bytes of temporaries at a time, by memory: "memory" of the host, "files", and each GPU, "GPU 0".

    Those on the stack count, too, and those of each of the `threads` of a parallel loop; in other loops those of the
    first iteration. Raises `ArgumentError` for a parameter without a value.
    """
    for version in function.versions:
        fits = all(name in params and params[name] == value for name, value in version.sizes)
        if fits and not version.conditions:
            return temporary_bytes(version.function, params, threads)
    found = _Bytes(threads)
    found.visit(function.body, dict(params))
    return {place: most for place, most in sorted(found.most.items(), reverse=True) if most > 0}


class _Bytes:
    """The bytes that exist at a point of a walk through a function, and the most of them, by memory."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.copies = 1
        self.now: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.blocks: dict[str, tuple[str, int]] = {}
        self.held: set[str] = set()

    @deep_nest
    def visit(self, node: Node, known: dict[str, int]) -> None:
        """Walk through a statement, in which variables have the values `known`."""
        match node:
            case Allocate() if not node.register:
                place = "files" if node.memory is Memory.FILE else _place(_gpu_of(node))
                size = _size(node.buffer, node.extents, node.dtype.bytes * node.lanes, known)
                self._add(place, size)
                self.visit(node.body, known)
                self._add(place, -size)
            case MemoryBlock():
                sizes = (_size(node.name, room.extents, room.dtype.bytes * room.lanes, known) for room in node.rooms)
                self.blocks[node.name] = (_place(node.device), max(sizes))
                self._hold(node.name, node.lasting)
                self.visit(node.body, known)
                self._hold(node.name, False)
            case BeginArray():
                self._hold(node.block, True)
            case EndArray() if node.frees:
                self._hold(node.block, False)
            case For():
                copies = self.copies
                self.copies *= self.threads if isinstance(node.tag, Parallel) and copies == 1 else 1
                self.visit(node.body, {**known, **_known(node.variable, node.lower, known)})
                self.copies = copies
            case Let():
                self.visit(node.body, {**known, **_known(node.variable, node.value, known)})
            case _:
                for child in children(node):
                    self.visit(child, known)

    def _hold(self, block: str, holds: bool) -> None:
        place, size = self.blocks[block]
        if holds and block not in self.held:
            self.held.add(block)
            self._add(place, size)
        elif not holds and block in self.held:
            self.held.remove(block)
            self._add(place, -size)

    def _add(self, place: str, size: int) -> None:
        self.now[place] = self.now.get(place, 0) + self.copies * size
        self.most[place] = max(self.most.get(place, 0), self.now[place])


def _gpu_of(node: Allocate) -> int | None:
    return node.device if node.memory is Memory.GPU else None


def _place(device: int | None) -> str:
    return "memory" if device is None else f"GPU {device}"


def _known(name: str, value: Expr, known: Mapping[str, int]) -> dict[str, int]:
    """The value of a variable, if it follows from others."""
    try:
        return {name: _value(value, known)}
    except (ArgumentError, DeclarationError):
        return {}


def _value(e: Expr, known: Mapping[str, int]) -> int:
    def number(part: Expr) -> Expr | None:
        return Const(known[part.name], int64) if isinstance(part, Iter | Param) and part.name in known else None

    return extent_value(rewrite(e, number), known)


def _size(name: str, extents: Sequence[Expr], element: int, known: Mapping[str, int]) -> int:
    try:
        return element * math.prod(max(0, _value(extent, known)) for extent in extents)
    except DeclarationError as error:
        raise ArgumentError(f"the size of {name} depends on values: {error}") from None
