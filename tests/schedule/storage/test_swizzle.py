"""store_in(tm.SHARED, swizzle=): rows whose elements change places, to the bits of NumPy, without bank conflicts."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lacking import CXX, without_cxx
from tests.programs.drafts import ByHand
from tests.programs.gpu import tensor_products
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.passes.kernels import swizzle_rows
from tiramisu_py.proof.kernels import limits

(N,) = tm.params("N")
i, j, i0, i1, j0, j1, w = tm.iters("i j i0 i1 j0 j1 w")
LARGE = np.random.default_rng(5).random((70, 70), np.float32)


def transposed(
    swizzle: object, side: int = 32, lanes: int = 1, row: int | None = None, assume: str = ""
) -> SimpleNamespace:
    """A transposition through tiles of shared memory; `lanes` elements are loaded at once."""
    f = tm.Function("t", params=[N], assume=assume)
    a = f.input("a", tm.float32, [N, N])
    p = f.computation("p", {i: N, j: N}, 2 * a[i, j])
    o = f.computation("o", {i: N, j: N}, p[j, i])
    f.outputs(o)
    o.gpu_tile(i, j, row or side, side, i0, j0, i1, j1)
    p.compute_at(o, j0)
    p.store_in(tm.SHARED, **({} if swizzle is None else {"swizzle": swizzle}))
    if lanes > 1:
        p.split(j, lanes, j1, w).vectorize(w, lanes)
        p.tag_gpu(threads=[i, j1])
    else:
        p.tag_gpu(threads=[i, j])
    f.derive_transfers()
    return SimpleNamespace(f=f, p=p, o=o)


def conflicts(f: tm.Function) -> list[int]:
    (facts,) = f.cost("kernels")
    return [each.conflicts for each in facts.accesses if each.memory is tm.SHARED]


def test_a_swizzle_takes_the_turns_of_padding_away_without_its_bytes() -> None:
    assert sorted(conflicts(transposed(None).f)) == [1, 32]
    swizzled = transposed(32).f
    assert conflicts(swizzled) == [1, 1] and swizzled.cost("kernels")[0].shared_bytes == 4 * 32 * 32
    assert "p[thread_x, thread_y ^ " in swizzled.source()["t.cu"].replace("\n", " ")
    assert sorted(conflicts(transposed((8, 4)).f)) == [1, 4]


@pytest.mark.parametrize(
    ("swizzle", "lanes"), [(32, 1), ((8, 4), 1), ((4, 2), 4), pytest.param((4, 4, 2), 4, marks=pytest.mark.slow)]
)
def test_values_are_found_where_they_are_stored(swizzle: object, lanes: int) -> None:
    """In the interpreter after each pass, and in the simulator with checks on."""
    s = transposed(swizzle, lanes=lanes) if lanes > 1 else transposed(swizzle)
    assert s.f.check().ok
    small = transposed(2 if lanes == 1 else (2, 2), side=4)
    assert "swizzle_rows (kernel)" in small.f.validate(np.arange(25, dtype=np.float32).reshape(5, 5))
    if not without_cxx():
        kernel = s.f.compile(device="simulator", sanitize=True)
        for seed in range(2):
            np.testing.assert_array_equal(kernel.seeded(seed)(LARGE), 2 * LARGE.T)


def test_groups_that_vectors_store_stay_together() -> None:
    whole = transposed((8, 4), lanes=4, assume="N % 32 = 0").f
    assert "tm_store(&p[thread_y][(4*j1) ^ (4*(thread_y & 7))], tm_value)" in whole.source()["t.cu"]
    apart = transposed((16, 2), lanes=4, assume="N % 32 = 0").f
    assert "p[thread_y][(4*j1 + tm_lane) ^ (2*(thread_y & 15))] = " in apart.source()["t.cu"]  # one by one
    for f in (whole, apart) if not without_cxx() else ():
        kernel = f.compile(device="simulator", sanitize=True, seed=3)
        np.testing.assert_array_equal(kernel(LARGE[:64, :64].copy()), 2 * LARGE[:64, :64].T)


def test_neighbouring_rows_may_be_turned_alike() -> None:
    whole = transposed((4, 4, 2), lanes=4, assume="N % 32 = 0").f
    assert "tm_store(&p[thread_y][(4*j1) ^ (2*(thread_y & 6))], tm_value)" in whole.source()["t.cu"]
    places = {(r, c ^ 4 * (r // 2 % 4)) for r in range(32) for c in range(32)}
    assert places == {(r, c ^ (2 * (r & 6))) for r in range(32) for c in range(32)} and len(places) == 32 * 32
    s = transposed((8, 2, 2), side=8)
    assert s.f.check().ok  # four pairs of rows turn among four
    (violation,) = transposed((8, 2, 2), row=4, side=16).f.check().violations
    assert violation.repair == "p.store_in(tm.SHARED, swizzle=(2, 2, 2))"
    with pytest.raises(tm.CommandError, match="at most as many neighbouring rows are alike as elements"):
        s.p.store_in(tm.SHARED, swizzle=(4, 2, 4))


def test_rows_of_another_length_are_refused_with_what_fits() -> None:
    s = transposed(32, row=8)
    (violation,) = s.f.check().violations
    assert violation.kind == "bounds"
    assert violation.message == (
        "p has the shape [32, 8] in shared memory, and swizzle=(32, 1) turns groups of 1 among 32 elements of a row: a "
        "row of 8 is no multiple of that, so that elements would lie outside of it"
    )
    assert violation.repair == "p.store_in(tm.SHARED, swizzle=(8, 1))"
    s.p.store_in(tm.SHARED, swizzle=8)
    assert s.f.check().ok
    (odd,) = transposed(2, side=5).f.check().violations
    assert odd.repair == "leave swizzle= out"
    assert transposed(32, side=8).f.check().ok  # eight rows turn among eight


@pytest.mark.skipif(without_cxx(), reason=CXX)
def test_without_that_condition_the_simulator_finds_places_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_swizzle", lambda nest, buffer: None)
    s = transposed(32, row=8)
    with pytest.raises(tm.KernelError, match=r"race|outside of the shared arrays"):
        s.f.compile(device="simulator", sanitize=True)(LARGE)


def test_a_row_that_is_loaded_unswizzled_gives_other_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass, but for loads."""
    monkeypatch.setattr(swizzle_rows, "_loads", lambda e, inside, known: e)
    s = transposed(4, side=4)
    with pytest.raises(CompilerDefect, match="the loops are wrong after swizzle_rows"):
        s.f.validate(np.arange(64, dtype=np.float32).reshape(8, 8))


def test_a_copy_is_swizzled_too() -> None:
    f = tm.Function("t", params=[N])
    a = f.input("a", tm.float32, [N, N])
    o = f.computation("o", {i: N, j: N}, a[j, i])
    f.outputs(o)
    o.gpu_tile(i, j, 32, 32, i0, j0, i1, j1)
    o.copy(a, [i, j], at=j0, into=tm.SHARED).store_in(tm.SHARED, swizzle=32)
    f.derive_transfers()
    assert f.check().ok and conflicts(f) == [1, 1]
    if not without_cxx():
        np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True, seed=1)(LARGE), LARGE.T)


def test_another_memory_forgets_the_swizzle_and_files_keep_it(tmp_path: Path) -> None:
    s = transposed(32)
    assert s.f.program.buffers["p"].swizzle == (32, 1)
    s.f.save(tmp_path / "t.json")
    assert tm.load(tmp_path / "t.json").program.buffers["p"].swizzle == (32, 1)
    s.p.store_in(tm.SHARED)
    assert s.f.program.buffers["p"].swizzle is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"swizzle": 3},
            r"swizzle=3: give how many rows differ, a power of two from 2 on, as swizzle=32; or these and",
        ),
        ({"swizzle": (8, 3)}, r"swizzle=\(8, 3\): give how many rows"),
        ({"swizzle": 1}, r"swizzle=1: give how many rows"),
    ],
)
def test_what_is_no_swizzle_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(tm.CommandError, match=words):
        transposed(None).p.store_in(tm.SHARED, **given)


def test_only_shared_memory_has_banks() -> None:
    with pytest.raises(tm.CommandError, match=r"swizzle=32 spreads rows over the banks of shared memory"):
        transposed(None).p.store_in(tm.REGISTER, swizzle=32)


@pytest.mark.skipif(without_cxx(), reason=CXX)
def test_tensor_cores_load_their_factors_from_swizzled_tiles() -> None:
    f, _ = tensor_products.product()
    tiles = [each for each in f.program.buffers.values() if each.memory is tm.SHARED]
    f.apply(ByHand("swizzled", lambda p: reduce(lambda q, b: q.with_buffer(replace(b, swizzle=(2, 8))), tiles, p)))
    assert f.source()["product.cu"].count(" ^ ") >= 4
    a, b = tensor_products.numbers("float16", 20, 24, 33)
    kernel = f.compile(device="simulator", sanitize=True, seed=2)
    np.testing.assert_array_equal(kernel(a, b), tensor_products.exact(a, b))
