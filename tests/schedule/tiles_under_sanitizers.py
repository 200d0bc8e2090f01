"""Run by test_sanitizers in a process of its own: time tiles, and rests of small tiles, compiled with sanitizers."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm
from tests.sanitizers import sanitized_process
from tests.schedule.locality.test_time_tiles import N, as_numpy, i, plate, rod, same, sizes_of, t, x, y


def triangles() -> None:
    """Rows of a triangle in a small array, in strips of two vectors: the second may begin behind the array."""
    f = tm.Function("corner", params=[N])
    a = f.input("a", tm.int32, [N, 8, 8])
    p = f.computation("p", {t: N, y: 8, x: (y, 8)}, a[t, y, x] + 1)
    q = f.computation("q", {t: N, y: 8, x: (y, 8)}, p[t, y, x] * 2)
    f.outputs(q)
    p.compute_at(q, t)
    p.vectorize(x, 8, remainder="mask")
    given = np.arange(3 * 64, dtype=np.int32).reshape(3, 8, 8)
    kernel = f.compile(target="x86-64", sanitize=("address", "undefined"))
    assert np.array_equal(kernel(given), np.triu((given + 1) * 2))


def main() -> None:
    sanitized = {"sanitize": ("address", "undefined")}
    f, heat = plate()
    heat.time_tile(t, 5, {y: 8, x: 160})
    heat.vectorize(x, 16, remainder="mask")
    as_numpy(f, [(0, 9, 165), (4, 19, 340), (6, 3, 3), (11, 9, 165)], **sanitized)
    f, heat = rod(2)
    heat.time_tile(t, 4, {i: 12}, wavefront={i: 4})
    same(f, sizes_of(T=(0, 3, 9), N=(1, 12, 29)), **sanitized)
    triangles()
    print("clean")


if __name__ == "__main__":
    sanitized_process()
    main()
