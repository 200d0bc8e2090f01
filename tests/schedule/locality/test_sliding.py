"""slide and fold: what they make of a program, what they compute, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import islpy as isl
import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import SANITISERS, STRICT, Compiled
from tests.programs import pipelines as pl
from tests.programs.drafts import texts
from tests.programs.pipelines import c, c0, c1, i, k, r, r0, r1, x, y
from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.interpret import run
from tiramisu_py.lower import lower
from tiramisu_py.sets import smallest

Built = SimpleNamespace


def down(first: int = 0) -> Built:
    """Two stages, the vertical one first: ``by`` reads three neighbours of ``v``, from ``c + first`` on; int32."""
    R, C = tm.params("R C")
    f = tm.Function("down", params=[R, C])
    image = f.input("image", tm.int32, [R + 2, C + 2])
    v = f.computation("v", {r: R, c: (first, C + 2 + first)}, image[r, c - first] + 2 * image[r + 2, c - first])
    by = f.computation("by", {r: R, c: C}, v[r, c + first] + 3 * v[r, c + first + 1] + 5 * v[r, c + first + 2])
    f.outputs(by)
    return SimpleNamespace(f=f, image=image, v=v, by=by)


def rows() -> Built:
    """A ring of three rows for each thread."""
    m = pl.blur()
    m.by.split(r, 4, r0, r1)
    m.by.parallelize(r0)
    m.bx.compute_at(m.by, r1)
    m.bx.slide(r1)
    m.bx.vectorize(c, 4)
    m.by.vectorize(c, 4)
    return m


def window(
    first: int = 0, origin: int = 0, width: int = 4, lanes: int = 4, memory: bool = False, **vectors: str
) -> Built:
    """A window of strips of `width` columns, in registers."""
    m = down(first)
    m.by.tile(r, c, 2, width, r0, c0, r1, c1)
    m.v.compute_at(m.by, c0)
    m.v.slide(c0, c, width, origin=origin)
    m.v.vectorize(c, lanes, **vectors)
    m.by.vectorize(c1, lanes, **vectors)
    m.v.unroll(r)
    m.by.unroll(r1)
    if not memory:
        m.v.store_in(tm.REGISTER)
    return m


def down_the_rows() -> Built:
    """A ring of three vectors that moves down the rows."""
    m = pl.blur()
    m.by.split(c, 4, c0, c1)
    m.by.reorder(c0, r, c1)
    m.bx.compute_at(m.by, r)
    m.bx.slide(r)
    m.bx.store_in(tm.REGISTER)
    m.bx.vectorize(c, 4)
    m.by.vectorize(c1, 4)
    return m


def copied() -> Built:
    """A window of the input: each vector of it is loaded once."""
    m = pl.blur()
    m.by.tile(r, c, 2, 4, r0, c0, r1, c1)
    m.bx.compute_at(m.by, c0)
    m.near = m.bx.copy(m.image, [y, x], at=c0, name="near")
    m.near.slide(c0, x, 4)
    for part, columns, lines in ((m.near, x, y), (m.bx, c, r), (m.by, c1, r1)):
        part.vectorize(columns, 4)
        part.unroll(lines)
    m.near.store_in(tm.REGISTER)
    m.bx.store_in(tm.REGISTER)
    return m


def scalars(distance: int = 3) -> Built:
    """One value an iteration, read again `distance` iterations later."""
    (C,) = tm.params("C")
    f = tm.Function("later", params=[C])
    a = f.input("a", tm.int32, [C + distance])
    v = f.computation("v", {i: C + distance}, 2 * a[i])
    q = f.computation("q", {i: C}, v[i] - v[i + distance])
    f.outputs(q)
    v.compute_at(q, i)
    v.slide(i)
    v.store_in(tm.REGISTER)
    return SimpleNamespace(f=f, v=v, by=q)


def sums() -> Built:
    """A reduction slides: its start and its updates, strip by strip."""
    R, C = tm.params("R C")
    f = tm.Function("sums", params=[R, C])
    image = f.input("image", tm.int32, [R + 2, C + 3])
    v = f.reduction("v", {r: R, c: C + 3}, over={k: 3}, op=tm.sum, expr=image[r + k, c])
    by = f.computation("by", {r: R, c: C}, v[r, c] - v[r, c + 3])
    f.outputs(by)
    by.split(c, 4, c0, c1)
    v.compute_at(by, c0)
    v.slide(c0, c, 4)
    return SimpleNamespace(f=f, image=image, v=v, by=by)


def after_slide() -> Built:
    """Loops outside are split after the window has been made."""
    m = window()
    m.by.split(r0, 2, "r00", "r01")
    m.by.parallelize("r00")
    return m


BUILT = {
    "rows": rows,
    "window": window,
    "window in memory": lambda: window(memory=True),
    "three strips": lambda: window(first=-1),
    "from the first value on": lambda: window(first=-1, origin=-1),
    "later values alone": lambda: window(first=1),
    "two vectors a strip": lambda: window(width=8),
    "masks": lambda: window(remainder="mask"),
    "down the rows": down_the_rows,
    "a copy": copied,
    "scalars": scalars,
    "a reduction": sums,
    "split afterwards": after_slide,
}


def _arrays(f: tm.Function, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        a.name: rng.integers(-9, 10, [eval(str(e), {}, sizes) for e in a.shape]).astype(a.dtype.numpy)
        for a in f.algorithm.inputs.values()
    }


@pytest.mark.parametrize("build", BUILT.values(), ids=BUILT.keys())
def test_what_slides_computes_the_same_values(build: Callable[[], Built]) -> None:
    m = build()
    report = m.f.check()
    assert report.ok, report
    kernel, forms = m.f.compile(), [lower(m.f.program), m.f.show("lowered"), m.f.show("lowered", 8)]
    for R, C in [(0, 0), (1, 1), (2, 2), (1, 3), (2, 4), (5, 5), (3, 6), (4, 8), (9, 9), (7, 17)]:
        sizes = {name: size for name, size in {"R": R, "C": C}.items() if name in m.f.algorithm.params}
        arrays = _arrays(m.f, sizes)
        wanted = m.f.evaluate(**arrays, **sizes)
        np.testing.assert_array_equal(kernel(**arrays, **sizes), wanted, err_msg=str(sizes))
        for number, loops in enumerate(forms if C in (1, 6) else ()):
            found = np.zeros_like(wanted)
            run(loops, {**arrays, loops.outputs[0]: found}, sizes, seed=number)
            np.testing.assert_array_equal(found, wanted, err_msg=f"{sizes}, form {number}")


@pytest.mark.parametrize("name", ["rows", "three strips", "masks"])
def test_windows_touch_no_memory_that_is_not_theirs(name: str) -> None:
    f = BUILT[name]().f
    compiled = Compiled(lower(f.program), *STRICT, "-O0", *SANITISERS)
    for C in (1, 11):
        sizes = {key: size for key, size in {"R": 5, "C": C}.items() if key in f.algorithm.params}
        arrays = _arrays(f, sizes)
        wanted = f.evaluate(**arrays, **sizes)
        output = compiled.function.outputs[0]
        found = compiled.sanitised(sizes, **arrays, **{output: np.zeros_like(wanted)})
        np.testing.assert_array_equal(found[output], wanted)


# -- the program


def _extents(m: Built, name: str) -> list[int | str]:
    extents = m.f.program.buffers[name].extents
    return [int(e.value) if isinstance(e, Const) else str(e) for e in extents]


def test_a_ring_keeps_the_fewest_strips_and_its_loop_begins_early() -> None:
    m = rows()
    assert _extents(m, "bx") == [3, "C"]
    assert "for r1 in -2 .. min(4, R - 4 * r0):" in m.f.show("pseudocode")
    assert "bx[(r1 + 2) % 3, c] =" in m.f.show("pseudocode")
    assert m.f.program.loops[m.f.program.buffers["bx"].scope[-1]].name == "r0"
    assert _extents(window(), "v") == [2, 8]
    assert _extents(window(first=-1), "v") == [2, 12]
    assert _extents(window(first=-1, origin=-1), "v") == [2, 8]
    assert _extents(scalars(), "v") == [4]


def test_each_value_is_computed_once_along_the_window_and_again_along_other_indices() -> None:
    m = down()
    m.by.tile(r, c, 2, 4, r0, c0, r1, c1)
    m.v.compute_at(m.by, c0)
    before = m.f.program.statements["v"].instances
    m.v.slide(c0)
    after = m.f.program.statements["v"].instances
    assert _count(before, R=4, C=8) == 2 * 2 * 2 * 6
    assert _count(after, R=4, C=8) == 4 * 10


def _count(of: isl.Set, **sizes: int) -> int:
    return sets.count(smallest.at(of, sizes))


def test_the_step_is_found_where_it_is_not_given() -> None:
    m = down()
    m.by.tile(r, c, 2, 4, r0, c0, r1, c1)
    m.v.compute_at(m.by, c0)
    m.v.slide(c0)
    assert _extents(m, "v") == [2, 8]
    assert texts(m.f)[-1] == "v.slide(c0)"
    m.f.undo()
    m.v.slide(c0, by=4, origin=2)
    assert texts(m.f)[-1] == "v.slide(c0, origin=2, by=4)"


def test_what_store_at_placed_stays_there() -> None:
    m = pl.blur()
    m.by.split(r, 4, r0, r1)
    m.bx.compute_at(m.by, r1)
    m.bx.store_at(m.by, r0)
    m.bx.slide(r1)
    assert _extents(m, "bx") == [6, "C"]
    m.bx.fold(r, 3)
    assert _extents(m, "bx") == [3, "C"]
    assert m.f.check().ok


# -- what is refused


def _tiled() -> Built:
    m = down()
    m.by.tile(r, c, 2, 4, r0, c0, r1, c1)
    m.v.compute_at(m.by, c0)
    return m


def test_a_loop_in_which_nothing_is_recomputed_is_refused() -> None:
    m = down()
    m.by.tile(r, c, 2, 4, r0, c0, r1, c1)
    with pytest.raises(tm.CommandError, match=r"first v\.compute_at\(consumer, c0\)"):
        m.v.slide(c0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((c0, c, 2), "moves the window by 4 along c, not by 2: give by=4"),
        ((c0, r), "does not move along r"),
        ((c0, x), "x is not an index of v: choose one of r, c"),
        ((c0, c, 0), "by is 0: give an integer of at least 1"),
        ((r0,), "v is computed at c0, inside r0"),
    ],
)
def test_wrong_arguments_are_refused_in_words(arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(tm.CommandError, match=words):
        _tiled().v.slide(*arguments)


def test_loops_without_an_order_are_refused_by_the_command_and_by_the_proof() -> None:
    m = _tiled()
    m.by.parallelize(c0)
    with pytest.raises(tm.CommandError, match=r"c0 is a parallel loop \(by\.parallelize\(c0\)\)"):
        m.v.slide(c0)
    m = pl.blur()
    m.by.vectorize(c, 4)
    m.bx.compute_at(m.by, c)
    with pytest.raises(tm.CommandError, match="c is a vector loop"):
        m.bx.slide(c)
    m = _tiled()
    m.v.slide(c0)
    m.by.parallelize(c0)
    with pytest.raises(tm.LegalityError, match="race"):
        m.f.compile()


def test_several_indices_that_move_have_to_be_told_apart() -> None:
    (N,) = tm.params("N")
    f = tm.Function("diagonal", params=[N])
    a = f.input("a", tm.int32, [N + 1, N + 1])
    v = f.computation("v", {r: N + 1, c: N + 1}, 2 * a[r, c])
    q = f.computation("q", {i: N}, v[i, i] + v[i + 1, i + 1])
    f.outputs(q)
    v.compute_at(q, i)
    with pytest.raises(tm.CommandError, match="name one of r, c as along"):
        v.slide(i)
    v.slide(i, c)
    assert f.check().ok


def test_a_window_without_a_bound_is_refused() -> None:
    (N,) = tm.params("N")
    f = tm.Function("mirrored", params=[N])
    a = f.input("a", tm.int32, [2 * N])
    v = f.computation("v", {r: 2 * N}, 2 * a[r])
    q = f.computation("q", {i: N}, v[i] + v[2 * N - 1 - i])
    f.outputs(q)
    v.compute_at(q, i)
    with pytest.raises(tm.CommandError, match="has no constant extent along r"):
        v.slide(i)


def test_a_strip_that_comes_too_late_is_refused() -> None:
    m = _tiled()
    m.v.slide(c0)
    m.v.shift(c0, 1)
    report = m.f.check()
    assert not report.ok
    assert "before it is computed" in str(report)


def test_too_small_a_fold_is_refused_with_an_example_and_a_repair() -> None:
    m = pl.blur()
    m.by.split(r, 4, r0, r1)
    m.bx.compute_at(m.by, r1)
    m.bx.store_at(m.by, r0)
    m.bx.fold(r, 2)
    text = str(m.f.check())
    assert "by[0, 0] reads bx[0, 0], where bx[2, 0] has been written in the meantime, at R = 1, C = 1" in text
    assert "repair:  keep more values of bx at a time: bx.fold(r, 3)" in text


def test_arrays_of_the_caller_and_other_layouts_are_not_folded() -> None:
    m = pl.blur()
    with pytest.raises(tm.CommandError, match="by is in the caller's array by"):
        m.by.fold(r, 3)
    with pytest.raises(tm.CommandError, match="x is not an index of bx: choose one of r, c"):
        m.bx.fold(x, 3)
    m.bx.store_in([c, r])
    with pytest.raises(tm.CommandError, match="bx has a layout of its own"):
        m.bx.fold(r, 3)


def test_loops_inside_follow_the_values_and_not_the_iteration() -> None:
    """In each iteration alone, one is as good as the other (scripts/fuzz, whole 133045504, where emission raised)."""
    (N,), (y0, y1) = tm.params("N"), tm.iters("y0 y1")
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N + 2, N + 2])
    o = f.computation("o", {i: (2, N)}, a[i, i] - 2 * a[i, i - 1])
    f.outputs(o)
    window = o.copy(a, [y0, y1], at=i, name="window")
    window.slide(i, y1)
    given = np.arange(64, dtype=np.int32).reshape(8, 8) ** 2
    found = np.zeros(6, np.int32)
    run(lower(f.completed), {"a": given, "o": found}, {"N": 6}, seed=0)
    assert np.array_equal(found[2:], [given[n, n] - 2 * given[n, n - 1] for n in range(2, 6)])


def upsampled(rate: int, taps: int, shift: int, times: int = 1) -> Built:
    """Several iterations read the same `taps` values of p: ``p[(times * y + shift) // rate + ..]``."""
    (H,) = tm.params("H")
    f = tm.Function("up", params=[H], assume="H >= 1")
    extent = (times * H + shift) // rate + taps + 1
    a = f.input("a", tm.int32, [extent])
    p = f.computation("p", {y: extent}, a[y] * 3)
    read = (times * y + shift) // rate
    o = f.computation("o", {y: H}, sum((p[read + k] * (k + 1) for k in range(1, taps)), p[read]))
    f.outputs(o)
    return SimpleNamespace(f=f, p=p, o=o, y=y)


def same_as_evaluated(m: Built, rate: int, taps: int, shift: int, times: int = 1) -> None:
    assert m.f.check().ok, m.f.check()
    kernel = m.f.compile()
    for h in (1, 2, 5, 12):
        a = np.arange((times * h + shift) // rate + taps + 1, dtype=np.int32) ** 2
        np.testing.assert_array_equal(kernel(a=a, H=h), m.f.evaluate(a=a, H=h))


@pytest.mark.parametrize(("rate", "taps", "shift"), [(2, 2, 0), (2, 2, 1), (3, 3, 2), (4, 1, 1)])
def test_a_window_may_move_once_in_several_iterations(rate: int, taps: int, shift: int) -> None:
    m = upsampled(rate, taps, shift)
    m.p.compute_at(m.o, m.y)
    m.p.slide(m.y)
    text = m.f.show("pseudocode")
    assert f"allocate p[{taps}]" in text or taps == 1
    assert text.count("# p[") == 1  # one value in an iteration, in every `rate`-th of them
    assert f"% {rate} == 0" in text
    same_as_evaluated(m, rate, taps, shift)


def test_a_window_that_moves_by_several_values_in_several_iterations_says_what_to_split() -> None:
    m = upsampled(3, 2, 0, times=2)
    m.p.compute_at(m.o, m.y)
    with pytest.raises(tm.CommandError) as raised:
        m.p.slide(m.y)
    said = str(raised.value)
    assert "3 iterations of y together move by 2 along y what they read of p" in said
    repair = "o.split(y, 3, y_outer, y_inner)"
    assert repair in said
    m = upsampled(3, 2, 0, times=2)
    y_outer, y_inner = tm.iters("y_outer y_inner")
    m.o.split(m.y, 3, y_outer, y_inner)
    m.p.compute_at(m.o, y_outer)
    m.p.slide(y_outer)
    same_as_evaluated(m, 3, 2, 0, times=2)
