"""What a check costs: a pipeline of stages is checked in a time that grows about linearly with it."""

from __future__ import annotations

from itertools import pairwise
from time import process_time

from tests.programs import Draft
from tests.proof.stories import M, N, blur, c, c0, c1, i, i0, i1, j, j0, j1, r, r0, r1
from tiramisu_py.algorithm.types import float32
from tiramisu_py.function.handles import Computation, Input


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


def best(draft: Draft) -> float:
    """The shortest of three checks, in seconds of the processor: other processes do not count."""
    times = []
    for _ in range(3):
        begin = process_time()
        assert draft.check().ok
        times.append(process_time() - begin)
    return min(times)


def test_a_pipeline_of_forty_tiled_stages_is_checked_in_half_a_second() -> None:
    assert best(pipeline(40)) < 0.5


def test_the_time_grows_about_linearly_with_the_stages() -> None:
    assert best(pipeline(80)) < 16 * best(pipeline(10))


def test_a_scheduled_blur_is_checked_in_some_tens_of_milliseconds() -> None:
    story = blur()
    story.q.tile(r, c, 32, 256, r0, c0, r1, c1)
    story.q.parallelize(r0)
    story.q.vectorize(c1, 16)
    story.p.compute_at(story.q, c0)
    story.p.vectorize(c, 16)
    assert best(story.draft) < 0.06


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
