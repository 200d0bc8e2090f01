"""Cost of a call: small kernels on arrays of eight elements, beside NumPy's own functions on the same arrays.

A kernel is called with arguments, with its output passed or made, and bound once (`Kernel.bound`).
"""

from __future__ import annotations

import argparse
import timeit
from collections.abc import Callable

import numpy as np

import tiramisu_py as tm
from benchmarks.common.tables import report, table

SIZE = 8
GOALS = (10.0, 1.0)  # microseconds: of a call with three arrays, and of a bound call


def added() -> tm.Function:
    """``z = x + y``: three arrays."""
    (N,), (i,) = tm.params("N"), tm.iters("i")
    f = tm.Function("added", params=[N], assume="N >= 0")
    x, y = f.input("x", tm.float32, [N]), f.input("y", tm.float32, [N])
    f.outputs(f.computation("z", {i: N}, x[i] + y[i]))
    return f


def scaled() -> tm.Function:
    """``z = s * (x + y)``: a scalar, too."""
    (N,), (i,) = tm.params("N"), tm.iters("i")
    f = tm.Function("scaled", params=[N], assume="N >= 0")
    x, y, s = f.input("x", tm.float32, [N]), f.input("y", tm.float32, [N]), f.scalar("s", tm.float32)
    f.outputs(f.computation("z", {i: N}, s * (x[i] + y[i])))
    return f


def rows() -> tm.Function:
    """``z[r, c] = x[r, c] + y[c]``: two parameters, and an array of two dimensions."""
    (R, C), (r, c) = tm.params("R C"), tm.iters("r c")
    f = tm.Function("rows", params=[R, C], assume="R >= 0 and C >= 0")
    x, y = f.input("x", tm.float32, [R, C]), f.input("y", tm.float32, [C])
    f.outputs(f.computation("z", {r: R, c: C}, x[r, c] + y[c]))
    return f


def fastest(call: Callable[[], object], rounds: int) -> float:
    """The least time of a call, in microseconds."""
    number = 2000
    return min(timeit.repeat(call, number=number, repeat=rounds)) / number * 1e6


def measured(name: str, rounds: int) -> list[str]:
    """A row of the table: a kernel in three ways, and NumPy."""
    y, z = np.ones(SIZE, np.float32), np.empty(SIZE, np.float32)
    x, wide, out = np.ones(SIZE, np.float32), np.ones((SIZE, SIZE), np.float32), np.empty((SIZE, SIZE), np.float32)
    f, given, into, numpy_call = {
        "x + y": (added(), (x, y), z, lambda: np.add(x, y, out=z)),
        "s (x + y)": (scaled(), (x, y, 2.0), z, lambda: np.multiply(np.add(x, y, out=z), np.float32(2), out=z)),
        "rows": (rows(), (wide, y), out, lambda: np.add(wide, y, out=out)),
    }[name]
    kernel = f.compile()
    bound = kernel.bound(*given, z=into)
    calls = [lambda: kernel(*given), lambda: kernel(*given, z=into), bound, numpy_call]
    return [name, *(f"{fastest(call, rounds):.2f}" for call in calls)]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/calls.md")
    options.add_argument("--rounds", type=int, default=15, help="of which the fastest is shown")
    given = options.parse_args()
    found = [measured(name, given.rounds) for name in ("x + y", "s (x + y)", "rows")]
    header = ["kernel", "output made", "output passed", "bound", "NumPy"]
    text = (
        f"{table(header, found)}\n\nMicroseconds; of {given.rounds} rounds of 2,000 calls the fastest. Rows of {SIZE} "
        f"elements. Goals: {GOALS[0]:.0f} for a call with three arrays, {GOALS[1]:.0f} for a bound call."
    )
    report("calls", "Cost of a call", text, given.save)


if __name__ == "__main__":
    main()
