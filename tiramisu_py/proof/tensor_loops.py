"""Loops that an instruction on small matrices is to run: their extents, and where the operands lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Access, Binary, Cast, Const, Expr
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.kernels import KernelNest
from tiramisu_py.program.loops import AXES, TENSOR_AXES, Combine, Loop, Parallel, TensorLoop
from tiramisu_py.program.machine.gpu_target import CUDA
from tiramisu_py.program.machine.tensor_instructions import WARP_SHAPE, TensorInstruction, tensor_instruction
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.proof.unrolling import constant_extent
from tiramisu_py.proof.violations.findings import Finding, fault

#: The bytes of the terms that the right factor has together.
_GROUP_BYTES = 4
ROWS, COLUMNS, TERMS = range(3)


def faults(flow: Flow) -> Iterator[Finding]:
    """Products that the instruction named for them cannot compute."""
    program = flow.accesses.program
    for statement in program.acting:
        loops = [program.loops[loop] for loop in statement.loops if isinstance(program.loops[loop].tag, TensorLoop)]
        if loops:
            yield from _Product(flow, statement, loops).faults()


class _Product:
    """The product of one statement."""

    def __init__(self, flow: Flow, statement: Statement, loops: Sequence[Loop]) -> None:
        self.flow = flow
        self.program: Program = flow.accesses.program
        self.statement = statement
        self.loops = {loop.tag.axis: loop for loop in loops if isinstance(loop.tag, TensorLoop)}
        assert isinstance(loops[0].tag, TensorLoop)
        self.instruction: TensorInstruction = tensor_instruction(loops[0].tag.instruction)
        self.in_kernel = any(self.program.loops[loop].is_gpu for loop in statement.loops)

    def faults(self) -> Iterator[Finding]:
        """Why it cannot be computed; the first reason, if there are several."""
        for found in (self._nest(), self._machine(), self._extents(), self._operands()):
            one = next(found, None)
            if one is not None:
                yield one
                return

    def _fault(self, message: str, repair: str) -> Finding:
        return fault("reach", "tensor loops", self.statement, message, repair)

    # -- loops

    def _nest(self) -> Iterator[Finding]:
        handle, names = self.statement.handle, ", ".join(loop.name for loop in self._in_order)
        out = f"leave {handle}.tensorize({names}, ..) out"
        axes = sorted(self.loops)
        if axes != [ROWS, COLUMNS, TERMS] or len(self.loops) != len(self._tagged):
            yield self._fault(
                f"{handle} has the loops {', '.join(loop.name for loop in self._tagged)} tagged for products, which are"
                " not one loop over rows, one over columns and one over terms", out,
            )  # fmt: skip
            return
        inner = [self.program.loops[loop] for loop in self.statement.loops[-3:]]
        other = next((loop for loop in inner if loop not in self.loops.values()), None)
        if other is not None:
            yield self._fault(
                f"loop {other.name} of {handle} is inside a loop of {self.instruction.name}, which runs the three "
                "innermost loops at once", f"{handle}.reorder({other.name}, {names})",
            )  # fmt: skip
        for loop in self._in_order:
            shared = [s.handle for s in self.program.with_this_loop(loop.id) if s.name != self.statement.name]
            if shared:
                yield self._fault(
                    f"loop {loop.name} of {handle} has {shared[0]} in it, too, and {self.instruction.name} runs the "
                    "product alone", f"{handle}.after({shared[0]}, {self._outside()})",
                )  # fmt: skip

    def _outside(self) -> str:
        outer = self.statement.loops[:-3]
        return self.program.loops[outer[-1]].name if outer else "tm.root"

    @property
    def _tagged(self) -> list[Loop]:
        loops = (self.program.loops[loop] for loop in self.statement.loops)
        return [loop for loop in loops if isinstance(loop.tag, TensorLoop)]

    @property
    def _in_order(self) -> list[Loop]:
        return [self.loops[axis] for axis in sorted(self.loops)]

    def _machine(self) -> Iterator[Finding]:
        handle, name, statement = self.statement.handle, self.instruction.name, self.statement
        if self.in_kernel != self.instruction.on_gpu:
            runs, has = ("a GPU", "cores") if self.in_kernel else ("cores", "GPUs")
            instead = '"m16n8k16"' if self.in_kernel else '"amx"'
            yield self._fault(f"{handle} runs on {runs}, and {name} is an instruction of {has}", f"use {instead}")
        for loop in (self.program.loops[number] for number in statement.loops):
            if isinstance(loop.tag, Parallel) and loop.tag.combine is Combine.ATOMIC:
                yield self._fault(
                    f"{handle} adds each term atomically, since threads share loop {loop.name}, and {name} adds to "
                    "whole tiles", f"{handle}.parallelize({loop.name}, combine=tm.PRIVATE)",
                )  # fmt: skip
        if statement.memory.prefetches or statement.memory.nontemporal is not None:
            what = "prefetches" if statement.memory.prefetches else "stores past the caches"
            yield self._fault(f"{handle} {what}, and {name} does not", f"leave that command of {handle} out")

    def _extents(self) -> Iterator[Finding]:
        factor = self._accesses()[0]
        wanted = self.instruction.extents(factor.dtype)
        for axis, loop in sorted(self.loops.items()):
            extent = constant_extent(self.program, self.statement, loop)
            if extent != wanted[axis]:
                has = "no constant number of iterations" if extent is None else f"{extent} iterations"
                yield self._fault(
                    f"loop {loop.name} of {self.statement.handle} has {has}, and {self.instruction.name} takes "
                    f"{wanted[axis]} {TENSOR_AXES[axis]} of {factor.dtype}",
                    f"before tensorize, {self.statement.handle}.split({loop.name}, {wanted[axis]}, {loop.name}0, "
                    f"{loop.name}1)",
                )

    # -- operands

    def _accesses(self) -> list[Access]:
        term = self.statement.body
        assert isinstance(term, Binary)
        found = [e.operand if isinstance(e, Cast) else e for e in (term.left, term.right)]
        return [e for e in found if isinstance(e, Access)]

    def _operands(self) -> Iterator[Finding]:
        handle, first, second = self.statement.handle, *self._accesses()
        if first.source == second.source:
            yield self._fault(
                f"both factors of {handle} are values of {first.source}: which is the left one cannot be told",
                f"let one of them be a copy of {first.source}",
            )
            return
        reads = [self.flow.accesses.read(self.statement, each.source) for each in (first, second)]
        sums = self.flow.accesses.write(self.statement)
        if sums is None or None in reads:
            return  # out of the buffer's scope, which is another condition
        left, right = sorted((r for r in reads if r is not None), key=lambda r: any(self._step(r, COLUMNS) or (1,)))
        for access, axis in ((left, COLUMNS), (right, ROWS), (sums, TERMS)):
            step = self._step(access, axis)
            if step is None or any(step):
                yield self._fault(
                    f"{access.array} of {handle} is another element in each iteration of loop {self.loops[axis].name}, "
                    f"over {TENSOR_AXES[axis]}: {self.instruction.name} adds left[row, term] * right[term, column] to "
                    "sums[row, column]", "name the loops in that order, over rows, columns and terms",
                )  # fmt: skip
                return
        yield from self._in_warps(left, right, sums) if self.in_kernel else self._layout(left, right, sums)

    def _in_warps(self, left: MemoryAccess, right: MemoryAccess, sums: MemoryAccess) -> Iterator[Finding]:
        """Why threads of a warp cannot work together: they load each other's factors, and keep sums of their own.

        Each factor of a full tile is read, at the same time, by threads of the program other than its own one: by those
        of all columns, or of all rows. So the barriers that they need are there for the thread that loads it, too.
        """
        handle, name = self.statement.handle, self.instruction.name
        nest = next(nest for nest in self.flow.kernels if any(s.name == self.statement.name for s in nest.statements))
        shapes = [self._shape(one, nest) for one in nest.statements]
        shape = tuple(max(own[axis] or 0 for own in shapes) for axis in range(2))
        if shape != WARP_SHAPE or self._shape(self.statement, nest) != WARP_SHAPE:
            x, y = WARP_SHAPE
            yield self._fault(
                f"the block of {handle} has {shape[0]} threads along x and {shape[1]} along y, and the warps of {name} "
                f"have {x} and {y}",
                f"tag_gpu(threads=[warps, y, x]), of loops of {y} and {x} iterations along y and x",
            )
        gpu = self.program.targets.gpu
        if gpu.compiler != CUDA.compiler:
            yield self._fault(
                f"{name} of {handle} is an instruction of CUDA's GPUs, and kernels are for {gpu.name}",
                f"leave {handle}.tensorize(..) out",
            )
        if nest.launch.grid is not None:
            yield self._fault(
                f"{handle} is in a kernel whose blocks go on as others, grid={nest.launch.grid}, and the threads of a "
                "warp load each other's factors", "leave grid= of tag_gpu out",
            )  # fmt: skip
        if sums.buffer.memory is not Memory.REGISTER:
            yield self._fault(
                f"the sums of {handle} are in {sums.array}, and {name} adds to registers of each thread",
                f"{sums.source}.store_in(tm.REGISTER)",
            )
        threads = nest.thread_loops(self.statement)
        for access, axis, other in ((left, 0, "columns"), (right, 1, "rows")):
            if access.buffer.memory is Memory.REGISTER:
                yield self._fault(
                    f"{access.array} of {handle} is in registers of each thread, and the threads of a warp load each "
                    "other's factors", f"{access.source}.store_in(tm.SHARED)",
                )  # fmt: skip
            loop = threads[axis]
            step = None if loop is None else self._step_of(access, self.statement.depth(loop))
            if step is None or any(step):
                yield self._fault(
                    f"{access.array} of {handle} is another element for each thread along {AXES[axis]}, which has "
                    f"other {other} of the sums",
                    "let threads along y have other rows, and threads along x other columns",
                )  # fmt: skip

    def _shape(self, statement: Statement, nest: KernelNest) -> tuple[int | None, ...]:
        """The threads along x and y that run a statement."""
        found = []
        for loop in nest.thread_loops(statement)[:2]:
            found.append(1 if loop is None else constant_extent(self.program, statement, self.program.loops[loop]))
        return tuple(found)

    def _layout(self, left: MemoryAccess, right: MemoryAccess, sums: MemoryAccess) -> Iterator[Finding]:
        """Operands that are not in memory as tiles are."""
        name, group = self.instruction.name, _GROUP_BYTES // right.buffer.dtype.bytes
        for access in (left, right, sums):
            if access.buffer.memory is Memory.REGISTER:
                yield self._fault(
                    f"{access.array} of {self.statement.handle} is in registers, and {name} takes it from memory: its "
                    "tiles are registers of their own", f"leave store_in(tm.REGISTER) of {access.source} out",
                )  # fmt: skip
            if access.buffer.strides is not None:
                yield self._fault(
                    f"{access.array} of {self.statement.handle} has strides, and the rows of tiles of {name} have none",
                    f"declare {access.array} without strides=",
                )
        yield from self._rows(left, ROWS, TERMS, f"let {self.statement.handle} read a copy of {left.source}, a row of "
                              "which has its terms beside each other")  # fmt: skip
        yield from self._rows(sums, ROWS, COLUMNS, f"store {sums.source} with the columns last")
        together, across = self._step(right, TERMS, 1, group), self._step(right, COLUMNS)
        if _distance(right.buffer, together) != 1 or _distance(right.buffer, across) != group:
            yield self._fault(
                f"{right.array} of {self.statement.handle} does not have groups of {group} terms of one column, beside "
                f"those of the next column, which {name} takes",
                f"let {self.statement.handle} read a copy of {right.source} in such panels: copy.store_in(panels, "
                f"[j // 16, k // {group}, j % 16, k % {group}])",
            )
        elif self._step(right, TERMS, group) is None:
            yield self._fault(
                f"the groups of terms of {right.array} of {self.statement.handle} are not equally far apart",
                f"store {right.source} in panels of whole groups, [j // 16, k // {group}, j % 16, k % {group}]",
            )

    def _rows(self, access: MemoryAccess, down: int, along: int, repair: str) -> Iterator[Finding]:
        apart = _distance(access.buffer, self._step(access, along))
        if apart != 1:
            how = "not all equally far apart" if apart is None else f"{apart} elements apart"
            yield self._fault(
                f"neighbours of {access.array} along loop {self.loops[along].name} are {how}, and "
                f"{self.instruction.name} takes rows of {TENSOR_AXES[along]} that follow each other", repair,
            )  # fmt: skip
        elif self._step(access, down) is None:
            across = self.loops[down].name
            yield self._fault(f"the rows of {access.array} along loop {across} are not equally far apart", repair)

    def _step(self, access: MemoryAccess, axis: int, by: int = 1, group: int = 1) -> tuple[int, ...] | None:
        """By how much the element differs from one iteration of a loop to the next."""
        return self._step_of(access, self.statement.depth(self.loops[axis].id), by, group)

    def _step_of(self, access: MemoryAccess, depth: int, by: int = 1, group: int = 1) -> tuple[int, ...] | None:
        assert access.coords is not None
        forms = sets.outputs(access.coords)
        kept = [k for k in range(len(forms)) if k == depth or k not in self._single]
        coords = sets.function(access.domain.get_space(), None, [forms[k] for k in kept])
        places = sets.graph(coords, access.domain).reverse().apply_range(sets.graph(access.element))
        return sets.step_of_images(places, kept.index(depth), by, group)

    @cached_property
    def _single(self) -> set[int]:
        """The depths of loops of one iteration, whose numbers follow from those around."""
        loops = (self.program.loops[loop] for loop in self.statement.loops)
        return {k for k, loop in enumerate(loops) if constant_extent(self.program, self.statement, loop) == 1}


def _distance(buffer: Buffer, step: tuple[int, ...] | None) -> int | None:
    """How far apart elements are in memory whose indices differ by a step; None if that is not constant."""
    if step is None:
        return None
    total, stride = 0, 1
    for own, extent in zip(reversed(step), reversed(buffer.extents), strict=True):
        if own and not stride:
            return None
        total += own * stride
        stride *= _constant(extent)
    return total


def _constant(extent: Expr) -> int:
    """An extent without sizes; 0 for others."""
    return int(extent.value) if isinstance(extent, Const) else 0
