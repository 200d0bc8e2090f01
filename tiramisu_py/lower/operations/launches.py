"""Launches: the grid of a kernel, and the values that the host passes to it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Binary, Expr, Param
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import KernelFunction, Launch, Scalar
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.loop_functions import Precondition
from tiramisu_py.lower.loops.bundle_sizes import box_of
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece
from tiramisu_py.lower.statements.instances import array_name
from tiramisu_py.lower.statements.operation import LoweredOperation, Template
from tiramisu_py.program.bundles import BundledLoops
from tiramisu_py.program.kernels import KernelNest, axis_name, is_counted
from tiramisu_py.program.loops import GpuBlock, LoopId
from tiramisu_py.program.program import Program


class LaunchGrid:
    """The blocks of a kernel: for each axis its loop, and the range of its coordinates in one launch.

    Along a counted loop there is at least one block, since a last one there must be.
    """

    def __init__(self, nest: KernelNest) -> None:
        self.nest = nest
        self.program: Program = nest.program
        self.loops = {_axis(self.program, loop): loop for loop in nest.blocks}

    @property
    def persistent(self) -> bool:
        """Whether the grid is fixed, so that each block may execute several."""
        return self.nest.launch.grid is not None

    @cached_property
    def space(self) -> isl.Space:
        """The frame of the host's loops."""
        return sets.sized_frame(self.program.context.get_space(), None, len(self.nest.host))

    def extent(self, axis: int) -> isl.PwAff:
        """The number of blocks along an axis, by the coordinates of the host's loops."""
        loop = self.loops.get(axis)
        return sets.constant(self.space, 1).to_pw_aff() if loop is None else self._extents[loop]

    def largest(self, loop: LoopId) -> isl.PwAff:
        """The largest coordinate of a block loop, by the coordinates of the host's loops."""
        return self._largest[loop]

    @cached_property
    def _largest(self) -> dict[LoopId, isl.PwAff]:
        found = {}
        for loop in self.nest.blocks:
            relation = self.nest.iterations(loop).intersect_params(self.program.context)
            _, (high,) = sets.component_bounds(relation)
            found[loop] = high.gist(relation.domain()).coalesce()
            if is_counted(self.program, loop):
                corner = self.nest.corner(loop).to_pw_aff()
                some = found[loop].max(corner)
                found[loop] = some.union_add(corner.subtract_domain(some.domain())).coalesce()  # one block of nothing
        return found

    @cached_property
    def _extents(self) -> dict[LoopId, isl.PwAff]:
        corners = {loop: self.nest.corner(loop) for loop in self.nest.blocks}
        return {loop: sets.extent_between(corners[loop], self._largest[loop]) for loop in self.nest.blocks}

    @property
    def together(self) -> int:
        """The threads of a block if the block loops are a bundle, whose iterations are numbered together; else 0."""
        return self.nest.launch.together

    @cached_property
    def box(self) -> tuple[list[Expr], list[Expr]]:
        """The first iteration of each loop of the bundle, and the number of iterations, outermost first."""
        return box_of(BundledLoops(self.program, self.nest.blocks))

    @property
    def total(self) -> Expr:
        """The number of iterations of the bundle, which fits 64 bits, where there are any."""
        total, *others = self.box[1]
        for extent in others:
            total = Binary("*", total, extent, int64)
        return total

    def most(self, axis: int, host: isl.Set) -> Expr:
        """The most blocks along an axis in any launch; `host` are the iterations of the host."""
        return arithmetic.rounded(simplified(of_params(self._most(axis, host), self.program.context)))

    def _most(self, axis: int, host: isl.Set) -> isl.PwAff:
        extents = sets.on_line(self.extent(axis).intersect_domain(sets.named(host, None)))
        return sets.largest(extents.intersect_params(self.program.context), 0)

    def preconditions(self, host: isl.Set) -> list[Precondition]:
        """The conditions on sizes for all grids to be within the limits; `host` are the iterations of the host."""
        found: list[Precondition] = []
        if self.together:
            return [self._few_blocks()]
        for axis in sorted(self.loops):
            most = self.program.targets.gpu.most_blocks[axis]
            if axis == 0 and self.nest.launch.grid is not None:
                continue
            count = self._most(axis, host)
            limit = sets.constant(self.program.context.get_space(), most).to_pw_aff()
            if not self.program.context.intersect(count.gt_set(limit)).is_empty():
                blocks = self.most(axis, host)
                words = f"{blocks} <= {most}, the blocks of kernel {self.nest.name} along {axis_name(axis)}"
                found.append((Binary("<=", blocks, arithmetic.number(most), bool_), words))
        return found

    def _few_blocks(self) -> Precondition:
        """The condition on sizes for the blocks of a bundle to be within the limit."""
        limit = self.program.targets.gpu.most_blocks[0] * self.together
        words = f"{self.total} <= {limit}, the threads of kernel {self.nest.name}"
        return Binary("<=", self.total, arithmetic.number(limit), bool_), words


def _axis(program: Program, loop: LoopId) -> int:
    tag = program.loops[loop].tag
    assert isinstance(tag, GpuBlock)
    return tag.axis


def launch(
    grid: LaunchGrid,
    kernel: KernelFunction,
    piece: DomainPiece,
    variables: Mapping[LoopId, str],
    blocks: str | None,
    tickets: str | None,
) -> LoweredOperation:
    """The launch of a kernel in each iteration of the host's loops around it."""
    nest, here, template = grid.nest, sets.identity(piece.frame), Template()
    x, y, z = template.places([sets.pulled(grid.extent(axis), here) for axis in range(3)])
    if grid.together:
        x, y, z = (_blocks_of(grid), arithmetic.number(1), arithmetic.number(1))
    count = x
    if nest.launch.grid is not None:
        x = arithmetic.smaller(x, arithmetic.number(nest.launch.grid))
    coordinates = template.places([aff.to_pw_aff() for aff in sets.outputs(here)])
    host = dict(zip((variables[loop] for loop in nest.host), coordinates, strict=True))
    host |= {} if blocks is None else {blocks: count}
    names = tuple(
        array.name if array.name == tickets else array_name(nest.program.buffers[array.name], nest.launch.device)
        for array in kernel.arrays
    )
    node = Launch(
        kernel=kernel.name,
        grid=(x, y, z),
        values=_values(kernel, host),
        arrays=names,
        device=nest.launch.device,
        stream=nest.launch.stream,
    )
    return LoweredOperation(piece, tuple(template.forms), node, frozenset(names).difference([tickets]))


def _blocks_of(grid: LaunchGrid) -> Expr:
    """The blocks of a bundle: one for so many iterations."""
    return arithmetic.floor_divided(arithmetic.plus(grid.total, grid.together - 1), grid.together)


def _values(kernel: KernelFunction, host: Mapping[str, Expr]) -> tuple[Expr, ...]:
    """The values of a kernel's parameters: sizes, values of the host's under the kernel's names, scalars."""
    sizes = (host.get(name, Param(name, int64)) for name in kernel.params)
    return (*sizes, *(Scalar(scalar.name, scalar.dtype) for scalar in kernel.scalars))
