"""Many choices by lane in a store: on all lanes where all conditions hold, else lane by lane; no copy a subset."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

(N, M), (i, j) = tm.params("N M"), tm.iters("i j")
SHIFTS = [(a, b) for a in (-2, -1, 1, 2) for b in (-1, 1)]


def stencil() -> tm.Function:
    """Eight reads, each where it is in the array: more pieces than loops are cut into."""
    f = tm.Function("f", params=[N, M], assume="N >= 1 and M >= 1")
    x = f.input("x", tm.float64, [N, M])
    terms = []
    for a, b in SHIFTS:
        inside = (i + a >= 0) & (i + a < N) & (j + b >= 0) & (j + b < M)
        terms.append(tm.select(inside, x[i + a, j + b], 0.0))
    f.outputs(f.computation("y", {i: N, j: M}, sum(terms[1:], start=terms[0])))
    return f


def expected(x: np.ndarray) -> np.ndarray:
    wide = np.pad(x, 2)
    rows, columns = x.shape
    return sum(wide[2 + a : 2 + a + rows, 2 + b : 2 + b + columns] for a, b in SHIFTS)


def test_it_is_right_at_all_sizes_and_few_copies_of_it_are_made() -> None:
    f = stencil()
    f["y"].vectorize(j, 4, remainder="mask")
    text = "".join(text for file, text in f.source().items() if file.startswith("f"))
    assert text.count("lane by lane") <= 40  # 3 ** 8 before
    kernel = f.compile()
    for sizes in ((1, 1), (2, 9), (5, 4), (6, 23)):
        x = np.random.default_rng(0).integers(-9, 9, sizes).astype(np.float64)
        np.testing.assert_array_equal(kernel(x), expected(x))
