"""The adjoint of a recurrence with much work a byte: its levels kept, in a file, and computed again."""

from __future__ import annotations

import hashlib
import resource
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.storage.processes import Peak, kilobytes, seconds_of

T, N = tm.params("T N")
t, i = tm.iters("t i")
SIZES = {"T": 40, "N": 1 << 18}
WAYS = ("keep", "file", "recompute")
EVERY = 8


def adjoint(way: str) -> tm.Function:
    """The gradient of a rod whose conductivity depends on its temperature in an involved way."""
    f = tm.Function("rod", params=[T, N], assume="T >= 1 and N >= 4")
    first, c = f.input("first", tm.float64, [N]), f.input("c", tm.float64, [N])

    def level(u: tm.Computation) -> tm.Expr:
        here = u[t - 1, i]
        flow = u[t - 1, i - 1] - 2 * here + u[t - 1, i + 1]
        rate: Any = c[i] * here
        for k in range(4):
            rate = rate * (1.0 + 0.01 * tm.exp(-(here + 0.1 * k) * rate))
        moved = here + rate * flow
        return tm.select(t == 0, first[i], tm.select((i >= 1) & (i < N - 1), moved, here))

    u = f.computation("u", {t: T + 1, i: N}, level)
    f.outputs(f.computation("last", {i: N}, u[T, i]))
    g = tm.vjp(f, wrt=["c"]).step
    if way == "recompute":
        g["u"].recompute(t, every=EVERY)
        g["d_u"].fold(t, EVERY + 1)
        return g
    g["d_c"].update.interchange(i, t)
    g["d_c"].init.before(g["d_u"], tm.root)
    g["d_c"].update.after(g["d_u"], t)
    g["d_u"].fold(t, 2)
    if way == "file":
        g["u"].offload(t, ahead=2)
    return g


def measured(way: str, folder: str) -> dict[str, Any]:
    """One way: the peak beside that of `f.cost("memory")`, the time, the bytes, and the bits."""
    f = adjoint(way)
    kernel = f.compile(storage=folder if way == "file" else None)
    numbers, n = np.random.default_rng(0), SIZES["N"]
    given = {"first": numbers.random(n), "c": 0.1 * numbers.random(n), "d_last": numbers.random(n)}
    outputs = {"last": np.ones(n), "d_c": np.ones(n)}
    kernel(**{name: array[:8] for name, array in given.items()}, T=3)  # everything is loaded
    state, (soft, hard) = (SIZES["T"] + 1) * n * 8, resource.getrlimit(resource.RLIMIT_DATA)
    if way == "file":  # the state is four times what the process may have more
        resource.setrlimit(resource.RLIMIT_DATA, ((kilobytes("VmData") << 10) + state // 4, hard))
    with Peak() as peak:
        times = [seconds_of(lambda: kernel(**given, **outputs, T=SIZES["T"])) for _ in range(2)]
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    found = {"peak": peak.bytes, "expected": f.cost("memory", **SIZES).peak, "seconds": min(times), "state": state}
    found["bits"] = hashlib.sha256(outputs["d_c"].tobytes() + outputs["last"].tobytes()).hexdigest()
    if way == "file":
        moved = kernel.traffic["u"]
        found |= {"stored": moved.stored, "loaded": moved.loaded, "said": f.cost("communication", **SIZES).bytes}
    return found
