"""Programs that trials from outside tripped over: each is right under its schedules, or refused with a repair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, M, K, H, W, T, P = tm.params("N M K H W T P")
i, j, k, t, y, x, c, u, v, r = tm.iters("i j k t y x c u v r")
x0, x1, j0, j1, k0, k1, y0, y1 = tm.iters("x0 x1 j0 j1 k0 k1 y0 y1")

Args = dict[str, Any]
Schedule = Callable[[tm.Function], object]


def _numbers(*shape: int, dtype: Any = np.float64, high: int = 9) -> Any:
    return np.random.default_rng(sum(shape)).integers(0, high, shape).astype(dtype)


# -- an output blended in place with its own alpha, which all channels read


def blend() -> tm.Function:
    f = tm.Function("blend", params=[H, W])
    src, dst = (f.input(name, tm.uint8, [H, W, 4]) for name in ("src", "dst"))
    alpha = tm.cast(tm.uint16, dst[y, x, 3])
    mixed = tm.cast(tm.uint8, tm.cast(tm.uint16, src[y, x, c]) * alpha // 255)
    f.outputs(f.computation("o", {y: H, x: W, c: 4}, tm.select(c < 3, mixed, dst[y, x, c])))
    return f


def in_place(f: tm.Function) -> Any:
    f["o"].store_in(f["dst"], [y, x, c])
    return f["o"]


# -- red and black points in turn, in place


def red_black() -> tm.Function:
    f = tm.Function("redblack", params=[T, N], assume="N >= 3")
    a = f.input("a", tm.float64, [N, N])
    inside = (t > 0) & (i > 0) & (i < N - 1) & (j > 0) & (j < N - 1) & ((i + j + t) % 2 == 0)

    def value(u: Any) -> Any:
        near = u[t - 1, i - 1, j] + u[t - 1, i + 1, j] + u[t - 1, i, j - 1] + u[t - 1, i, j + 1]
        return tm.select(inside, 0.25 * near, tm.select(t > 0, u[t - 1, i, j], a[i, j]))

    u = f.computation("u", {t: 2 * T + 1, i: N, j: N}, value, dtype=tm.float64)
    f.outputs(u[2 * T, i, j])
    return f


def relaxed_in_place(f: tm.Function) -> Any:
    f["u"].store_in(f["a"], [i, j])
    f["u_out"].store_in(f["a"], [i, j])
    return f["u"]


# -- segments by positions in them, and a pair that turns


def segments() -> tm.Function:
    f = tm.Function("segments", params=[N, P])
    o = f.input("o", tm.int32, [N + 1], values=(0, P + 1), monotone=True)
    values = f.input("x", tm.float64, [P])
    f.outputs(f.reduction("s", {i: N}, {k: (0, o[i + 1] - o[i])}, tm.sum, values[k + o[i]]))
    return f


def oscillator() -> tm.Function:
    f = tm.Function("oscillator", params=[T])
    a, b = f.scalar("a", tm.float64), f.scalar("b", tm.float64)

    def value(z: Any) -> Any:
        p, q = z[t - 1][0], z[t - 1][1]
        return tm.select(t == 0, 1.0, a * p - b * q), tm.select(t == 0, 0.0, b * p + a * q)

    z = f.computation("z", {t: T}, value)
    f.outputs(f.computation("o", {t: T}, z[t][0]))
    return f


# -- windows at half rows, products whose loops are named, ramps and triangles of the loop's own numbers


def upsampled() -> tm.Function:
    f = tm.Function("up", params=[H, W], assume="H >= 1 and W >= 1")
    a = f.input("a", tm.int32, [H + 1, W])
    p = f.computation("p", {y: H + 1, x: W}, a[y, x] * 3)
    f.outputs(f.computation("o", {y: 2 * H, x: W}, p[y // 2, x] + p[y // 2 + 1, x]))
    return f


def slid(f: tm.Function) -> None:
    f["p"].compute_at(f["o"], y)
    f["p"].slide(y)


def product() -> tm.Function:
    f = tm.Function("mm", params=[N, M, K])
    A, B = f.input("A", tm.float64, [N, K]), f.input("B", tm.float64, [K, M])
    f.outputs(f.reduction("C", {i: N, j: M}, {k: K}, tm.sum, A[i, k] * B[k, j]))
    return f


def all_named(f: tm.Function) -> None:
    f["C"].update.after(f["C"].init, i)
    f["C"].update.reorder(i, k, j)


def ramp() -> tm.Function:
    f = tm.Function("ramp", params=[N, M])
    f.outputs(f.computation("o", {i: N, j: M}, tm.cast(tm.int32, j)))
    return f


def streamed(f: tm.Function) -> None:
    f["o"].vectorize(j, 8, remainder="overlap")
    f["o"].store_nontemporal()


def triangle() -> tm.Function:
    f = tm.Function("tetra", params=[N])
    value = tm.cast(tm.int32, k) + 10 * tm.cast(tm.int32, j) + 100 * tm.cast(tm.int32, i)
    f.outputs(f.computation("o", {i: N, j: (i, N), k: (j, N)}, value, shape=[N, N, N]))
    return f


def total() -> tm.Function:
    f = tm.Function("total", params=[N, M])
    a = f.input("a", tm.float64, [N, M])
    f.outputs(f.reduction("total", {i: N}, {k: M}, tm.sum, a[i, k]))
    return f


def pasted(f: tm.Function) -> None:
    exec(str(tm.recipes.reduction(total()["total"])), {"tm": tm, "f": f})


def smooth() -> tm.Function:
    f = tm.Function("smooth", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float64, [N + 2, M])
    f.outputs(f.computation("smooth", {i: N, j: M}, a[i, j] + a[i + 1, j] + a[i + 2, j]))
    return f


def pasted_stencil(f: tm.Function) -> None:
    exec(str(tm.recipes.stencil(smooth()["smooth"])), {"tm": tm, "f": f})


def sum_of_all() -> tm.Function:
    f = tm.Function("whole", params=[N])
    a = f.input("a", tm.int64, [N])
    f.outputs(f.reduction("s", {}, {k: N}, tm.sum, a[k]))
    return f


def tree(f: tm.Function) -> None:
    f["s"].update.split(k, 8, k0, k1)
    f["s"].parallelize(k0, combine=tm.TREE)


def flipped() -> tm.Function:
    f = tm.Function("flipped", params=[H, W])
    a, w = f.input("a", tm.float64, [H + 4, W + 4]), f.input("w", tm.float64, [5, 5])
    f.outputs(f.reduction("o", {y: H, x: W}, {u: 5, v: 5}, tm.sum, a[y + 4 - u, x + 4 - v] * w[u, v]))
    return f


def automatic(f: tm.Function) -> None:
    f.auto_schedule(threads=1)


BLENDED = {"src": _numbers(5, 19, 4, dtype=np.uint8, high=256), "dst": _numbers(6, 18, 4, dtype=np.uint8, high=256)}
BLENDED["dst"] = BLENDED["dst"].reshape(-1)[: 5 * 19 * 4].reshape(5, 19, 4).copy()
RIGHT: dict[str, tuple[Callable[[], tm.Function], Schedule, Args]] = {
    "blend, vectors of pixels": (blend, lambda f: in_place(f).vectorize(x, 8), BLENDED),
    "blend, vectors of channels": (blend, lambda f: in_place(f).vectorize(c, 4), BLENDED),
    "blend, channels backwards": (blend, lambda f: in_place(f).reverse(c), BLENDED),
    "red and black": (red_black, relaxed_in_place, {"a": _numbers(9, 9), "T": 3}),
    "red and black, threads": (red_black, lambda f: relaxed_in_place(f).parallelize(i), {"a": _numbers(9, 9), "T": 3}),
    "segments": (segments, automatic, {"o": np.array([0, 2, 2, 7, 8], np.int32), "x": np.arange(8.0)}),
    "a pair in two levels": (oscillator, automatic, {"a": 0.8, "b": 0.6, "T": 30}),
    "half rows": (upsampled, slid, {"a": _numbers(12, 17, dtype=np.int32)}),
    "a loop that stays": (product, all_named, {"A": _numbers(7, 5), "B": _numbers(5, 13)}),
    "a ramp past the caches": (ramp, streamed, {"N": 3, "M": 37}),
    "a triangle": (triangle, automatic, {"N": 11}),
    "a namesake": (total, pasted, {"a": _numbers(3, 40)}),
    "a stage of the same name": (smooth, pasted_stencil, {"a": _numbers(12, 40)}),
    "a tree": (sum_of_all, tree, {"a": np.arange(100)}),
    "a turned window": (flipped, automatic, {"a": _numbers(11, 45), "w": _numbers(5, 5)}),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_right(name: str) -> None:
    make, schedule, given = RIGHT[name]
    f, plain = make(), make()
    schedule(f)
    assert f.check().ok, f.check()
    found = f.compile(threads=2)(**{n: np.copy(each) if np.ndim(each) else each for n, each in given.items()})
    np.testing.assert_allclose(found, plain.evaluate(**given), rtol=1e-12)


# -- rightly refused


def discounted() -> tm.Function:
    op = tm.operator("discounted", lambda p, q: p * 0.5 + q, identity=0.0, commutative=False)
    f = tm.Function("discount", params=[N])
    a = f.input("x", tm.float64, [N])
    f.outputs(f.scan("s", {i: N}, a[i], op, chunks={c: 4}))
    return f


def subtracted() -> tm.Function:
    minus = tm.operator("minus", lambda a, b: a - b, identity=0.0)
    f = tm.Function("solve", params=[N])
    a, low = f.input("x", tm.float64, [N]), f.input("L", tm.float64, [N, N])
    with f.together() as g:
        s = g.reduction("s", {i: N}, {k: i}, minus, lambda: low[i, k] * z[k])
        z = g.computation("z", {i: N}, lambda: a[i] + s[i])
    f.outputs(z)
    return f


@pytest.mark.parametrize(("make", "name"), [(discounted, "discounted"), (subtracted, "minus")])
def test_operators_that_are_not_associative_are_refused_by_name(make: Callable[[], tm.Function], name: str) -> None:
    with pytest.raises(tm.DeclarationError, match=f"the operator {name}"):
        make()


def test_a_start_inside_of_the_loop_of_a_tree_is_refused_in_words() -> None:
    f = sum_of_all()
    f["s"].update.split(k, 8, k0, k1)
    f["s"].init.compute_at(f["s"].update, k0)
    with pytest.raises(tm.CommandError, match=r"s\.init"):
        f["s"].parallelize(k0, combine=tm.TREE)


def test_an_output_over_what_is_still_read_is_refused_with_its_pixel() -> None:
    f = tm.Function("moved", params=[W])
    a = f.input("a", tm.int32, [W + 1])
    o = f.computation("o", {x: W}, a[x] + a[x + 1])
    f.outputs(o)
    o.store_in(a, [x + 1])
    violation = f.check().violations[0]
    assert violation.kind == "overwritten" and violation.witness.params == {"W": 2}
    assert "a[1]" in str(violation) and violation.command == "o.store_in(a, [x + 1])"


def test_jams_of_jams_are_refused_in_time() -> None:
    """Its check took two minutes; the limit of isl's operations says that it does not any more."""
    f = tm.Function("rows", params=[N])
    a = f.input("a", tm.float64, [N, N])
    b = f.reduction("b", {i: N}, {k: N}, tm.sum, a[i, k])
    e = f.computation("e", {i: N}, b[i] + 1)
    f.outputs(e)
    one, two, three = tm.iters("i_jam i_jam2 i_jam3")
    e.unroll_and_jam(i, 2)
    b.update.fuse(e, one)
    e.unroll_and_jam(i, 2)
    e.unroll_and_jam(i, 3)
    e.shift(three, 1)
    b.update.reorder(three, two, one, i)
    assert not f.check().ok
