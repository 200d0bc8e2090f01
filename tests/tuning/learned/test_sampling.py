"""Samples: uniform in logarithms at first, then where they are accepted; each once, equal for equal seeds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

import tiramisu_py as tm
from tiramisu_py.tuning import filters
from tiramisu_py.tuning.learned.samples.candidates import Candidates, JudgedPoint
from tiramisu_py.tuning.learned.samples.ranges import Octaves
from tiramisu_py.tuning.learned.samples.sampling import BEGUN, DrawnSample, NaiveBayes, Sampler
from tiramisu_py.tuning.search.space import Point, Space

SPACE = Space({"rows": (1, 2, 4, 8, 16), "columns": (1, 2, 4, 8, 16), "depth": (4, 8, 16, 32)})


class Judge:
    """Stands for candidates: a point is legal if `legal` says so, and nothing is made or proven."""

    def __init__(self, space: Space, legal: Any = lambda point: True) -> None:
        self.space, self.legal = space, legal
        self.asked: list[Point] = []
        self.proven: list[Point] = []

    def at(self, point: Point) -> JudgedPoint:
        self.asked.append(point)
        if not self.legal(point):
            return JudgedPoint(point, reason="the proof: race", message="two executions")
        self.proven.append(point)
        return JudgedPoint(point, cast(tm.Function, object()))


def sampler(judge: Judge, given: Any = (), limits: Any = (), seed: int = 0, **pools: Any) -> Sampler:
    ranges = {"M": (1, 1000), "N": (1, 1000)}
    return Sampler(
        cast(Candidates, judge), given, ranges, limits, **{"points": None, "shapes": None, **pools}, seed=seed
    )


def drawn(some: Sampler, count: int) -> list[DrawnSample]:
    found = [some.draw() for _ in range(count)]
    return [each for each in found if each is not None]


@pytest.mark.parametrize(("low", "high"), [(1, 1), (5, 5), (3, 17), (16, 4096), (1, 1000)])
def test_octaves_cover_a_range_and_nothing_else(low: int, high: int) -> None:
    octaves, random = Octaves(low, high), Random(0)
    shares = octaves.shares
    assert sum(shares) == pytest.approx(1)
    values = [octaves.draw(octave, random) for octave in range(len(shares)) for _ in range(400)]
    assert min(values) == low and max(values) <= high
    if high - low < 20:
        assert set(values) == set(range(low, high + 1))


def test_sizes_are_uniform_in_their_logarithms() -> None:
    found = Counter(each.sizes["M"].bit_length() for each in drawn(sampler(Judge(SPACE)), 900))  # of nine octaves
    assert all(50 < found[bits] < 150 for bits in range(1, 10)), found


def test_equal_seeds_draw_equal_samples_and_each_once() -> None:
    one, other = (drawn(sampler(Judge(SPACE), seed=3), 300) for _ in range(2))
    assert [(each.candidate.point, each.sizes) for each in one] == [
        (each.candidate.point, each.sizes) for each in other
    ]
    assert len({(*each.candidate.point.values(), *each.sizes.values()) for each in one}) == 300
    assert [each.sizes for each in one] != [each.sizes for each in drawn(sampler(Judge(SPACE), seed=4), 300)]


def test_filters_come_before_the_proof_and_points_are_counted_once() -> None:
    judge = Judge(Space(SPACE.values, lambda rows, **_: rows > 1), lambda point: point["depth"] != 4)
    given = [filters.limit("registers", lambda rows, columns, **_: rows * columns, most=64)]
    some = sampler(judge, given)
    taken = drawn(some, 1500)
    assert all(point["rows"] > 1 and point["rows"] * point["columns"] <= 64 for point in judge.asked)
    assert all(each.candidate.point["depth"] != 4 for each in taken)
    small = sum(rows * columns <= 64 for rows in (2, 4, 8, 16) for columns in (1, 2, 4, 8, 16))
    assert some.rejections.counts == {"where": 20, "registers": 4 * (20 - small), "the proof: race": small}
    assert some.rejections.examples == {"the proof: race": "two executions"}


def test_what_depends_on_sizes_counts_draws() -> None:
    enough = filters.programs({"M": "rows", "N": "columns"}, cores=8)
    limits = [("operations", lambda sizes: sizes["M"] * sizes["N"], 10_000)]
    some = sampler(Judge(SPACE), [enough], limits)
    for each in drawn(some, 300):
        point, sizes = each.candidate.point, each.sizes
        assert -(-sizes["M"] // point["rows"]) * -(-sizes["N"] // point["columns"]) > 4
        assert sizes["M"] * sizes["N"] <= 10_000
    refused = sum(some.rejections.counts.values())
    assert refused + sum(some.accepted) == sum(some.draws)


def test_counts_begin_at_a_hundred_as_in_the_thesis() -> None:
    bayes, random = NaiveBayes(Space({"MS": (1, 2, 4, 8)}), {"K": Octaves(1, 15)}), Random(0)
    for index, count in enumerate((5, 20, 25, 50)):
        for _ in range(100 * count):  # so many that the hundreds hardly count
            bayes.count({"MS": index}, {"K": 3})
    found = Counter(bayes.drawn(random, True)[0]["MS"] for _ in range(4000))
    assert [found[k] / 4000 for k in range(4)] == pytest.approx([0.05, 0.2, 0.25, 0.5], abs=0.03)
    assert bayes.weights("K", True)[:3] == pytest.approx([BEGUN] * 3)
    assert bayes.weights("K", False) == pytest.approx([0.25] * 4)


def test_naive_bayes_accepts_more_than_uniform_draws() -> None:
    given = [
        filters.instruction_cache("rows", "columns", "depth", bytes=2048),
        filters.elements("rows", "columns", least=8),
    ]
    some = sampler(Judge(SPACE), given)
    drawn(some, 600)
    uniform, learned = (a / b for a, b in zip(some.accepted, some.draws, strict=True))
    assert learned > 1.3 * uniform


def test_pools_limit_points_and_shapes() -> None:
    taken = drawn(sampler(Judge(SPACE), points=7, shapes=12), 200)
    assert len({tuple(each.candidate.point.values()) for each in taken}) == 7
    assert len({tuple(each.sizes.values()) for each in taken}) == 12
    assert len(taken) == 84  # all there are


def test_a_space_without_samples_ends() -> None:
    one = Space({"rows": (1,)})
    some = Sampler(cast(Candidates, Judge(one)), (), {"M": (1, 3)}, (), points=None, shapes=None, seed=0)
    assert sorted(each.sizes["M"] for each in drawn(some, 10)) == [1, 2, 3]


def test_operations_are_those_of_a_point_that_calls_no_library(tmp_path: Path) -> None:
    (m, k), (i, j) = tm.params("M K"), tm.iters("i j")
    called = tm.extern_stage(
        "rows_of_a_library",
        {"m": tm.int64, "k": tm.int64, "a": tm.reads(tm.float32, 2), "s": tm.writes(tm.float32, 1)},
        lambda m, k, a: a.sum(1),
        source="static void rows_of_a_library(int64_t m, int64_t k, const float *a, float *s) {}",
    )

    def make(way: str) -> tm.Function:
        f = tm.Function("rows", params=[m, k])
        a = f.input("a", tm.float32, [m, k])
        if way == "library":
            f.outputs(f.stage("s", {i: m}, called(m, k, a[i, j]), over={j: k}))
        else:
            f.outputs(f.reduction("s", {i: m}, {j: k}, tm.sum, a[i, j]))
        return f

    found = []
    for ways in (["library", "loops"], ["loops", "library"]):
        rows = tm.input_aware(make, {"way": ways}, database=tmp_path / "samples.sqlite", timer=lambda point, sizes: 1.0)
        found.append(rows._study.work.operations({"M": 8, "K": 100}))
    assert found[0] == found[1] >= 8 * 99
