"""The iterations of a bundle are numbered at run time: a call whose numbers do not fit 64 bits is refused."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Binary, Const, Expr
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.loop_functions import Precondition
from tiramisu_py.program.bundles import bundles, iterations, sides_of
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program

#: Numbers of iterations are at most this: twice as many, and a stride more, fit 64 bits.
MOST = 2**62 - 1


def bundle_sizes(program: Program) -> tuple[Precondition, ...]:
    """The conditions on sizes for the iterations of each bundle to have numbers, in an order that never overflows."""
    found: list[Precondition] = []
    for _, run in bundles(program):
        extents = extents_of(program, run)
        if extents is not None:
            found += _conditions(extents, ", ".join(program.loops[loop].name for loop in run))
    return tuple(found)


def extents_of(program: Program, run: tuple[LoopId, ...]) -> list[Expr] | None:
    """The numbers of iterations of the loops of a bundle; None where nothing runs. Raises `CompilerDefect`."""
    executed = iterations(program, run)
    if executed.is_empty():
        return None
    sides = sides_of(executed, len(run))
    if sides is None:
        raise CompilerDefect(f"the bundle of {program.loops[run[0]].name} is no box any more")
    return [simplified(of_params(extent.to_pw_aff().project_domain_on_params(), program.context)) for extent in sides.extents]


def _conditions(extents: list[Expr], names: str) -> Iterator[Precondition]:
    product: Expr = arithmetic.number(1)
    written = " * ".join(f"({extent})" if isinstance(extent, Binary) else str(extent) for extent in extents)
    for extent in extents:
        own = simplified(arithmetic.larger(extent, arithmetic.number(1)))
        limit = simplified(Binary("//", arithmetic.number(MOST), product, int64))
        condition = simplified(Binary("<=", own, limit, bool_))
        if not isinstance(product, Const) and not (isinstance(condition, Const) and condition.value):
            yield condition, f"{written} <= {MOST}, the iterations of the joined loops {names}"
        product = simplified(Binary("*", product, own, int64))
