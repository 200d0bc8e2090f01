"""gramschmidt: A = Q R with orthonormal columns in Q, by the modified Gram-Schmidt process."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

M, N = tm.params("M N")
i, j, k, j0, j1 = tm.iters("i j k j0 j1")
CLOSE = 1e-11
SIZES: dict[str, Sizes] = {
    "ONE": {"M": 1, "N": 1},
    "ODD": {"M": 67, "N": 35},
    "MINI": {"M": 30, "N": 20},
    "SMALL": {"M": 80, "N": 60},
    "LARGE": {"M": 1200, "N": 1000},
}


def algorithm() -> tm.Function:
    """Step k has the matrix without its parts along k columns of Q, and makes the next; one matrix is kept."""
    f = tm.Function("gramschmidt", params=[M, N], assume="M >= 1 and N >= 1")
    A = f.input("A", tm.float64, [M, N])
    with f.together() as g:
        a = g.computation(
            "a",
            {k: N, i: M, j: (k, N)},
            lambda: tm.select(k == 0, A[i, j], a[k - 1, i, j] - Q[i, k - 1] * R[k - 1, j]),
        )
        norm = g.reduction("norm", {k: N}, {i: M}, tm.sum, lambda: a[k, i, k] * a[k, i, k])
        Q = g.computation("Q", {i: M, k: N}, lambda: a[k, i, k] / tm.sqrt(norm[k]))
        R = g.reduction("R", {k: N, j: (k, N)}, {i: M}, tm.sum, lambda: Q[i, k] * a[k, i, j], shape=[N, N])
    f.outputs(Q, R)
    a.store_in([i, j])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Blocks of columns that stay in the cache while all earlier columns are taken from them, in vectors along rows."""
    lanes = (cpu or tm.target()).lanes(tm.float64)
    width = 4 * lanes
    f = algorithm()
    a, norm, Q, R = f["a"], f["norm"], f["Q"], f["R"]
    own, column = f"j0 = floor(k / {width}), k", f"j1 = j mod {width}"
    block = f"j0 = floor(j / {width}), k"
    a.set_schedule(f"{{ [k, i, j] -> [{block}, i, {column}] }}")
    norm.init.set_schedule(f"{{ [k] -> [{own}] }}")
    norm.update.set_schedule(f"{{ [k, i] -> [{own}, i] }}")
    Q.set_schedule(f"{{ [i, k] -> [{own}, i] }}")
    R.init.set_schedule(f"{{ [k, j] -> [{block}, {column}] }}")
    R.update.set_schedule(f"{{ [k, j, i] -> [{block}, i, {column}] }}")
    f.order(a, norm.init, norm.update, Q, R.init, R.update, at=k)
    a.store_at(R.update, j0)
    for part in (a, R.init, R.update):
        part.vectorize(j1, lanes, remainder="mask")
    return f


def sample(sizes: Sizes) -> Arguments:
    """A random matrix with independent columns, as NumPy's R has them: PolyBench's values are dependent."""
    return {"A": np.random.default_rng(0).random((sizes["M"], sizes["N"])) + np.eye(sizes["M"], sizes["N"])}


def exact(given: Arguments) -> tuple[Array, ...]:
    """LAPACK's factors, with a positive diagonal."""
    Q, R = np.linalg.qr(given["A"])
    signs = np.sign(np.diag(R))
    return Q * signs, R * signs[:, None]


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
