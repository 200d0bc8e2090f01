"""Every command, legal uses: the compiled program and the interpreted loops equal `evaluate()` bit for bit."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs.pipelines import c, c0, c1, d, e, i, i0, i1, j, j0, j1, k, k0, k1, r, r0, r1, t, t0, t1, x, y
from tiramisu_py.interpret import run
from tiramisu_py.lower import lower
from tiramisu_py.toolchain.compilers import library

SIZES = (0, 1, 2, 7, 16, 17, 33)

Make = Callable[[], SimpleNamespace]
Schedule = Callable[[SimpleNamespace], object]
Case = tuple[str, Make, Schedule]

CASES: list[Case] = [
    ("split", pl.scale, lambda s: s.o.split(i, 4, i0, i1)),
    ("split by more than the extent", pl.scale, lambda s: s.o.split(j, 64, j0, j1)),
    ("split with an origin", pl.scale, lambda s: s.o.split(i, 5, i0, i1, origin=3)),
    ("split twice", pl.scale, lambda s: s.o.split(i, 8, i0, i1).split(i1, 3, y, x)),
    ("split a triangle", pl.triangle, lambda s: s.s.split(j, 4, j0, j1)),
    ("tile 2-D", pl.scale, lambda s: s.o.tile(i, j, 4, 8, i0, j0, i1, j1)),
    ("tile a triangle", pl.triangle, lambda s: s.s.tile(i, j, 4, 4, i0, j0, i1, j1)),
    ("tile 3-D", pl.volume, lambda s: s.o.tile(i, j, k, 2, 3, 4, i0, j0, k0, i1, j1, k1)),
    ("interchange", pl.scale, lambda s: s.o.interchange(i, j)),
    ("interchange a triangle", pl.triangle, lambda s: s.s.interchange(j, i)),
    ("reorder", pl.volume, lambda s: s.o.reorder(k, i, j)),
    ("reorder two of three", pl.volume, lambda s: s.o.reorder(k, i)),
    ("shift", pl.scale, lambda s: s.o.shift(i, 3)),
    ("shift by a parameter", pl.pair, lambda s: s.q.shift(i, tm.params("N")[0])),
    ("skew", pl.scale, lambda s: s.o.skew(i, j, 2)),
    ("skew by a negative factor", pl.scale, lambda s: s.o.skew(i, j, -1, d)),
    ("skew by two loops", pl.volume, lambda s: s.o.skew({i: 1, j: -2}, k, new=d)),
    ("skew two loops", pl.volume, lambda s: s.o.skew(i, {j: 1, k: 2})),
    ("a wavefront by a matrix", pl.scale, lambda s: s.o.transform([i, j], [[1, 1], [0, 1]], [d, j]).parallelize(j)),
    ("a matrix that turns and swaps", pl.volume,
        lambda s: s.o.transform([k, i, j], [[0, -1, 0], [1, 2, 0], [0, 3, 1]], [x, y, e])),
    ("a matrix around a loop", pl.volume, lambda s: s.o.transform([i, k], [[2, 1], [1, 1]])),
    ("tile by a matrix", pl.triangle, lambda s: s.s.transform([i, j], [[1, 1], [1, 2]], [x, y]).tile({x: 4, y: 3})),
    ("tile one loop", pl.scale, lambda s: s.o.tile(j, 5, j0, j1)),
    ("tile by a dict", pl.volume, lambda s: s.o.tile({i: 2, j: 3, k: 4})),
    ("tile by a dict, named", pl.volume, lambda s: s.o.tile({j: 3, k: 4}, x, y, d, e)),
    ("tile four loops", pl.volume,
        lambda s: s.o.split(k, 8, k0, k1).tile({i: 2, j: 3, k0: 2, k1: 4}, i0, j0, x, y, i1, j1, d, e)),
    ("schedule several", pl.chain, lambda s: s.f.schedule(s.p, s.q, s.z).tile({i: 4}).vectorize(i1, 4)),
    ("schedule several in shared loops", pl.chain, lambda s: (s.q.fuse(s.p, i),
        s.f.schedule(s.p, s.q, s.z).split(i, 4, i0, i1).parallelize(i0))),
    ("coalesce the parts of a split", pl.scale, lambda s: s.o.split(i, 4, i0, i1).coalesce(i0, i1, into=x)),
    ("coalesce rows and lanes", pl.scale, lambda s: s.o.split(j, 4, j0, j1).coalesce(j0, j1, into=x).vectorize(x, 8)),
    ("reverse", pl.scale, lambda s: s.o.reverse(j)),
    ("reverse, then split", pl.scale, lambda s: s.o.reverse(j).split(j, 4, j0, j1)),
    ("unroll by a factor", pl.scale, lambda s: s.o.unroll(j, 3)),
    ("unroll an outer loop", pl.scale, lambda s: s.o.unroll(i, 2)),
    ("unroll a tile", pl.scale, lambda s: s.o.split(j, 4, j0, j1).unroll(j1)),
    ("unroll and jam", pl.scale, lambda s: s.o.unroll_and_jam(i, 4)),
    ("unroll and jam inside vectors", pl.scale, lambda s: s.o.vectorize(j, 4).unroll_and_jam(i, 3, i0, i1)),
    ("unroll and jam a triangle", pl.triangle, lambda s: s.s.unroll_and_jam(i, 2)),
    ("unroll and jam three loops", pl.volume, lambda s: s.o.unroll_and_jam(i, 2).unroll_and_jam(j, 4)),
    ("vectorize", pl.scale, lambda s: s.o.vectorize(j, 8)),
    ("vectorize, the rest masked", pl.scale, lambda s: s.o.vectorize(j, 8, remainder="mask")),
    ("vectorize, the rest overlapping", pl.scale, lambda s: s.o.vectorize(j, 8, remainder="overlap")),
    ("mask a strided loop", pl.scale, lambda s: s.o.interchange(i, j).vectorize(i, 4, remainder="mask")),
    ("mask a triangle", pl.triangle, lambda s: s.s.vectorize(j, 4, remainder="mask")),
    ("mask a reversed loop", pl.scale, lambda s: s.o.reverse(j).vectorize(j, 4, remainder="mask")),
    ("mask tiles", pl.scale, lambda s: s.o.split(j, 16, j0, j1).vectorize(j1, 8, remainder="mask")),
    ("mask a guarded loop", pl.heat, lambda s: s.h.vectorize(i, 8, remainder="mask")),
    ("overlap a guarded loop", pl.heat, lambda s: s.h.vectorize(i, 8, remainder="overlap")),
    ("mask updates", pl.matmul, lambda s: s.C.vectorize(j, 4, remainder="mask")),
    ("mask over a reduction", pl.matmul,
        lambda s: s.C.update.vectorize(k, 4, combine=tm.PRIVATE, remainder="mask")),
    ("overlap a whole reduction", pl.matmul,
        lambda s: (s.C.update.after(s.C.init, j), s.C.vectorize(j, 4, remainder="overlap"))),
    ("mask in place", pl.update, lambda s: s.b.store_in(s.a, [i]).vectorize(i, 4, remainder="mask")),
    ("specialize what is left of a factor", pl.scale, lambda s: s.o.unroll(j, 3, remainder="specialize")),
    ("specialize tiles", pl.scale, lambda s: s.o.tile(i, j, 4, 4, i0, j0, i1, j1)
        .unroll(j1, remainder="specialize").unroll(i1, remainder="specialize")),
    ("specialize tiles of a triangle", pl.triangle, lambda s: s.s.tile(i, j, 4, 4, i0, j0, i1, j1)
        .unroll(j1, remainder="specialize").unroll(i1, remainder="specialize")),
    ("specialize register tiles with masks", pl.blur, lambda s: (
        s.by.tile(r, c, 4, 16, r0, c0, r1, c1).parallelize(r0).vectorize(c1, 16, remainder="mask"),
        s.by.unroll(r1, remainder="specialize"), s.bx.compute_at(s.by, c0).unroll(r, remainder="specialize"),
        s.bx.vectorize(c, 16, remainder="mask").store_in(tm.REGISTER))),
    ("specialize vectors of tiles", pl.scale, lambda s: (s.o.split(j, 32, j0, j1).parallelize(i),
        s.o.vectorize(j1, 8, remainder="mask", partial="specialize"))),
    ("specialize vectors of a triangle", pl.triangle, lambda s: s.s.tile(i, j, 4, 16, i0, j0, i1, j1)
        .unroll(i1, remainder="specialize").vectorize(j1, 4, remainder="mask", partial="specialize")),
    ("specialize vectors of two stages", pl.blur, lambda s: (
        s.by.tile(r, c, 4, 32, r0, c0, r1, c1).vectorize(c1, 8, remainder="mask", partial="specialize"),
        s.by.unroll(r1, remainder="specialize"), s.bx.compute_at(s.by, c0).unroll(r, remainder="specialize"),
        s.bx.store_in(tm.REGISTER).vectorize(c, 8, remainder="mask", partial="specialize"))),
    ("specialize vectors of threads' tiles", pl.matmul, lambda s: (
        s.C.update.tile(i, j, 4, 32, i0, j0, i1, j1).reorder(i0, j0, k, i1, j1).parallelize(i0, j0),
        s.C.update.vectorize(j1, 8, remainder="mask", partial="specialize").unroll(i1, remainder="specialize"))),
    ("matmul with masks", pl.matmul, lambda s: (s.C.update.tile(i, j, 4, 32, i0, j0, i1, j1).reorder(i0, j0, k, i1, j1),
        s.C.update.vectorize(j1, 8, remainder="mask").unroll(i1, remainder="specialize"))),
    ("skewed tiles in three pieces", pl.heat,
        lambda s: s.h.skew(t, i, 1, e).tile(t, e, 4, 8, t0, d, t1, x).unroll(x)),
    ("vectorize a strided loop", pl.scale, lambda s: s.o.interchange(i, j).vectorize(i, 4)),
    ("vectorize a triangle", pl.triangle, lambda s: s.s.vectorize(j, 4)),
    ("vectorize a reversed loop", pl.scale, lambda s: s.o.reverse(j).vectorize(j, 4)),
    ("parallelize", pl.scale, lambda s: s.o.parallelize(i)),
    ("parallelize dynamically", pl.scale, lambda s: s.o.parallelize(i, schedule="dynamic", chunk=2)),
    ("parallelize two loops together", pl.scale, lambda s: s.o.parallelize(i, j)),
    ("parallelize a triangle", pl.triangle, lambda s: s.s.parallelize(i, schedule="guided")),
    ("after at root", pl.pair, lambda s: s.q.after(s.p, tm.root)),
    ("after, shifted", pl.pair, lambda s: s.q.after(s.p, i).shift(i, 1)),
    ("before, shifted", pl.pair, lambda s: s.p.before(s.q, i).shift(i, -1)),
    ("fuse, shifted", pl.pair, lambda s: s.q.fuse(s.p, i).shift(i, 1)),
    ("between", pl.chain, lambda s: s.q.after(s.p, i).before(s.z, tm.root)),
    ("between at two levels", pl.chain, lambda s: s.q.after(s.p, tm.root).before(s.z, i)),
    ("in place", pl.update, lambda s: s.b.store_in(s.a, [i])),
    ("in place, in lanes", pl.update, lambda s: s.b.store_in(s.a, [i]).vectorize(i, 4)),
    ("after without a loop", pl.blur, lambda s: s.by.after(s.bx)),
    ("order", pl.blur, lambda s: s.f.order(s.bx, s.by, at=tm.root)),
    ("order in shared rows, shifted", pl.blur, lambda s: (s.f.order(s.bx, s.by, at=r), s.by.shift(r, 2))),
    ("separate_at", pl.scale, lambda s: s.o.separate_at(i, [4])),
    ("separate_at three times", pl.scale, lambda s: s.o.separate_at(j, [1, 8, 16])[1].vectorize(j, 4)),
    ("separate_at a parameter", pl.scale, lambda s: s.o.separate_at(i, [tm.params("M")[0]])),
    ("get_update", pl.scale, lambda s: (s.o.separate_at(i, [2]), s.o.get_update(1).parallelize(i))),
    ("compute_at a row", pl.blur, lambda s: s.bx.compute_at(s.by, r)),
    ("compute_at an element", pl.blur, lambda s: s.bx.compute_at(s.by, c)),
    ("compute_at a tile", pl.blur, lambda s: (s.by.tile(r, c, 4, 8, r0, c0, r1, c1), s.bx.compute_at(s.by, c0))),
    ("compute_at with a whole buffer", pl.blur, lambda s: (s.bx.store_in([r, c]), s.bx.compute_at(s.by, r))),
    ("inline", pl.blur, lambda s: s.bx.inline()),
    ("inline, then vectorize", pl.blur, lambda s: (s.bx.inline(), s.by.vectorize(c, 4))),
    ("set_schedule", pl.scale, lambda s: s.o.set_schedule("{ [i, j] -> [d, j] : d = i + j }")),
    ("set_schedule of one that shares loops", pl.blur,
        lambda s: (s.f.order(s.bx, s.by, at=r), s.by.shift(r, 2), s.by.set_schedule("{ [r, c] -> [c, r] }"))),
    ("set_schedule of two that share loops, then shared again", pl.pair, lambda s: (s.q.after(s.p, i).shift(i, 1),
        s.q.set_schedule("{ [i] -> [i] }"), s.p.set_schedule("{ [i] -> [x = i - 1] }"), s.q.after(s.p, x))),
    ("set_schedule, then vectorize", pl.scale, lambda s: s.o.set_schedule("{ [i, j] -> [j, i] }").vectorize(i, 4)),
    ("store_in transposed", pl.blur, lambda s: s.bx.store_in([c, r])),
    ("store_in folded", pl.blur, lambda s: (s.f.order(s.bx, s.by, at=r), s.by.shift(r, 2), s.bx.store_in([r % 3, c]))),
    ("store_in a buffer of two", pl.pair, lambda s: (s.q.after(s.p, i).shift(i, 1),
        s.p.store_in(tm.Buffer("two", [2], tm.int32), [i % 2]))),
    ("store_at", pl.blur, lambda s: (s.bx.store_in([r, c]), s.bx.compute_at(s.by, r), s.bx.store_at(s.by, r))),
    ("registers", pl.blur, lambda s: (s.by.split(r, 4, r0, r1).reorder(r0, c, r1).unroll(r1), s.by.vectorize(c, 8),
        s.bx.compute_at(s.by, c).unroll(r).store_in(tm.REGISTER))),
    ("copy an input", pl.blur,
        lambda s: (s.bx.split(r, 4, r0, r1), s.bx.copy(s.image, [y, x], at=r0).vectorize(x, 4))),
    ("copy a producer", pl.blur, lambda s: s.by.copy(s.bx, [y, x], at=r, layout=[x, y])),
    ("pack", pl.matmul, lambda s: s.C.update.copy(s.B, [y, x], layout=[x // 4, y, x % 4])),
    ("keep a packed operand", pl.matmul, lambda s: s.C.update.copy(s.B, [y, x], layout=[x // 4, y, x % 4]).keep()),
    ("keep both packed operands", pl.matmul, lambda s: (
        s.C.update.copy(s.B, [y, x], layout=[x, y]).keep().vectorize(x, 4),
        s.C.update.copy(s.A, [y, x], layout=[x, y]).keep().parallelize(y))),
    ("jam: a row block in registers", pl.blur, lambda s: (s.by.split(r, 8, r0, r1).reorder(r0, c, r1).unroll(r1),
        s.by.vectorize(c, 16), s.by.parallelize(r0), s.bx.compute_at(s.by, c).unroll(r).store_in(tm.REGISTER))),
    ("the blur of the guide", pl.blur, lambda s: (s.by.tile(r, c, 8, 16, r0, c0, r1, c1).parallelize(r0),
        s.by.vectorize(c1, 8), s.bx.compute_at(s.by, c0).vectorize(c, 8))),
    ("time skewing", pl.heat, lambda s: s.h.skew(t, i, 1, e).tile(t, e, 4, 8, t0, d, t1, x)),
    ("a wavefront", pl.heat, lambda s: s.h.skew(t, i, 2, e).interchange(t, e).parallelize(t)),
    ("heat, vectorized", pl.heat, lambda s: s.h.vectorize(i, 8)),
    ("heat, folded in time", pl.heat, lambda s: s.h.parallelize(i)),
    ("matmul tiled", pl.matmul, lambda s: (s.C.update.tile(i, j, 4, 8, i0, j0, i1, j1).split(k, 2, k0, k1),
        s.C.update.reorder(i0, j0, k0, i1, k1, j1).parallelize(i0).vectorize(j1, 8))),
    ("matmul, both statements", pl.matmul, lambda s: s.C.parallelize(i).vectorize(j, 4)),
    ("matmul, init inside", pl.matmul, lambda s: s.C.update.after(s.C.init, j)),
]  # fmt: skip


def _arguments(s: SimpleNamespace, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Arrays of the right shapes: small whole numbers, so that every order of a float sum gives the same bits."""
    rng = np.random.default_rng(7)
    arrays = {}
    for declared in s.f.algorithm.inputs.values():
        shape = [eval(str(extent), {}, sizes) for extent in declared.shape]
        arrays[declared.name] = rng.integers(-9, 10, shape).astype(declared.dtype.numpy)
    return arrays


def _sizes(s: SimpleNamespace) -> list[dict[str, int]]:
    chosen = SIZES if len(s.params) < 3 else (0, 1, 5, 8)
    least = 1 if s.f.name in ("heat", "update") else 0
    found = [dict(zip(s.params, values, strict=True)) for values in itertools.product(chosen, repeat=len(s.params))]
    return [sizes for sizes in found if sizes[s.params[-1]] >= least]


@functools.cache
def _wanted(make: Make, schedule: Schedule | None, values: tuple[int, ...]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The arguments at some sizes, and what an algorithm makes of them; by any schedule, where it is None."""
    s = make()
    if schedule is not None:
        schedule(s)
    sizes = dict(zip(s.params, values, strict=True))
    arrays = _arguments(s, sizes)
    return arrays, s.f.evaluate(**arrays, **sizes)


def _in_place(make: Make, schedule: Schedule) -> Schedule | None:
    """The schedule, where elements that nobody computes are those of an input."""
    return schedule if make is pl.update else None


@pytest.mark.optimised
@pytest.mark.parametrize(("make", "schedule"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_scheduled_program_computes_what_the_algorithm_says(make, schedule, monkeypatch):
    """And the compiler has nothing to say about it."""
    monkeypatch.setattr(library, "WARNINGS", ("-Wall", "-Wextra", "-Werror"))
    s = make()
    schedule(s)
    report = s.f.check()
    assert report.ok, report
    kernel = s.f.compile()
    for sizes in _sizes(s):
        arrays, wanted = _wanted(make, _in_place(make, schedule), tuple(sizes.values()))
        given = {name: array.copy() for name, array in arrays.items()}
        np.testing.assert_array_equal(kernel(**given, **sizes), wanted, err_msg=str(sizes))


@pytest.mark.parametrize(("make", "schedule"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_interpreted_loops_in_adversarial_order_agree(make, schedule):
    s = make()
    schedule(s)
    for function in (lower(s.f.program), s.f.show("lowered")):
        for sizes in _sizes(s)[:: max(1, len(_sizes(s)) // 3)]:
            if max(sizes.values()) > 17:
                continue
            arrays, wanted = _wanted(make, _in_place(make, schedule), tuple(sizes.values()))
            over = function.outputs[0]
            got = arrays[over].copy() if over in arrays else np.zeros_like(wanted)
            run(function, {**arrays, over: got}, sizes, seed=3)
            np.testing.assert_array_equal(got, wanted, err_msg=str(sizes))
