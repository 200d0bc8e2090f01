"""Shared memory in turns, loads of neighbours and barriers of block programs: with them and without, counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.language.kernels import tensor_product
from tests.language.test_masks_left_out import module_of
from tests.selection import some
from tiramisu_py.ir import Allocate, Barrier, For, Node, Store
from tiramisu_py.ir.rewriting import children, loads, walk
from tiramisu_py.program.storage import Memory


def in_shared_memory(f: tm.Function, run: Any) -> tuple[tm.Function, Any]:
    """Softmax whose user keeps a sum in shared memory, so that rows are there, too."""
    run["total"].store_in(tm.SHARED)
    return f, run


#: Programs whose values take turns, and the least part of the bytes that this saves.
SAVED: dict[str, tuple[Callable[[], tuple[tm.Function, Any]], float]] = {
    "attention": (lambda: module_of("attention").attended(), 0.3),
    "softmax": (lambda: in_shared_memory(*module_of("softmax").rows()), 0.45),
    "product": (lambda: module_of("gemm").product(), 0.0),
}


def pasted(made: Callable[[], tuple[tm.Function, Any]], but: str = "", **options: Any) -> tm.Function:
    """A function with the commands of the recipe, without those that have some word; the text is pasted as it is."""
    text = tm.recipes.blocks(made()[1], on=tm.gpu(), **options)
    f, _ = made()
    exec("\n".join(line for line in text.splitlines() if not but or but not in line), {"tm": tm, "f": f})
    f.derive_transfers()
    return f


def alone(name: str) -> tm.Function:
    """A program with a buffer for each value: without the commands by which they take turns."""
    made, _ = SAVED[name]
    text = tm.recipes.blocks(made()[1], on=tm.gpu(), num_warps=4)
    f, _ = made()
    kept = [line for line in text.splitlines() if ".store_in(tm." in line or ".store_in(" not in line]
    exec("\n".join(line for line in kept if ".after(" not in line), {"tm": tm, "f": f})
    f.derive_transfers()
    return f


def bytes_of(f: tm.Function) -> int:
    return max(kernel.shared_bytes for kernel in f.cost("kernels"))


@pytest.mark.parametrize("name", some(list(SAVED), lambda name: name == "attention"))
def test_values_take_the_places_of_those_that_are_not_needed_any_more(name: str) -> None:
    made, least = SAVED[name]
    f = pasted(made, num_warps=4)
    report = f.check()
    assert report.ok, report
    assert bytes_of(f) <= (1 - least) * bytes_of(alone(name))


def test_attention_in_turns_is_that_of_numpy() -> None:
    f = pasted(SAVED["attention"][0], num_warps=2)
    x = np.random.default_rng(1).normal(size=(3, 37, 16)).astype(np.float32)
    e = np.exp(np.where(np.tri(37, dtype=bool), x[0] @ x[1].T * 0.25, -np.inf))
    kernel = f.compile(device="simulator", sanitize=True)
    for each in (kernel, kernel.seeded(1, "lazy")):
        np.testing.assert_allclose(each(*x, scale=0.25), e / e.sum(1, keepdims=True) @ x[2], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_value_that_comes_too_early_is_refused_in_the_place_of_another_one() -> None:
    """Without the command that lets v wait, it replaces k before its products are there."""
    made, _ = SAVED["attention"]
    f = pasted(made, but=".after(", num_warps=4)
    report = f.check()
    assert not report.ok
    assert report.violations[0].kind == "overwritten", report


def test_a_buffer_of_the_same_loops_is_as_large_and_takes_no_indices() -> None:
    made, _ = SAVED["attention"]
    f, run = made()
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=4)
    (rm,) = tm.iters("rm")
    with pytest.raises(tm.CommandError, match="has the extents 1, 1, 32, 32, and decay needs 1, 1, 32: they differ"):
        f["decay"].store_in(f["s"])
    with pytest.raises(tm.CommandError, match=r"s exists once for each iteration of \(p0\): give no indices"):
        f["v_2"].store_in(f["s"], [rm])
    f, run = made()
    f["s"].compute_at(f["o"], tm.iters("i0")[0])
    with pytest.raises(tm.CommandError, match="p is not computed in these loops: give it compute_at there first"):
        f["p"].store_in(f["s"])


# -- loads of neighbours, and swizzled rows


def halves(**options: Any) -> Callable[[], tuple[tm.Function, Any]]:
    return lambda: tensor_product(TM=32, TN=32, TK=64, **options)


def shared_loads(f: tm.Function) -> list[int]:
    (facts,) = f.cost("kernels")
    return [each.conflicts for each in facts.accesses if each.memory is Memory.SHARED and not each.is_store]


def loaded(f: tm.Function, array: str) -> int:
    """The sectors that one load of a thread asks for, for its warp."""
    (facts,) = f.cost("kernels")
    (found,) = [each for each in facts.accesses if each.buffer == array and not each.is_store]
    assert found.sectors == found.least
    return found.sectors


def test_a_vector_under_a_condition_is_loaded_only_where_it_holds() -> None:
    """Rows from R on are zeros, and no elements of A."""
    (N, R), (i, k, i0, i1, d, e) = tm.params("N R"), tm.iters("i k i0 i1 d e")
    f = tm.Function("rows", params=[N, R], assume="R <= N")
    A = f.input("A", tm.float32, [R, 8])
    a = f.computation("a", {i: N, k: 8}, tm.select(i < R, A[i, k], 0))
    out = f.computation("out", {i: N, k: 8}, a[i, 7 - k])
    f.outputs(out)
    out.split(i, 4, i0, i1)
    out.tag_gpu(blocks=[i0], threads=[i1, k])
    a.compute_at(out, i0)
    a.store_in(tm.SHARED)
    a.split(k, 4, d, e)
    a.tag_gpu(threads=[i, d])
    a.vectorize(e, 4)
    f.derive_transfers()
    rows = np.arange(40, dtype=np.float32).reshape(5, 8)
    found = f.compile(device="simulator", sanitize=True)(A=rows, N=10)
    np.testing.assert_array_equal(found, np.concatenate([rows, np.zeros((5, 8), np.float32)])[:, ::-1])


@pytest.mark.slow
def test_threads_load_neighbours_where_the_sizes_allow_it() -> None:
    with_facts, without = (pasted(halves(**given), num_warps=4) for given in ({"assume": "K mod 8 = 0"}, {}))
    assert (loaded(with_facts, "A"), loaded(without, "A")) == (16, 2)  # 512 bytes of a warp at once, and 64
    assert "vectorize" in tm.recipes.blocks(halves(assume="K mod 4 = 0")()[1], on=tm.gpu(), num_warps=4)
    assert "vectorize" not in tm.recipes.blocks(halves(assume="K mod 3 = 0")()[1], on=tm.gpu(), num_warps=4)


@pytest.mark.slow
def test_swizzled_rows_of_factors_have_no_bank_conflicts() -> None:
    made = halves(assume="K mod 8 = 0")
    text = tm.recipes.blocks(made()[1], on=tm.gpu(), num_warps=4)
    f, _ = made()
    exec(text.replace(", swizzle=(8, 8)", ""), {"tm": tm, "f": f})
    f.derive_transfers()
    assert set(shared_loads(pasted(made, num_warps=4))) == {1}
    assert set(shared_loads(f)) == {8}


@pytest.mark.slow
def test_conflicts_of_matrices_are_counted_for_eight_rows_at_a_time() -> None:
    """Of 64 bytes, of which two rows have all banks: those that differ by four rows met, if each row was turned."""
    made = lambda: tensor_product(TM=32, TN=32, TK=32, assume="K mod 8 = 0")  # noqa: E731
    text = tm.recipes.blocks(made()[1], on=tm.gpu(), num_warps=4)
    assert text.count("swizzle=(4, 8, 2)") == 2
    assert set(shared_loads(pasted(made, num_warps=4))) == {1}
    f, _ = made()
    exec(text.replace("swizzle=(4, 8, 2)", "swizzle=(4, 8)"), {"tm": tm, "f": f})
    f.derive_transfers()
    assert set(shared_loads(f)) == {2}
    assert "bank conflicts, 2 turns a matrix" in str(f.cost("kernels")[0])


# -- barriers


def operations(node: Node, shared: frozenset[str]) -> list[Any]:
    """What a kernel does with shared memory, in order: (loaded, stored) of each part without barriers, and loops."""
    if not any(isinstance(inner, Barrier) for inner in walk(node)):
        stores = {inner.buffer for inner in walk(node) if isinstance(inner, Store)}
        return [({load.buffer for load in loads(node)} & shared, stores & shared)]
    if isinstance(node, Barrier):
        return []
    inside = [each for child in children(node) for each in operations(child, shared)]
    return [inside] if isinstance(node, For) else inside


def count(parts: list[Any], written: set[str], read: set[str], inserted: set[int]) -> None:
    """The thesis's rule, 5.3.4: a barrier before what loads what was stored, or stores what was accessed, since one."""
    for part in parts:
        if isinstance(part, list):
            for _ in range(3):  # around the loop, until nothing changes
                count(part, written, read, inserted)
            continue
        loaded, stored = part
        if id(part) in inserted or written & (loaded | stored) or read & stored:
            inserted.add(id(part))
            written.clear()
            read.clear()
        written |= stored
        read |= loaded


@pytest.mark.slow
@pytest.mark.parametrize("name", some([*SAVED, "layer norm"], lambda name: name == "attention"))
def test_barriers_are_no_more_than_the_rule_of_the_thesis_has(name: str) -> None:
    made = SAVED[name][0] if name in SAVED else lambda: module_of("layer_norm").normalised()
    for kernel in pasted(made, num_warps=4).show("lowered").gpus.kernels:
        arrays = (inner for inner in walk(kernel.body) if isinstance(inner, Allocate))
        shared = frozenset(each.buffer for each in arrays if each.memory is Memory.SHARED)
        inserted = set[int]()
        parts = operations(kernel.body, shared)
        count(parts, set(), set(), inserted)
        assert 0 < sum(isinstance(inner, Barrier) for inner in walk(kernel.body)) <= len(inserted)
