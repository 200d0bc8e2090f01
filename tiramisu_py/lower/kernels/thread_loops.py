"""What each thread of a kernel executes: the loops inside its block loops, by isl.

Coordinates of the host's loops and of the block loops, and the threads of the block, are parameters there, so that the
loops and guards that come out are those of one thread. Thread loops order nothing and become no loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Allocate
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.ir.uniform_control import is_uniform
from tiramisu_py.lower.kernels.barrier_anchors import gathering_anchors
from tiramisu_py.lower.loops.anchors import Anchor
from tiramisu_py.lower.loops.dimensions import Dimension
from tiramisu_py.lower.loops.isl_ast import LoopNode
from tiramisu_py.lower.loops.nest import Nest
from tiramisu_py.lower.operations.launches import LaunchGrid
from tiramisu_py.lower.statements.allocation import Fragment
from tiramisu_py.lower.statements.body import Body
from tiramisu_py.lower.statements.index_set_splitting import Piece
from tiramisu_py.lower.statements.instances import Instance
from tiramisu_py.lower.statements.loop_names import unique
from tiramisu_py.lower.statements.operation import LoweredOperation
from tiramisu_py.program.kernels import KernelNest, axis_name
from tiramisu_py.program.loops import GpuThread, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory


@dataclass(frozen=True, eq=False)
class Threads:
    """The threads of a kernel's blocks, as parameters of sets: one along each axis that has more than one thread.

    A parameter is the coordinate of the thread loops of its axis where all of them have the same constant corner;
    otherwise it counts from 0.
    """

    nest: KernelNest

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The axes with more than one thread."""
        return tuple(axis for axis, size in enumerate(self.nest.shape) if size > 1)

    def param(self, axis: int) -> str:
        """The name of an axis' parameter; no user's name looks like it."""
        return f"@t{axis_name(axis)}"

    def loops(self, axis: int) -> list[LoopId]:
        """The thread loops along an axis."""
        listed = (self.nest.thread_loops(statement)[axis] for statement in self.nest.statements)
        return list(dict.fromkeys(loop for loop in listed if loop is not None))

    @cached_property
    def corners(self) -> dict[int, int]:
        """For each axis the number from which its parameter counts."""
        found = {}
        for axis in self.axes:
            corners = [self.nest.corner(loop) for loop in self.loops(axis)]
            constants = {sets.constant_of(corner) for corner in corners if sets.is_constant(corner)}
            alike = len(constants) == 1 and all(map(sets.is_constant, corners))
            found[axis] = constants.pop() if alike else 0
        return found

    def name(self, axis: int, variables: Mapping[LoopId, str], reserved: frozenset[str]) -> str:
        """What code calls the thread: like its loops, where these have one name and no other loop has it."""
        own = self.loops(axis)
        names = {variables[loop] for loop in own}
        others = {variables[loop] for s in self.nest.statements for loop in s.loops if loop not in own}
        if len(names) == 1 and not names & others:
            return names.pop()
        return unique(f"thread_{axis_name(axis)}", reserved.union(variables.values()))

    def placed(self, statement: Statement, instances: isl.Set) -> isl.Set:
        """Instances with the equations that say which thread executes them.

        Where a statement has no thread loop along an axis, the first thread along it does; of a statement that stores
        in a register each thread has its own, so that all do; and all threads come to a barrier.
        """
        numbers = sets.outputs(self.nest.thread_of(statement))
        loops = self.nest.thread_loops(statement)
        for axis in self.axes:
            if loops[axis] is not None or not self._everyone(statement):
                number = sets.plus(numbers[axis], self.corners[axis])
                here = sets.from_frame(sets.function(statement.frame, None, [number]), instances.get_space())
                instances = sets.where_equal(instances, sets.outputs(here)[0], self.param(axis))
        return instances

    def _everyone(self, statement: Statement) -> bool:
        program = self.nest.program
        if statement.role is Role.BARRIER:
            return True
        storage = program.storages[statement.target]
        return bool(program.buffers[storage.buffer].memory is Memory.REGISTER)


class KernelLoops(Nest):
    """The loops of one kernel.

    `program` has its statements, `threads` says which thread executes what, and `host` are the iterations of the
    host's loops in which it is launched.
    """

    def __init__(
        self,
        program: Program,
        grid: LaunchGrid,
        threads: Threads,
        bodies: Sequence[Body | LoweredOperation],
        variables: Mapping[LoopId, str],
        reserved: frozenset[str],
        host: isl.Set,
        inside: Mapping[str, Instance],
    ) -> None:
        self.nest = grid.nest
        self.grid = grid
        self.threads = threads
        self.outer = len(self.nest.host) + len(self.nest.blocks)
        self.first = 2 * self.outer
        self.thread_names = {axis: threads.name(axis, variables, reserved) for axis in threads.axes}
        super().__init__(program, bodies, variables, reserved, inside)
        self.context = self._context(host)
        self.asked = {name: body.piece.instances for name, body in self.bodies.items()}
        self.bodies = {name: replace(body, piece=self._placed(body.piece)) for name, body in self.bodies.items()}
        self.at_top = False

    # -- what holds inside

    @property
    def params(self) -> list[str]:
        """The parameters that sets have here beside the sizes."""
        return [f"@{depth}" for depth in range(self.outer)] + [self.threads.param(axis) for axis in self.threads.axes]

    def _context(self, host: isl.Set) -> isl.Set:
        """Sizes, and the iterations of the host, blocks and threads that there are."""
        inside = sets.with_more_params(self.program.context, self.params)
        inside = inside.intersect(sets.dims_as_params(sets.named(host, None), self.params))
        for depth, loop in enumerate(self.nest.blocks, start=len(self.nest.host)):
            inside = inside.intersect(self._blocks(loop, depth))
        for axis in self.threads.axes:
            low = self.threads.corners[axis]
            inside = sets.param_between(inside, self.threads.param(axis), low, low + self.nest.shape[axis] - 1)
        return inside.coalesce()

    def _blocks(self, loop: LoopId, depth: int) -> isl.Set:
        """The coordinates of a block loop that are launched."""
        lows, highs = [self.nest.corner(loop).to_pw_aff()], [self.grid.largest(loop)]
        pairs = sets.box(lows, highs, self.grid.space)
        names = [*self.params[: len(self.nest.host)], f"@{depth}"]
        return sets.dims_as_params(sets.flat_pairs(pairs, ""), names)

    # -- the pieces, and their time

    def _placed(self, piece: Piece) -> Piece:
        """A piece of the program as a thread executes it: the parameters say which part."""
        instances = sets.with_more_params(piece.instances, self.params)
        frame = instances.get_space()
        coords = sets.outputs(sets.from_frame(piece.statement.coords, frame))
        for depth in range(self.outer):
            instances = sets.where_equal(instances, coords[depth], f"@{depth}")
        placed = self.threads.placed(piece.statement, instances)
        return replace(piece, instances=placed.intersect_params(self.context))

    def _time(self, piece: Piece) -> list[isl.Aff]:
        """Time without thread loops: each thread executes its instances in the order of the rest."""
        time = super()._time(piece)
        for depth, loop in enumerate(piece.statement.loops):
            if self._is_thread(loop):
                time[2 * depth + 1] = sets.constant(piece.statement.frame, 0)
        return time

    def _is_thread(self, loop: LoopId) -> bool:
        return isinstance(self.program.loops[loop].tag, GpuThread)

    def _dimensions(self) -> list[Dimension]:
        return [d for d in super()._dimensions() if not d.is_loop or self._is_sequential(d.depth)]

    def _is_sequential(self, depth: int) -> bool:
        nests = [body.piece.statement.loops for body in self.bodies.values()]
        return any(len(loops) > depth and not self._is_thread(loops[depth]) for loops in nests)

    def _choice(self, dimension: Dimension, choices: tuple[str, str]) -> str:
        """No loop is cut into ranges: that could part a barrier into several."""
        return "atomic" if dimension.is_loop else ""

    def _names(self, statement: Statement) -> dict[str, Expr]:
        names = super()._names(statement)
        for axis, name in self.thread_names.items():
            names[self.threads.param(axis)] = Iter(name, int64)
        return names

    # -- the code

    def loop(self, tree: LoopNode, body: list[Fragment]) -> list[Fragment]:
        """The loop; what is inside a thread loop is the code of one thread, without a loop."""
        if body and self._is_thread(body[0].statement.loops[self._depth(tree.iterator)]):
            return body
        return super().loop(tree, body)

    def lowered(self) -> Fragment | None:
        """The code of a thread, in which shared memory and some registers still wait to be allocated."""
        found = self._lowered()
        if found is not None and self._parted(found):
            self.at_top = True
            found = self._lowered()
        if found is not None and not is_uniform(found.node, frozenset(self.thread_names.values())):
            self.anchors = {anchor.name: anchor for anchor in self._gathering()}
            found = self._lowered()
        return found

    def _gathering(self) -> list[Anchor]:
        pieces = [body.piece for body in self.bodies.values()]
        return gathering_anchors(self.program, pieces, self.outer, self.params[self.outer :])

    def _parted(self, found: Fragment) -> bool:
        """Whether a register that belongs to an iteration is not allocated exactly once."""
        allocated = [node.buffer for node in walk(found.node) if isinstance(node, Allocate)]
        deep = {name for name in found.waiting if self._level(self.arrays[name]) > self.outer}
        return bool(deep) or len(allocated) != len(set(allocated))

    def _scoped(self, waiting: frozenset[str], least: int) -> list[Instance]:
        """Shared memory exists all through the kernel, a register in the innermost sequential loop of its scope."""
        arrays = [self.arrays[name] for name in sorted(waiting)]
        chosen = [array for array in arrays if self._level(array) >= max(least, self.outer + 1)]
        return sorted(chosen, key=lambda array: -self._level(array))

    def _level(self, array: Instance) -> int:
        if array.buffer.memory is Memory.SHARED or self.at_top:
            return 0
        sequential = [depth for depth, loop in enumerate(array.buffer.scope) if not self._is_thread(loop)]
        return max(sequential, default=-1) + 1

    def _verify(self) -> None:
        """What the threads execute is what was asked for, and every instance has a block and a thread."""
        super()._verify()
        for name, body in self.bodies.items():
            launched = sets.without_params(sets.union_of(self.executed[name]), self.params)
            if not self.asked[name].is_subset(launched):
                raise CompilerDefect(
                    f"kernel {self.nest.name} would be launched on too few threads for {body.piece.statement.name}"
                )
