"""vectorize(remainder="pad"): whole vectors of temporaries, what they compute, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import SANITISERS, Compiled
from tests.programs import pipelines as pl
from tests.programs.pipelines import c, c0, c1, i, j, r, r0, r1
from tiramisu_py.interpret import run
from tiramisu_py.ir import Allocate, For, Mask, Store
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.lower import lower

Built = SimpleNamespace
N = tm.params("N")[0]
PAD: dict[str, Any] = {"remainder": "pad"}
MASK: dict[str, Any] = {"remainder": "mask"}


def down(extra: int = 9, dtype: tm.DType = tm.int32) -> Built:
    """Two stages, the vertical one first; the image has `extra` more columns than the result."""
    R, C = tm.params("R C")
    f = tm.Function("down", params=[R, C])
    image = f.input("image", dtype, [R + 2, C + extra])
    v = f.computation("v", {r: R, c: C + 2}, image[r, c] + image[r + 2, c])
    by = f.computation("by", {r: R, c: C}, v[r, c] + v[r, c + 1] + v[r, c + 2])
    f.outputs(by)
    return SimpleNamespace(f=f, image=image, v=v, by=by, extra=extra)


def whole(width: int = 8, dtype: tm.DType = tm.int32) -> Built:
    """A temporary of the whole call."""
    m = down(width + 1, dtype)
    m.v.vectorize(c, width, **PAD)
    return m


def window() -> Built:
    """A ring of registers, strips of one vector."""
    m = down()
    m.by.tile(r, c, 2, 8, r0, c0, r1, c1)
    m.by.vectorize(c1, 8, **MASK)
    m.v.compute_at(m.by, c0)
    m.v.slide(c0, c, 8)
    m.v.vectorize(c, 8, **PAD)
    m.v.store_in(tm.REGISTER)
    return m


def tiles() -> Built:
    """A buffer for each tile, of several vectors a row."""
    m = down(17)
    m.by.tile(r, c, 2, 16, r0, c0, r1, c1)
    m.by.parallelize(r0)
    m.v.compute_at(m.by, c0)
    m.v.vectorize(c, 8, **PAD)
    return m


def chained() -> Built:
    """What is computed past the end is read past the end."""
    (N,) = tm.params("N")
    f = tm.Function("chained", params=[N])
    a = f.input("a", tm.int16, [N + 17])
    p = f.computation("p", {i: N + 2}, a[i] + a[i + 1])
    q = f.computation("q", {i: (1, N + 1)}, p[i - 1] + p[i + 1])
    s = f.computation("s", {i: (1, N + 1)}, q[i] - p[i])
    f.outputs(s)
    p.vectorize(i, 8, **PAD)
    q.vectorize(i, 8, **PAD)
    return SimpleNamespace(f=f, extra=17)


SHAPES: dict[str, Callable[[], Built]] = {"whole": whole, "window": window, "tiles": tiles, "chained": chained}


def arrays(m: Built, size: int) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """The input of a program, and its sizes."""
    values = np.random.default_rng(size)
    if m.f.name == "chained":
        return {"a": values.integers(-9, 9, size + m.extra).astype(np.int16)}, {"N": size}
    image = values.integers(0, 99, (3 + 2, size + m.extra)).astype(m.image.dtype.numpy)
    return {"image": image}, {"R": 3, "C": size}


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_padded_computes_the_same_values(name: str) -> None:
    m = SHAPES[name]()
    assert m.f.check().ok, m.f.check()
    sanitised = Compiled(m.f.show("lowered", 32), "-O0", *SANITISERS)
    (out,) = m.f.algorithm.outputs
    for size in (0, 1, 6, 7, 16, 17, 23):
        data, sizes = arrays(m, size)
        want = m.f.evaluate(**data)
        for of in (lower(m.f.completed), m.f.show("lowered", 16)) if size in (7, 17) else ():
            found = np.zeros_like(want)
            run(of, {**data, out: found}, sizes)
            np.testing.assert_array_equal(found, want)
        if size in (6, 17):
            found = np.zeros_like(want)
            sanitised.sanitised(sizes, **data, **{out: found})


@pytest.mark.parametrize(("dtype", "width"), [(tm.uint8, 64), (tm.float32, 2), (tm.float64, 16)])
def test_types_and_widths(dtype: tm.DType, width: int) -> None:
    m = whole(width, dtype)
    compiled = m.f.compile()
    for size in (1, width - 1, width, 2 * width + 3):
        data, _ = arrays(m, size)
        np.testing.assert_array_equal(compiled(**data), m.f.evaluate(**data), strict=True)


def test_there_is_nothing_left_over_and_room_for_it() -> None:
    m = whole()
    assert not [node for node in walk(m.f.show("lowered").body) if isinstance(node, Mask)]
    strips = [node for node in walk(m.f.show("lowered").body) if isinstance(node, For) and node.step == 8]
    assert [str(strip.upper) for strip in strips] == ["(C + 1) // 8 * 8 + 8"]
    (buffer,) = [node for node in walk(m.f.show("lowered").body) if isinstance(node, Allocate)]
    assert [str(extent) for extent in buffer.extents] == ["R", "(C + 2 + 7) // 8 * 8"]
    fact = "past their ends, vectors of c store only to elements that hold no value"
    assert fact in m.f.check().proven


def test_a_window_has_one_whole_vector_in_every_iteration() -> None:
    masked = [node for node in walk(window().f.show("lowered", 32).body) if isinstance(node, Mask)]
    inside = {s.statement for mask in masked for s in walk(mask) if isinstance(s, Store)}
    assert inside == {"by"}


def refused(m: Built) -> Any:
    (violation,) = m.f.check().violations
    return violation


@pytest.mark.parametrize(("extra", "lacking"), [(2, "7 more columns"), (8, "1 more column, or")])
def test_reads_outside_an_array_say_how_much_is_missing(extra: int, lacking: str) -> None:
    m = down(extra)
    m.v.vectorize(c, 8, **PAD)
    violation = refused(m)
    assert violation.kind == "bounds"
    assert "past the end of loop c, the last vector of v reads image[0, " in violation.message
    assert f"but image has the shape [R + 2, C + {extra}], at R = 1, C = " in violation.message
    assert f"image must have {lacking}" in violation.repair
    assert violation.command == "v.vectorize(c, 8, remainder='pad')"


def test_arrays_of_the_caller_have_no_room() -> None:
    m = down()
    m.by.vectorize(c, 8, **PAD)
    violation = refused(m)
    assert "stores to by, an array of the caller" in violation.message
    assert 'remainder="mask"' in violation.repair


def test_an_extent_that_fills_its_vectors_may_be_anywhere() -> None:
    f = tm.Function("f")
    a = f.input("a", tm.float32, [16])
    p = f.computation("p", {i: 16}, 2 * a[i])
    b = f.computation("b", {i: 16}, p[i] + 1)
    f.outputs(b)
    p.vectorize(i, 16, **PAD)
    assert f.check().ok


def test_updates_of_an_array_of_the_caller_are_refused() -> None:
    m = pl.matmul()
    m.C.update.vectorize(j, 4, **PAD)
    assert "an array of the caller" in refused(m).message


def test_updates_over_terms_are_refused() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N, N])
    s = f.reduction("s", {i: N}, {j: N}, tm.sum, a[i, j])
    f.outputs(f.computation("o", {i: N}, s[i]))
    s.update.vectorize(j, 4, **PAD)
    assert any("extra iterations would add terms" in v.message for v in f.check().violations)


def test_updates_over_values_may_run_past_the_end() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N, N + 3])
    s = f.reduction("s", {i: N}, {j: N}, tm.sum, a[j, i])
    f.outputs(f.computation("o", {i: N}, s[i]))
    s.update.reorder(j, i)
    s.update.vectorize(i, 4, **PAD)
    assert f.check().ok, f.check()
    for n in (1, 4, 7):
        given = np.arange(n * (n + 3), dtype=np.int32).reshape(n, n + 3)
        np.testing.assert_array_equal(f.compile()(given), given[:, :n].sum(axis=0))


def test_indices_that_are_values_and_divisions_are_refused() -> None:
    (N,) = tm.params("N")
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N + 8], values=(0, N))
    p = f.computation("p", {i: N}, a[a[i]])
    q = f.computation("q", {i: N}, a[i + 1] // (a[i] + 1))
    s = f.computation("s", {i: N}, p[i] + q[i])
    f.outputs(s)
    p.vectorize(i, 8, **PAD)
    q.vectorize(i, 8, **PAD)
    first, second = f.check().violations
    assert "has an index that is a value" in first.message
    assert "has no result for some values" in second.message


def test_a_value_that_is_kept_past_the_end_is_not_overwritten() -> None:
    """The second half of a buffer is filled first, and the first half runs into it."""
    (N,) = tm.params("N")
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [2 * N + 8])
    p = f.computation("p", {i: N}, a[i])
    q = f.computation("q", {i: N}, a[i] * 3)
    s = f.computation("s", {i: N}, p[i] + q[i])
    f.outputs(s)
    both = tm.Buffer("both", (2 * N,), tm.int32)
    q.store_in(both, [i + N])
    p.store_in(both, [i])
    p.after(q, tm.root)
    s.after(p, tm.root)
    p.vectorize(i, 8, **PAD)
    violation = f.check().violations[0]
    assert violation.kind == "overwritten"
    assert "stores to both[1], from which s[0] reads q[0] later, at N = 1" in violation.message
    p.vectorize(i, 8, **MASK)
    assert f.check().ok


def test_other_threads_are_not_disturbed() -> None:
    """Tiles of one buffer whose rows follow one another in one dimension, computed side by side."""
    (N,) = tm.params("N")
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N + 9, 12])
    p = f.computation("p", {i: N, j: 4}, a[i, j])
    s = f.computation("s", {i: N, j: 4}, p[i, j] + 1)
    f.outputs(s)
    p.store_in(tm.Buffer("line", (4 * N + 8,), tm.int32), [4 * i + j])
    p.parallelize(i)
    p.vectorize(j, 8, **PAD)
    assert {violation.kind for violation in f.check().violations} == {"race"}


def test_loops_inside_and_tiles_of_other_sizes_are_refused() -> None:
    m = down()
    m.v.interchange(r, c)
    m.v.vectorize(c, 8, **PAD)
    assert "there are other loops inside of c" in refused(m).message
    m = down()
    m.v.split(c, 12, c0, c1)
    m.v.vectorize(c1, 8, **PAD)
    assert "do not fill vectors of 8" in refused(m).message
