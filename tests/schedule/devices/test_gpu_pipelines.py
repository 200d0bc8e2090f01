"""Every GPU schedule: proven, and to the bits of `evaluate()` in the adversarial machine and in the simulator."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from tests.programs.gpu.pipelines import CASES, Case
from tests.selection import some
from tiramisu_py.interpret import run
from tiramisu_py.lower import lower


def scheduled(case: Case) -> SimpleNamespace:
    s = case.make()
    case.schedule(s)
    return s


def all_sizes(case: Case, s: SimpleNamespace) -> list[dict[str, int]]:
    """All combinations of two sizes; of three, all equal ones and some others."""
    count = len(s.params)
    chosen = list(itertools.product(case.sizes, repeat=count))
    if count > 2:
        turned = [case.sizes[n:] + case.sizes[:n] for n in range(len(case.sizes))]
        chosen = [*zip(*turned[:count], strict=True), *((size,) * count for size in case.sizes)]
    return [dict(zip(s.params, values, strict=True)) for values in chosen]


def arguments(s: SimpleNamespace, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Small whole numbers, so that sums are the same in every order; indices as declared."""
    rng = np.random.default_rng(5)
    arrays = {}
    for declared in s.f.algorithm.inputs.values():
        shape = [eval(str(extent), {}, sizes) for extent in declared.shape]
        low, high = (eval(str(v), {}, sizes) for v in declared.values) if declared.values else (-4, 5)
        if declared.dtype.name.startswith("u"):
            low = 0
        arrays[declared.name] = rng.integers(low, high, shape).astype(declared.dtype.numpy)
    return arrays


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_gpu_schedule_is_proven(case: Case) -> None:
    report = scheduled(case).f.check()
    assert report.ok, report


@pytest.mark.parametrize("case", some(CASES, CASES[::3].__contains__), ids=str)
def test_the_loops_of_a_gpu_schedule_are_right_in_adversarial_order(case: Case) -> None:
    s = scheduled(case)
    loops = (lower(s.f.completed), s.f.show("lowered"))
    tried = all_sizes(case, s)
    for number, sizes in enumerate(tried):
        arrays = arguments(s, sizes)
        wanted = s.f.evaluate(**arrays, **sizes)
        for seed in range(number, number + (3 if len(tried) < 8 else 1)):
            for function in loops:
                over = function.outputs[0]
                got = arrays[over].copy() if over in arrays else np.zeros_like(wanted)
                run(function, {**arrays, over: got}, sizes, seed)
                np.testing.assert_array_equal(got, wanted, err_msg=f"{sizes}, seed {seed}")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_gpu_schedule_is_right_in_the_simulator_with_checks(case: Case) -> None:
    s = scheduled(case)
    seed = len(case.name)
    kernel = s.f.compile(device="simulator", sanitize=True, seed=seed)
    for sizes in all_sizes(case, s):
        arrays = arguments(s, sizes)
        wanted = s.f.evaluate(**arrays, **sizes)
        got = kernel(**{name: array.copy() for name, array in arrays.items()}, **sizes)
        np.testing.assert_array_equal(got, wanted, err_msg=f"{sizes}, seed {seed}")
