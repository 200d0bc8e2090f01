"""`f.cost("memory")` beside what the kernel's process takes: levels kept, computed again, in segments of segments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, T = tm.params("N T")
i, t = tm.iters("i t")
SIZES = {"T": 99, "N": 1 << 16}
#: What a process may take beside the temporaries of a call: pages of code, stacks, small blocks.
BESIDE = 1 << 20


def adjoint(every: int | tuple[int, ...]) -> tm.Function:
    """The gradient of a rod, its levels computed again in such segments; 0 keeps all of them."""
    f = tm.Function("rod", params=[T, N], assume="T >= 1 and N >= 2")
    first, c = f.input("first", tm.float64, [N]), f.input("c", tm.float64, [N])

    def level(u: Any) -> Any:
        step = u[t - 1, i] + c[i] * u[t - 1, i] * (u[t - 1, i + 1] - u[t - 1, i])
        return tm.select(t == 0, first[i], tm.select(i < N - 1, step, u[t - 1, i]))

    u = f.computation("u", {t: T + 1, i: N}, level)
    f.outputs(f.computation("last", {i: N}, u[T, i]))
    step = tm.vjp(f, wrt=["c"]).step
    if every:
        step["u"].recompute(t, every=every)
        step["d_u"].fold(t, (every if isinstance(every, int) else every[-1]) + 1)
    return step


def kilobytes(what: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{what}:")).split()[1])


def taken(every: int | tuple[int, ...]) -> int:
    """The bytes by which this process grows at most in a call."""
    kernel = adjoint(every).compile()
    given = {name: 0.1 * np.random.default_rng(1).random(SIZES["N"]) for name in ("first", "c", "d_last")}
    outputs = {name: np.ones(SIZES["N"]) for name in ("last", "d_c")}
    kernel(**{name: array[:8] for name, array in given.items()}, T=3)  # everything is loaded
    Path("/proc/self/clear_refs").write_text("5")  # the most memory is counted from here
    before = kilobytes("VmRSS")
    kernel(**given, **outputs, T=SIZES["T"])
    return (kilobytes("VmHWM") - before) << 10


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux says what a process held at most")
@pytest.mark.parametrize("every", [0, 10, (25, 5)])
def test_a_call_takes_what_memory_says(every: int | tuple[int, ...]) -> None:
    words = f"from {__name__} import taken; print(taken({every}))"
    root = Path(__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", words], cwd=root, check=True, capture_output=True, text=True)
    said, held = adjoint(every).cost("memory", **SIZES).peak, int(ran.stdout)
    assert 0.95 * said - BESIDE <= held <= 1.05 * said + BESIDE, (said, held)
