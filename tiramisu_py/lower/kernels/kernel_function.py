"""Kernels as functions: the loops of one thread, its block and thread numbers, and the memory of its block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.domains.from_isl import condition_of_params
from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, Param, Select
from tiramisu_py.algorithm.types import int64, uint32
from tiramisu_py.algorithm.words.stages import ForeignFunction
from tiramisu_py.ir import (
    Allocate,
    Barrier,
    Block,
    DrawnNumbers,
    For,
    GpuIndex,
    KernelArray,
    KernelFunction,
    LastBlock,
    Let,
    Locked,
    Node,
    Scalar,
    ScalarArgument,
    Store,
)
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.linear import number
from tiramisu_py.ir.rewriting import all_expressions, walk, with_children
from tiramisu_py.ir.uniform_control import check_uniform
from tiramisu_py.lower.kernels.thread_loops import KernelLoops, Threads
from tiramisu_py.lower.kernels.tree_code import Tree, trees
from tiramisu_py.lower.loops.bundle_sizes import in_box
from tiramisu_py.lower.operations.launches import LaunchGrid
from tiramisu_py.lower.statements.allocation import allocated_in, allocating
from tiramisu_py.lower.statements.body import Body, algorithm_line, body_of
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece, pieces_of
from tiramisu_py.lower.statements.instances import INSIDE, Instance
from tiramisu_py.lower.statements.loop_names import loop_value, unique
from tiramisu_py.lower.statements.operation import LoweredOperation
from tiramisu_py.lower.statements.templates import of_operands
from tiramisu_py.program.kernels import (
    KernelNest,
    axis_name,
    combines_atomically,
    is_counted,
    is_in_order,
    is_locked,
    is_tree,
    locking,
    meeting_threads,
    renewed,
    with_idle_iterations,
)
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class LoweredKernel:
    """A kernel, the user's functions that it calls, the parameter for its number of blocks along x (or None), and the
    tickets of its blocks, if one of them is to go on as the last.
    """

    function: KernelFunction
    externs: tuple[ForeignFunction, ...]
    blocks: str | None
    tickets: Tickets | None = None


@dataclass(frozen=True, eq=False)
class KernelPart:
    """A part of a kernel: its code, the thread's coordinates in it, its statements, and its shared memory."""

    body: Node
    threads: Mapping[str, Expr]
    bodies: Sequence[Body | LoweredOperation]
    shared: Sequence[Instance] = ()

    def numbered(self, body: Node) -> Node:
        """Code inside the definitions of the thread's coordinates."""
        for name, its_number in self.threads.items():
            body = Let(name, its_number, body)
        return body


@dataclass(frozen=True, eq=False)
class Maker:
    """Makes the function of one kernel; `host` are the iterations of the host's loops in which it is launched."""

    nest: KernelNest
    grid: LaunchGrid
    variables: Mapping[LoopId, str]
    reserved: frozenset[str]
    host: isl.Set

    def kernel(self) -> LoweredKernel | None:
        """The kernel; None if nothing is executed."""
        other = self.nest.other_part
        main = self._part(self.nest, self.grid)
        last = None if other is None else self._part(other, LaunchGrid(other))
        if main is None and last is None:
            return None
        parts = [part for part in (main, last) if part is not None]
        found = tickets_of(self.grid, self.host, self._names()) if last is not None or self._locked else None
        blocks = self._blocks_name() if self.grid.persistent and not self.grid.together else None
        if last is not None and found is not None:
            nodes = [] if main is None else [self._in_blocks(main.numbered(main.body), found.counted, None)]
            nodes.append(found.taken(last.numbered(last.body)))
            body = self._in_blocks(Block(tuple(nodes)), list(found.groups), None)
        else:
            inside = parts[0].body if found is None else _locked_in(parts[0].body, self._locked, found)
            numbered = self._in_bundle if self.grid.together else self._in_all_blocks
            body = parts[0].numbered(numbered(inside, blocks))
        for array in [array for part in reversed(parts) for array in reversed(part.shared)]:
            body = allocating(array, body)
        bodies = [each for part in parts for each in part.bodies]
        used = frozenset(name for each in bodies for name in each.buffers)
        externs = tuple(extern for each in bodies for extern in each.externs)
        return LoweredKernel(self._function(body, used, blocks, found), externs, blocks, found)

    def _part(self, nest: KernelNest, grid: LaunchGrid) -> KernelPart | None:
        """A part of the kernel, or all of it; None if nothing is executed."""
        program = nest.program
        combined = trees(renewed(nest, program))
        scheduled = program
        for tree in combined:
            scheduled = tree.scheduled(scheduled)
        bodies = [body for s in nest.statements if s.role is not Role.TICKET for body in self._bodies(nest, s)]
        bodies += [body for tree in combined for body in tree.bodies(scheduled)]
        ends = tuple(scheduled.statements[tree.merge.name] for tree in combined)
        threads = Threads(replace(nest, program=scheduled, statements=(*nest.statements, *ends)))
        inside = self._inside(combined)
        loops = KernelLoops(scheduled, grid, threads, bodies, self.variables, self.reserved, self.host, inside)
        found = loops.lowered()
        if found is None:
            return None
        registers = [a for a in inside.values() if a.name in found.waiting and a.buffer.memory is Memory.REGISTER]
        body = allocated_in([found], registers).node
        check_uniform(body, nest.name, frozenset(loops.thread_names.values()))
        numbers = {
            name: arithmetic.plus(GpuIndex("thread", axis), loops.threads.corners[axis])
            for axis, name in loops.thread_names.items()
        }
        shared = [a for a in inside.values() if a.name in found.waiting and a.buffer.memory is Memory.SHARED]
        return KernelPart(body, numbers, bodies, shared)

    # -- the statements

    def _bodies(self, nest: KernelNest, statement: Statement) -> list[Body | LoweredOperation]:
        program = nest.program
        if statement.role is Role.BARRIER:
            instances = statement.instances.intersect_params(program.context)
            piece = DomainPiece(statement.name, statement, instances, statement.body)
            return [LoweredOperation(piece, (), Barrier(statement.name))]
        if statement.along.aligned is not None:
            wide = with_idle_iterations(program, statement)
            listed = [body_of(program, DomainPiece(statement.name, statement, wide, statement.body))]
        else:
            listed = [body_of(program, piece) for piece in pieces_of(program, statement, split=False)]
        alone = statement.name in self._locked and not combines_atomically(program, statement)
        atomic = not alone and meeting_threads(renewed(nest, program), statement)
        return [body.as_in_kernel(atomic, statement.link.deferred) for body in listed]

    @cached_property
    def _locked(self) -> frozenset[str]:
        """The statements that blocks run one after another, with a lock: updates, and of a tree what merges it."""
        nest = renewed(self.nest, self.nest.program)
        updates = [s for s in nest.statements if s.role is Role.UPDATE and not is_tree(nest.program, s)]
        merges = [s for s in nest.statements if s.role is Role.MERGE and meeting_threads(nest, s)]
        return frozenset(s.name for s in (*updates, *merges) if locking(nest.program, s))

    def _inside(self, combined: Sequence[Tree]) -> dict[str, Instance]:
        """The arrays that are allocated in kernels."""
        found = {b.name: Instance(b.name, b) for b in self.nest.program.buffers.values() if b.memory in INSIDE}
        return found | {tree.partial.name: tree.partial for tree in combined}

    # -- the numbers of blocks

    def _names(self) -> frozenset[str]:
        return self.reserved.union(self.variables.values())

    def _in_all_blocks(self, body: Node, blocks: str | None) -> Node:
        return self._in_blocks(body, list(self.grid.loops), blocks)

    def _in_bundle(self, body: Node, blocks: str | None) -> Node:
        """The body inside the definitions of the coordinates of a bundle's loops, for the iterations of the thread."""
        own = Binary("*", GpuIndex("block", 0), arithmetic.number(self.grid.together), int64)
        number = Binary("+", own, GpuIndex("thread", 0), int64)
        names = [self.variables[loop] for loop in self.nest.blocks]
        most = self.nest.launch.grid
        return in_box(names, self.grid.box, number, None if most is None else most * self.grid.together, body)

    def _in_blocks(self, body: Node, axes: Sequence[int], blocks: str | None) -> Node:
        """The body inside the definitions of block coordinates along some axes."""
        for axis in sorted(axes):
            loop = self.grid.loops[axis]
            number: Expr = GpuIndex("block", axis)
            if axis == 0 and blocks is not None:
                body = self._rounds(body, loop, blocks)
            else:
                body = Let(self.variables[loop], self._coordinate(loop, number), body)
        return body

    def _coordinate(self, loop: LoopId, number: Expr) -> Expr:
        """The coordinate of a block loop, from the number of the block."""
        host = [loop_value(self.nest.program, outer, self.variables[outer]) for outer in self.nest.host]
        corner = of_operands(self.nest.corner(loop), host)
        return arithmetic.added(number, corner)

    def _rounds(self, body: Node, loop: LoopId, blocks: str) -> Node:
        """The body in a loop over blocks: block b executes b, b + grid, b + 2*grid and so on."""
        name = unique("round", self._names())
        step = GpuIndex("grid", 0)
        number = Binary("+", GpuIndex("block", 0), Binary("*", Iter(name, int64), step, int64), int64)
        left = Binary("-", Binary("+", Param(blocks, int64), step, int64), GpuIndex("block", 0), int64)
        rounds = Binary("//", arithmetic.plus(left, -1), step, int64)
        once = Let(self.variables[loop], self._coordinate(loop, number), body)
        return For(name, arithmetic.number(0), rounds, once)

    def _blocks_name(self) -> str:
        loop = self.grid.loops[0]
        return unique(f"{self.variables[loop]}_blocks", self._names())

    # -- the function

    def _function(
        self, body: Node, used: frozenset[str], blocks: str | None, tickets: Tickets | None
    ) -> KernelFunction:
        nest, program = self.nest, self.nest.program
        stored = {node.buffer for node in _stores(body)}
        arrays = tuple(
            KernelArray(
                buffer.name,
                buffer.dtype,
                tuple(typed(extent, int64) for extent in buffer.extents),
                buffer.name not in stored,
                Memory.HOST_MAPPED if buffer.memory is Memory.HOST_MAPPED else Memory.GPU,
            )
            for buffer in program.buffers.values()
            if buffer.name in used and buffer.memory not in INSIDE
        )
        arrays += () if tickets is None else (tickets.array,)
        found = list(all_expressions(body))
        sizes = {e.name for e in [*found, *_of_extents(arrays)] if isinstance(e, Param)}
        coordinates = {e.name for e in found if isinstance(e, Iter)}
        host = [self.variables[loop] for loop in nest.host if self.variables[loop] in coordinates.difference(sizes)]
        scalars = {e.name: ScalarArgument(e.name, e.dtype) for e in found if isinstance(e, Scalar)}
        return KernelFunction(
            name=f"{nest.name}_kernel",
            params=(*(p for p in program.algorithm.params if p in sizes), *host, *([blocks] if blocks else [])),
            scalars=tuple(scalars.values()),
            arrays=arrays,
            threads=self._shape,
            gpu=program.targets.gpu,
            drawn=None if tickets is None else tickets.drawn,
            body=body,
            minimum_blocks=nest.launch.minimum_blocks,
            device=nest.launch.device,
            documentation=self._documentation(),
            nonnegative=tuple(self.variables[loop] for loop in nest.host if self._is_nonnegative(loop)),
        )

    def _is_nonnegative(self, loop: LoopId) -> bool:
        """Whether the coordinates of a host loop are never negative."""
        coordinate = sets.variables(self.host.get_space())[self.nest.host.index(loop)]
        return bool(self.host.is_subset(coordinate.to_pw_aff().nonneg_set()))

    def _documentation(self) -> tuple[str, ...]:
        nest, program = self.nest, self.nest.program
        inside = [s for s in (*nest.statements, *nest.beside) if s.stores and s.role is not Role.COPY]
        lines = [algorithm_line(program, s, s.body) for s in inside]
        if self.grid.together:
            names = ", ".join(self.variables[loop] for loop in nest.blocks)
            return (*dict.fromkeys(lines), f"an iteration of ({names}) a thread; threads: {self.grid.together}")
        blocks = ", ".join(f"{axis_name(a)} = {self.variables[loop]}" for a, loop in sorted(self.grid.loops.items()))
        return (*dict.fromkeys(lines), f"blocks: {blocks}; threads: {' x '.join(map(str, nest.shape))}")

    @property
    def _shape(self) -> tuple[int, int, int]:
        """The threads of a block."""
        return (self.grid.together, 1, 1) if self.grid.together else self.nest.shape


def _stores(node: Node) -> Iterable[Store]:
    for inner in walk(node):
        if isinstance(inner, Store):
            yield inner


def _of_extents(arrays: Sequence[KernelArray]) -> Iterable[Expr]:
    return all_expressions(Block(tuple(Let("", extent, Block(())) for array in arrays for extent in array.extents)))


def _locked_in(body: Node, statements: frozenset[str], tickets: Tickets) -> Node:
    """The code of a block, in which the least part with all stores of some statements, whole loops, needs a lock."""
    if not any(store.statement in statements for store in _stores(body)):
        return body
    if isinstance(body, Let | Allocate):
        return with_children(body, lambda inner: _locked_in(inner, statements, tickets))
    if not isinstance(body, Block):
        return tickets.locked(body)
    adding = [k for k, node in enumerate(body.body) if any(store.statement in statements for store in _stores(node))]
    first, last = adding[0], adding[-1] + 1
    part = body.body[first:last]
    inside = _locked_in(part[0], statements, tickets) if len(part) == 1 else tickets.locked(Block(part))
    return Block((*body.body[:first], inside, *body.body[last:]))


# -- the tickets of a kernel's blocks: an array with a number for each group of blocks of which the last one goes on, or
#    which run a part one after another


@dataclass(frozen=True, eq=False)
class Tickets:
    """The array `name` of a kernel's tickets or locks, on `device` and `stream`.

    `groups` are the axes along which blocks have numbers of their own, with the most blocks along each, and `counted`
    those along which blocks are counted, or wait for each other; along the `ordered` one, in the order of their
    numbers. The kernel is not launched where `launched` does not hold (None: it always is).
    """

    name: str
    groups: dict[int, Expr]
    counted: tuple[int, ...]
    device: int
    stream: int
    launched: Expr | None
    ordered: int | None = None

    @property
    def _extent(self) -> Expr:
        groups = _product(list(self.groups.values()))
        return groups if self.ordered is None else _product([arithmetic.number(2), groups])

    @property
    def array(self) -> KernelArray:
        """The array, as the kernel takes it."""
        return KernelArray(self.name, uint32, (self._extent,), False)

    def allocated(self, body: Node) -> Allocate:
        """The array around all launches of the kernel, which come one after another: no ticket has been taken.

        Without a launch it has no elements: nobody would wait until they are zero before the memory is given back.
        """
        extent = self._extent if self.launched is None else Select(self.launched, self._extent, number(0), int64)
        return Allocate(self.name, (extent,), uint32, body, memory=Memory.GPU, device=self.device, zeroed=self.stream)

    def taken(self, body: Node) -> LastBlock:
        """The code that the last block of each group runs."""
        count = _product([GpuIndex("grid", axis) for axis in self.counted])
        return LastBlock(self.name, self._group(), count, body, self.name)

    def locked(self, body: Node) -> Locked:
        """The code that the blocks of each group run one after another."""
        if self.ordered is None:
            return Locked(self.name, self._group(), body, self.name)
        number, count = GpuIndex("block", self.ordered), GpuIndex("grid", self.ordered)
        return Locked(self.name, arithmetic.plus(self._in_pairs(), 1), body, self.name, number, count)

    @property
    def drawn(self) -> DrawnNumbers | None:
        """The numbers that blocks draw when they start, if they run a part in their order."""
        return None if self.ordered is None else DrawnNumbers(self.ordered, self.name, self._in_pairs())

    def _in_pairs(self) -> Expr:
        """The first of the two elements of a group: how many have started, and whose turn it is."""
        return arithmetic.times(self._group(), 2)

    def _group(self) -> Expr:
        if not self.groups:
            return number(0)
        outer, *inner = sorted(self.groups, reverse=True)
        index: Expr = GpuIndex("block", outer)
        for axis in inner:
            index = arithmetic.added(_product([index, GpuIndex("grid", axis)]), GpuIndex("block", axis))
        return index


def tickets_of(grid: LaunchGrid, host: isl.Set, taken: frozenset[str]) -> Tickets:
    """The tickets of a kernel's blocks; `host` are the iterations of the host in which it is launched."""

    def in_turn(loop: LoopId) -> bool:
        return is_counted(grid.program, loop) or is_locked(grid.program, loop)

    counted = tuple(axis for axis, loop in sorted(grid.loops.items()) if in_turn(loop))
    groups = {axis: grid.most(axis, host) for axis in sorted(grid.loops) if axis not in counted}
    launch, name = (
        grid.nest.launch,
        unique(f"{grid.nest.name}_{'tickets' if grid.nest.other_part is not None else 'locks'}", taken),
    )
    where, context = host.params(), grid.program.context
    launched = None if context.is_subset(where) else condition_of_params(where.gist(context), context)
    ordered = next((axis for axis, loop in grid.loops.items() if is_in_order(grid.program, loop)), None)
    return Tickets(name, groups, counted, launch.device, launch.stream, launched, ordered)


def _product(factors: list[Expr]) -> Expr:
    return reduce(lambda one, other: Binary("*", one, other, int64), factors) if factors else number(1)
