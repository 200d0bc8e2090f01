"""Sums of a batch of pictures: of everything, of each picture, of each channel between, of each pixel.

Dimensions that are summed become one loop where they are contiguous; `tm.recipes.reduction` gives all commands. The
bits depend on the sizes alone, and not on the number of threads.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

B = tm.params("B")[0]
b, c, y, x = tm.iters("b c y x")
CHANNELS, ROWS, COLUMNS = 3, 24, 40
#: The iterators of the values; the others are summed.
FORMS = {"everything": "", "pictures": "b", "channels": "c", "pixels": "yx", "planes": "bc"}


def algorithm(form: str) -> tuple[tm.Function, tm.Reduction]:
    """The sums of squares of a batch."""
    f = tm.Function(form, params=[B])
    extents = {b: B, c: CHANNELS, y: ROWS, x: COLUMNS}
    batch = f.input("batch", tm.float32, [*extents.values()])
    square = f.computation("square", extents, batch[b, c, y, x] * batch[b, c, y, x])
    values = {name: size for name, size in extents.items() if str(name) in FORMS[form]}
    terms = {name: size for name, size in extents.items() if name not in values}
    total = f.reduction("total", values, terms, tm.sum, square[b, c, y, x])
    f.outputs(total)
    return f, total


def scheduled(form: str) -> tm.Function:
    """One loop over terms in vectors; threads share values, or blocks of terms."""
    f, total = algorithm(form)
    tm.recipes.reduction(total)
    return f


def main() -> None:
    """Compare each form with NumPy in float64, with one and two threads."""
    for form, values in FORMS.items():
        f = scheduled(form)
        print(f.check())
        one, two = (f.compile(threads=threads) for threads in (1, 2))
        for count in (0, 1, 7, 33):
            batch = np.random.default_rng(count).random((count, CHANNELS, ROWS, COLUMNS), dtype=np.float32)
            summed = tuple(axis for axis, name in enumerate("bcyx") if name not in values)
            found = one(batch)
            np.testing.assert_allclose(found, (batch.astype(np.float64) ** 2).sum(summed), rtol=1e-5)
            np.testing.assert_array_equal(found, two(batch))
    print("right: sums of any dimensions are those of NumPy, with the same bits on one thread and two")


if __name__ == "__main__":
    main()
