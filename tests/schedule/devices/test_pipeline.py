"""pipeline: tiles that are loaded iterations ahead, to the bits of NumPy; what cannot be loaded ahead is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs.drafts import ByHand
from tests.programs.pipelines import d, e, i, i0, i1, j, j0, j1, k, k0, k1, x, y
from tests.selection import some
from tiramisu_py.interpret import run
from tiramisu_py.program.program import Program
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.images import Architecture
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc

#: N, M and K: no terms, less than a tile, tiles with a rest, and more iterations than stages.
SIZES = ((3, 2, 0), (1, 1, 1), (5, 6, 7), (4, 3, 13), (8, 4, 16))


def tiled(**options: object) -> SimpleNamespace:
    """A product in tiles of 4 by 4, whose factors go through shared memory four terms at a time."""
    s = pl.matmul()
    s.C.gpu_tile(i, j, 4, 4, i0, j0, i1, j1)
    s.C.update.after(s.C.init, j1)
    s.C.update.split(k, 4, k0, k1)
    s.a, s.b = (s.C.update.copy(factor, [y, x], at=k0, into=tm.SHARED, **options) for factor in (s.A, s.B))
    return s


def tiles(of_a: int, of_b: int) -> SimpleNamespace:
    s = tiled()
    s.a.pipeline(k0, of_a)
    s.b.pipeline(k0, of_b)
    return s


def values() -> SimpleNamespace:
    """A product of doubled values, which threads compute into shared memory: loads of a block, as programs write it."""
    N, M, K = tm.params("N M K")
    f = tm.Function("doubled", params=[N, M, K])
    A, B = f.input("A", tm.float32, [N, K]), f.input("B", tm.float32, [K, M])
    a = f.computation("a", {i: N, k: K}, 2 * A[i, k])
    C = f.reduction("C", {i: N, j: M}, {k: K}, tm.sum, a[i, k] * B[k, j])
    f.outputs(C)
    C.tile(i, j, 4, 4, i0, j0, i1, j1)
    C.update.split(k, 4, k0, k1).reorder(i0, j0, k0, i1, j1, k1)
    C.tag_gpu(blocks=[i0, j0], threads=[i1, j1])
    a.compute_at(C.update, k0)
    a.store_in(tm.SHARED)
    a.tag_gpu(threads=[i, k])
    a.pipeline(k0, 3)
    return SimpleNamespace(f=f, A=A, B=B, a=a, C=C)


def masked(
    dtype: tm.DType = tm.float32, lanes: int = 1, first: int = 0, swizzle: tuple[int, int] | None = None
) -> SimpleNamespace:
    """A product whose factors are loaded under masks, with zeros elsewhere: several elements at once, or one.

    The rows of A hold 8 * Q elements, and the sums those before K that are not before `first`.
    """
    N, M, K, Q = tm.params("N M K Q")
    f = tm.Function("masked", params=[N, M, K, Q], assume="K <= 8*Q")
    A, B = f.input("A", dtype, [N, 8 * Q]), f.input("B", tm.float32, [K, M])
    part = (k < K) & (k >= first) if first else k < K
    a = f.computation("a", {i: N, k: (0, 8 * Q)}, tm.select(part, A[i, k], 0))
    b = f.computation("b", {k: (0, 8 * Q), j: M}, tm.select(k < K, B[k, j], 0))
    C = f.reduction("C", {i: N, j: M}, {k: 8 * Q}, tm.sum, tm.cast(tm.float32, a[i, k]) * b[k, j], dtype=tm.float32)
    f.outputs(C)
    C.tile(i, j, 4, 4, i0, j0, i1, j1)
    C.update.split(k, 8, k0, k1).reorder(i0, j0, k0, i1, j1, k1)
    C.tag_gpu(blocks=[i0, j0], threads=[i1, j1])
    for each in (a, b):
        each.compute_at(C.update, k0)
        each.store_in(tm.SHARED)
    if swizzle:
        a.store_in(tm.SHARED, swizzle=swizzle)
    if lanes == 1:
        a.tag_gpu(threads=[i, k])
    else:
        a.split(k, lanes, d, e)
        a.tag_gpu(threads=[i, d])
        a.vectorize(e, lanes)
    b.tag_gpu(threads=[k, j])
    for each in (a, b):
        each.pipeline(k0, 3)
    return SimpleNamespace(f=f, A=A, B=B, a=a, C=C)


def one_factor() -> SimpleNamespace:
    s = tiled()
    s.a.pipeline(k0, 5)
    return s


CASES: dict[str, Callable[[], SimpleNamespace]] = {
    "tiles, three stages": lambda: tiles(3, 3),
    "tiles, two stages": lambda: tiles(2, 2),
    "tiles, four stages and two": lambda: tiles(4, 2),
    "tiles, one factor in five stages": one_factor,
    "values, three stages": values,
}


def factors(sizes: tuple[int, int, int]) -> dict[str, np.ndarray]:
    """Small whole numbers, whose sums are the same in every order."""
    (N, M, K), rng = sizes, np.random.default_rng(sum(sizes))
    return {"A": rng.integers(-4, 5, (N, K)).astype("f4"), "B": rng.integers(-4, 5, (K, M)).astype("f4")}


def product(name: str, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return (2 if name.startswith("values") else 1) * (A @ B)


@pytest.mark.parametrize("name", some(list(CASES), lambda name: "three" in name))
def test_a_pipeline_is_proven_and_right(name: str) -> None:
    s = CASES[name]()
    s.f.derive_transfers()
    report = s.f.check()
    assert report.ok, report
    kernel = s.f.compile(device="simulator", sanitize=True)
    for sizes in SIZES:
        arrays = factors(sizes)
        for seed in range(3):
            np.testing.assert_array_equal(kernel.seeded(seed, "lazy")(**arrays), product(name, **arrays))


@pytest.mark.parametrize("name", some(list(CASES), lambda name: name == "tiles, three stages"))
def test_the_loops_of_a_pipeline_are_right_in_adversarial_order(name: str) -> None:
    s = CASES[name]()
    s.f.derive_transfers()
    loops = s.f.show("lowered")
    for seed, (N, M, K) in enumerate(SIZES[2:4]):
        arrays, got = factors((N, M, K)), np.zeros((N, M), np.float32)
        run(loops, {**arrays, "C": got}, {"N": N, "M": M, "K": K}, seed)
        np.testing.assert_array_equal(got, product(name, **arrays))


def kernels(s: SimpleNamespace) -> str:
    s.f.derive_transfers()
    return next(text for name, text in s.f.source().items() if name.endswith(".cu"))


def test_a_pipeline_of_two_stages_is_a_deferred_copy_with_two_buffers() -> None:
    assert kernels(tiles(2, 2)) == kernels(tiled(deferred=True, buffers=2))


def test_each_iteration_has_one_barrier_after_which_loads_of_later_ones_are_under_way() -> None:
    s = tiles(3, 3)
    text = kernels(s)
    first, loop = re.findall(r"    for \(int64_t k0 = .*?\n    }\n", text, re.DOTALL)
    assert first.startswith("    for (int64_t k0 = -2; k0 < 0;")
    for each in (first, loop):
        assert each.count("TM_BARRIER") == each.count("TM_ASYNC_WAIT_GROUPS(1)") == each.count("TM_ASYNC_COMMIT") == 1
    assert "+=" in loop
    assert "+=" not in first  # which only loads: no iteration looks whether it is one of these
    assert "k0 >=" not in text
    assert sum(s.name.endswith("barrier") for s in s.f.completed.statements.values()) == 1
    assert "TM_ASYNC_WAIT()" in kernels(tiles(4, 2))


#: Fills that a kernel has: the bytes of each, and how many sizes of the sums are under the mask.
MASKED: dict[str, tuple[Callable[[], SimpleNamespace], set[str]]] = {
    "an element": (masked, {"4"}),
    "four elements": (lambda: masked(lanes=4), {"4", "16"}),
    "eight halves": (lambda: masked(tm.float16, 8), {"4", "16"}),
    "four elements, swizzled": (lambda: masked(lanes=4, swizzle=(2, 4)), {"4", "16"}),
    "lanes that are not the first": (lambda: masked(lanes=4, first=3), {"4"}),
}


@pytest.mark.parametrize("name", some(list(MASKED), lambda name: name in ("eight halves", "four elements, swizzled")))
def test_loads_under_a_mask_are_filled_with_zeros(name: str) -> None:
    made, bytes_of_fills = MASKED[name]
    s = made()
    text = kernels(s)
    assert set(re.findall(r"TM_ASYNC_FILL\([^;]*, (\d+),[^;]*\);", text)) == bytes_of_fills
    report = s.f.check()
    assert report.ok, report
    kernel = s.f.compile(device="simulator", sanitize=True)
    rng, first = np.random.default_rng(0), 3 if "not" in name else 0
    sizes = ((5, 6, 7, 1), (4, 4, 16, 2), (3, 5, 9, 2), (1, 1, 0, 1), (6, 3, 18, 4))
    for seed, (n, m, terms, parts) in enumerate(sizes):
        A = rng.integers(-4, 5, (n, 8 * parts)).astype(s.A.dtype.numpy)
        B = rng.integers(-4, 5, (terms, m)).astype("f4")
        expected = A[:, first:terms].astype("f4") @ B[first:]
        np.testing.assert_array_equal(s.f.evaluate(A=A, B=B), expected)
        for each in (kernel, kernel.seeded(seed, "lazy")):
            np.testing.assert_array_equal(each(A=A, B=B), expected)


def test_what_is_no_load_with_zeros_goes_through_registers() -> None:
    """Other values than 0 where the mask does not hold, -0.0 too, and masks that are in shared memory."""
    (N,) = tm.params("N")
    for otherwise in (-0.0, 1.0):
        f = tm.Function("others", params=[N])
        A = f.input("A", tm.float32, [N, 8])
        a = f.computation("a", {k: N, i: 8}, tm.select(i < k, A[k, i], otherwise))
        total = f.reduction("total", {i: 8}, {k: N}, tm.sum, a[k, i])
        f.outputs(total)
        total.split(i, 4, i0, i1)
        total.update.reorder(i0, k, i1)
        total.tag_gpu(blocks=[i0], threads=[i1])
        a.compute_at(total.update, k)
        a.store_in(tm.SHARED)
        a.tag_gpu(threads=[i])
        a.pipeline(k, 3)
        f.derive_transfers()
        assert f.check().ok
        assert "TM_ASYNC" not in f.source()["others.cu"]


def test_elements_that_cp_async_cannot_copy_go_through_registers() -> None:
    (N,) = tm.params("N")
    f = tm.Function("bytes", params=[N])
    a = f.input("a", tm.uint8, [N, 8])
    total = f.reduction("total", {i: 8}, {k: N}, tm.sum, a[k, i], dtype=tm.uint8)
    f.outputs(total)
    total.split(i, 4, i0, i1)
    total.tag_gpu(blocks=[i0], threads=[i1])
    total.update.copy(a, [y, x], at=k, into=tm.SHARED).pipeline(k, 3)
    f.derive_transfers()
    assert f.check().ok
    assert "TM_ASYNC" not in f.source()["bytes.cu"]


def test_a_copy_that_needs_more_barriers_than_there_are_is_refused() -> None:
    def later(program: Program) -> Program:
        copy = program.statements["A_shared"]
        return program.with_statement(replace(copy, link=replace(copy.link, deferred=copy.link.deferred + 1)))

    s = tiles(3, 3)
    s.f.apply(ByHand("complete later", later))
    s.f.derive_transfers()
    report = s.f.check()
    assert not report.ok
    assert report.violations[0].kind == "race"
    assert "with no barrier between" in str(report)


def test_a_certificate_says_that_it_does_not_cover_copies_for_several_barriers() -> None:
    s = tiles(3, 3)
    s.f.derive_transfers()
    with pytest.raises(tm.UnsupportedError, match="A_shared of mm is a copy that 2 barriers complete"):
        s.f.certificate()


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [75, 80, 90])
@pytest.mark.parametrize("name", list(CASES))
def test_nvcc_needs_no_local_memory_for_a_pipeline(name: str, architecture: int) -> None:
    compiler = find_nvcc(open_cache())
    if isinstance(compiler, str):
        pytest.skip(compiler)
    s = CASES[name]()
    s.f.derive_transfers()
    flags = ("-std=c++17", "--fmad=false", "-Werror", "all-warnings", "-Xptxas", "-v")
    _, words = compiler.compile(f"{s.f.name}.cu", s.f.source(), Architecture(architecture), flags)
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", words)
    assert set(frames) == {("0", "0", "0")}, words


# -- what is refused


def in_registers(s: SimpleNamespace) -> object:
    return s.C.update.copy(s.A, [y, x], at=k0, into=tm.REGISTER).pipeline(k0, 2)


def too_large(s: SimpleNamespace) -> object:
    s.f.gpu_target(tm.GpuTarget("small", most_shared=512))
    s.b.pipeline(k0, 3)
    return s.a.pipeline(k0, 8)


def twice(s: SimpleNamespace) -> object:
    s.a.pipeline(k0, 2)
    return s.a.pipeline(k0, 2)


def once_a_block() -> SimpleNamespace:
    """A copy for the whole block, which no loop inside fills anew."""
    s = pl.blur()
    s.bx.inline()
    s.by.gpu_tile(pl.r, pl.c, 4, 4, pl.r0, pl.c0, pl.r1, pl.c1)
    s.a = s.by.copy(s.image, [y, x], at=pl.c0, into=tm.SHARED)
    return s


REFUSED: list[tuple[Callable[[], SimpleNamespace], Callable[[SimpleNamespace], object], str]] = [
    (tiled, lambda s: s.a.pipeline(k0, 1), "the number of stages of k0 is 1: give an integer of at least 2"),
    (tiled, lambda s: s.a.pipeline(k0, True), "the number of stages of k0 is True"),
    (tiled, lambda s: s.a.pipeline(k1, 2), "loop k1 is not around A_shared, whose loops are i0, j0, i1, j1, k0"),
    (tiled, lambda s: s.a.pipeline(i1, 2), "A_shared is filled anew in each iteration of k0, and loop i1 is another"),
    (tiled, lambda s: s.C.pipeline(k0, 2), r"with copy\(.., into=tm.SHARED\), or give C.store_in\(tm.SHARED\)"),
    (tiled, in_registers, "A_local is in A_local, in register memory: what is brought early is in shared memory"),
    (tiled, twice, "A_shared holds several boxes, of A_shared, A_shared_next, already: a copy is pipelined once"),
    (tiled, too_large, r"8 stages of A_shared, 64 bytes each: the kernel of C.update needs 704 bytes of shared memory "
        r"in each block \(A_shared 512, B_shared 192\): small allows 512; make the tile smaller, or give fewer stages"),
    (once_a_block, lambda s: s.a.pipeline(pl.c0, 2), "image_shared is filled once for each block"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "give", "words"), REFUSED, ids=[words[:40] for _, _, words in REFUSED])
def test_what_cannot_be_loaded_ahead_is_refused(
    make: Callable[[], SimpleNamespace], give: Callable[[SimpleNamespace], object], words: str
) -> None:
    s = make()
    with pytest.raises(tm.CommandError, match=words):
        give(s)
