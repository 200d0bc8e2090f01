"""Which pairs of accesses are of one block, one thread, and kept apart by a barrier, against plain enumeration."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as pairs_of

import islpy as isl
import pytest

from tests.derive.barriers.enumerated import Numbers, sigma
from tests.derive.barriers.test_barriers import stencil, tiled_product
from tests.programs.gpu.kernels import only_kernel
from tiramisu_py import sets
from tiramisu_py.dependence import kernel_order
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.derive.barriers.barriers import with_barriers
from tiramisu_py.program.kernels import KernelNest
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.sets import smallest

SIZES = {"N": 7, "M": 4, "K": 6}

#: The block, the thread and sigma of an access.
Facts = tuple[Numbers, Numbers, Numbers]


def at_sizes(program: Program, of: isl.Set) -> list[Numbers]:
    return sets.points(sets.fixed(of, {name: SIZES[name] for name in program.algorithm.params}))


def facts(nest: KernelNest, access: MemoryAccess) -> dict[Numbers, Facts]:
    program, statement = nest.program, kernel_order.statement_of(access)
    when = sets.function(statement.frame, None, sigma(program, statement))
    params = {name: SIZES[name] for name in program.algorithm.params}
    found: dict[Numbers, Facts] = {}
    for point in at_sizes(program, access.domain):
        instance = smallest.evaluated(access.instance, point, params)
        block, thread, moment = (
            smallest.evaluated(form, instance, params)
            for form in (nest.block_of(statement), nest.thread_of(statement), when)
        )
        found[point] = (block, thread, moment)
    return found


def chosen(program: Program) -> tuple[KernelNest, MemoryAccess, MemoryAccess]:
    """What fills a tile, and what reads it."""
    accesses = MemoryAccesses(program)
    home = next(home for home in accesses.homes() if home.buffer.lower().endswith("tile"))
    return only_kernel(program), accesses.writers(home)[0], accesses.readers(home)[0]


@pytest.mark.parametrize("make", [stencil, tiled_product])
@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        (kernel_order.same_block, lambda x, y: x[0] == y[0]),
        (kernel_order.other_block, lambda x, y: x[0] != y[0]),
        (kernel_order.same_thread, lambda x, y: x[:2] == y[:2]),
        (kernel_order.other_thread, lambda x, y: x[0] == y[0] and x[1] != y[1]),
    ],
)
def test_threads_and_blocks_are_told_apart(
    make: Callable[[], object],
    relation: Callable[[KernelNest, MemoryAccess, MemoryAccess], isl.Map],
    expected: Callable[[Facts, Facts], bool],
) -> None:
    nest, a, b = chosen(make().program)  # type: ignore[attr-defined]
    found = set(at_sizes(nest.program, sets.flat_pairs(relation(nest, a, b), "pairs")))
    one, other = facts(nest, a), facts(nest, b)
    assert found == {(*x, *y) for x, y in pairs_of(one, other) if expected(one[x], other[y])}
    assert found


@pytest.mark.parametrize("make", [stencil, tiled_product])
@pytest.mark.parametrize("derived", [False, True])
def test_pairs_without_a_barrier_between_them_are_found(make: Callable[[], object], derived: bool) -> None:
    program: Program = make().program  # type: ignore[attr-defined]
    nest, a, b = chosen(with_barriers(program) if derived else program)
    pairs = kernel_order.other_thread(nest, a, b)
    left = kernel_order.unsynchronised(nest, a, b, pairs)
    found = set(at_sizes(nest.program, sets.flat_pairs(left, "pairs")))
    one, other = facts(nest, a), facts(nest, b)
    bars = {bar for statement in kernel_order.barriers(nest) for bar in ringing(nest, statement)}
    expected = {
        (*x, *y)
        for x, y in pairs_of(one, other)
        if one[x][0] == other[y][0] and one[x][1] != other[y][1] and not apart(one[x], other[y], bars)
    }
    assert found == expected
    assert bool(found) is not derived


def ringing(nest: KernelNest, barrier: Statement) -> set[Numbers]:
    """The block and sigma of a barrier's instances."""
    when = sets.function(barrier.frame, None, sigma(nest.program, barrier))
    instances = barrier.instances.intersect_params(nest.program.context.params())
    return set(at_sizes(nest.program, instances.apply(sets.graph(sets.joined(nest.block_of(barrier), when)))))


def apart(x: Facts, y: Facts, bars: set[Numbers]) -> bool:
    low, high = sorted((x[2], y[2]))
    size = len(x[0])
    return any(bar[:size] == x[0] and low < bar[size:] < high for bar in bars)
