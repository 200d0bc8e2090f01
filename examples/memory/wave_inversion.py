"""A layer found from an echo, by gradients that keep few levels of the wave: checkpoints.

The gradient of the misfit reads the wave backwards in time, so that all its levels are kept; `recompute` keeps each
k-th one and computes those between again. What the receivers hear is read as the wave goes by. `tm.plan` chooses k
within a budget of memory; the gradient has the same bits, and gradient descent goes towards the layer.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

T, N = tm.params("T N")
t, i = tm.iters("t i")


def wave_of(f: tm.Function) -> tm.Computation:
    """A wave in one dimension from a source at depth 2; `speed` is the square of the velocity in steps of the grid."""
    speed, pulse = f.input("speed", tm.float64, [N]), f.input("pulse", tm.float64, [T + 1])

    def wave(u: tm.Computation) -> tm.Expr:
        curvature = u[t - 1, i - 1] - 2 * u[t - 1, i] + u[t - 1, i + 1]
        moved = 2 * u[t - 1, i] - u[t - 2, i] + speed[i] * curvature + tm.select(i == 2, pulse[t], 0.0)
        return tm.select((t < 2) | (i == 0) | (i == N - 1), 0.0, moved)

    return f.computation("u", {t: T + 1, i: N}, wave)


def recording() -> tm.Function:
    """What the receiver at depth 2 hears."""
    f = tm.Function("recording", params=[T, N], assume="T >= 2 and N >= 5")
    u = wave_of(f)
    heard = f.computation("heard", {t: T + 1}, u[t, 2])
    f.outputs(heard)
    heard.after(u, t)
    u.fold(t, 3)
    return f


def misfit() -> tm.Function:
    """Half of the squared difference to what was heard, and its gradient by the speed."""
    f = tm.Function("misfit", params=[T, N], assume="T >= 2 and N >= 5")
    u = wave_of(f)
    heard = f.input("heard", tm.float64, [T + 1])
    apart = f.computation("apart", {t: T + 1}, u[t, 2] - heard[t])
    f.outputs(f.reduction("loss", {}, {t: T + 1}, tm.sum, 0.5 * apart[t] * apart[t]))
    g = tm.vjp(f, wrt=["speed"]).step
    g["apart"].after(g["u"], t)  # the receiver listens while the wave goes by
    g["d_speed"].update.reorder(t, i).after(g["d_u"], t)  # and the gradient grows while the adjoint wave runs back
    return g


depths, steps = 60, 500
true = np.full(depths, 0.25)
true[15:25] = 0.36  # the layer
times = np.arange(steps + 1)
given = {"pulse": np.exp(-(((times - 14) / 5) ** 2)), "T": steps}
heard = recording().compile()(speed=true, **given)
given |= {"heard": heard, "d_loss": 1.0}

sizes = {"T": steps, "N": depths}
keeping, planned = misfit(), misfit()
whole = keeping.cost("memory", **sizes).peak
rates = tm.Machine(core_flops=20e9, cores=1, host_bandwidth=10e9)
found = tm.plan(planned, sizes, budget=whole // 4, machine=rates)
for command in found.commands:
    planned.apply(command)
    print(command)
print(planned.check())
peak = planned.cost("memory", **sizes).peak
print(f"memory: {whole} bytes with all levels, {peak} with some")
assert peak == found.peak <= whole // 4

kept, step = keeping.compile(), planned.compile()
speed = np.full(depths, 0.25)
for one, other in zip(kept(speed=speed, **given), step(speed=speed, **given), strict=True):
    assert np.array_equal(one, other)  # bit for bit

rate, losses = 2e-4, []
for _ in range(400):
    loss, gradient = step(speed=speed, **given)
    losses.append(float(loss))
    speed = np.clip(speed - rate * gradient / np.abs(gradient).max() * min(1.0, losses[-1] / losses[0]) * 40, 0.1, 0.6)
for name, each in (("found", speed), ("true", true)):
    print(f"{name:>6} {''.join(' .:-=+*#%@'[int(np.clip((value - 0.2) * 40, 0, 9))] for value in each)}")
print(f"misfit {losses[0]:.2e} --> {losses[-1]:.2e}")
assert losses[-1] < 0.02 * losses[0]
print("right: the gradient of a quarter of the memory has the same bits, and leads towards the layer")
