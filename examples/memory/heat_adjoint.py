"""The adjoint of a rod that cools, with its levels on disk: four times the memory that its process may have.

Heat flows the better, the hotter the rod is. The gradient of the last temperatures by the conductivity of each piece
reads all levels again, last level first. Each of them is in a file in the meantime, so that six are in memory.

Run as ``heat_adjoint.py 1048576 200 /scratch`` for other sizes, and another folder.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import tiramisu_py as tm

T, N = tm.params("T N")
t, i = tm.iters("t i")


def gradient() -> tm.Function:
    """The last temperatures, and the adjoint by the conductivity c."""
    f = tm.Function("rod", params=[T, N], assume="T >= 1 and N >= 4")
    first, c = f.input("first", tm.float64, [N]), f.input("c", tm.float64, [N])

    def level(u: tm.Computation) -> tm.Expr:
        flow = u[t - 1, i - 1] - 2 * u[t - 1, i] + u[t - 1, i + 1]
        inside = (i >= 1) & (i < N - 1)
        moved = u[t - 1, i] + c[i] * u[t - 1, i] * flow
        return tm.select(t == 0, first[i], tm.select(inside, moved, u[t - 1, i]))

    u = f.computation("u", {t: T + 1, i: N}, level)
    f.outputs(f.computation("last", {i: N}, u[T, i]))
    return tm.vjp(f, wrt=["c"]).step


def fused() -> tm.Function:
    """The sum over time follows the adjoint level by level, so that two levels of that are enough."""
    f = gradient()
    f["d_c"].update.interchange(i, t)
    f["d_c"].init.before(f["d_u"], tm.root)
    f["d_c"].update.after(f["d_u"], t)
    f["d_u"].fold(t, 2)
    return f


def in_files(ahead: int = 2) -> tm.Function:
    """The same with the levels of u in a file."""
    f = fused()
    f["u"].offload(t, ahead=ahead)
    return f


def kilobytes(what: str) -> int:
    """A number of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{what}:")).split()[1])


def given(pieces: int) -> dict[str, np.ndarray]:
    """Temperatures, conductivities and weights."""
    numbers = np.random.default_rng(0)
    shares = {"first": 1.0, "c": 0.1, "d_last": 1.0}
    return {name: share * numbers.random(pieces) for name, share in shares.items()}


def main(pieces: int, steps: int, folder: str) -> None:
    """Gradients of a small rod, all levels kept and in files; then of one whose levels do not fit."""
    kept, f = fused(), in_files()
    report = f.check()
    assert report.ok, report
    print(f.show("loops"))
    in_memory, kernel = kept.compile(), f.compile(storage=folder)
    small = given(500)
    pairs = zip(in_memory(**small, T=40), kernel(**small, T=40), strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)
    checked = _difference(kernel, small)
    print(f"a small rod: the same bits with levels in files; differences say {checked:.1e} else")

    arrays, sizes = given(pieces), {"T": steps, "N": pieces}
    state = (steps + 1) * pieces * 8
    expected = f.cost("memory", **sizes).peak
    outputs = {"last": np.ones(pieces), "d_c": np.ones(pieces)}
    Path("/proc/self/clear_refs").write_text("5")  # the most memory is counted from here
    before, limit = kilobytes("VmRSS"), (kilobytes("VmData") << 10) + state // 4
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        in_memory(**arrays, **outputs, T=steps)
        raise SystemExit("wrong: all levels fit in a quarter of their size")
    except tm.KernelError as error:
        print(f"with all levels in memory: {error}")
    began = time.perf_counter()
    kernel(**arrays, **outputs, T=steps)
    seconds = time.perf_counter() - began
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    grown = (kilobytes("VmHWM") - before) << 10
    assert grown < 1.05 * expected + (1 << 20), (grown, expected)
    moved = kernel.traffic["u"]
    assert moved.stored + moved.loaded == f.cost("communication", **sizes).bytes
    print(f"{state / 1e6:.0f} MB of levels: {grown / 1e6:.1f} MB of memory, {expected / 1e6:.1f} expected")
    print(f"{moved.stored / 1e6:.0f} MB stored, {moved.loaded / 1e6:.0f} MB loaded in {seconds:.2f} s")
    began = time.perf_counter()
    same = all(map(np.array_equal, in_memory(**arrays, T=steps), outputs.values()))
    print(f"with all levels in memory, once it may have more: {time.perf_counter() - began:.2f} s")
    assert same
    print("right: the gradients have the same bits")


def _difference(kernel: tm.Kernel, arrays: dict[str, np.ndarray]) -> float:
    """How far the gradient is from differences, in a random direction."""
    direction, step = np.random.default_rng(1).random(arrays["c"].size), 1e-6
    ends = [kernel(**{**arrays, "c": arrays["c"] + sign * step * direction}, T=40)[0] for sign in (1, -1)]
    slope = float((ends[0] - ends[1]) @ arrays["d_last"]) / (2 * step)
    along = float(kernel(**arrays, T=40)[1] @ direction)
    assert abs(along - slope) < 1e-5 * abs(slope), (along, slope)
    return abs(along / slope - 1)


if __name__ == "__main__":
    chosen = [int(word) for word in sys.argv[1:3]] or [1 << 17, 100]
    with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else ".") as scratch:
        main(chosen[0], chosen[1], scratch)
