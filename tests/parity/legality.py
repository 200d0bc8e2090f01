"""What is legal: dependences, parallel loops, vectors, fusions and skewing, and what is refused."""

from __future__ import annotations

import tiramisu_py as tm
from tests.parity.groups import Array, group, numbers, refused, right, unaccepted

N, M = tm.params("N M")
i, j, i0, j0, i1, j1, front, skewed = tm.iters("i j i0 j0 i1 j1 front skewed")
T = tm.int32


def sweep() -> tuple[tm.Function, tm.Computation]:
    """Each value reads the one above to the right, and the one to its left."""
    f = tm.Function("f", params=[N, M], assume="N >= 1 and M >= 2")
    a = f.input("a", T, [N, M])
    inside = (i > 0) & (j > 0) & (j < M - 1)
    c = f.computation("c", {i: N, j: M}, lambda c: tm.select(inside, (c[i - 1, j + 1] + c[i, j - 1]) % 100, a[i, j]))
    f.outputs(c)
    return f, c


def swept(given: Array) -> Array:
    """The same in Python."""
    found = given.copy()
    for r in range(1, given.shape[0]):
        for c in range(1, given.shape[1] - 1):
            found[r, c] = (found[r - 1, c + 1] + found[r, c - 1]) % 100
    return found


def is_right(f: tm.Function) -> None:
    """The values are those of the loops in Python."""
    given = numbers(9, 11)
    right(f, swept(given), given)


@group("179-184", "dependences decide: illegal tiles and skews are refused", "`check`, `LegalityError`")
def illegal_tiles() -> None:
    f, c = sweep()
    c.tile(i, j, 4, 4, i0, j0, i1, j1)
    refused(f, "order")
    f, c = sweep()
    c.transform([i, j], [[1, -2], [0, 1]])
    refused(f, "order")
    f, c = sweep()
    c.skew(i, j, 1)
    is_right(f)


@group("185, 187", "which loops may be parallel", "`parallelize`")
def parallel_or_not() -> None:
    f, c = sweep()
    c.parallelize(i)
    refused(f, "race")
    f, c = sweep()
    c.parallelize(j)
    refused(f, "race")


@group("186, 188", "which loops may be unrolled, or vectors", "`unroll`, `vectorize`")
def vectors_or_not() -> None:
    f, c = sweep()
    c.vectorize(j, 4)
    refused(f, "race")
    f, c = sweep()
    c.unroll(j, 3)
    is_right(f)


@group("189-191", "shifts that make a fusion legal, found by the compiler, or none", "`fuse(..., shift=True)`")
def shifts() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", T, [N + 4])
    p = f.computation("p", {i: N + 4}, a[i] + 1)
    q = f.computation("q", {i: N + 2}, p[i] + p[i + 2])
    r = f.computation("r", {i: N}, q[i] * q[i + 2])
    f.outputs(r)
    q.fuse(p, i, shift=True)
    r.fuse(q, i, shift=True)
    given = numbers(14)
    q0 = given[:-2] + given[2:] + 2
    right(f, q0[:-2] * q0[2:], given)
    f = tm.Function("f", params=[N])
    p = f.computation("p", {i: N}, 3 * i)
    q = f.computation("q", {i: N}, p[N - 1 - i])
    f.outputs(q)
    unaccepted(lambda: q.fuse(p, i, shift=True), "shift")


@group("195", "a shift with a skew", "`fuse(..., shift=True)`, `skew`")
def shift_and_skew() -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", T, [N + 2, M + 2])
    p = f.computation("p", {i: N + 2, j: M + 2}, a[i, j] + 1)
    q = f.computation("q", {i: N, j: M}, p[i, j + 2] + p[i + 1, j + 1] + p[i + 2, j])
    f.outputs(q)
    q.fuse(p, j, shift=True)
    p.skew(i, j, 2)
    given = numbers(9, 10)
    s = given + 1
    right(f, s[:-2, 2:] + s[1:-1, 1:-1] + s[2:, :-2], given)


@group("192-194, 198, 199", "skews that make loops parallel, or tiles legal", "`skew`, `tile`, `parallelize`")
def skews() -> None:
    f, c = sweep()
    c.transform([i, j], [[2, 1], [1, 0]], [front, i])
    c.parallelize(i)
    is_right(f)
    f, c = sweep()
    c.skew(i, j, 1, skewed)
    c.tile(i, skewed, 4, 4, i0, j0, i1, j1)
    is_right(f)
