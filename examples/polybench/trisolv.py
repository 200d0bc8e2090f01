"""trisolv: the solution of L x = b with a lower triangle L."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

(N,) = tm.params("N")
i, j = tm.iters("i j")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"N": 1},
    "ODD": {"N": 67},
    "MINI": {"N": 40},
    "SMALL": {"N": 120},
    "LARGE": {"N": 2000},
}


def algorithm() -> tm.Function:
    """Each element from those before it."""
    f = tm.Function("trisolv", params=[N], assume="N >= 1")
    L, b = f.input("L", tm.float64, [N, N]), f.input("b", tm.float64, [N])
    with f.together() as g:
        s = g.reduction("s", {i: N}, {j: i}, tm.sum, lambda: L[i, j] * x[j])
        x = g.computation("x", {i: N}, lambda: (b[i] - s[i]) / L[i, i])
    f.outputs(x)
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """The terms of an element in vectors, with a partial sum in each lane."""
    lanes = (cpu or tm.target()).lanes(tm.float64)
    f = algorithm()
    f["s"].update.vectorize(j, lanes, combine=tm.PRIVATE)
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values: the triangle is (i + n - j + 1) * 2 / n."""
    n = sizes["N"]
    L = np.tril(np.fromfunction(lambda r, c: (r + n - c + 1) * 2.0 / n, (n, n)))
    return {"L": L, "b": np.arange(n, dtype=np.float64)}


def exact(given: Arguments) -> tuple[Array, ...]:
    """LAPACK's solution."""
    return (np.linalg.solve(given["L"], given["b"]),)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
