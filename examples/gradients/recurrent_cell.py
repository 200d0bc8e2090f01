"""A recurrent cell with gates (LSTM), trained through time: from a wave, it learns the wave's next value.

Four gates, the state and the output of the cell read each other from one step to the next: they are a group. Its
adjoint is a group, too, which runs from the last step to the first. `tm.check_gradient` compares it with differences.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

(T,) = tm.params("T")
t, n, k, g = tm.iters("t n k g")
CELLS = 4


def cell() -> tm.Function:
    """The mean square of what is said of each next value."""
    f = tm.Function("cell", params=[T], assume="T >= 2")
    wave = f.input("wave", tm.float64, [T + 1])
    own = f.input("own", tm.float64, [4, CELLS, CELLS])  # from outputs of the step before, by gate
    given, start = f.input("given", tm.float64, [4, CELLS]), f.input("start", tm.float64, [4, CELLS])
    said_by = f.input("said_by", tm.float64, [CELLS])

    def gate(z: tm.Expr) -> tm.Expr:
        return 1 / (1 + tm.exp(-z))

    with f.together() as group:
        z = group.reduction(
            "z", {t: T, g: 4, n: CELLS}, {k: CELLS}, tm.sum, lambda: tm.select(t == 0, 0.0, own[g, n, k] * h[t - 1, k]),
            dtype=tm.float64,
        )  # fmt: skip
        a = group.computation("a", {t: T, g: 4, n: CELLS}, lambda: z[t, g, n] + given[g, n] * wave[t] + start[g, n],
                              dtype=tm.float64)  # fmt: skip
        state = group.computation(
            "state", {t: T, n: CELLS},
            lambda: gate(a[t, 0, n]) * tm.tanh(a[t, 1, n])
            + tm.select(t == 0, 0.0, gate(a[t, 2, n]) * state[t - 1, n]),
            dtype=tm.float64,
        )  # fmt: skip
        h = group.computation("h", {t: T, n: CELLS}, lambda: gate(a[t, 3, n]) * tm.tanh(state[t, n]), dtype=tm.float64)
    said = f.reduction("said", {t: T}, {n: CELLS}, tm.sum, said_by[n] * h[t, n])
    apart = f.computation("apart", {t: T}, said[t] - wave[t + 1])
    f.outputs(f.reduction("loss", {}, {t: T}, tm.mean, apart[t] * apart[t]))
    return f


WEIGHTS = {"own": (4, CELLS, CELLS), "given": (4, CELLS), "start": (4, CELLS), "said_by": (CELLS,)}
gradients = tm.grad(cell(), wrt=[*WEIGHTS])
gradients.auto_schedule()
print(gradients.check())
step = gradients.compile()

numbers = np.random.default_rng(0)
weights = {name: 0.5 * numbers.standard_normal(shape) for name, shape in WEIGHTS.items()}
wave = np.sin(0.4 * np.arange(61)) * np.cos(0.11 * np.arange(61))
print(tm.check_gradient(tm.vjp(cell(), wrt=[*WEIGHTS]), wave=wave[:9], **weights))

# Adam: steps of a length of their own for each weight.
mean, square = ({name: np.zeros(shape) for name, shape in WEIGHTS.items()} for _ in range(2))
first = float(step(wave=wave, **weights)[0])
for turn in range(1, 401):
    loss, *found = step(wave=wave, **weights)
    for name, gradient in zip(WEIGHTS, found, strict=True):
        mean[name] += 0.1 * (gradient - mean[name])
        square[name] += 0.01 * (gradient**2 - square[name])
        weights[name] -= 0.02 * (mean[name] / (1 - 0.9**turn)) / (np.sqrt(square[name] / (1 - 0.99**turn)) + 1e-9)
last = float(step(wave=wave, **weights)[0])
print(f"the mean square is {first:.3f} before, and {last:.5f} after 400 steps")
assert last < 0.05 * first
print("right: the cell says the next value of the wave")
