"""What stays in memory: after calls, and after functions that were proven, emitted, compiled, and dropped.

Memory is the resident size of the process. Each row begins with some turns that are not counted, which fill caches of
bounded size.
"""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Callable
from pathlib import Path

import islpy as isl
import numpy as np

import tiramisu_py as tm
from benchmarks.common.tables import report, table

SIZE = 50
FEW = 5  # turns before those that are counted
STATM = Path("/proc/self/statm")


def resident() -> int:
    """The bytes of memory that this process has."""
    gc.collect()
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def function(number: int, threads: bool = True) -> tm.Function:
    """A function that is another one for each number: two stages, tiled, with vectors and perhaps threads."""
    (N,), (i, i0, i1) = tm.params("N"), tm.iters("i i0 i1")
    f = tm.Function("stages", params=[N], assume="N >= 0")
    x = f.input("x", tm.float32, [N])
    p = f.computation("p", {i: N}, x[i] + number)
    q = f.computation("q", {i: N}, p[i] * 2)
    f.outputs(q)
    q.split(i, 16, i0, i1)
    if threads:
        q.parallelize(i0)
    q.vectorize(i1, 8)
    p.compute_at(q, i0)
    return f


def emitted(number: int) -> None:
    """A function, proven and emitted."""
    function(number).source()


def compiled(number: int) -> None:
    """A function, compiled, called and dropped."""
    x = np.arange(SIZE, dtype=np.float32)
    assert np.array_equal(function(number).compile()(x), (x + np.float32(number)) * 2)


def operation() -> Callable[[int], object]:
    """An operation of islpy with one operand, on the same set each time."""
    some = isl.Set.read_from_str(isl.Context(), "[N] -> { [i] : 0 <= i < N }")
    return lambda _: some.coalesce()


def refused(kernel: tm.Kernel, x: np.ndarray) -> None:
    """A call with an output that is an input."""
    try:
        kernel(x, q=x)
    except tm.ArgumentError:
        return
    raise AssertionError("it was not refused")


def measured(what: str, turns: int, turn: Callable[[int], object]) -> list[str]:
    """A row of the table."""
    for number in range(-FEW, 0):
        turn(number)
    before, objects = resident(), len(gc.get_objects())
    for number in range(turns):
        turn(number)
    grown = resident() - before
    more = len(gc.get_objects()) - objects
    return [what, f"{turns:,}", f"{grown / 1024:,.0f}", f"{grown / max(turns, 1):,.1f}", f"{more:,}"]


def rows(kernels: int, calls: int) -> list[list[str]]:
    """The table."""
    kernel, x = function(0, threads=False).compile(), np.arange(SIZE, dtype=np.float32)
    out = np.empty_like(x)
    bound = kernel.bound(x, q=out)
    return [
        measured("calls with arguments", calls, lambda _: kernel(x, q=out)),
        measured("calls that make their output", calls, lambda _: kernel(x)),
        measured("calls of many shapes", calls // 100, lambda n: kernel(x[: n % SIZE])),
        measured("bound calls", calls, lambda _: bound()),
        measured("calls that are refused", calls // 100, lambda _: refused(kernel, x)),
        measured("operations of islpy alone, one operand each", calls, operation()),
        measured("functions proven and emitted", kernels, emitted),
        measured("kernels compiled, called, dropped", kernels, compiled),
    ]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/leaks.md")
    options.add_argument("--kernels", type=int, default=5000, help="how many different functions")
    options.add_argument("--calls", type=int, default=1_000_000, help="how many calls")
    given = options.parse_args()
    header = ["what", "times", "KiB more", "bytes each", "Python objects more"]
    text = (
        f"{table(header, rows(given.kernels, given.calls))}\n\n"
        f"islpy {isl.version.VERSION_TEXT} keeps 32 bytes for each operand that an operation of isl takes: it calls "
        "`release()` on the copy of the wrapper, which deletes nothing, and so never frees a context either. That is "
        "what functions leave, two to three thousand operands each. Of Python objects, libraries and files nothing "
        "stays, and calls leave nothing."
    )
    report("leaks", "What stays in memory", text, given.save)


if __name__ == "__main__":
    main()
