"""The names that statements use, compared with those in the positions that C computes for their elements."""

from __future__ import annotations

import itertools

import pytest

from tiramisu_py.algorithm.expressions import Const, Expr, Iter, Param
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import float32, int64
from tiramisu_py.backends.c.expressions.scope import NamedArray
from tiramisu_py.ir import Deferred, For, Load, Prefetch, Private, Store
from tiramisu_py.ir.arithmetic.linear import number
from tiramisu_py.ir.rewriting import used_names
from tiramisu_py.program.loops import Combine

EXTENTS = tuple(Param(name, int64) for name in "ABC")
ZERO = Const(0.0, float32)
INDICES = list(itertools.product((number(0), number(2), Iter("i", int64)), repeat=3))


def _in_position(indices: tuple[Expr, ...]) -> set[str]:
    position = NamedArray("x", float32, EXTENTS).flat(indices)
    return {part.name for part in walk(position) if isinstance(part, Iter | Param)}


@pytest.mark.parametrize("indices", INDICES)
def test_the_extents_used_are_those_in_the_position_of_an_element(indices: tuple[Expr, ...]) -> None:
    own = _in_position(indices)
    store = Store("x", indices, ZERO, "s")
    assert used_names(store, {"x": EXTENTS}) == {"x", *own}
    assert used_names(Deferred(store), {"x": EXTENTS}) == {"x", *own}
    assert used_names(Prefetch("x", indices, 3, "s"), {"x": EXTENTS}) == {"x", *own}
    load = Store("y", (), Load("x", indices, float32), "s")
    assert used_names(load, {"x": EXTENTS}) == {"x", "y", *own}


@pytest.mark.parametrize(("combine", "copied"), [(Combine.PRIVATE, {"A", "B", "C"}), (Combine.ATOMIC, set())])
def test_private_copies_use_all_extents_of_an_array(combine: Combine, copied: set[str]) -> None:
    body = Store("x", (number(0), number(0), number(0)), ZERO, "s")
    loop = For("i", number(0), Param("N", int64), body, reductions=(Private("x", sum_, combine),))
    assert used_names(loop, {"x": EXTENTS}) == {"i", "N", "x", *copied}
