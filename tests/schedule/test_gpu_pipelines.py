"""Every GPU schedule: proven, and to the bits of `evaluate()` in the adversarial machine and in the simulator."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from tests.schedule.gpu_pipelines import CASES, Case
from tiramisu_py.interpret import run
from tiramisu_py.lower import lower

SEEDS = range(6)


def scheduled(case: Case) -> SimpleNamespace:
    s = case.make()
    case.schedule(s)
    return s


def all_sizes(case: Case, s: SimpleNamespace) -> list[dict[str, int]]:
    chosen = itertools.product(case.sizes, repeat=len(s.params))
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


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_loops_of_a_gpu_schedule_are_right_in_adversarial_order(case: Case) -> None:
    s = scheduled(case)
    loops = (lower(s.f.completed), s.f.lowered())
    for number, sizes in enumerate(all_sizes(case, s)):
        arrays = arguments(s, sizes)
        wanted = s.f.evaluate(**arrays, **sizes)
        for seed in [SEEDS[number % len(SEEDS)]] if number else SEEDS:
            for function in loops:
                over = function.outputs[0]
                got = arrays[over].copy() if over in arrays else np.zeros_like(wanted)
                run(function, {**arrays, over: got}, sizes, seed)
                np.testing.assert_array_equal(got, wanted, err_msg=f"{sizes}, seed {seed}")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_gpu_schedule_is_right_in_the_simulator_with_checks(case: Case) -> None:
    s = scheduled(case)
    for seed in range(2):
        kernel = s.f.compile(device="simulator", sanitize=True, seed=seed)
        for sizes in all_sizes(case, s):
            arrays = arguments(s, sizes)
            wanted = s.f.evaluate(**arrays, **sizes)
            got = kernel(**{name: array.copy() for name, array in arrays.items()}, **sizes)
            np.testing.assert_array_equal(got, wanted, err_msg=f"{sizes}, seed {seed}")
