"""The loops after each pass, run beside `evaluate()`: right ones pass, and a wrong pass is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.passes.test_wrong_passes import off_by_one
from tests.programs import every_pass
from tests.programs.ranks import uneven_pieces
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.errors import ArgumentError, CompilerDefect, LegalityError
from tiramisu_py.ir import Node, Store
from tiramisu_py.ir.rewriting import with_children
from tiramisu_py.passes.vectors.vectorize import Vectorize

N, M, lo, hi = tm.params("N M lo hi")
i, j = tm.iters("i j")


def summed(combine: Any = tm.PRIVATE) -> tm.Function:
    """A sum in lanes, whose bits are given up."""
    f = tm.Function("summed", params=[N, M], assume="N >= 1 and M >= 1")
    x = f.input("x", tm.float32, [N, M])
    s = f.reduction("s", {i: N}, over={j: M}, op=tm.sum, expr=x[i, j])
    f.outputs(s)
    s.update.vectorize(j, 4, combine=combine)
    return f


def test_the_passes_that_change_the_loops_are_told() -> None:
    f, x = every_pass.tiles(), np.random.default_rng(0).standard_normal((7, 11)).astype(np.float32)
    kept = x.copy()
    assert f.validate(x, vector_bytes=16) == ("lowering", "full_tiles", "unroll_loops", "vectorize", "decide")
    assert np.array_equal(x, kept)


def test_a_sum_in_another_order_is_right_within_its_rounding() -> None:
    x = np.random.default_rng(0).standard_normal((3, 19)).astype(np.float32)
    assert "vectorize" in summed().validate(x)


def test_ranks_are_run_side_by_side() -> None:
    image = np.random.default_rng(0).standard_normal((9, 5)).astype(np.float32)
    assert uneven_pieces.blur().validate(image, R=7, C=3, G=2, H=4) == (
        "lowering", "define_rank_parameters", "simplify",
    )  # fmt: skip


def test_kernels_are_run_after_their_own_passes() -> None:
    f = every_pass.example("gpu", "two_gpus", "halves")()
    image = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    changed = f.validate(image, R=5, C=3)
    assert "shrink_device_arrays" in changed and "full_blocks (kernel)" in changed


def with_halves(each: Any, what: Any, about: Any) -> Any:
    """The right loops, but each store is of one half."""

    def change(node: Node) -> Node:
        return replace(node, value=Const(0.5, tm.float32)) if isinstance(node, Store) else with_children(node, change)

    return change(each.apply(what, about))


def wrong(each: Any, what: Any, about: Any) -> Any:
    raise ValueError("no such loop")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (off_by_one, r"wrong after vectorize: tiles returns without having written y\[0, 0\]"),
        (with_halves, r"wrong after vectorize: y\[0, 0\] is 0.5, not 3.0"),
        (wrong, "a pass failed, vectorize: ValueError: no such loop"),
    ],
)
def test_a_wrong_pass_is_named(monkeypatch: pytest.MonkeyPatch, change: Any, said: str) -> None:
    own = Vectorize.apply
    right = type("Right", (Vectorize,), {"apply": own})()
    monkeypatch.setattr(Vectorize, "apply", lambda self, what, about: change(right, what, about))
    with pytest.raises(CompilerDefect, match=said):
        every_pass.tiles().validate(np.ones((7, 11), np.float32), vector_bytes=16)


def test_what_cannot_be_validated_is_refused() -> None:
    f, x = every_pass.tiles(), np.ones((7, 11), np.float32)
    with pytest.raises(ArgumentError, match="vectors of 12 bytes: choose 8, 16, 32 or 64"):
        f.validate(x, vector_bytes=12)
    with pytest.raises(LegalityError):
        summed(combine=None).validate(np.ones((2, 3), np.float32))
    f = tm.Function("in_blocks", params=[N, lo, hi], assume="0 <= lo <= hi <= N")
    f.outputs(f.computation("y", {i: N}, i))
    f.blocks(N, lo, hi)
    with pytest.raises(ArgumentError, match="blocks whose bounds are known only at run time"):
        f.validate(N=3, lo=0, hi=3)
