"""Parallel loops as compiled, under the thread sanitizer: no two threads touch one place, and the values are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.racing import RACE, races
from tests.schedule.test_commands import CASES, _arguments
from tests.selection import some
from tests.test_polybench import KERNELS, modules

(N,), (b, i, k, k0, k1) = tm.params("N"), tm.iters("b i k k0 k1")
SIZE = 41
#: Those of a plain run; `scripts/test --all` runs all that have threads, and kernels of PolyBench.
CHOSEN = ("parallelize dynamically", "a wavefront")


def clean(kernel: tm.Kernel, given: dict[str, Any]) -> dict[str, np.ndarray]:
    said, found = races(kernel, given)
    assert RACE not in said, said[:4000]
    return found


def is_parallel(make: Any, schedule: Any) -> bool:
    s = make()
    schedule(s)
    return "#pragma omp" in s.f.source()[f"{s.f.name}.c"]


@pytest.mark.parametrize("name", some([case[0] for case in CASES], CHOSEN.__contains__))
def test_scheduled_loops_are_free_of_races(name: str) -> None:
    make, schedule = next(case[1:] for case in CASES if case[0] == name)
    if not is_parallel(make, schedule):
        pytest.skip("it has no loop on threads")
    s = make()
    schedule(s)
    sizes = dict(zip(s.params, (17, 19, 6), strict=False))
    arrays = _arguments(s, sizes)
    wanted = s.f.evaluate(**{array: values.copy() for array, values in arrays.items()}, **sizes)
    kernel = s.f.compile()
    found = clean(kernel, {**arrays, **sizes})
    np.testing.assert_array_equal(found[kernel.function.outputs[0]], wanted)


def histogram(**options: Any) -> tm.Function:
    f = tm.Function("histogram", params=[N])
    at, x = f.input("at", tm.int32, [N], values=(0, 8)), f.input("x", tm.int64, [N])
    h = f.reduction("h", {b: 8}, {i: N}, tm.sum, tm.scatter(x[i], at=[at[i]]))
    f.outputs(h)
    h.update.parallelize(i, **options)
    return f


def total(**options: Any) -> tm.Function:
    f = tm.Function("total", params=[N])
    x = f.input("x", tm.int64, [N])
    s = f.reduction("s", {}, {k: N}, tm.sum, x[k])
    f.outputs(s)
    s.update.split(k, 4, k0, k1)
    s.update.parallelize(k0, **options)
    return f


def values() -> dict[str, np.ndarray]:
    choose = np.random.default_rng(3)
    return {"at": choose.integers(0, 8, SIZE).astype(np.int32), "x": choose.integers(-9, 10, SIZE)}


@pytest.mark.parametrize("combine", [tm.PRIVATE, tm.ATOMIC], ids=["private", "atomic"])
def test_bins_that_threads_share_are_free_of_races(combine: Any) -> None:
    given = values()
    wanted = np.zeros(8, np.int64)
    np.add.at(wanted, given["at"], given["x"])
    np.testing.assert_array_equal(clean(histogram(combine=combine).compile(), given)["h"], wanted)


@pytest.mark.parametrize("combine", [tm.PRIVATE, tm.ATOMIC, tm.TREE], ids=["private", "atomic", "tree"])
def test_sums_that_threads_share_are_free_of_races(combine: Any) -> None:
    given = {"x": values()["x"]}
    assert clean(total(combine=combine).compile(), given)["s"] == given["x"].sum()


def test_an_update_that_is_not_atomic_is_found() -> None:
    kernel = histogram(combine=tm.ATOMIC).compile()
    said, _ = races(kernel, values(), **{"#pragma omp atomic": "/* gone */"})
    assert RACE in said


@pytest.mark.parametrize("form", ["hand", "auto"])
@pytest.mark.parametrize("name", some(KERNELS, lambda _: False))
def test_kernels_of_polybench_are_free_of_races(name: str, form: str) -> None:
    cpu = tm.target("x86-64-v3") if "x86-64-v3" in tm.target().features else tm.target()
    with modules(name) as (told, story):
        if form == "auto":
            f = told.algorithm()
            f.auto_schedule(target=cpu, threads=4)
        else:
            f = told.scheduled(cpu)
        if "#pragma omp" not in f.source()[f"{f.name}.c"]:
            pytest.skip("it has no loop on threads")
        clean(f.compile(fast=story.FAST, target=cpu.name), told.sample(told.SIZES["ODD"]))
