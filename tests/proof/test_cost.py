"""What a check costs: a pipeline of stages is checked with work that grows about linearly with it."""

from __future__ import annotations

from itertools import pairwise

from tests.effort import calls
from tests.programs.drafts import Draft
from tests.programs.stories import M, N, blur, c, c0, c1, i, i0, i1, j, j0, j1, r, r0, r1
from tiramisu_py.algorithm.types import float32
from tiramisu_py.function.handles.computations import Computation, Input


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
