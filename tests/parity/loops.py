"""Loops: tiles, vectors, unrolling, skewing; and how values are declared."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm
from tests.parity.groups import grid, group, numbers, right

N, M = tm.params("N M")
i, j, k, i0, j0, i1, j1, k0, k1, i2, j2, x, y = tm.iters("i j k i0 j0 i1 j1 k0 k1 i2 j2 x y")
T = tm.int32


def sum_of(rows: object = N, columns: object = M) -> tuple[tm.Function, tm.Computation]:
    """A matrix plus its indices."""
    f = tm.Function("f", params=[p for p in (N, M) if p is rows or p is columns])
    a = f.input("a", T, [rows, columns])
    s = f.computation("s", {i: rows, j: columns}, a[i, j] + 3 * i + j)
    f.outputs(s)
    return f, s


def is_right(f: tm.Function, rows: int = 13, columns: int = 10) -> None:
    """The matrix plus its indices is what NumPy makes of it."""
    a, (r, c) = numbers(rows, columns), grid(rows, columns)
    right(f, a + 3 * r + c, a)


@group("01-03", "tile and parallel, constant and parametric bounds", "`tile`, `parallelize`")
def tiles() -> None:
    for rows, columns in ((13, 10), (N, M), (13, M)):
        f, s = sum_of(rows, columns)
        s.tile(i, j, 2, 4, i0, j0, i1, j1)
        s.parallelize(i0)
        is_right(f)


@group("04", "a constant at a level", "`compute_at`")
def constants_at_a_level() -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", T, [N, M])
    t = f.computation("t", {i: N}, 7 * i)
    s = f.computation("s", {i: N, j: M}, a[i, j] * t[i])
    f.outputs(s)
    t.compute_at(s, i)
    given = numbers(5, 6)
    right(f, given * 7 * np.arange(5)[:, None], given)


@group("05", "a pipeline in Halide's style", "`computation` with open domains")
def pipeline() -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", tm.uint8, [N + 2, M + 2])
    bx = f.computation("bx", [i, j], (tm.cast(tm.uint16, a[i, j]) + a[i, j + 1] + a[i, j + 2]) // 3)
    by = f.computation("by", {i: N, j: M}, tm.cast(tm.uint8, (bx[i, j] + bx[i + 1, j] + bx[i + 2, j]) // 3))
    f.outputs(by)
    given = np.random.default_rng(0).integers(0, 256, (9, 12), np.uint8)
    wide = given.astype(np.uint16)
    row = (wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]) // 3
    right(f, ((row[:-2] + row[1:-1] + row[2:]) // 3).astype(np.uint8), given)


@group("06", "shift to the right", "`>>`, `<<`, `&`, `|`, `^`")
def shifts() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", T, [N])
    f.outputs(f.computation("s", {i: N}, (a[i] >> 1) + ((a[i] << 2) ^ (a[i] & 5))))
    given = numbers(20)
    right(f, (given >> 1) + ((given << 2) ^ (given & 5)), given)


@group("07, 10-low-level", "schedules as isl maps", "`set_schedule`")
def low_level() -> None:
    f, s = sum_of()
    s.set_schedule("{ [i, j] -> [b, j, r] : b = floor(i/3) and r = i - 3b }")
    s.parallelize("b")
    is_right(f)


@group("08", "floor and casts", "`tm.floor`, `tm.cast`")
def floors() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N])
    f.outputs(f.computation("s", {i: N}, tm.cast(T, tm.floor(a[i])) + 1))
    given = numbers(20, dtype="float32") / np.float32(4)
    right(f, np.floor(given).astype(np.int32) + 1, given)


@group("09", "a reduction of stages with least indices above 0", "domains `{i: (low, high)}`, `reduction`")
def lowest_indices() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", T, [N + 2])
    p = f.computation("p", {i: (1, N + 1)}, a[i - 1] + a[i + 1])
    s = f.reduction("s", {}, {i: (1, N + 1)}, tm.sum, p[i] * p[i])
    f.outputs(s)
    given = numbers(22)
    right(f, np.sum((given[:-2] + given[2:]) ** 2), given)


@group("10", "vectors along the outer loop", "`vectorize`")
def vectors_outside() -> None:
    f, s = sum_of()
    s.vectorize(i, 4)
    is_right(f)


@group("11, 12, 144-147", "unrolled loops, with rests or wholly", "`unroll`")
def unrolled() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", T, [N, 10])
    s = [f.computation(f"s{n}", {i: N, j: 10}, a[i, j] + n) for n in range(3)]
    f.outputs(*s)
    for result, factor in zip(s, (2, 4, None), strict=True):
        result.unroll(j, factor)
    given = numbers(7, 10)
    right(f, tuple(given + n for n in range(3)), given)


@group(
    "16, 20, 56",
    "access expressions: parsed, not affine, clamped",
    "isl text as a domain, `tm.clip`, values as indices",
)
def accesses() -> None:
    f = tm.Function("f", params=[N])
    at, a = f.input("at", T, [N], values=(0, N)), f.input("a", T, [N])
    s = f.computation("s", "[N] -> { s[i] : 0 <= i < N }", a[at[i]] + a[tm.clip(2 * i - 3, 0, N - 1)])
    f.outputs(s)
    given, n = numbers(11), np.arange(11)
    right(f, given[n[::-1]] + given[np.clip(2 * n - 3, 0, 10)], n[::-1].astype(np.int32), given)


@group("25", "definitions in pieces, which read themselves", "`tm.select`, `lambda c: ...`")
def fibonacci() -> None:
    f = tm.Function("f", params=[N])
    c = f.computation("c", {i: N}, lambda c: tm.select(i < 2, 1, c[i - 1] + c[i - 2]), dtype=T)
    f.outputs(c)
    wanted = [1, 1]
    while len(wanted) < 12:
        wanted.append(wanted[-1] + wanted[-2])
    right(f, np.array(wanted), N=12)


@group("26, 91", "reductions by updates", "`reduction`, `.init`, `.update`")
def updates() -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", T, [N, M])
    s = f.reduction("s", {i: N}, {j: M}, tm.sum, a[i, j])
    f.outputs(s)
    s.update.interchange(i, j)
    given = numbers(7, 9)
    right(f, given.sum(axis=1), given)


@group("28, 60-67", "vectors whose extents they divide, or not", "`vectorize(j, width)`")
def remainders() -> None:
    f = tm.Function("f", params=[N])
    cases = ((10, 8), (10, 4), (32, 16), (32, 32), (8, 4), (9, 4), (11, 4), (12, 4), (N + 1, 2))
    results = [f.computation(f"s{n}", {i: 3, j: extent}, 3 * i + j) for n, (extent, _) in enumerate(cases)]
    f.outputs(*results)
    for result, (_, width) in zip(results, cases, strict=True):
        result.vectorize(j, width)
    wanted = [grid(3, extent if isinstance(extent, int) else 8) for extent, _ in cases]
    right(f, tuple(3 * r + c for r, c in wanted), N=7)


@group("48", "several parallel loops", "`parallelize(i, j)`")
def parallel_loops() -> None:
    f, s = sum_of()
    s.parallelize(i, j)
    is_right(f)


@group("54, 173, 174", "predicates", "`where=`")
def predicates() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", T, [N])
    odd = f.reduction("odd", {}, {i: N}, tm.sum, a[i], where=(a[i] % 2 == 1) & (i != 0))
    f.outputs(odd)
    given = numbers(30)
    right(f, given[1:][given[1:] % 2 == 1].sum(), given)


@group("55, 57", "linear interpolation", "`tm.lerp`")
def interpolated() -> None:
    f = tm.Function("f", params=[N])
    a, b = f.input("a", tm.float32, [N]), f.input("b", tm.float32, [N])
    f.outputs(f.computation("s", {i: N}, tm.lerp(a[i], b[i], np.float32(0.25))))
    p, q = numbers(9, dtype="float32"), numbers(9, dtype="float32", seed=1)
    right(f, p * np.float32(0.75) + q * np.float32(0.25), p, q)


@group(
    "69, 70, 74, 75, 152, 156, 158",
    "tiles with vectors, unrolled, and parallel",
    "`tile`, `vectorize`, `unroll`, `parallelize`",
)
def tiles_of_vectors() -> None:
    for unrolled_loop, vector in ((None, j1), (i1, j1), (j1, i1)):
        f, s = sum_of()
        s.tile(i, j, 4, 8, i0, j0, i1, j1)
        s.parallelize(i0)
        s.vectorize(vector, 4)
        if unrolled_loop is not None:
            s.unroll(unrolled_loop)
        is_right(f, 21, 35)


@group("71, 72", "saxpy, with vectors and threads", "`vectorize`, `parallelize`")
def saxpy() -> None:
    f = tm.Function("f", params=[N])
    a, p, q = f.scalar("a", tm.float32), f.input("p", tm.float32, [N]), f.input("q", tm.float32, [N])
    s = f.computation("s", {i: N}, a * p[i] + q[i])
    f.outputs(s)
    s.split(i, 64, i0, i1)
    s.parallelize(i0)
    s.vectorize(i1, 8)
    p, q = numbers(100, dtype="float32"), numbers(100, dtype="float32", seed=1)
    right(f, np.float32(3) * p + q, np.float32(3), p, q)


@group("73", "statements cut in parts", "`separate_at`, `get_update`")
def separated() -> None:
    f, s = sum_of()
    s.separate_at(j, [4])
    s.get_update(0).unroll(j)
    s.get_update(1).vectorize(j, 4)
    is_right(f)


@group("76", "one name in several computations", "iterators have names, and no types")
def one_name() -> None:
    f = tm.Function("f", params=[N])
    p = f.computation("p", {i: N}, tm.cast(tm.int64, i))
    q = f.computation("q", {i: N}, tm.cast(tm.float32, i) + tm.cast(tm.float32, p[i]))
    f.outputs(p, q)
    n = np.arange(9)
    right(f, (n, (2 * n).astype(np.float32)), N=9)


@group("77-79", "inlined producers, other places of results", "`inline`, `store_in`")
def inlined() -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", T, [N, M])
    p = f.computation("p", {i: N, j: M}, a[i, j] * 2)
    s = f.computation("s", {i: N, j: M}, p[i, j] + 1)
    f.outputs(s)
    p.inline()
    s.store_in(tm.Buffer("turned", [M, N], T), [j, i])
    s.tile(i, j, 4, 4, i0, j0, i1, j1)
    s.parallelize(i0)
    given = numbers(9, 6)
    right(f, (given * 2 + 1).T, given)


@group(
    "86, 92",
    "bounds that are no rectangle; local arrays as long as an outer iterator says",
    "`{i: N, j: i + 1}`, `compute_at`",
)
def triangles() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", T, [N, N])
    p = f.computation("p", {i: N, j: i + 1}, a[i, j] + j)
    s = f.computation("s", {i: N, j: i + 1}, p[i, i - j], shape=[N, N])
    f.outputs(s)
    p.compute_at(s, i)
    given = numbers(7, 7)
    wanted = np.zeros((7, 7), np.int32)
    for r in range(7):
        wanted[r, : r + 1] = (given[r, : r + 1] + np.arange(r + 1))[::-1]
    right(f, wanted, given)


@group("89", "conditions on sizes, tiles in tiles, vectors", "`assume=`, `tile` twice")
def assumed() -> None:
    f = tm.Function("f", params=[N, M], assume="N >= 16 and M >= 32")
    a = f.input("a", T, [N, M])
    s = f.computation("s", {i: N, j: M}, 3 * a[i, j])
    f.outputs(s)
    s.tile(i, j, 16, 32, i0, j0, i1, j1)
    s.tile(i1, j1, 4, 8, i2, j2, x, y)
    s.vectorize(y, 8)
    given = numbers(20, 40)
    right(f, 3 * given, given)


@group("93", "a large program", "forty computations, each of which reads two others")
def large() -> None:
    f = tm.Function("f", params=[N])
    chain = [f.input("a", T, [N]), f.computation("c0", {i: N}, i)]
    for n in range(1, 40):
        chain.append(f.computation(f"c{n}", {i: N}, (chain[-1][i] + chain[-2][i]) % 1000))
    f.outputs(chain[-1])
    given = numbers(10)
    values = [given, np.arange(10)]
    while len(values) < 41:
        values.append((values[-1] + values[-2]) % 1000)
    right(f, values[-1], given)


@group("96, 97", "iterators of 64 bits", "all iterators have 64 bits")
def long_iterators() -> None:
    f = tm.Function("f", params=[N])
    f.outputs(f.computation("s", {i: N}, tm.cast(tm.int64, i) * 2**33))
    right(f, np.arange(5) * 2**33, N=5)


@group(
    "110-116, 118, 121-124, 128, 172",
    "ranges of constants and parameters; 0, 1 and 2 dimensions; extents of 1",
    "domains as dicts",
)
def ranges() -> None:
    f = tm.Function("f", params=[N])
    cases = ((N, N), (N, 10), (10, 10), (10, N), (1, 10), (N, 1))
    f.outputs(*(f.computation(f"s{n}", {i: rows, j: columns}, 3 * i + j) for n, (rows, columns) in enumerate(cases)))
    sizes = [[each if isinstance(each, int) else 6 for each in case] for case in cases]
    right(f, tuple(3 * r + c for r, c in (grid(*size) for size in sizes)), N=6)
    f = tm.Function("f", params=[N])
    a = f.input("a", T, [10])
    zero = f.computation("zero", {}, a[3] + N)
    one = f.computation("one", {i: 10}, a[i] + zero[()])
    f.outputs(zero, one)
    given = numbers(10)
    right(f, (given[3] + 4, given + given[3] + 4), given, N=4)


@group("125-127", "constants of constants", "`f.scalar`, computations without dimensions")
def constants() -> None:
    f = tm.Function("f", params=[N])
    base = f.scalar("base", T)
    first = f.computation("first", {}, base * 2)
    second = f.computation("second", {}, first[()] + 5)
    f.outputs(f.computation("s", {i: N}, second[()] * i))
    right(f, 11 * np.arange(6), np.int32(3), N=6)


@group("131-140, 176-178", "skewed loops, by (1, 1), (1, -1), (3, 3) and a reversal", "`skew`, `transform`, `reverse`")
def skewed() -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", T, [N, M])
    s = [f.computation(f"s{n}", {i: N, j: M}, a[i, j] + n) for n in range(4)]
    f.outputs(*s)
    s[0].skew(i, j, 1)
    s[1].skew(i, j, -1)
    s[2].transform([i, j], [[1, 1], [0, 1]])
    s[3].reverse(j)
    s[3].skew(i, j, 3)
    given = numbers(7, 9)
    right(f, tuple(given + n for n in range(4)), given)


@group(
    "143, 153, 154",
    "several computations at once; tiles and uneven splits",
    "`f.schedule(p, q)`, `split`, `interchange`",
)
def blocks() -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", T, [N, M])
    p = f.computation("p", {i: N, j: M}, a[i, j] + 1)
    q = f.computation("q", {i: N, j: M}, p[i, j] * a[i, j])
    f.outputs(q)
    f.schedule(p, q).tile(i, j, 2, 8, i0, j0, i1, j1).parallelize(i0).vectorize(j1, 4)
    q.split(i1, 3, i2, x)
    q.interchange(i2, x)
    given = numbers(11, 13)
    right(f, (given + 1) * given, given)


@group(
    "148-151, 157, 159", "splits and tiles that are unrolled, tiles in tiles", "`split`, `tile`, `unroll`, `vectorize`"
)
def unrolled_tiles() -> None:
    f, s = sum_of()
    s.tile(i, j, 2, 2, i0, j0, i1, j1)
    s.unroll(i1)
    s.unroll(j1)
    is_right(f)
    f, s = sum_of()
    s.tile(i, j, 8, 16, i0, j0, i1, j1)
    s.tile(i1, j1, 2, 4, i2, j2, x, y)
    s.unroll(x)
    s.vectorize(y, 4)
    is_right(f)


@group("163", "accesses shifted by data", "values as indices, `values=`")
def shifted_by_data() -> None:
    f = tm.Function("f", params=[N])
    by, a = f.input("by", T, [N], values=(0, 4)), f.input("a", T, [N + 3])
    f.outputs(f.computation("s", {i: N}, a[i + by[i]]))
    given, apart = numbers(15), np.arange(12, dtype=np.int32) % 4
    right(f, given[np.arange(12) + apart], apart, given)


@group("175", "loops run backwards", "`reverse`")
def reversed_loops() -> None:
    f, s = sum_of()
    s.reverse(i)
    is_right(f)


@group("196", "unrolled and vectorised from other bounds than 0", "`unroll`, `vectorize`")
def other_bounds() -> None:
    f = tm.Function("f", params=[N, M], assume="N >= 2 and M >= 4")
    a = f.input("a", T, [N, M])
    s = f.computation("s", {i: (1, N), j: (3, M)}, a[i, j] * 2, shape=[N, M])
    f.outputs(s)
    s.unroll(i, 3)
    s.vectorize(j, 4)
    given = numbers(12, 14)
    wanted = np.zeros_like(given)
    wanted[1:, 3:] = 2 * given[1:, 3:]
    right(f, wanted, given)


@group("test_global", "bounds, names of dimensions", '`f.domains()`, `f.show("pseudocode")`')
def told() -> None:
    f, s = sum_of()
    assert "s[i, j]: 0 <= i < N and 0 <= j < M" in f.domains()
    s.split(j, 4, j0, j1)
    assert "for j0 in 0 .. (M + 3) // 4" in str(f.show("pseudocode"))
