"""A number that stands alone in a statement may be a choice: the text around it must hold together.

Every index, bound, extent and count of a program's final loops becomes a choice by the sizes, whose other branch is
never taken. What is then emitted compiles with every warning an error, and computes what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

import tiramisu_py as tm
from tests.oracle.agreeing.agreement import Call
from tests.oracle.agreeing.one_source import AS_ERRORS
from tests.oracle.generators.script import Script
from tests.programs.every_pass import SAMPLES
from tests.programs.gpu.sums_over_blocks import mean_of_all, rows
from tiramisu_py.algorithm.expressions import Binary, Expr, Param, Select, constant
from tiramisu_py.algorithm.traversal import kinds
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.backends.emitting import emit
from tiramisu_py.function import results
from tiramisu_py.ir import Lane, Load, LoopFunction, Node, Ramp, Scalar
from tiramisu_py.ir.arithmetic.linear import number
from tiramisu_py.ir.rewriting import with_children, with_expressions
from tiramisu_py.toolchain.compilers import library

N, M = tm.params("N M")
i, j, k, u, x = tm.iters("i j k u x")
NUMBERS = 1 << 40


def copied() -> tm.Function:
    """A box of four dimensions goes to a GPU and back: one level more than a copy has."""
    f = tm.Function("copied", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N + 1, N + 1, N + 1, 4])
    p = f.computation("p", {i: N, j: N, k: N, u: 2}, a[i, j, k, u] * 2)
    f.outputs(p)
    p.tag_gpu(blocks=[i], threads=[])
    f.derive_transfers()
    return f


def ranges() -> tm.Function:
    """Ranges of the joined iterations of three loops, which begin at sizes, on threads.

    A range that is too long adds terms that are there, and no part of the sum.
    """
    f = tm.Function("ranges", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.int64, [4 * N, 4 * M, N])
    s = f.reduction("s", {}, {i: (N, 2 * N), j: (M - 1, 2 * M), k: N}, tm.sum, a[i, j, k])
    f.outputs(s)
    s.update.coalesce(i, j, k, into=x).parallelize(x, combine=tm.PRIVATE)
    return f


def on_cores() -> tm.Function:
    """The parts of a bundle that run on cores, and private copies."""
    f = tm.Function("on_cores", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.int64, [N, M])
    s = f.reduction("s", {j: M}, {i: N}, tm.sum, a[i, j])
    t = f.reduction("t", {}, {i: N, j: M}, tm.max, a[i, j])
    f.outputs(s, t)
    s.update.parallelize(i, combine=tm.PRIVATE)
    t.update.coalesce(i, j, into=x).parallelize(x, combine=tm.TREE)
    return f


PROGRAMS: dict[str, tuple[Callable[[], tm.Function], tuple[Mapping[str, int], ...]]] = {
    **{sample.name: (sample.build, sample.sizes) for sample in SAMPLES if sample.name != "mpi/sums"},  # no sizes
    "copied": (copied, ({"N": 3}, {"N": 1})),
    "ranges": (ranges, ({"N": 3, "M": 4}, {"N": 1, "M": 1})),
    "on cores": (on_cores, ({"N": 5, "M": 3},)),
    "last block of a row": (lambda: rows(tm.LAST_BLOCK), ({"N": 3, "M": 1025},)),
    "last block": (mean_of_all, ({"N": 3000},)),
}


def with_choices(function: LoopFunction) -> LoopFunction:
    """The function, in which numbers that stand alone are choices by its first parameter."""
    kernels = tuple(
        replace(each, body=_with_choices(each.body, Param(each.params[0], int64))) if each.params else each
        for each in function.gpus.kernels
    )
    return replace(
        function,
        body=_with_choices(function.body, Param(function.params[0], int64)),
        gpus=replace(function.gpus, kernels=kernels),
    )


def _with_choices(node: Node, size: Expr) -> Node:
    few = Binary("<", size, number(NUMBERS), bool_)

    def changed(e: Expr) -> Expr:
        if e.dtype != int64 or constant(e) is not None or kinds(e) & {Ramp, Lane, Load, Scalar}:
            return e
        return Select(few, e, Binary("+", e, number(1), int64), int64)

    def all_of(inner: Node) -> Node:
        return with_children(with_expressions(inner, changed), all_of)

    return all_of(node)


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_that_are_choices_stand_in_the_text_as_they_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build, sizes = PROGRAMS[name]
    f = build()
    assert f.check().ok
    calls = [Call(Script(names={"f": f}), params, 0) for params in sizes]
    texts: list[Mapping[str, str]] = []

    def chosen(function: LoopFunction) -> Any:
        texts.append(emit(with_choices(function)))
        return texts[-1]

    monkeypatch.setattr(results.backends, "emit", chosen)
    monkeypatch.setattr(library, "WARNINGS", AS_ERRORS)
    kernel = f.compile(device="simulator", sanitize=True) if f.show("lowered").gpus.kernels else f.compile()
    assert str(NUMBERS) in "".join(texts[0].values())
    if f.show("lowered").grid is None:  # the text of ranks is compiled here, and runs in tests/mpi
        assert [each.wrong_kernel(kernel) for each in calls] == [""] * len(sizes)
