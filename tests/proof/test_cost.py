"""What a check costs: a pipeline of stages is checked with work that grows about linearly with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from itertools import pairwise
from operator import add, or_
from typing import Any

import pytest

import tiramisu_py as tm
from tests.effort import calls
from tests.programs.drafts import Draft
from tests.programs.stories import M, N, blur, c, c0, c1, i, i0, i1, j, j0, j1, r, r0, r1
from tiramisu_py.algorithm.types import float32
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.function.handles.computations import Computation, Input
from tiramisu_py.program.ranks.spread import spread
from tiramisu_py.program.statement import Role
from tiramisu_py.proof.reductions.chains import Chains
from tiramisu_py.proof.theorem import check

T = tm.params("T")[0]
k, t = tm.iters("k t")


def pipeline(stages: int) -> Draft:
    """A chain of stencils of five points, each in its own tiled, parallel and vectorised nest."""
    f = Draft("pipeline", "N M", (N >= 100) & (M >= 100))
    before: Input | Computation = f.input("v0", float32, [N, M])
    result = None
    for s in range(1, stages + 1):
        points = before[i, j] + before[i + 1, j] + before[i - 1, j] + before[i, j + 1] + before[i, j - 1]
        result = f.computation(f"v{s}", {i: (s, N - s), j: (s, M - s)}, points)
        result.tile(i, j, 32, 32, i0, j0, i1, j1)
        result.parallelize(i0)
        result.vectorize(j1, 8)
        before = result
    assert result is not None
    f.outputs(result)
    return f


def cost(draft: Draft) -> int:
    """The calls of a check."""
    found: list[bool] = []
    count = calls(lambda: found.append(draft.check().ok))
    assert found == [True]
    return count


def test_the_work_grows_about_linearly_with_the_stages() -> None:
    few, many = cost(pipeline(10)), cost(pipeline(80))
    assert many < 10 * few
    assert few < 40_000  # 20,000


def test_a_scheduled_blur_is_checked_with_little_work() -> None:
    story = blur()
    story.q.tile(r, c, 32, 256, r0, c0, r1, c1)
    story.q.parallelize(r0)
    story.q.vectorize(c1, 16)
    story.p.compute_at(story.q, c0)
    story.p.vectorize(c, 16)
    assert cost(story.draft) < 8_000  # 3,600


def test_stages_in_one_shifted_tile_loop_are_proven() -> None:
    f = Draft("skewed", "N M", (N >= 100) & (M >= 100))
    before: Input | Computation = f.input("v0", float32, [N, M])
    made: list[Computation] = []
    for s in range(1, 11):
        points = before[i, j] + before[i + 1, j] + before[i - 1, j] + before[i, j + 1] + before[i, j - 1]
        made.append(f.computation(f"v{s}", {i: (s, N - s), j: (s, M - s)}, points))
        before = made[-1]
    f.outputs(made[-1])
    for s, stage in enumerate(made):
        stage.shift(i, s)
        stage.shift(j, s)
        stage.tile(i, j, 32, 32, i0, j0, i1, j1)
    for first, second in pairwise(made):
        second.after(first, j0)
    assert f.check().ok


Stencil = tuple[tm.Function, tm.Computation, list[tm.Iter]]


def _stencil(dimensions: int) -> Stencil:
    """A stencil of the neighbours along each axis, over time; the edges keep their values. Skewed as tiles need it."""
    space = [i, j, k][:dimensions]
    f = tm.Function("stencil", params=[N, T], assume="N >= 3 and T >= 1")
    a = f.input("a", float32, [N] * dimensions)
    edge = reduce(or_, [(x == 0) | (x == N - 1) for x in space])

    def step(h: Any) -> tm.Expr:
        moved = [[x + d if x is axis else x for x in space] for axis in space for d in (-1, 1)]
        total = reduce(add, [h[(t - 1, *at)] for at in moved])
        return tm.select(t == 0, a[tuple(space)], tm.select(edge, h[(t - 1, *space)], total * 0.25))

    h = f.computation("h", {t: T + 1, **dict.fromkeys(space, N)}, step)
    f.outputs(f.computation("last", dict.fromkeys(space, N), h[(T, *space)]))
    for axis in space:
        h.skew(t, axis, 1)
    return f, h, space


def _sweep() -> Stencil:
    """Gauss-Seidel: each value reads four neighbours of its own sweep, and five of the one before."""
    f = tm.Function("seidel", params=[N, T], assume="N >= 3 and T >= 1")
    a = f.input("a", float32, [N, N])
    kept = (t == 0) | (i == 0) | (i == N - 1) | (j == 0) | (j == N - 1)
    around = [(d, e) for d in (-1, 0, 1) for e in (-1, 0, 1)]

    def step(h: Any) -> tm.Expr:
        return tm.select(kept, a[i, j], reduce(add, [h[t - int(at >= (0, 0)), i + at[0], j + at[1]] for at in around]))

    h = f.computation("h", {t: T + 1, i: N, j: N}, step)
    f.outputs(f.computation("last", {i: N, j: N}, h[T, i, j]))
    h.skew(t, i, 1)
    h.skew(t, j, 2)
    h.skew(i, j, 1)
    return f, h, [i, j]


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("made", [partial(_stencil, 1), partial(_stencil, 2), partial(_stencil, 3), _sweep])
def test_skewed_and_tiled_stencils_are_proven_with_little_work(made: Callable[[], Stencil], folded: bool) -> None:
    f, h, space = made()
    if folded:
        h.store_in([t % 2, *space])
    count = 1 + len(space)
    outer, inner = tm.iters("t0 i0 j0 k0")[:count], tm.iters("t1 i1 j1 k1")[:count]
    for loop, tile, point in zip([t, *space], outer, inner, strict=True):
        h.split(loop, 32, tile, point)
    h.reorder(*outer, *inner)
    report = check(f.program, operations=2_000_000)  # of isl: 1,000,000 at most for these
    assert report.ok, report


def test_what_ranks_combine_is_few_pieces() -> None:
    """Some hundred pieces of what one rank combines, paired, took half a minute (scripts/fuzz, whole 133012799)."""
    x0, x1, y0, y1 = tm.iters("x0 x1 y0 y1")
    f = tm.Function("f", params=[N, M], assume="N >= 0 and M >= 1")
    a = f.input("a", tm.float64, [N + 2])
    c0 = f.computation("c0", {i: (2, N)}, a[i])
    total = f.reduction("total", {i: M, j: i}, {k: M + 1}, tm.sum, tm.cast(tm.float64, k), ordered=True)
    last = f.computation("last", "[N] -> { [i, j] : i mod 2 = 0 and 0 <= i < N and 0 < j <= -3 + N }", c0[N - 1 - j])
    f.outputs(last, total)
    c0.tag_distribute(i)
    total.update.split(k, 1, x0, x1)
    total.update.tag_distribute(x0, combine=tm.PRIVATE)
    last.distribute_array([y0, y1], rank=y0)
    f.derive_transfers()
    flow = Flow(MemoryAccesses(spread(f.completed)))
    chains = Chains.of(flow, f.algorithm.computations["total"])
    merges = [update.actor.statement for update in chains.updates if update.role is Role.MERGE]
    assert merges
    for merge in merges:
        assert merge is not None and all(into.n_basic_map() <= 4 for _, into in chains.consumed(merge))
    assert "another order" in str(f.check())
