"""Memory of arrays of an iteration that stays from iteration to iteration: one allocation, in front of the loops."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace

from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.ir import Allocate, ArrayRoom, BeginArray, Block, EndArray, For, LoopFunction, MemoryBlock, Node
from tiramisu_py.ir.rewriting import block, contents, defined, loads_in, names_in, of_kind, with_children
from tiramisu_py.passes.base import About, FunctionPass
from tiramisu_py.passes.memory.lifetimes import CONCURRENT
from tiramisu_py.passes.memory.share_memory import is_allocated
from tiramisu_py.program.loops import Parallel
from tiramisu_py.records import dataclass

#: The statements with memory of arrays.
_HOLD = frozenset((Allocate, MemoryBlock))


@dataclass(frozen=True)
class KeepMemory(FunctionPass):
    """Allocate the arrays of an iteration once for all iterations, where their sizes are the same in all of them.

    ::

        for r in 0..R:  parallel                 -->   for r in 0..R:  parallel
            for i in 0..N:                                 block m of the size of row[C]:
                allocate row[C]:                               for i in 0..N:
                    row = f(x)                                     begin row in m
                    y = g(row)                                     row = f(x)
                                                                   y = g(row)
                                                                   end row

    The block is around the outermost loop of one thread in which nothing defines what is in the sizes; directly in a
    parallel loop it is one for each thread, which the emitter allocates before the thread's iterations. The elements
    have no values when an array begins, as before. Loops that start kernels, copies or messages, and those with arrays
    on the stack, stay as they are.
    """

    def apply(self, what: LoopFunction, about: About) -> LoopFunction:
        varying = () if what.grid is None else what.grid.varying
        known = frozenset((*what.params, *(argument.name for argument in what.arguments), *varying))
        own = _Keeping(about, known)
        return replace(what, body=own.within(what.body, ()))


@dataclass
class _Keeping:
    """The rewriting of one function, in which `known` are the names of sizes.

    `waiting` are the blocks that go around an outer statement, each with the number of statements around that one.
    """

    about: About
    known: frozenset[str]
    waiting: list[tuple[int, MemoryBlock]] = field(default_factory=list)

    @deep_nest
    def within(self, node: Node, around: tuple[Node, ...]) -> Node:
        """A statement with its arrays in blocks; `around` are the statements that it is in, outermost first."""
        if not _HOLD & contents(node):
            return node
        if isinstance(node, Allocate | MemoryBlock):
            node = self._begun(node, around)
        node = with_children(node, lambda child: self.within(child, (*around, node)))
        here = [made for depth, made in self.waiting if depth == len(around)]
        self.waiting = [each for each in self.waiting if each[0] < len(around)]
        for made in reversed(here):
            node = replace(made, body=node)
        return node

    def _begun(self, node: Allocate | MemoryBlock, around: tuple[Node, ...]) -> Node:
        """The statement with its array in the memory of a block around loops; the statement itself if there is none."""
        if isinstance(node, Allocate):
            rooms = (ArrayRoom(node.extents, node.dtype, node.lanes),)
            depth = _place(rooms, around, self.known) if is_allocated(node) and _is_alone(node, around) else None
            if depth is None or node.device is not None:
                return node
            name = self.about.taken.fresh("memory")
            own = MemoryBlock(name, rooms, (node.buffer,), Block(()), lasting=True, padded=node.padded)
            self.waiting.append((depth, own))
            begin = BeginArray(
                node.buffer, name, node.extents, node.dtype, node.lanes, ring=node.ring, padded=node.padded
            )
            return block([begin, node.body, EndArray(node.buffer, name)])
        depth = _place(node.rooms, around, self.known) if node.device is None else None
        if depth is None:
            return node
        self.waiting.append((depth, replace(node, body=Block(()), lasting=True)))
        return _without_frees(node.body, node.name)


def _place(rooms: Sequence[ArrayRoom], around: Sequence[Node], known: AbstractSet[str]) -> int | None:
    """The number of statements around the place of a block: in front of a loop, or directly in a parallel one."""
    sizes = [extent for room in rooms for extent in room.extents]
    used = {name for size in sizes for name in names_in(size)}
    if any(map(loads_in, sizes)) or not used <= known | {defined(each) for each in around}:
        return None
    place: int | None = None
    for depth, each in reversed(list(enumerate(around))):
        if isinstance(each, For) and isinstance(each.tag, Parallel):
            return place if each.variable in used else depth + 1
        if defined(each) in used or (isinstance(each, For) and CONCURRENT & contents(each)):
            return place
        place = depth if isinstance(each, For) else place
    return place


def _is_alone(node: Allocate, around: Sequence[Node]) -> bool:
    """Whether the innermost loop around an array has no other one of this name."""
    loop = next((each for each in reversed(around) if isinstance(each, For)), None)
    return loop is not None and sum(each.buffer == node.buffer for each in of_kind(loop, Allocate)) == 1


def _without_frees(node: Node, name: str) -> Node:
    """The statements in which arrays end without giving back the memory of a block."""
    if isinstance(node, EndArray) and node.block == name:
        return replace(node, frees=False)
    return with_children(node, lambda child: _without_frees(child, name)) if EndArray in contents(node) else node
