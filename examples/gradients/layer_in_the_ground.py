"""A layer in the ground, found from what receivers at the surface hear: inversion of a wave equation.

A source sends a pulse down from the surface, and a receiver beside it records what returns. The gradient of the misfit
by the square of the velocity at each depth is the adjoint wave, which runs back in time; SciPy's L-BFGS goes downhill.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

import tiramisu_py as tm

T, N = tm.params("T N")
t, i = tm.iters("t i")


def misfit() -> tm.Function:
    """A wave in one dimension from a source at depth 2, and half of the squared difference to what was heard there.

    `speed` is the square of the velocity times the square of the step in time over that in depth. The ends are fixed.
    """
    f = tm.Function("misfit", params=[T, N], assume="T >= 2 and N >= 5")
    speed, pulse = f.input("speed", tm.float64, [N]), f.input("pulse", tm.float64, [T + 1])
    heard = f.input("heard", tm.float64, [T + 1])

    def wave(u: tm.Computation) -> tm.Expr:
        curvature = u[t - 1, i - 1] - 2 * u[t - 1, i] + u[t - 1, i + 1]
        moved = 2 * u[t - 1, i] - u[t - 2, i] + speed[i] * curvature + tm.select(i == 2, pulse[t], 0.0)
        return tm.select((t < 2) | (i == 0) | (i == N - 1), 0.0, moved)

    u = f.computation("u", {t: T + 1, i: N}, wave)
    apart = f.computation("apart", {t: T + 1}, u[t, 2] - heard[t])
    f.outputs(f.reduction("loss", {}, {t: T + 1}, tm.sum, 0.5 * apart[t] * apart[t]), u)
    return f


f = misfit()
depths, steps = 40, 160
true = np.full(depths, 0.25)
true[15:22] = 0.4  # the layer
times = np.arange(steps + 1)
pulse = np.exp(-(((times - 12) / 4) ** 2))
nothing = np.zeros(steps + 1)
_, field = f.compile()(speed=true, pulse=pulse, heard=nothing, T=steps)
heard = np.ascontiguousarray(field[:, 2])

g = tm.vjp(f, wrt=["speed"])
report = g.step.check()
print(report)
step = g.step.compile()
no_weight = np.zeros((steps + 1, depths))  # the field is an output, too, and no part of the misfit


def value_and_gradient(speed: np.ndarray) -> tuple[float, np.ndarray]:
    """The misfit, and its gradient by the speed."""
    loss, _, d_speed = step(speed=speed, pulse=pulse, heard=heard, d_loss=1.0, d_u=no_weight, T=steps)
    return float(loss), d_speed


start = np.full(depths, 0.25)
checked = tm.check_gradient(g, speed=start, pulse=pulse, heard=heard, T=steps)
assert checked.ok, checked
found = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", bounds=[(0.1, 0.6)] * depths,
                 options={"maxiter": 400, "maxfun": 1000, "ftol": 1e-15, "gtol": 1e-10})  # fmt: skip
before, after = value_and_gradient(start)[0], value_and_gradient(found.x)[0]
for name, speed in (("before", start), ("after", found.x), ("true", true)):
    print(f"{name:>7} {''.join(' .:-=+*#%@'[int(np.clip((each - 0.2) * 40, 0, 9))] for each in speed)}")
print(f"misfit {before:.2e} --> {after:.2e} in {found.nfev} evaluations")
assert after < 1e-4 * before
assert np.abs(found.x[3:25] - true[3:25]).max() < 0.05
print("right: the layer is where it was put")
