"""Arrays that are not contiguous, as arguments: read where they are, whatever the schedule; and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import SANITISERS, Compiled
from tiramisu_py.errors import ArgumentError, DeclarationError
from tiramisu_py.interpret import run

N, M, S, T = tm.params("N M S T")
i, j, k, i0, i1 = tm.iters("i j k i0 i1")
BASE = np.arange(40 * 60, dtype=np.float32).reshape(40, 60)

#: Views of one array, and the strides with which they are declared.
VIEWS: dict[str, tuple[Any, list[Any]]] = {
    "some columns": (BASE[:13, 5:22], [S, 1]),
    "all": (BASE, [S, 1]),
    "transposed": (BASE[:13, 5:22].T, [1, S]),
    "every second column": (BASE[::3, ::2], [S, 2]),
    "every fourth column": (BASE[1::3, ::4], [S, T]),
    "one row many times": (np.broadcast_to(BASE[0, :9], (7, 9)), [0, 1]),
    "overlapping rows": (np.lib.stride_tricks.sliding_window_view(BASE[0], 11), [1, 1]),
    "one row": (BASE[3:4, 3:9], [S, 1]),
    "one column": (BASE[:, :1], [S, 1]),
    "one element": (BASE[:1, :1], [S, T]),
    "no rows": (BASE[:0, :5], [S, 1]),
    "rows upwards": (BASE[12::-1, 5:22], [-S, 1]),
    "columns leftwards": (BASE[:13, 21:4:-1], [S, -1]),
    "turned around": (BASE[::-1, ::-1], [-S, -1]),
    "every second one leftwards": (BASE[::3, 58::-2], [S, -T]),
    "one row upwards": (BASE[3:4][::-1], [-S, 1]),
}
SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "none": lambda o: None,
    "threads": lambda o: o.parallelize(i),
    "vectors": lambda o: o.vectorize(j, 8),
    "masks": lambda o: o.vectorize(j, 8, remainder="mask"),
    "vectors down": lambda o: o.interchange(i, j).vectorize(i, 8),
}


def program(strides: list[Any]) -> tuple[tm.Function, Any]:
    """``o[i, j] = 2 * a[i, j] + a[0, j]``."""
    own = {part.name: part for stride in strides for part in (S, T) if str(part) in str(stride)}
    f = tm.Function("f", params=[N, M, *own.values()])
    a = f.input("a", tm.float32, [N, M], strides=strides)
    o = f.computation("o", {i: N, j: M}, 2 * a[i, j] + a[0, j])
    f.outputs(o)
    return f, o


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_views_are_read_where_they_are(schedule: str) -> None:
    compiled: dict[str, tuple[tm.Function, tm.Kernel]] = {}
    for view, strides in VIEWS.values():
        if str(strides) not in compiled:
            f, o = program(strides)
            SCHEDULES[schedule](o)
            assert f.check().ok
            compiled[str(strides)] = f, f.compile()
        f, kernel = compiled[str(strides)]
        want = 2 * view + view[:1]
        np.testing.assert_array_equal(kernel(view), want)
        np.testing.assert_array_equal(f.evaluate(view), want)


@pytest.mark.parametrize("schedule", ["none", "vectors", "masks", "vectors down"])
@pytest.mark.parametrize("strides", [(23, 1), (1, 29), (40, 3)], ids=str)
def test_nothing_beside_the_elements_is_touched(schedule: str, strides: tuple[int, int]) -> None:
    """The array ends with its last element: the sanitizer sees whatever is read after it."""
    f, o = program([S, T])
    SCHEDULES[schedule](o)
    n, m = 5, 19
    memory = np.random.default_rng(0).normal(size=(n - 1) * strides[0] + (m - 1) * strides[1] + 1).astype(np.float32)
    view = np.lib.stride_tricks.as_strided(memory, (n, m), tuple(4 * stride for stride in strides))
    given = {"N": n, "M": m, "S": strides[0], "T": strides[1]}
    found = Compiled(f.show("lowered"), *SANITISERS, "-O0").sanitised(given, a=memory, o=np.zeros((n, m), np.float32))
    np.testing.assert_array_equal(found["o"], 2 * view + view[:1])


def test_the_machine_reads_views_too() -> None:
    f, o = program([S, T])
    o.vectorize(j, 4, remainder="mask")
    view, out = BASE[1:12:3, ::4], np.zeros((4, 15), np.float32)
    run(f.show("lowered"), {"a": view, "o": out}, {"N": 4, "M": 15, "S": 180, "T": 4}, seed=3)
    np.testing.assert_array_equal(out, 2 * view + view[:1])


def test_a_product_of_transposed_and_cut_matrices_is_that_of_numpy() -> None:
    (K,) = tm.params("K")
    f = tm.Function("product", params=[N, M, K, S, T])
    a, b = f.input("a", tm.float32, [N, K], strides=[1, S]), f.input("b", tm.float32, [K, M], strides=[T, 1])
    c = f.reduction("c", {i: N, j: M}, {k: K}, tm.sum, a[i, k] * b[k, j])
    f.outputs(c)
    c.vectorize(j, 16, remainder="mask")
    x, y = BASE[:20, :11].T, BASE[:20, 7:30]
    np.testing.assert_array_equal(f.compile()(x, y), x @ y)


def test_a_stride_of_1_in_a_version_of_its_own_is_loaded_as_whole_vectors() -> None:
    f, o = program([S, T])
    o.vectorize(j, 8)
    f.specialize(T=1)
    kernel = f.compile()
    for view in (BASE[:13, 5:22], BASE[:13, ::3]):
        np.testing.assert_array_equal(kernel(view), 2 * view + view[:1])
    lanes = min(8, tm.target().lanes(tm.float32))
    assert f"load_float32x{lanes}(&a[i*S + j])" in kernel.source["f.c"] and "TM_STRIDED" in kernel.source["f.c"]
    assert "// a[d0, d1] is element d0*(S) + d1*(T) of a" in kernel.source["f.h"]


def test_strides_are_saved_and_sent(tmp_path: Path) -> None:
    f, _ = program([S, 1])
    f.save(tmp_path / "f.json")
    again = tm.load(tmp_path / "f.json")
    kernel = pickle.loads(pickle.dumps(again.compile()))
    view = BASE[:7, 3:20]
    np.testing.assert_array_equal(kernel(view), 2 * view + view[:1])
    np.testing.assert_array_equal(again.evaluate(view), 2 * view + view[:1])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"a": BASE[:, ::2]}, r"a has strides \(60, 2\), but its stride 1 is declared as 1, not 2"),
        ({"a": BASE[::-1]}, r"a has strides \(-60, 1\): S = -60.*at least 0; pass a copy: a.copy\(\), or declare"),
        ({"a": BASE[:, ::-1]}, r"a has strides \(60, -1\), but its stride 1 is declared as 1, not -1"),
        ({"a": BASE[:5], "S": 61}, r"a has strides \(60, 1\), but its stride 0, S, is 61, not 60"),
        ({"a": BASE[:5, :30], "o": BASE.reshape(-1)[90:240].reshape(5, 30)}, "o is written, and shares memory with a"),
        ({"a": BASE.view(np.dtype((np.void, 4)))}, "a has dtype"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(given: dict[str, Any], says: str) -> None:
    f, _ = program([S, 1])
    with pytest.raises(ArgumentError, match=says):
        f.compile()(**given)


def test_strides_of_no_whole_elements_are_refused_by_kernels_and_by_evaluate() -> None:
    records = np.zeros(6, np.dtype([("x", np.float32), ("y", np.uint16)]))
    f = tm.Function("f", params=[N, S])
    a = f.input("a", tm.float32, [N], strides=[S])
    f.outputs(f.computation("o", {i: N}, a[i]))
    for call in (f.compile(), f.evaluate):
        with pytest.raises(ArgumentError, match="are no multiples of its 4-byte elements"):
            call(records["x"])


def test_c_checks_the_span_of_an_array() -> None:
    f, _ = program([S, 1])
    compiled = Compiled(f.show("lowered"))
    memory = np.zeros(200, np.float32)
    sizes = {"N": 3, "M": 4, "S": 50}
    assert compiled.code(sizes, a=memory, o=np.zeros((3, 4), np.float32)) == 0
    code, words = compiled.outcome(sizes, a=memory, o=memory[100:112].reshape(3, 4))
    assert code == 4 and "o, which is written, overlaps a" in words
    assert compiled.code(sizes, a=memory, o=memory[104:116].reshape(3, 4)) == 0
    code, words = compiled.outcome({"N": 0, "M": 2**40, "S": 2**40}, a=memory, o=memory)
    assert code == 0, words
    code, words = compiled.outcome({"N": 2**40, "M": 1, "S": 2**40}, a=memory, o=memory)
    assert code == 2 and "a has more bytes than can be addressed" in words


@pytest.mark.parametrize(
    ("strides", "says"),
    [
        ([1], "the distance of neighbours in each of its 2 dimensions"),
        ([i, 1], "iterator i"),
        ([1.5, 1], "not an integer"),
        ("C", "strides= of a is 'C'"),
    ],
)
def test_strides_that_are_none_are_refused(strides: Any, says: str) -> None:
    f = tm.Function("f", params=[N, M, S])
    with pytest.raises(DeclarationError, match=says):
        f.input("a", tm.float32, [N, M], strides=strides)


def test_an_array_with_strides_is_on_the_host() -> None:
    f = tm.Function("f", params=[N, M, S])
    a = f.input("a", tm.float32, [N, M], strides=[S, 1])
    o = f.computation("o", {i: N, j: M}, 2 * a[i, j])
    f.outputs(o)
    o.split(i, 8, i0, i1)
    o.tag_gpu([i0], [i1])
    f.derive_transfers()
    assert "a is declared with strides: only contiguous arrays are transferred" in str(f.check())
    with pytest.raises(DeclarationError, match="arrays in GPU memory are contiguous"):
        f.input("g", tm.float32, [N], strides=[2], memory=tm.GPU_MEMORY)
