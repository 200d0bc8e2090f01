"""Vectors in place: a read precedes the store of a later lane if it does so lane by lane and on all lanes at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.interpret import run
from tiramisu_py.lower import lower
from tiramisu_py.passes import optimise

(N,) = tm.params("N")
i, k, i0, i1 = tm.iters("i k i0 i1")
SIZES = (0, 1, 3, 4, 9)
Expression = Callable[[tm.Input], tm.Expr]


def in_place(body: Expression, remainder: str = "scalar") -> tm.Function:
    """One computation in the array that it reads, in vectors of 4."""
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N + 3])
    p = f.computation("p", {i: N}, body(a))
    f.outputs(p)
    p.store_in(a, [i])
    p.vectorize(i, 4, remainder=remainder)
    return f


def two(first: str) -> tm.Function:
    """p reads ahead of where q stores; `first` comes first in the loop."""
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N + 3])
    p = f.computation("p", {i: N}, a[i + 1] * 2)
    q = f.computation("q", {i: N}, a[i] + 5)
    f.outputs(p, q)
    q.store_in(a, [i])
    (q if first == "p" else p).after(p if first == "p" else q, i)
    for each in (p, q):
        each.vectorize(i, 4)
    return f


def rows(read: int) -> tm.Function:
    """A loop over rows inside the vectors: reads a row `read` further on, one lane ahead of where it stores."""
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [5, N + 1])
    p = f.computation("p", {k: (max(0, -read), 3), i: N}, a[k + read, i + 1] + a[k, i])
    f.outputs(p)
    p.store_in(a, [k, i])
    p.reorder(i, k).vectorize(i, 4)
    return f


def right_everywhere(f: tm.Function) -> bool:
    """Whether loops, in any order that vectors allow, and code compute what `evaluate()` says."""
    kernel, function = f.compile(), lower(f.completed)
    for seed, n in enumerate(SIZES * 2):
        shape = (5, n + 1) if f.algorithm.inputs["a"].shape[1:] else (n + 3,)
        given = np.arange(np.prod(shape), dtype=np.int32).reshape(shape) ** 2 % 37
        wanted = f.evaluate(a=given.copy(), N=n)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        got = kernel(a=given.copy(), N=n)
        arrays = {"a": given.copy(), **{each: np.zeros(n, np.int32) for each in ("p",) if len(wanted) > 1}}
        run(function, arrays, {"N": n}, seed)
        loops = (arrays["p"], arrays["a"]) if len(wanted) > 1 else (arrays["a"],)
        for several in (got if isinstance(got, tuple) else (got,), loops):
            for one, other in zip(several, wanted, strict=True):
                if not np.array_equal(np.asarray(one)[tuple(map(slice, other.shape))], other):
                    return False
    return True


READS_AHEAD: dict[str, Callable[[], tm.Function]] = {
    "one lane ahead": lambda: in_place(lambda a: a[i + 1] + a[i]),
    "three lanes ahead, the rest under a mask": lambda: in_place(lambda a: a[i + 3] - a[i + 1], "mask"),
    "by choice of the lane": lambda: in_place(lambda a: tm.select(i % 2 == 0, a[i + 1] * 2, a[i] + 1)),
    "by choice of the other lanes": lambda: in_place(lambda a: tm.select(i % 2 == 1, a[i + 2] * 2, a[i + 1])),
    "by choice of a value": lambda: in_place(lambda a: tm.select(a[i] > 9, a[i + 1], a[i + 2])),
    "in an earlier statement": lambda: two("p"),
    "in a later row": lambda: rows(1),
    "in the same row": lambda: rows(0),
}
STORES_FIRST: dict[str, Callable[[], tm.Function]] = {
    "vectors that overlap run lanes again": lambda: in_place(lambda a: a[i + 1] * 2, "overlap"),
    "a later statement reads": lambda: two("q"),
    "an earlier row is read": lambda: rows(-1),
}


@pytest.mark.parametrize("made", READS_AHEAD.values(), ids=READS_AHEAD)
def test_a_read_ahead_of_the_store_of_a_later_lane_is_proven(made: Callable[[], tm.Function]) -> None:
    f = made()
    assert f.check().ok, f.check()
    assert right_everywhere(f)


@pytest.mark.parametrize("made", STORES_FIRST.values(), ids=STORES_FIRST)
def test_a_read_that_may_come_after_the_store_of_a_later_lane_is_refused(made: Callable[[], tm.Function]) -> None:
    kinds = {violation.kind for violation in made().check().violations}
    assert kinds & {"race", "overwritten"}


def test_threads_promise_nothing_of_the_kind() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N + 3])
    p = f.computation("p", {i: N}, a[i + 1])
    f.outputs(p)
    p.store_in(a, [i]).parallelize(i)
    (violation,) = f.check().violations
    assert violation.kind == "race"


def test_the_report_says_which_vectors_read_ahead_and_no_certificate_covers_them() -> None:
    f = in_place(lambda a: a[i + 1])
    assert "in vectors of i, lanes read places before a later lane stores there" in str(f.check())
    with pytest.raises(tm.UnsupportedError, match="the vector loop i of f reads places to which its later lanes store"):
        f.certificate()


def test_statements_of_odd_and_of_even_lanes_stay_in_order() -> None:
    """One iteration of the loop that is made has an even and an odd one, of which the odd one is the first to load."""
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N + 3])
    p = f.computation("p", {i: N}, a[i + 1] * 2, where=i % 2 == 1)
    q = f.computation("q", {i: N}, a[i] + 5, where=i % 2 == 0)
    f.outputs(p, q)
    q.store_in(a, [i]).after(p, i).vectorize(i, 4)
    p.vectorize(i, 4)
    assert f.check().ok
    given = np.arange(14, dtype=np.int32) ** 2
    wanted = f.evaluate(a=given, N=11)[0]
    np.testing.assert_array_equal(f.compile()(a=given.copy(), N=11)[0][1::2], wanted[1::2])
    for seed in range(6):
        loops = np.zeros(11, np.int32)
        run(lower(f.completed), {"a": given.copy(), "p": loops[: wanted.size]}, {"N": 11}, seed)
        np.testing.assert_array_equal(loops[1 : wanted.size : 2], wanted[1::2])


def test_vectors_are_emitted_as_vectors() -> None:
    f = in_place(lambda a: a[i + 1] * 2 + a[i])
    text = str(optimise(lower(f.completed)))
    assert "lane by lane" not in text
