"""The bytes of a function's temporaries over time, and the most of them at a time, from its loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tiramisu_py.algorithm.domains.extents_from_arguments import extent_value
from tiramisu_py.algorithm.expressions import Const, Expr, Iter, Param
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import ArgumentError, DeclarationError
from tiramisu_py.ir import Allocate, BeginArray, Comment, EndArray, For, If, Let, LoopFunction, MemoryBlock, Node
from tiramisu_py.ir.rewriting import children
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Held:
    """Memory of temporaries: the arrays that have it in turns, the place ("memory", "GPU 0") and the bytes."""

    arrays: tuple[str, ...]
    place: str
    bytes: int


@dataclass(frozen=True)
class Moment:
    """A stretch of a call in which the same memory is held: from the statement `first` to `last`, as they are written.

    Both are "" where nothing is computed in between.
    """

    first: str
    last: str
    held: tuple[Held, ...]

    def bytes(self, place: str) -> int:
        """The bytes that are held in a memory."""
        return sum(each.bytes for each in self.held if each.place == place)


def temporary_bytes(function: LoopFunction, params: Mapping[str, int], threads: int = 1) -> dict[str, int]:
    """The most bytes of temporaries at a time, by memory: "memory" of the host, "files", and each GPU, "GPU 0".

    Memory of the host that an iteration of a loop or a branch takes is given back at its end, since their C blocks do
    that. Those on the stack count, too, and those of each of the `threads` of a parallel loop; in other loops those of
    the first iteration. Raises `ArgumentError` for a parameter without a value.
    """
    found = moments(function, params, threads)
    places = sorted({each.place for moment in found for each in moment.held}, reverse=True)
    most = {place: max(moment.bytes(place) for moment in found) for place in places}
    return {place: number for place, number in most.items() if number > 0}


def moments(function: LoopFunction, params: Mapping[str, int], threads: int = 1) -> tuple[Moment, ...]:
    """The memory that temporaries hold over a call, as `temporary_bytes` counts it: each change begins a new moment."""
    for version in function.companions.versions:
        fits = all(name in params and params[name] == value for name, value in version.sizes)
        if fits and not version.conditions:
            return moments(version.function, params, threads)
    walk = _Walk(threads)
    walk.visit(function.body, dict(params))
    walk.change()
    return tuple(each for each in walk.found if each.held or each.first)


class _Walk:
    """A walk through a function, in which memory comes and goes."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.copies = 1
        self.blocks: dict[str, Held] = {}
        self.now: dict[str, Held] = {}
        self.until_end: list[tuple[str, Held | None]] | None = None  # what a C block gives back
        self.said: list[str] = []
        self.found: list[Moment] = []

    @deep_nest
    def visit(self, node: Node, known: dict[str, int]) -> None:
        """Walk through a statement, in which variables have the values `known`."""
        match node:
            case Allocate() if not node.register:
                place = "files" if node.memory is Memory.FILE else _place(_gpu_of(node))
                size = _size(node.buffer, node.extents, node.dtype.bytes * node.lanes, known)
                outer = self.now.get(node.buffer)
                self._hold(node.buffer, Held((node.buffer,), place, size))
                self.visit(node.body, known)
                if node.memory is Memory.HOST and self.until_end is not None:
                    self.until_end.append((node.buffer, outer))
                else:
                    self._hold(node.buffer, outer)
            case MemoryBlock():
                sizes = (_size(node.name, room.extents, room.dtype.bytes * room.lanes, known) for room in node.rooms)
                self.blocks[node.name] = Held(node.arrays, _place(node.device), max(sizes))
                if node.lasting:
                    self._begin(node.name)
                self.visit(node.body, known)
                self._hold(node.name, None)
            case BeginArray():
                self._begin(node.block)
            case EndArray() if node.frees:
                self._hold(node.block, None)
            case For():
                copies = self.copies
                if isinstance(node.tag, Parallel) and copies == 1:
                    self.copies *= min(self.threads, node.tag.threads or self.threads)
                self._in_block(node.body, {**known, **_known(node.variable, node.lower, known)})
                self.copies = copies
            case If():
                for child in children(node):
                    self._in_block(child, known)
            case Let():
                self.visit(node.body, {**known, **_known(node.variable, node.value, known)})
            case Comment():
                self.said.append(node.text)
            case _:
                for child in children(node):
                    self.visit(child, known)

    def _in_block(self, body: Node, known: dict[str, int]) -> None:
        """Walk through a C block, at whose end memory is given back that is taken in it."""
        around, self.until_end = self.until_end, []
        self.visit(body, known)
        for name, held in reversed(self.until_end):
            self._hold(name, held)
        self.until_end = around

    def _begin(self, block: str) -> None:
        if block not in self.now:
            self._hold(block, self.blocks[block])

    def _hold(self, name: str, held: Held | None) -> None:
        """Memory comes (as often as there are threads here), or goes."""
        if held is None and name not in self.now:
            return
        self.change()
        if held is None:
            del self.now[name]
        elif name not in self.now:
            self.now[name] = Held(held.arrays, held.place, held.bytes * self.copies)
        else:
            self.now[name] = held

    def change(self) -> None:
        """End the moment that lasts until here."""
        first, last = (self.said[0], self.said[-1]) if self.said else ("", "")
        self.found.append(Moment(first, last, tuple(self.now.values())))
        self.said.clear()


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
