"""Times of kernels: the figures that follow from them, and their words."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.toolchain.timing import Timing, in_seconds, scaled

MACHINE = tm.Machine(core_flops=1e9, cores=2, host_bandwidth=8e9)


def product() -> tm.Kernel:
    (N,) = tm.params("N")
    i, j, k = tm.iters("i j k")
    f = tm.Function("product", params=[N])
    a, b = (f.input(name, tm.float64, [N, N]) for name in "ab")
    f.outputs(f.reduction("c", {i: N, j: N}, {k: N}, tm.sum, a[i, k] * b[k, j]))
    return f.compile()


def test_the_work_of_a_call_is_counted() -> None:
    timing = product().time(np.ones((5, 5)), np.ones((5, 5)), calls=7)
    assert len(timing.times) == 7
    assert timing.operations == 2 * 5**3
    assert timing.bytes == 3 * 25 * 8


def test_calls_fill_the_time_that_is_given() -> None:
    timing = product().time(np.ones((2, 2)), np.ones((2, 2)), seconds=0.01)
    assert len(timing.times) >= 3


def test_rates_follow_from_the_fastest_call() -> None:
    timing = Timing("f", (0.5, 0.25, 1.0), 1_000_000_000, 500_000_000, MACHINE)
    assert (timing.minimum, timing.median) == (0.25, 0.5)
    assert timing.bytes_per_second == 4e9
    assert str(timing).splitlines() == [
        "f: minimum 250 ms, median 500 ms of 3 calls",
        "  1 Gbytes: 4 GB/s, 50% of this machine's copy in memory (8 GB/s)",
        "  500 Moperations: 2 Gop/s, 100% of this machine's multiply-adds (2 Gop/s)",
    ]
    assert timing.as_dict()["operations_per_second"] == 2e9


def test_a_rate_beyond_memory_is_of_the_caches() -> None:
    assert "arrays are in the caches" in str(Timing("f", (0.1,), 10**9, 0, MACHINE))
    assert "machine" not in str(Timing("f", (0.1,), 10**9, 0))


def test_an_array_in_place_counts_twice() -> None:
    (N,) = tm.params("N")
    (i,) = tm.iters("i")
    f = tm.Function("added", params=[N])
    a = f.input("a", tm.float32, [N])
    b = f.computation("b", {i: N}, a[i] + 1)
    f.outputs(b)
    b.store_in(a)
    given = np.zeros(10, np.float32)
    timing = f.compile().time(given, calls=2)
    assert timing.bytes == 80
    assert (given == 3).all()  # one call to warm up


@pytest.mark.parametrize("wrong", [{"calls": 0}, {"calls": True}, {"seconds": 0}, {"seconds": "1"}])
def test_what_is_no_number_of_calls_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(tm.ArgumentError, match=f"{next(iter(wrong))}="):
        product().time(np.ones((2, 2)), np.ones((2, 2)), **wrong)  # type: ignore[arg-type]


def test_units_suit_the_amount() -> None:
    assert [in_seconds(each) for each in (2.0, 0.0312, 4.2e-5, 3e-8)] == ["2 s", "31.2 ms", "42 us", "30 ns"]
    assert [scaled(each) for each in (3.0, 4200.0, 2.5e6, 1e9, 7e12)] == ["3 ", "4.2 k", "2.5 M", "1 G", "7 T"]


def test_a_machine_without_rates_is_refused_before_any_call() -> None:
    with pytest.raises(tm.ArgumentError, match="machine='H100' has no rates"):
        product().time(np.ones((2, 2)), np.ones((2, 2)), machine="H100")  # type: ignore[arg-type]
