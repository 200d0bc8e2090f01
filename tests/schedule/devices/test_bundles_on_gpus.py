"""Bundles on the blocks and threads of a GPU, and trees over the terms of one: simulator, with checks and seeds."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lacking import CXX, without_cxx
from tests.selection import first

N, M, K = tm.params("N M K")
h, x, y, j, k, t, jb, jt, jr, jg = tm.iters("h x y j k t jb jt jr jg")
SIZES = [*product([0, 1, 7], [0, 1, 5], [0, 1, 3, 67])]
SEEDS = [1, 2, 3, 4]

simulated = pytest.mark.skipif(without_cxx(), reason=CXX)


def elementwise(**launch: Any) -> tm.Function:
    """An elementwise array that also reads a row of another one."""
    f = tm.Function("elementwise", params=[N, M, K])
    a, b = f.input("a", tm.int32, [N, M, K]), f.input("b", tm.int32, [M])
    o = f.computation("o", {h: N, x: M, y: K}, a[h, x, y] * b[x] + y)
    f.outputs(o)
    o.coalesce(h, x, y, into=j).split(j, 64, jb, jt).tag_gpu(blocks=[jb], threads=[jt], **launch)
    f.derive_transfers()
    return f


def rows(**launch: Any) -> tm.Function:
    """The sum of each row, a row a thread."""
    f = tm.Function("rows", params=[N, M, K])
    a = f.input("a", tm.int32, [N, M, K])
    s = f.reduction("s", {h: N, x: M}, {y: K}, tm.sum, a[h, x, y])
    f.outputs(s)
    for part in (s.init, s.update):
        part.coalesce(h, x, into=j).split(j, 32, jb, jt).tag_gpu(blocks=[jb], threads=[jt], **launch)
    f.derive_transfers()
    return f


def inner(**launch: Any) -> tm.Function:
    """An array without its first planes and rows: the loops begin at other numbers than 0."""
    f = tm.Function("inner", params=[N, M, K])
    a = f.input("a", tm.int32, [N + 1, M + 2, K])
    o = f.computation("o", "[N, M, K] -> { o[h, x, y] : 1 <= h <= N and 2 <= x < M + 2 and 0 <= y < K }", -a[h, x, y])
    f.outputs(o)
    o.coalesce(h, x, y, into=j).split(j, 64, jb, jt).tag_gpu(blocks=[jb], threads=[jt], **launch)
    f.derive_transfers()
    return f


def total(across: Any, op: Any = tm.sum, dtype: Any = tm.float32, threads: int = 64, blocks: int = 4) -> tm.Function:
    """A reduction of a whole array and a row, by a constant number of blocks of threads."""
    f = tm.Function("total", params=[N, M, K])
    a, b = f.input("a", dtype, [N, M, K]), f.input("b", dtype, [M])
    s = f.reduction("s", {}, {h: N, x: M, y: K}, op, a[h, x, y] * b[x])
    f.outputs(s)
    if across is tm.ATOMIC:
        s.init.tag_gpu()
    s.update.coalesce(h, x, y, into=j).split(j, threads, jb, jt).split(jb, blocks, jr, jg).reorder(jg, jt, jr)
    s.update.tag_gpu(blocks=[jg], threads=[jt], combine=tm.TREE, across=across)
    f.derive_transfers()
    return f


def arrays(f: tm.Function, sizes: tuple[int, int, int], dtype: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    n, m, q = (size + 1 if f.name == "inner" and at == 0 else size for at, size in enumerate(sizes))
    m += 2 if f.name == "inner" else 0
    made = [rng.integers(-9, 9, (n, m, q)).astype(dtype)]
    return made if f.name in ("rows", "inner") else [*made, rng.integers(-9, 9, m).astype(dtype)]


VALUES: dict[str, Callable[[], tm.Function]] = {
    "an element a thread": elementwise,
    "elements of each thread": lambda: elementwise(grid=2),
    "a row a thread": rows,
    "rows of each thread": lambda: rows(grid=1),
    "other begins": inner,
    "other begins, several a thread": lambda: inner(grid=1),
}


@simulated
@pytest.mark.parametrize("seed", first(SEEDS, 1))
@pytest.mark.parametrize("way", VALUES)
def test_each_iteration_of_a_bundle_of_values_runs_once(way: str, seed: int) -> None:
    f = VALUES[way]()
    assert f.check().ok
    kernel = f.compile(device="simulator", sanitize=True, seed=seed)
    for sizes in SIZES:
        given = arrays(f, sizes, np.int32)
        np.testing.assert_array_equal(kernel(*given), f.evaluate(*given), err_msg=str(sizes))


ACROSS = [tm.ATOMIC, tm.TWO_PASS, tm.LAST_BLOCK]


@simulated
@pytest.mark.parametrize("seed", first(SEEDS, 1))
@pytest.mark.parametrize("across", ACROSS)
def test_a_whole_array_of_three_sizes_is_summed_in_a_tree(across: Any, seed: int) -> None:
    f = total(across)
    assert f.check().ok
    kernel = f.compile(device="simulator", sanitize=True, seed=seed)
    for sizes in SIZES:
        given = arrays(f, sizes, np.float32)
        np.testing.assert_array_equal(kernel(*given), f.evaluate(*given), err_msg=str(sizes))


@simulated
@pytest.mark.parametrize("across", [tm.TWO_PASS, tm.LAST_BLOCK])
def test_the_bits_of_the_tree_follow_from_the_schedule(across: Any) -> None:
    f = total(across, threads=32, blocks=2)
    assert "everywhere" in str(f.check())
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((3, 5, 7), np.float32) * 1e3, rng.standard_normal(5, np.float32)
    kernels = [f.compile(device="simulator", seed=seed) for seed in (1, 2)]
    assert {kernel(a, b).tobytes() for kernel in kernels} == {f.evaluate(a, b, as_scheduled=True).tobytes()}
    np.testing.assert_allclose(kernels[0](a, b), (a * b[:, None]).sum(dtype=np.float64), rtol=1e-3)


def kernel_text(f: tm.Function) -> str:
    text = f.source()[f"{f.name}.cu"]
    return text[text.index("TM_KERNEL") :]


@pytest.mark.parametrize("make", [lambda: elementwise(grid=8), lambda: rows(grid=8), lambda: total(tm.LAST_BLOCK)])
def test_a_thread_divides_for_its_first_iteration_alone(make: Callable[[], tm.Function]) -> None:
    text = kernel_text(make())
    loops = re.findall(r"\n( +)for \(int64_t \w+_step = 0;.*?\n\1}", text, re.DOTALL)
    bodies = [found.group(0) for found in re.finditer(r"\n( +)for \(int64_t \w+_step = 0;.*?\n\1}", text, re.DOTALL)]
    assert loops and all(not re.search(r"_div_|_mod_|[/%]", re.sub(r"//.*", "", each)) for each in bodies)


def test_an_element_that_is_found_by_its_number_needs_no_division() -> None:
    f = tm.Function("plain", params=[N, M, K])
    a = f.input("a", tm.float32, [N, M, K])
    o = f.computation("o", {h: N, x: M, y: K}, a[h, x, y] * 2)
    f.outputs(o)
    o.coalesce(h, x, y, into=j).split(j, 256, jb, jt).tag_gpu(blocks=[jb], threads=[jt])
    f.derive_transfers()
    text = kernel_text(f)
    assert "o[h_x_y_number] = a[h_x_y_number]*2.0f" in text.replace(" * ", "*") and "_mod_" not in text


def in_one_kernel(read: Callable[[Any], Any]) -> tm.Function:
    """Two statements in the same iterations of a bundle, of which the second reads what the first has stored."""
    f = tm.Function("two", params=[N, M, K])
    a = f.input("a", tm.int32, [N, M, K])
    p = f.computation("p", {h: N, x: M, y: K}, a[h, x, y] + 1)
    q = f.computation("q", {h: N, x: M, y: K}, read(p))
    f.outputs(p, q)
    q.after(p, y)
    p.coalesce(h, x, y, into=j).split(j, 16, jb, jt).tag_gpu(blocks=[jb], threads=[jt])
    f.derive_transfers()
    return f


@simulated
def test_statements_of_one_iteration_read_each_other() -> None:
    f = in_one_kernel(lambda p: p[h, x, y] * 2)
    assert f.check().ok
    values = np.arange(105, dtype=np.int32).reshape(3, 5, 7)
    for found, wanted in zip(
        f.compile(device="simulator", sanitize=True, seed=1)(values), f.evaluate(values), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def test_another_iteration_has_no_order_even_if_it_might_be_in_the_same_block() -> None:
    f = in_one_kernel(lambda p: tm.select(y > 0, p[h, x, y - 1], 0))
    (violation,) = f.check().violations
    assert violation.kind == "race" and violation.witness.params == {"N": 1, "M": 1, "K": 2}


def test_shared_memory_and_thread_loops_are_refused_in_a_kernel_of_a_bundle() -> None:
    f = tm.Function("shared", params=[N, M, K])
    a = f.input("a", tm.int32, [N, M, K])
    s = f.reduction("s", {h: N, x: M}, {y: K}, tm.sum, a[h, x, y])
    f.outputs(s)
    s.init.tag_gpu(blocks=[h, x])
    s.update.coalesce(h, x, into=j).split(j, 16, jb, jt).tag_gpu(blocks=[jb], threads=[jt])
    s.update.split(y, 8, k, t).tag_gpu(threads=[t], combine=tm.TREE)
    f.derive_transfers()
    (violation,) = f.check().violations
    assert violation.kind == "reach" and "each iteration of the bundle h, x is a block by itself" in violation.message
    assert "keep the loops h, x apart" in violation.repair


COMMANDS: list[tuple[Callable[[Any], object], str]] = [
    (lambda o: o.tag_gpu(blocks=[j]), r"give split\(j, 256, j0, j1\) before, and then blocks=\[j0\], threads=\[j1\]"),
    (lambda o: o.split(j, 64, jb, jt).tag_gpu(blocks=[jb]), r"give blocks=\[jb\], threads=\[jt\]"),
    (lambda o: o.split(j, 64, jb, jt).tag_gpu(blocks=[jt], threads=[jb]), r"give blocks=\[jb\], threads=\[jt\]"),
    (lambda o: o.split(j, 2048, jb, jt).tag_gpu(blocks=[jb], threads=[jt]), "a block would have 2048 threads"),
    (lambda o: o.split(j, 64, jb, jt).tag_gpu(blocks=[jb], threads=[jt], combine=tm.TREE), "leave combine= and"),
    (lambda o: o.split(j, 1024, jb, jt).tag_gpu(blocks=[jb], threads=[jt], grid=2**22), "give a smaller grid="),
    (lambda o: o.parallelize(j).tag_gpu(blocks=[j]), "give split"),
    (lambda o: o.split(j, 64, jb, jt).tag_gpu(threads=[jt]), r"give blocks=\[jb\], threads=\[jt\]"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "message"), COMMANDS)
def test_other_tags_of_a_bundle_are_refused(command: Callable[[Any], object], message: str) -> None:
    f = tm.Function("refused", params=[N, M, K])
    o = f.computation("o", {h: N, x: M, y: K}, 1.0)
    f.outputs(o)
    o.coalesce(h, x, y, into=j)
    with pytest.raises(tm.CommandError, match=message):
        command(o)


def test_terms_in_parts_run_on_blocks_by_the_loops_over_their_parts() -> None:
    f = tm.Function("terms", params=[N, M, K])
    a = f.input("a", tm.float32, [N, M, K])
    s = f.reduction("s", {}, {h: N, x: M, y: K}, tm.sum, a[h, x, y])
    f.outputs(s)
    s.update.coalesce(h, x, y, into=j).split(j, 256, jb, jt)
    with pytest.raises(tm.CommandError, match="split jb0 once more, and run that loop on blocks"):
        s.update.tag_gpu(blocks=[jb], threads=[jt], combine=tm.TREE, across=tm.TWO_PASS)


def test_too_many_blocks_are_refused_by_the_call() -> None:
    text = elementwise().source()["elementwise.c"]
    assert "N*M*K <= 137438953408" in text.replace("N * M * K", "N*M*K")
