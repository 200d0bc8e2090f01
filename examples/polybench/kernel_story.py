"""The common steps of PolyBench's kernels in this folder: prove, compile, compare with NumPy, and time.

    python examples/polybench/gemm.py [--time LARGE]

A kernel is a module with

* `algorithm()`, the formulas, with nothing said about order,
* `scheduled(cpu)`, the same with a schedule by hand,
* `SIZES`, those of PolyBench by name, and an odd one and the smallest,
* `sample(sizes)`, arguments, and `exact(given)`, the results by NumPy, in the order of the outputs,
* `CLOSE`, how far a result may be from NumPy's, in parts of the largest value.

A kernel that works in place changes the caller's array, as in PolyBench; the rest of that array stays as it is.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tiramisu_py as tm

Array = np.ndarray[Any, Any]
Arguments = dict[str, Any]
Sizes = Mapping[str, int]
Exact = Callable[[Arguments], tuple[Array, ...]]
#: Compilers may fuse a multiplication and an addition, as they may in the C programs of PolyBench.
FAST = ("contract",)
#: The forms in which each kernel runs.
FORMS = ("plain", "auto", "hand")
#: The sizes at which an example compares its results.
COMPARED = ("ONE", "ODD", "MINI", "SMALL")


def made(
    form: str, algorithm: Callable[[], tm.Function], scheduled: Callable[[], tm.Function], threads: int | None = None
) -> tm.Function:
    """A kernel as it was declared, with its schedule by hand, or with the one that the compiler finds for threads."""
    if form == "hand":
        return scheduled()
    f = algorithm()
    if form == "auto":
        f.auto_schedule(threads=threads)
    return f


def tell(
    algorithm: Callable[[], tm.Function],
    scheduled: Callable[[], tm.Function],
    sizes: Mapping[str, Sizes],
    sample: Callable[[Sizes], Arguments],
    exact: Exact,
    close: float,
) -> None:
    """Compare each form with NumPy on PolyBench's small samples, with one and two threads; with `--time`, time it."""
    options = argparse.ArgumentParser()
    options.add_argument("--time", choices=[name for name in sizes if name not in ("ONE", "ODD")], help="sizes to time")
    timed = options.parse_args().time
    for form in FORMS:
        f = made(form, algorithm, scheduled)
        print(f.check())
        for threads in (1, 2):
            kernel = f.compile(fast=FAST, threads=threads)
            for name in COMPARED:
                compare(kernel, sample(sizes[name]), exact, close)
            if timed:
                seconds = least_time(kernel, sample(sizes[timed]))
                print(f"{f.name}, {form}, {timed}, threads: {threads}: {seconds * 1e3:.2f} ms")
    print(f"right: {f.name} is within {close:g} of NumPy")


def compare(kernel: tm.Kernel, given: Arguments, exact: Exact, close: float) -> None:
    """Raise unless each result, in the caller's arrays or in new ones, is as close to NumPy's as stated."""
    expected = exact(copied(given))
    found: Any = kernel(**copied(given))
    results = found if isinstance(found, tuple) else (found,)
    assert len(results) == len(expected), f"{len(results)} results, not {len(expected)}"
    for result, right in zip(results, expected, strict=True):
        assert result.shape == right.shape, f"{result.shape}, not {right.shape}"
        apart = np.abs(result.astype(np.float64) - right.astype(np.float64))
        largest = max(float(np.abs(right).max(initial=0)), 1.0)
        assert (apart <= close * largest).all(), f"{np.nanmax(apart):g} beyond {close * largest:g}, {result.shape}"


def least_time(kernel: tm.Kernel, given: Arguments, calls: int = 3) -> float:
    """The time in seconds of the fastest of a few calls, each with the same values."""
    seconds = []
    for _ in range(calls):
        arguments = copied(given)
        start = time.perf_counter()
        kernel(**arguments)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def tile_of(cpu: tm.Target) -> dict[str, int]:
    """Rows and columns of a tile of a matrix product of float64, so that columns are a multiple of rows.

    Blocks of columns along a diagonal are then whole tiles; the accumulators and a row of vectors fill the registers.
    """
    columns = 3 * cpu.lanes(tm.float64)
    most = (cpu.vector_registers - 4) // 3
    return {"rows": max(rows for rows in range(1, most + 1) if columns % rows == 0), "columns": columns}


def filled(formula: Callable[..., Array], *shape: int) -> Array:
    """An array of values computed from their indices, as PolyBench makes its arguments."""
    values: Array = np.fromfunction(formula, shape)
    return np.ascontiguousarray(values, np.float64)


def copied(given: Arguments) -> Arguments:
    """The arguments with arrays of their own, since a kernel may change them."""
    return {name: each.copy() if isinstance(each, np.ndarray) else each for name, each in given.items()}
