"""Calls: right values, the fastest of the measured points, kept for later calls and processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tiramisu_py as tm
from tests.tuning.learned.pretended import LEGAL, RANGES, SMALL, law, make, product
from tiramisu_py.tuning.learned.samples import clocks

RANDOM = np.random.default_rng(0)


def arrays(n: int, m: int, k: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return RANDOM.integers(-9, 9, (n, k)).astype(np.int32), RANDOM.integers(-9, 9, (k, m)).astype(np.int32)


@pytest.fixture
def fitted(tmp_path: Path) -> tm.InputAware:
    made = product(tmp_path)
    made.collect(**RANGES, samples=120)
    made.fit(**SMALL)
    return made


def test_a_call_measures_once_and_keeps_the_fastest(
    fitted: tm.InputAware, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = arrays(7, 19, 5)
    sizes = {"N": 7, "M": 19, "K": 5}
    np.testing.assert_array_equal(fitted(a, b, measure=0), a @ b)
    assert len(fitted.kernels) == 1 and fitted.chosen(**sizes).measured is None
    np.testing.assert_array_equal(fitted(a, b), a @ b)
    best = fitted.chosen(**sizes)
    assert best.measured == min(law(point, sizes) for point in LEGAL) and len(fitted.kernels) == 3
    monkeypatch.setattr(clocks.KernelClock, "prepare", None)  # compiles nothing any more
    np.testing.assert_array_equal(fitted(a, b), a @ b)
    np.testing.assert_array_equal(fitted(a, b=b), a @ b)
    monkeypatch.undo()
    again = product(tmp_path)
    np.testing.assert_array_equal(again(a, b), a @ b)
    assert len(again.kernels) == 1 and again.chosen(**sizes) == best
    assert again.best(**sizes)[0].measured is not None


def test_another_shape_is_another_choice(fitted: tm.InputAware) -> None:
    for n, m, k in ((4, 4, 4), (4, 8, 4)):
        a, b = arrays(n, m, k)
        np.testing.assert_array_equal(fitted(a, b, measure=3), a @ b)
    assert fitted.chosen(N=4, M=4, K=4).parameters["lanes"] in (4, 8)
    assert fitted.chosen(N=4, M=8, K=4).parameters["lanes"] == 8


def test_outputs_and_sizes_can_be_named(fitted: tm.InputAware) -> None:
    a, b = arrays(6, 11, 4)
    c = np.zeros((6, 11), np.int32)
    assert fitted(a, b, c=c, M=11, measure=0) is c
    np.testing.assert_array_equal(c, a @ b)


def test_empty_arrays_need_no_model(tmp_path: Path) -> None:
    a, b = arrays(0, 5, 3)
    assert product(tmp_path)(a, b).shape == (0, 5)


def test_a_choice_without_a_model_is_not_kept(tmp_path: Path) -> None:
    made = product(tmp_path)
    a, b = arrays(6, 11, 4)
    with pytest.warns(UserWarning, match="has no model") as said:
        np.testing.assert_array_equal(made(a, b), a @ b)
        np.testing.assert_array_equal(made(a, b), a @ b)
    assert len(said) == 1 and said[0].filename == __file__
    made.collect(**RANGES, samples=100)
    made.fit(**SMALL)
    np.testing.assert_array_equal(made(a, b, measure=3), a @ b)
    assert made.chosen(N=6, M=11, K=4).measured is not None


@pytest.mark.slow
def test_the_clock_itself_measures_what_is_right(tmp_path: Path) -> None:
    made = product(tmp_path, timer=None, space={"lanes": [2, 4], "loop": ["i"]}, threads=1)
    given: dict[str, Any] = {"N": (4, 9), "M": (4, 9), "K": (3, 5), "limit": None}
    ready = made.collect(**given, samples=8, compile_only=True)
    assert (ready.samples, ready.new, ready.compiled) == (0, 0, 2)
    found = made.collect(**given, samples=8)
    assert (found.samples, found.new, found.points, found.compiled) == (8, 8, 2, 0)
    again = product(tmp_path, timer=None, space={"lanes": [2, 4], "loop": ["i"]}, threads=1).collect(**given, samples=8)
    assert (again.samples, again.new, again.compiled) == (8, 0, 0)
    a, b = arrays(5, 6, 4)
    with pytest.warns(UserWarning, match="has no model"):
        np.testing.assert_array_equal(made(a, b), a @ b)


def test_a_kernel_with_wrong_values_ends_collecting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = make(4, "i")

    def emitted(f: tm.Function, **options: Any) -> Any:
        found = emission(wrong, **options)
        return type(found)({name: text.replace("+=", "-=") for name, text in found.sources.items()}, found.compiled)

    emission = clocks.emission
    made = product(tmp_path, timer=None, space={"lanes": [4], "loop": ["i"]})
    monkeypatch.setattr(tm.Function, "evaluate", lambda *_, **__: np.full((5, 7), 77, np.int32))
    monkeypatch.setattr(clocks, "emission", emitted)
    with pytest.raises(tm.TuningError, match="product with lanes=4, loop='i' computes wrong values: c"):
        made.collect(N=8, M=8, K=8, samples=2)


def doubled(way: str) -> tm.Function:
    """Twice a vector, in ways of which one is wrong."""
    N, i = tm.params("N")[0], tm.iters("i")[0]
    f = tm.Function("doubled", params=[N])
    a = f.input("a", tm.int32, [N])
    f.outputs(f.computation("c", {i: N}, {"times": a[i] * 2, "plus": a[i] + a[i], "wrong": a[i] * 3}[way]))
    return f


def test_points_may_compute_the_same_in_other_ways_and_no_other_values(tmp_path: Path) -> None:
    given: dict[str, Any] = {"make": doubled, "timer": None, "threads": 1}
    right = product(tmp_path, space={"way": ["times", "plus"]}, **given)
    assert right.collect(N=(4, 9), samples=4, limit=None).points == 2
    with pytest.raises(tm.TuningError, match="doubled with way='wrong' computes wrong values: c"):
        product(tmp_path, space={"way": ["times", "wrong"]}, **given).collect(N=(4, 9), samples=9, limit=None)


@pytest.mark.slow
def test_a_sample_that_takes_too_long_is_ended_and_the_others_go_on(tmp_path: Path) -> None:
    made = product(tmp_path, timer=None, space={"lanes": [4], "loop": ["i"]}, threads=1)
    found = made.collect(N=1000, M=1000, K=(2, 4000), samples=6, limit=1.0)
    (reason,) = found.failed
    assert reason == "it did not end in 1 s" and 0 < found.failed[reason] < 6
    assert found.samples == 6 - found.failed[reason]
    again = made.collect(N=1000, M=1000, K=(2, 4000), samples=6, limit=1.0)
    assert again.new == 0 and again.failed == found.failed
