"""A process that compiles thousands of kernels keeps none of those that it has dropped."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm

(N,) = tm.params("N")
i, i0, i1 = tm.iters("i i0 i1")
MAPS = Path("/proc/self/maps")


def plus(number: int, parallel: bool = False) -> tm.Function:
    f = tm.Function("plus", params=[N], assume="N >= 0")
    x = f.input("x", tm.int64, [N])
    y = f.computation("y", {i: N}, x[i] + number)
    f.outputs(y)
    if parallel:
        y.split(i, 4, i0, i1)
        y.parallelize(i0)
    return f


def mapped() -> set[str]:
    """The libraries of such functions in this process."""
    return {line.split()[-1] for line in MAPS.read_text().splitlines() if "libplus.so" in line}


needs_maps = pytest.mark.skipif(not MAPS.exists(), reason="the system does not tell what is loaded")


def test_nothing_of_a_function_and_its_kernel_stays() -> None:
    f = plus(1)
    kernel = f.compile()
    np.testing.assert_array_equal(kernel(np.arange(3)), np.arange(3) + 1)
    watched = [weakref.ref(each) for each in (f, f.check(), f.program, f.algorithm, kernel, kernel.shared.loaded)]
    del f, kernel
    gc.collect()
    assert [one() for one in watched] == [None] * len(watched)


@needs_maps
@pytest.mark.parametrize("parallel", [False, True])
def test_the_libraries_of_kernels_that_are_gone_are_unloaded(parallel: bool) -> None:
    gc.collect()
    before = mapped()
    for number in range(2, 6):
        kernel = plus(number, parallel).compile()
        np.testing.assert_array_equal(kernel(np.arange(50)), np.arange(50) + number)
    assert len(mapped() - before) >= 1
    del kernel
    gc.collect()
    assert mapped() <= before


@needs_maps
def test_a_library_stays_for_as_long_as_one_of_its_kernels() -> None:
    first, second = plus(7, parallel=True).compile(), plus(7, parallel=True).compile()
    assert first.library == second.library
    del first
    gc.collect()
    assert str(second.library) in mapped()
    np.testing.assert_array_equal(second(np.arange(50)), np.arange(50) + 7)


def test_the_number_of_objects_does_not_grow_with_that_of_functions() -> None:
    def objects(count: int) -> int:
        for number in range(count):
            f = plus(number)
            assert f.check().ok
            f.source()
        del f
        gc.collect()
        return len(gc.get_objects())

    objects(3)
    assert objects(30) <= objects(3) + 30
