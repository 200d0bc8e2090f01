"""The programs that the tests of the proof vary: two stages, blur, heat, a matrix product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.programs.drafts import Draft
from tiramisu_py.algorithm.expressions import Iter, Param, select
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import float32
from tiramisu_py.errors import Violation
from tiramisu_py.function.handles.computations import Computation, Reduction
from tiramisu_py.schedule.loops.order import root

N, M, K, R, C, T = (Param(name) for name in ["N", "M", "K", "R", "C", "T"])
i, j, k, r, c, t = (Iter(name) for name in ["i", "j", "k", "r", "c", "t"])
i0, i1, j0, j1, k0, k1, r0, r1, c0, c1, t0, t1 = (
    Iter(name) for name in ["i0", "i1", "j0", "j1", "k0", "k1", "r0", "r1", "c0", "c1", "t0", "t1"]
)

__all__ = [
    "C", "K", "M", "N", "R", "T", "Stages", "blur", "c", "c0", "c1", "heat", "i", "i0", "i1", "j", "j0", "j1", "k",
    "k0", "k1", "kinds", "product", "r", "r0", "r1", "refusal", "root", "seidel", "stages", "t", "t0", "t1", "written",
]  # fmt: skip


@dataclass
class Stages:
    """A draft with a first and a second stage."""

    draft: Draft
    p: Computation
    q: Computation


def stages() -> Stages:
    """q[i] = p[i] + p[i + 1], p[i] = 2 a[i], N >= 1."""
    f = Draft("f", "N", N >= 1)
    a = f.input("a", float32, [N + 1])
    p = f.computation("p", {i: N + 1}, 2 * a[i])
    q = f.computation("q", {i: N}, p[i] + p[i + 1])
    f.outputs(q)
    return Stages(f, p, q)


def blur() -> Stages:
    """by[r, c] sums three rows of bx, bx[r, c] three columns of the image."""
    f = Draft("blur", "R C", (R >= 1) & (C >= 1))
    image = f.input("image", float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, image[r, c] + image[r, c + 1] + image[r, c + 2])
    by = f.computation("by", {r: R, c: C}, bx[r, c] + bx[r + 1, c] + bx[r + 2, c])
    f.outputs(by)
    return Stages(f, bx, by)


def heat() -> tuple[Draft, Computation]:
    """heat[t, i] from three neighbours at t - 1; the ends keep what they start with."""
    f = Draft("heat", "T N", (T >= 1) & (N >= 3))
    start = f.input("start", float32, [N])
    edge = (t == 0) | (i == 0) | (i == N - 1)
    u = f.computation(
        "u", {t: T + 1, i: N}, lambda u: select(edge, start[i], u[t - 1, i - 1] + u[t - 1, i] + u[t - 1, i + 1])
    )
    f.outputs(u)
    return f, u


def seidel() -> tuple[Draft, Computation]:
    """u[t, i] from u[t, i - 1], u[t - 1, i] and u[t - 1, i + 1]: works in place."""
    f = Draft("seidel", "T N", (T >= 1) & (N >= 3))
    start = f.input("start", float32, [N])
    edge = (t == 0) | (i == 0) | (i == N - 1)
    u = f.computation(
        "u", {t: T + 1, i: N}, lambda u: select(edge, start[i], u[t, i - 1] + u[t - 1, i] + u[t - 1, i + 1])
    )
    last = f.computation("last", {i: N}, u[T, i])
    f.outputs(last)
    return f, u


def product() -> tuple[Draft, Reduction]:
    """C[i, j] = sum over k of A[i, k] B[k, j]; K may be 0."""
    f = Draft("product", "N M K", (N >= 1) & (M >= 1))
    a, b = f.input("A", float32, [N, K]), f.input("B", float32, [K, M])
    result = f.reduction("C", {i: N, j: M}, {k: K}, sum_, a[i, k] * b[k, j])
    f.outputs(result)
    return f, result


def refusal(draft: Draft) -> Violation:
    """The only violation of a program."""
    report = draft.check()
    assert len(report.violations) == 1, str(report)
    return report.violations[0]


def kinds(draft: Draft) -> list[str]:
    """The kinds of all violations."""
    return [violation.kind for violation in draft.check().violations]


def written(violation: Violation) -> tuple[Any, Any, Any]:
    """Parameters, writer and reader of a witness."""
    return dict(violation.witness.params), violation.witness.writer, violation.witness.reader
