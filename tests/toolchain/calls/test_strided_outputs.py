"""Outputs that are views of other arrays: written where they are, and nowhere else; and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import SANITISERS, Compiled
from tiramisu_py.errors import ArgumentError, CommandError, DeclarationError
from tiramisu_py.interpret import run

N, M, S, T = tm.params("N M S T")
i, j, i0, i1, j0, j1 = tm.iters("i j i0 i1 j0 j1")

#: Views of n rows and m columns of a larger array, each with the strides with which it is declared.
VIEWS: dict[str, tuple[Callable[[Any, int, int], Any], Callable[[Any, Any], list[Any]]]] = {
    "some columns": (lambda base, n, m: base[:n, 5 : 5 + m], lambda s, t: [s, 1]),
    "transposed": (lambda base, n, m: base[:m, 5 : 5 + n].T, lambda s, t: [1, s]),
    "every second column": (lambda base, n, m: base[: 2 * n : 2, : 2 * m : 2], lambda s, t: [s, 2]),
    "every third column": (lambda base, n, m: base[1 : 2 * n : 2, : 3 * m : 3], lambda s, t: [s, t]),
    "rows upwards": (lambda base, n, m: base[:n][::-1, 5 : 5 + m], lambda s, t: [-s, 1]),
    "columns leftwards": (lambda base, n, m: base[:n, :m][:, ::-1], lambda s, t: [s, -1]),
    "turned around": (lambda base, n, m: base[:n, 5 : 5 + m][::-1, ::-1], lambda s, t: [-s, -1]),
    "transposed and turned": (lambda base, n, m: base[:m, 3 : 3 + n][::-1].T, lambda s, t: [1, -s]),
}
SIZES = [(13, 17), (1, 9), (9, 1), (1, 1), (0, 5), (5, 0), (8, 16)]
SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "none": lambda o: None,
    "threads": lambda o: o.parallelize(i),
    "vectors": lambda o: o.vectorize(j, 8),
    "masks": lambda o: o.vectorize(j, 8, remainder="mask"),
    "overlap": lambda o: o.vectorize(j, 4, remainder="overlap"),
    "vectors down": lambda o: o.interchange(i, j).vectorize(i, 8),
    "tiles": lambda o: o.tile(i, j, 4, 16, i0, j0, i1, j1).vectorize(j1, 8).unroll(i1),
}


def program(strides: list[Any], dtype: Any = tm.float32) -> tuple[tm.Function, Any]:
    """``o[i, j] = 2 * a[i, j] + i``, kept in an array with these strides."""
    own = {part.name: part for stride in strides for part in (S, T) if str(part) in str(stride)}
    f = tm.Function("f", params=[N, M, *own.values()])
    a = f.input("a", dtype, [N, M])
    o = f.computation("o", {i: N, j: M}, 2 * a[i, j] + tm.cast(dtype, i))
    f.outputs(o)
    o.store_in(tm.Buffer("part", [N, M], dtype, strides=strides), [i, j])
    return f, o


def given(shape: tuple[int, ...], dtype: Any = np.float32) -> tuple[Any, Any]:
    a = np.random.default_rng(0).integers(0, 50, shape).astype(dtype)
    return a, 2 * a + np.arange(shape[0])[:, None].astype(dtype)


#: Eight views in one function take long to compile: three schedules as for users, the others unoptimised.
CASES = [
    *((schedule, tm.float32) for schedule in SCHEDULES),
    pytest.param("vectors", tm.uint8, marks=pytest.mark.optimised),
    pytest.param("tiles", tm.int16, marks=pytest.mark.optimised),
    pytest.param("masks", tm.float64, marks=pytest.mark.optimised),
]  # fmt: skip


def views(dtype: Any) -> tuple[tm.Function, list[Any]]:
    """``o[i, j] = 2 * a[i, j] + i`` once for each kind of view, and these outputs."""
    own = [tm.params(f"S{k} T{k}") for k in range(len(VIEWS))]
    f = tm.Function("f", params=[N, M, *(each for pair in own for each in pair)])
    a = f.input("a", dtype, [N, M])
    found = [f.computation(f"o{k}", {i: N, j: M}, 2 * a[i, j] + tm.cast(dtype, i)) for k in range(len(VIEWS))]
    f.outputs(*found)
    for k, (o, (_, strides)) in enumerate(zip(found, VIEWS.values(), strict=True)):
        o.store_in(tm.Buffer(f"part{k}", [N, M], dtype, strides=strides(*own[k])), [i, j])
    return f, found


@pytest.mark.parametrize(("schedule", "dtype"), CASES, ids=str)
def test_views_are_written_where_they_are_and_nowhere_else(schedule: str, dtype: tm.DType) -> None:
    f, outputs = views(dtype)
    for o in outputs:
        SCHEDULES[schedule](o)
    report = f.check()
    assert report.ok, str(report)
    kernel = f.compile(threads=2)
    unused = {f"T{k}": 1 for k, strides in enumerate(VIEWS.values()) if "T" not in str(strides[1](S, T))}
    for n, m in SIZES:
        bases = [np.full((30, 60), 77, dtype.numpy) for _ in VIEWS]
        rights = [base.copy() for base in bases]
        a, wanted = given((n, m), dtype.numpy)
        for right, (view_of, _) in zip(rights, VIEWS.values(), strict=True):
            view_of(right, n, m)[...] = wanted
        passed = [view_of(base, n, m) for base, (view_of, _) in zip(bases, VIEWS.values(), strict=True)]
        found = kernel(a, **unused, **{f"o{k}": view for k, view in enumerate(passed)})
        assert all(one is other for one, other in zip(found, passed, strict=True))
        for base, right, name in zip(bases, rights, VIEWS, strict=True):
            np.testing.assert_array_equal(base, right, err_msg=f"{name}, {n} x {m}")


@pytest.mark.parametrize("schedule", ["none", "vectors", "masks", "vectors down", "tiles"])
@pytest.mark.parametrize("strides", [(23, 1), (1, 29), (60, 3)], ids=str)
def test_nothing_beside_the_elements_is_touched(schedule: str, strides: tuple[int, int]) -> None:
    """The array ends with its last element: the sanitizer sees whatever is written after it."""
    f, o = program([S, T])
    SCHEDULES[schedule](o)
    n, m = 5, 19
    memory = np.full((n - 1) * strides[0] + (m - 1) * strides[1] + 1, 77, np.float32)
    a, wanted = given((n, m))
    right = memory.copy()
    np.lib.stride_tricks.as_strided(right, (n, m), tuple(4 * stride for stride in strides))[...] = wanted
    sizes = {"N": n, "M": m, "S": strides[0], "T": strides[1]}
    found = Compiled(f.show("lowered"), *SANITISERS, "-O1").sanitised(sizes, a=a, part=memory)
    np.testing.assert_array_equal(found["part"], right)


def test_the_machine_writes_views_too() -> None:
    f, o = program([S, T])
    o.vectorize(j, 4, remainder="mask")
    base = np.zeros((40, 60), np.float32)
    a, wanted = given((4, 15))
    run(f.show("lowered"), {"a": a, "part": base[1:12:3, ::4]}, {"N": 4, "M": 15, "S": 180, "T": 4}, seed=3)
    np.testing.assert_array_equal(base[1:12:3, ::4], wanted)


def test_an_output_that_is_not_passed_is_made_with_its_strides() -> None:
    kernels = {sign: program([sign * S, 1])[0].compile() for sign in (1, -1)}
    for sign, kernel in kernels.items():
        for shape in [(5, 4), (1, 4), (0, 4), (5, 1)]:
            a, wanted = given(shape)
            for _ in range(3):
                found = kernel(a, S=9)
                np.testing.assert_array_equal(found, wanted)
            assert found.size == 0 or found.strides == (sign * 36, 4)
        with pytest.raises(ArgumentError, match="S does not follow from the shapes of the arrays; give S="):
            kernel(given((5, 4))[0])
        with pytest.raises(ArgumentError, match="o is written, and has elements that share memory"):
            kernel(given((5, 4))[0], S=3)


def test_an_input_with_strides_is_updated_in_place() -> None:
    f = tm.Function("f", params=[N, M, S])
    a = f.input("a", tm.float32, [N, M], strides=[-S, 1])
    o = f.computation("o", {i: N, j: M}, 2 * a[i, j] + 1)
    f.outputs(o)
    o.store_in(a, [i, j])
    o.vectorize(j, 8)
    assert f.check().ok
    kernel, base = f.compile(), np.arange(600, dtype=np.float32).reshape(20, 30)
    right = base.copy()
    right[15:3:-1, 2:25] = 2 * right[15:3:-1, 2:25] + 1
    kernel(base[15:3:-1, 2:25])
    np.testing.assert_array_equal(base, right)
    for shared in (np.broadcast_to(base[:1], (3, 30)), np.lib.stride_tricks.as_strided(base, (3, 5), (-16, 4))):
        with pytest.raises(ArgumentError, match=r"a is written, and has elements that share memory|read-only"):
            kernel(shared)


def both() -> tm.Function:
    """``o = 2 * a``, both with strides."""
    f = tm.Function("f", params=[N, M, S, T])
    a = f.input("a", tm.float32, [N, M], strides=[T, 1])
    o = f.computation("o", {i: N, j: M}, 2 * a[i, j])
    f.outputs(o)
    o.store_in(tm.Buffer("part", [N, M], tm.float32, strides=[S, 1]), [i, j])
    return f


def test_columns_of_one_matrix_are_read_and_others_written() -> None:
    kernel, base = both().compile(), np.arange(1200, dtype=np.float32).reshape(30, 40)
    for read, written in [((0, 10), (10, 20)), ((30, 40), (0, 10)), ((5, 22), (22, 39))]:
        a, o = base[:, slice(*read)], base[:, slice(*written)]
        wanted = 2 * a.copy()
        for _ in range(2):
            np.testing.assert_array_equal(kernel(a, o=o), wanted)
    a, o = base[::2], base[1::2]
    wanted = 2 * a
    np.testing.assert_array_equal(kernel(a, o=o), wanted)


def test_views_that_share_an_element_are_refused() -> None:
    """NumPy decides exactly whether two views share memory; what it says is shared is never accepted, in C neither."""
    rng = np.random.default_rng(0)
    f = both()
    kernel, compiled = f.compile(), Compiled(f.show("lowered"))
    memory, seen = np.zeros(400, np.float32), set()
    for _ in range(2000):
        n, m = rng.integers(1, 5, 2)
        s, t = rng.integers(1, 12, 2)
        rows = [memory[start:] for start in rng.integers(0, 20, 2)]
        views = [
            np.lib.stride_tricks.as_strided(row, (n, m), (4 * int(step), 4))
            for row, step in zip(rows, (t, s), strict=True)
        ]
        x, y = views
        own = len(set(_addresses(y))) == y.size
        shared = not own or np.shares_memory(x, y)
        code = compiled.code({"N": int(n), "M": int(m), "S": int(s), "T": int(t)}, a=rows[0], part=rows[1])
        try:
            kernel(x, o=y, S=int(s), T=int(t))
            accepted = True
        except ArgumentError:
            accepted = False
        assert accepted == (code == 0)
        assert not (accepted and shared)
        seen.add((accepted, bool(shared)))
    assert seen == {(True, False), (False, True), (False, False)}


def _addresses(view: Any) -> list[int]:
    start = view.__array_interface__["data"][0]
    return [start + sum(k * s for k, s in zip(at, view.strides, strict=True)) for at in np.ndindex(view.shape)]


def test_strides_of_outputs_are_saved_sent_and_described(tmp_path: Path) -> None:
    f, _ = program([S, -1])
    f.save(tmp_path / "f.json")
    kernel = pickle.loads(pickle.dumps(tm.load(tmp_path / "f.json").compile()))
    base = np.zeros((7, 20), np.float32)
    a, wanted = given((7, 9))
    kernel(a, o=base[:, 15:6:-1])
    np.testing.assert_array_equal(base[:, 15:6:-1], wanted)
    assert "// part[d0, d1] is element d0*(S) + d1*(-1) of part" in kernel.source["f.h"]


def test_c_checks_what_python_checks() -> None:
    f, _ = program([-S, 1])
    compiled, memory = Compiled(f.show("lowered")), np.zeros(200, np.float32)
    sizes, a = {"N": 3, "M": 4, "S": 50}, np.zeros((3, 4), np.float32)
    assert compiled.code(sizes, a=a, part=memory[100:]) == 0
    code, words = compiled.outcome({**sizes, "S": 3}, a=a, part=memory[100:])
    assert code == 4 and "part is written, and has elements that share memory" in words
    inside = memory[56:68].reshape(3, 4)
    code, words = compiled.outcome(sizes, a=inside, part=memory[100:])
    assert code == 0, words  # between two rows of the output
    code, words = compiled.outcome(sizes, a=memory[48:60].reshape(3, 4), part=memory[100:])
    assert code == 4 and "part, which is written, overlaps a" in words


def test_strides_without_a_meaning_are_refused() -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    p = f.computation("p", {i: N, j: M}, a[i, j] + 1)
    o = f.computation("o", {i: N, j: M}, p[i, j] + 1)
    f.outputs(o)
    for strides, says in [([1], "in each of its 2 dimensions"), ("C", "is 'C'"), ([1.5, 1], "is not an integer")]:
        with pytest.raises(DeclarationError, match=says):
            tm.Buffer("b", [N, M], tm.float32, strides=strides)
    with pytest.raises(CommandError, match="b has strides=, and p is no output: strides are for arrays of the caller"):
        p.store_in(tm.Buffer("b", [N, M], tm.float32, strides=[M, 1]), [i, j])
    with pytest.raises(CommandError, match="the stride S of b"):
        o.store_in(tm.Buffer("b", [N, M], tm.float32, strides=[S, 1]), [i, j])
    with pytest.raises(CommandError, match="not affine"):
        o.store_in(tm.Buffer("b", [N, M], tm.float32, strides=[N * M, 1]), [i, j])
    o.store_in(tm.Buffer("b", [N, M], tm.float32, strides=[2 * M, 1]), [i, j])
    with pytest.raises(CommandError, match="there is another buffer called b"):
        p.store_in(tm.Buffer("b", [N, M], tm.float32), [i, j])
    o.vectorize(j, 8)
    o.store_nontemporal()
    assert "stores whole rows, and b has strides" in str(f.check())
    f.outputs(p, replace=True)
    assert "b has strides, but is no array of the caller any more" in str(f.check())
