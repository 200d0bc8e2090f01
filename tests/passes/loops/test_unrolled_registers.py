"""Loops over registers in kernels, whose bound is that of the registers where facts say so."""

from __future__ import annotations

import pytest

from tests.programs.loop_ir.nodes import loops
from tests.programs.loop_ir.short_names import loop, number, size, store, var
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import float32
from tiramisu_py.ir import Allocate
from tiramisu_py.ir.arithmetic.facts import Facts
from tiramisu_py.ir.rewriting import Names
from tiramisu_py.passes.base import About
from tiramisu_py.passes.loops.full_tiles import UnrollRegisters
from tiramisu_py.program.loops import Unroll

N, u = size("N"), var("u")


def bound(upper: Expr, known: int | None, threads: tuple[int, int, int] | None = (32, 1, 1)) -> tuple[str, object]:
    """The bound and the tag of a loop that sets 8 registers, where N is at most a number."""
    facts = Facts() if known is None else Facts().where(known >= N)
    nest = Allocate("r", (number(8),), float32, loop("u", upper, store("r", u, 1.0)), register=True)
    (found,) = loops(UnrollRegisters().apply(nest, About(Names(()), facts, threads=threads)))
    return str(found.upper), found.tag


@pytest.mark.parametrize(("upper", "known"), [(N, 8), ((N + 3) // 4, 32)], ids=str)
def test_a_loop_is_as_long_as_the_registers_that_it_indexes(upper: Expr, known: int) -> None:
    assert bound(upper, known) == (f"min(8, {upper})", Unroll())
    assert bound(upper, known + 1) == (str(upper), None)
    assert bound(upper, None) == (str(upper), None)


def test_on_the_host_a_bound_stays() -> None:
    assert bound(N, 8, threads=None) == ("N", None)
