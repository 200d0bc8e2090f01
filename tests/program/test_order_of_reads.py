"""Programs without commands: loops are turned where values are declared to be read before they are computed."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, M = tm.params("N M")
i, j, k = tm.iters("i j k")
ITERATORS = (i, j, k)
Offset = tuple[int, ...]


def recurrence(offsets: list[Offset]) -> tm.Function:
    """``y[p] = a[p] + the sum of y[p + offset] * 0.25`` inside of an array, and a at its edge."""
    axes = ITERATORS[: len(offsets[0])]
    f = tm.Function("recurrence", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N] * len(axes))
    edge: Any = axes[0] < 0
    for axis, way in {(axis, offset[axis]) for offset in offsets for axis in range(len(axes))}:
        edge = edge | ((axes[axis] + way < 0) | (axes[axis] + way >= N))

    def expression(y: Any) -> Any:
        total: Any = a[axes]
        for offset in offsets:
            total = total + 0.25 * y[tuple(axis + way for axis, way in zip(axes, offset, strict=True))]
        return tm.select(edge, a[axes], total)

    f.outputs(f.computation("y", dict.fromkeys(axes, N), expression))
    return f


def in_numpy(offsets: list[Offset], a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same, in the order in which values depend on each other."""
    known: dict[Offset, float] = {}

    def value(point: Offset) -> float:
        if point not in known:
            read = [tuple(p + d for p, d in zip(point, offset, strict=True)) for offset in offsets]
            known[point] = a[point]
            if all(0 <= p < n for each in read for p, n in zip(each, a.shape, strict=True)):
                for each in read:
                    known[point] = known[point] + 0.25 * value(each)
        return known[point]

    return np.array([value(point) for point in product(*map(range, a.shape))]).reshape(a.shape)


@pytest.mark.parametrize(
    ("offsets", "turned"),
    [
        ([(-1,)], ()),
        ([(1,)], ("y runs i backwards",)),
        ([(-1, 2)], ()),
        ([(0, 1)], ("y runs j backwards",)),
        ([(1, 0), (0, 1)], ("y runs i backwards", "y runs j backwards")),
        ([(1, -1), (0, -1)], ("y runs i backwards",)),
        ([(1, -1), (-1, -1)], ("y runs j outermost",)),
        ([(1, 1), (-1, 1)], ("y runs j outermost", "y runs j backwards")),
        ([(-1, 1, 1), (1, 1, -1), (0, 1, 0)], ("y runs j outermost", "y runs j backwards")),
    ],
)
def test_loops_are_turned_only_as_far_as_values_need_it(offsets: list[Offset], turned: tuple[str, ...]) -> None:
    f = recurrence(offsets)
    report = f.check()
    assert report.ok, report
    assert f.program.origin.turned == turned
    said = [fact for fact in report.proven if fact.startswith("before any command")]
    assert said == [f"before any command {each}, since its values need it" for each in turned]
    kernel = f.compile()
    for size in (1, 2, 5):
        a = np.random.default_rng(size).standard_normal((size,) * len(offsets[0]))
        assert np.array_equal(kernel(a), f.evaluate(a))
        assert np.array_equal(kernel(a), in_numpy(offsets, a))


def test_random_recurrences_run_without_commands() -> None:
    """Offsets that come first in the order of some permuted and reversed loops."""
    choice = random.Random(5)
    for _ in range(25):
        rank = choice.choice((1, 2, 3))
        order, ways = choice.sample(range(rank), rank), [choice.choice((-1, 1)) for _ in range(rank)]
        offsets = list[Offset]()
        for _ in range(choice.choice((1, 2, 3))):
            first = choice.randrange(rank)
            offset = [0] * rank
            for position, axis in enumerate(order[first:]):
                offset[axis] = ways[axis] * choice.choice((1, 2)) if position == 0 else choice.choice((-1, 0, 1))
            offsets.append(tuple(offset))
        f = recurrence(offsets)
        assert f.check().ok, (offsets, f.check())
        a = np.random.default_rng(0).standard_normal((4,) * rank)
        assert np.array_equal(f.compile()(a), in_numpy(offsets, a)), offsets


def test_where_no_order_of_loops_serves_the_proof_asks_for_commands() -> None:
    f = recurrence([(1, -2), (-2, 1)])
    assert f.program.origin.turned == ()
    assert [violation.kind for violation in f.check().violations] == ["order"]


def test_files_keep_how_loops_were_turned(tmp_path: Path) -> None:
    f = recurrence([(1, -1), (-1, -1)])
    f.save(tmp_path / "f.json")
    loaded = tm.load(tmp_path / "f.json")
    assert loaded.program.origin.turned == f.program.origin.turned != ()
    a = np.random.default_rng(3).standard_normal((6, 6))
    assert np.array_equal(loaded.compile()(a), f.evaluate(a))


def test_commands_apply_to_the_loops_as_they_were_turned() -> None:
    """Rows of the recurrence that remain independent run in threads and lanes."""
    f = recurrence([(0, 1)])
    y = f["y"]
    y.parallelize(i)
    assert f.check().ok
    y.reverse(j)
    violation = f.check().violations[0]
    assert violation.kind == "order"
    assert violation.repair == "leave y.reverse(j) out"
