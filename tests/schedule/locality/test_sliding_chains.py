"""Chains of stages that slide: their text grows with the stages, and the first iterations fill all windows."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")
Array = np.ndarray[tuple[int, ...], np.dtype[np.uint16]]
#: One element, fewer than a window, primes, one more than a tile.
SIZES = [(1, 1), (2, 3), (7, 13), (17, 65), (33, 513)]


def chain(stages: int, rows: int = 16) -> tm.Function:
    """Stencils of 3 x 3 elements, one after another, fused by rows; the picture continues with its edges."""
    f = tm.Function("chain", params=[R, C], assume="R >= 1 and C >= 1")
    last: object = tm.boundary.repeat_edge(f.input("image", tm.uint16, [R, C]))
    made: list[tm.Computation] = []
    around = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1)]
    for stage in range(stages):
        terms = [np.uint16(3 * y + x + 5) * last[r + y, c + x] for y, x in around]  # type: ignore[index]
        value = sum(terms[1:], start=terms[0])
        whole = stage == stages - 1
        last = f.computation("out", {r: R, c: C}, value) if whole else f.computation(f"s{stage}", [r, c], value)
        made.append(last)
    out = made[-1]
    f.outputs(out)
    out.tile(r, c, rows, 512, r0, c0, r1, c1)
    out.parallelize(r0, c0)
    out.vectorize(c1, 16, remainder="mask")
    for producer in reversed(made[:-1]):
        producer.compute_at(out, r1)
        producer.slide(r1)
        producer.vectorize(c, 16, remainder="mask")
    return f


def wanted(image: Array, stages: int) -> Array:
    """The same by NumPy."""
    wide = np.pad(image, stages, mode="edge")
    for _ in range(stages):
        rows, columns = wide.shape[0] - 2, wide.shape[1] - 2
        parts = [
            np.uint16(3 * y + x + 5) * wide[1 + y : 1 + y + rows, 1 + x : 1 + x + columns]
            for y in (-1, 0, 1)
            for x in (-1, 0, 1)
        ]
        wide = sum(parts[1:], start=parts[0])
    return wide


@pytest.mark.parametrize(("stages", "rows"), [(2, 16), (5, 16), (3, 5)])
def test_windows_are_filled_at_any_size(stages: int, rows: int) -> None:
    kernel = chain(stages, rows).compile(sanitize=("undefined",))
    for shape in SIZES:
        image = np.random.default_rng(0).integers(0, 1 << 16, shape, dtype=np.uint16)
        np.testing.assert_array_equal(kernel(image), wanted(image, stages))


def test_each_stage_adds_the_same_text() -> None:
    bodies, lines = [], []
    for stages in (4, 6, 8):
        text = chain(stages).source()["chain.c"]
        bodies.append(sum(line.lstrip().startswith(("// s", "// out[")) for line in text.splitlines()))
        lines.append(text.count("\n"))
    assert bodies[2] - bodies[1] == bodies[1] - bodies[0] <= 6
    assert lines[2] - lines[1] < 1.2 * (lines[1] - lines[0])


def test_a_row_is_clipped_once_for_its_columns() -> None:
    """The first stage has a body for each run of columns, and none for rows of its own."""
    text = chain(2).source()["chain.c"]
    assert sum(line.lstrip().startswith("// s0[") for line in text.splitlines()) <= 9
