"""Order, and places: fused nests, producers near their readers, buffers."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm
from tests.parity.groups import group, numbers, right

N, M, K = tm.params("N M K")
i, j, k, i0, j0, i1, j1 = tm.iters("i j k i0 j0 i1 j1")
T = tm.int32


def chain(length: int = 3) -> tuple[tm.Function, list[tm.Computation]]:
    """Computations each of which reads the one before it, all of them outputs."""
    f = tm.Function("f", params=[N, M])
    last = f.input("a", T, [N, M])
    made = []
    for n in range(length):
        made.append(f.computation(f"s{n}", {i: N, j: M}, last[i, j] * 2 + n))
        last = made[-1]
    f.outputs(*made)
    return f, made


def is_right(f: tm.Function, length: int = 3) -> None:
    """The values of a chain are those that NumPy makes."""
    given = numbers(6, 7)
    wanted = [given]
    for n in range(length):
        wanted.append(wanted[-1] * 2 + n)
    right(f, tuple(wanted[1:]), given)


def stencil() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """A producer of which each value of the consumer reads three rows."""
    f = tm.Function("f", params=[N, M])
    a = f.input("a", T, [N + 2, M])
    p = f.computation("p", {i: N + 2, j: M}, a[i, j] * 3)
    q = f.computation("q", {i: N, j: M}, p[i, j] + p[i + 1, j] + p[i + 2, j])
    f.outputs(q)
    return f, p, q


def stencil_is_right(f: tm.Function) -> None:
    """The sums of three rows are those of NumPy."""
    given = numbers(9, 5)
    right(f, 3 * (given[:-2] + given[1:-1] + given[2:]), given)


@group("13, 46, 47", "chains of three and four that share loops, of different depths", "`after`, `fuse`")
def fused_chains() -> None:
    f, (p, q, r, s) = chain(4)
    q.after(p, j)
    r.after(q, i)
    s.fuse(r, j)
    is_right(f, 4)


@group("14, 15", "a blur in tiles, its producer computed in them; with a shift", "`compute_at`, `shift`, `assume=`")
def blur() -> None:
    f, p, q = stencil()
    q.tile(i, j, 4, 4, i0, j0, i1, j1)
    p.compute_at(q, j0)
    stencil_is_right(f)
    f, p, q = stencil()
    q.after(p, i)
    q.shift(i, 2)
    stencil_is_right(f)


@group("21", "external functions", "`tm.extern`")
def external_functions() -> None:
    source = "static inline int32_t next_even(int32_t x) { return x + (x & 1); }"
    next_even = tm.extern("next_even", [T], T, lambda v: v + (v & 1), source=source)
    f = tm.Function("f", params=[N])
    a = f.input("a", T, [N])
    f.outputs(f.computation("s", {i: N}, next_even(a[i]) + 1))
    given = numbers(12)
    right(f, given + (given & 1) + 1, given)


@group("22-24, 95", "inferred bounds: chains, constants, maxima of parameters", "domains left open, `f.domains()`")
def inferred() -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", T, [N + 20, M + 20])
    p = f.computation("p", [i, j], a[i, j + 1] + 1)
    q = f.computation("q", [i, j], p[i, j + 2] + p[i + 3, j])
    s = f.computation("s", {i: tm.max(N, 4), j: 8}, q[tm.min(i, N + 9), j + M] + q[4, 5])
    f.outputs(s)
    given = numbers(30, 25)
    p0 = given[:, 1:] + 1
    q0 = p0[:-3, 2:] + p0[3:, :-2]
    right(f, q0[:10, 5:13] + q0[4, 5], given, N=10, M=5)


@group("27, 29-31", "arrays that exist once for each iteration of a loop", "`store_at` at i, at j, and at the root")
def arrays_at_levels() -> None:
    for level in (i, j, None):
        f = tm.Function("f", params=[N, M])
        a = f.input("a", T, [N, M])
        p = f.computation("p", {i: N, j: M}, a[i, j] + 1)
        q = f.computation("q", {i: N, j: M}, p[i, j] * 2)
        f.outputs(q)
        p.before(q, j)
        if level is not None:
            p.store_at(q, level)
        given = numbers(6, 7)
        right(f, (given + 1) * 2, given)


@group("32-34", "producers computed at i, at the root, at j", "`compute_at`, `after(q, tm.root)`")
def computed_at() -> None:
    f, p, q = stencil()
    p.compute_at(q, i)
    stencil_is_right(f)
    f, p, q = stencil()
    q.after(p, tm.root)
    stencil_is_right(f)
    f, p, q = stencil()
    p.compute_at(q, j)
    stencil_is_right(f)


@group(
    "35-39", "a stencil with statements for its borders, computed and stored at a level", "`tm.boundary`, `compute_at`"
)
def borders() -> None:
    f = tm.Function("f", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", T, [N, M])
    near = tm.boundary.repeat_edge(a, dims=[1])
    p = f.computation("p", [i, j], near[i, j - 1] + near[i, j + 1])
    q = f.computation("q", {i: N, j: M}, p[i, j] * 2)
    f.outputs(q)
    p.compute_at(q, i)
    given = numbers(6, 9)
    padded = np.pad(given, ((0, 0), (1, 1)), "edge")
    right(f, 2 * (padded[:, :-2] + padded[:, 2:]), given)


@group("40", "folded storage", "`fold`, `slide`")
def folded() -> None:
    f, p, q = stencil()
    q.after(p, i)
    q.shift(i, 2)
    p.fold(i, 3)
    stencil_is_right(f)
    f, p, q = stencil()
    p.compute_at(q, i)
    p.slide(i)
    stencil_is_right(f)


@group("41-45", "one nest after another: at the root, at i, declared in the other order", "`after`, `then`, `before`")
def one_after_another() -> None:
    f, (p, q, r) = chain()
    q.after(p, tm.root)
    r.after(q, i)
    is_right(f)
    f = tm.Function("f", params=[N])
    first, second = f.computation("first", {i: N}, 3 * i), f.computation("second", {i: N}, 5 * i)
    f.outputs(first, second)
    first.after(second, i)
    assert str(f.show("pseudocode")).index("second[i] =") < str(f.show("pseudocode")).index("first[i] =")
    right(f, (3 * np.arange(8), 5 * np.arange(8)), N=8)


@group("49-53, 141, 142", "arrays that nobody declares", "every computation has one")
def automatic_arrays() -> None:
    f = tm.Function("f", params=[N], assume="N >= 3")
    a, b = f.input("a", T, [N, N]), f.input("b", T, [N])
    p = f.computation("p", {i: N, j: N}, a[i, j] + a[0, 2])
    q = f.computation("q", {i: N, j: N}, p[i, j] * b[j])
    f.outputs(q)
    given, others = numbers(5, 5), numbers(5, seed=1)
    right(f, (given + given[0, 2]) * others, given, others)


@group("58, 59, 84, 90, 130", "statements put between others", "`after`, `before`, `store_at`")
def between() -> None:
    f, (p, q, r) = chain()
    r.after(p, j)
    q.after(p, j).before(r, j)
    is_right(f)
    f, (p, q, r) = chain()
    q.after(p, i)
    r.after(q, tm.root)
    is_right(f)


@group("68", "the statements that a computation has", "`statement_names`, `.init`, `.update`, `get_update`")
def statements_of() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", T, [N])
    s = f.reduction("s", {}, {i: N}, tm.sum, a[i])
    f.outputs(s)
    assert len(s.statement_names()) == 2
    s.update.separate_at(i, [3])
    s.get_update(2).unroll(i, 2)
    given = numbers(9)
    right(f, given.sum(), given)


@group("80, 81", "tiles in two and three dimensions that are shared", "`tile`, `after`")
def shared_tiles() -> None:
    f, made = chain(2)
    f.schedule(*made).tile(i, j, 2, 4, i0, j0, i1, j1)
    made[1].after(made[0], j0)
    is_right(f, 2)
    f = tm.Function("f", params=[N])
    p = f.computation("p", {i: N, j: N, k: N}, i * j + k)
    f.outputs(p)
    p.tile({i: 4, j: 4, k: 4})
    a, b, c = np.mgrid[:6, :6, :6]
    right(f, a * b + c, N=6)


@group("82, 83", "a producer stored further out than it is computed", "`compute_at`, `store_at`, `slide`")
def stored_further_out() -> None:
    f, p, q = stencil()
    p.compute_at(q, i)
    p.store_at(q, tm.root)
    p.slide(i)
    stencil_is_right(f)


@group("85, 155", "a matrix product of any size", "`reduction`")
def matrix_product() -> None:
    f = tm.Function("f", params=[N, M, K])
    a, b = f.input("a", T, [N, K]), f.input("b", T, [K, M])
    c = f.reduction("c", {i: N, j: M}, {k: K}, tm.sum, a[i, k] * b[k, j])
    f.outputs(c)
    c.update.tile(i, j, 4, 4, i0, j0, i1, j1)
    p, q = numbers(7, 5), numbers(5, 9, seed=1)
    right(f, p @ q, p, q)


@group("87, 88", "sizes of arrays from inputs", "parameters take the shapes of arrays")
def sizes_from_arrays() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", T, [N])
    f.outputs(f.computation("s", {i: 2 * N}, a[i // 2]))
    given = numbers(6)
    right(f, np.repeat(given, 2), given)


@group("94", "the example of the paper: interchange, parallel, vectors", "`interchange`, `parallelize`, `vectorize`")
def of_the_paper() -> None:
    f, (p, q) = chain(2)
    p.interchange(i, j)
    q.split(j, 4, j0, j1)
    q.parallelize(i)
    q.vectorize(j1, 4)
    is_right(f, 2)


@group(
    "103, 104, 117, 119, 120", "making code, in steps or at once", "`check`, `lowered`, `source`, `compile`, `export`"
)
def steps() -> None:
    f, _ = chain(2)
    assert f.check().ok
    assert "for (int64_t i = 0; i < N; i++)" in "".join(f.source().values())
    is_right(f, 2)


@group("105-109, 129", "places: as they are, {}, {i}, {i, j}, transposed, modulo", "`store_in(buffer, indices)`")
def places() -> None:
    f = tm.Function("f", params=[N], assume="N <= 7")
    a = f.input("a", T, [N, N])
    names = ("identity", "turned", "around", "apart")
    made = [f.computation(name, {i: N, j: N}, a[i, j] + n) for n, name in enumerate(names)]
    scalar = f.computation("scalar", {i: N}, a[i, 0] + 1)
    last = f.computation("last", {i: N}, scalar[i] * 2)
    f.outputs(*made, last)
    made[1].store_in(tm.Buffer("b1", [N, N], T), [j, i])
    made[2].store_in(tm.Buffer("b2", [N, 7], T), [i, (j + 3) % 7])
    made[3].store_in(tm.Buffer("b3", [3 * N, N], T), [i + 2 * j, i])
    last.after(scalar, i)
    scalar.store_in(tm.Buffer("one", [], T), [])
    given = numbers(7, 7)
    r, c = np.mgrid[:7, :7]
    around, apart = np.zeros((7, 7), np.int32), np.zeros((21, 7), np.int32)
    around[r, (c + 3) % 7] = given + 2
    apart[r + 2 * c, r] = given + 3
    right(f, (given, (given + 1).T, around, apart, 2 * (given[:, 0] + 1)), given, N=7)


@group("161", "a constant by its name", '`f["name"]`')
def by_name() -> None:
    f, (_, q, _) = chain()
    assert str(f["s1"]) == str(q)
    f["s1"].vectorize(j, 4)
    is_right(f)
