"""Commands on storage: they are for all parts of a computation, and mean the same in either order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.errors import CommandError

N, R, C = tm.params("N R C")
i, r, c, r0, c0, r1, c1, k = tm.iters("i r c r0 c0 r1 c1 k")
Change = Callable[[tm.Selection], object]


def two_parts() -> tuple[tm.Function, tm.Computation, tuple[tm.Selection, ...]]:
    """A producer in two parts, and a consumer that reads across the cut."""
    f = tm.Function("parts", params=[N])
    a = f.input("a", tm.float32, [N + 1])
    p = f.computation("p", {i: N + 1}, 2 * a[i])
    q = f.computation("q", {i: N}, p[i] + p[i + 1])
    f.outputs(q)
    return f, p, p.separate_at(i, [8])


ON_A_PART: dict[str, Change] = {
    "store_in": lambda part: part.store_in(tm.Buffer("b", [N + 1], tm.float32)),
    "in_registers": lambda part: part.store_in(tm.PINNED),
    "layout": lambda part: part.store_in([i + 1]),
    "in_place": lambda part: part.store_in(part._function["a"], [i]),  # type: ignore[index]
    "fold": lambda part: part.fold(i, 2),
    "place": lambda part: part.place("local"),
}


@pytest.mark.parametrize("command", ON_A_PART)
def test_a_part_has_no_buffer_of_its_own_and_the_refusal_says_what_to_name(command: str) -> None:
    f, _p, (first, _) = two_parts()
    before = f.show("pseudocode")
    with pytest.raises(CommandError, match=r"p has one buffer for all of its statements, and p_1 stores .* say p\."):
        ON_A_PART[command](first)
    assert f.show("pseudocode") == before


def test_the_whole_computation_is_stored_in_another_buffer() -> None:
    f, p, _ = two_parts()
    p.store_in(tm.Buffer("b", [N + 1], tm.float32))
    x = np.arange(20, dtype=np.float32)
    np.testing.assert_array_equal(f.compile()(x), f.evaluate(a=x))


def test_a_statement_of_a_reduction_has_no_buffer_of_its_own() -> None:
    f = tm.Function("sums", params=[N])
    a = f.input("a", tm.float32, [N, 4])
    s = f.reduction("s", {i: N}, {k: 4}, tm.sum, a[i, k])
    f.outputs(f.computation("o", {i: N}, s[i]))
    with pytest.raises(CommandError, match=r"s has one buffer .* s\.init stores .* s\.store_in"):
        s.update.store_in(tm.Buffer("b", [N], tm.float32))


def test_a_part_of_a_copy_has_no_buffer_of_its_own() -> None:
    f = tm.Function("copied", params=[N])
    a = f.input("a", tm.float32, [N])
    f.outputs(q := f.computation("q", {i: N}, a[i] + 1))
    near = q.copy(a, [k])
    parts = near.separate_at(k, [4])
    with pytest.raises(CommandError, match=r"a_cache has one buffer .* a_cache_1 stores .* a_cache\.store_in"):
        parts[0].store_in(tm.PINNED)
    near.store_in(tm.PINNED)


def blur(width: int = 16) -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """A blur in tiles, the columns of rows first; rows of the first stage are computed in each row of a tile."""
    f = tm.Function("blur", params=[R, C])
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, image[r, c] + image[r, c + 1] + image[r, c + 2])
    by = f.computation("by", {r: R, c: C}, bx[r, c] + bx[r + 1, c] + bx[r + 2, c])
    f.outputs(by)
    by.tile(r, c, 8, width, r0, c0, r1, c1)
    return f, bx, by


def fold(bx: tm.Computation, _: tm.Computation) -> None:
    bx.fold(r, 4)


def swapped(bx: tm.Computation, _: tm.Computation) -> None:
    bx.store_in([c, r])


def at_row(bx: tm.Computation, by: tm.Computation) -> None:
    bx.compute_at(by, r1)


def kept_in_tile(bx: tm.Computation, by: tm.Computation) -> None:
    bx.store_at(by, c0)


def apart(bx: tm.Computation, by: tm.Computation) -> None:
    bx.separate_at(c, [5])


ORDERS = {
    "fold, store_at": ([at_row], [fold, kept_in_tile]),
    "fold, compute_at": ([], [fold, at_row]),
    "fold, separate_at": ([at_row], [fold, apart]),
    "store_in, separate_at": ([], [swapped, apart]),
}


@pytest.mark.parametrize("pair", ORDERS)
def test_storage_commands_commute(pair: str) -> None:
    first, (one, other) = ORDERS[pair]
    texts = []
    for order in ((one, other), (other, one)):
        f, bx, by = blur()
        for command in (*first, *order):
            command(bx, by)
        assert f.check().ok
        texts.append(f.show("pseudocode"))
        image = np.random.default_rng(0).random((21, 37), dtype=np.float32)
        np.testing.assert_array_equal(f.compile()(image), f.evaluate(image=image))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("swap", [False, True])
def test_a_layout_that_is_given_to_a_tile_keeps_what_one_tile_needs(swap: bool) -> None:
    f, bx, by = blur()
    at_row(bx, by)
    if swap:
        bx.store_in([c, r])
    else:
        bx.fold(r, 4)
    bx.store_at(by, c0)
    buffer = f.program.buffers["bx"]
    assert [str(extent) for extent in buffer.extents] == (["16", "10"] if swap else ["4", "16"])
    assert f.check().ok
    image = np.random.default_rng(0).random((21, 37), dtype=np.float32)
    np.testing.assert_array_equal(f.compile()(image), f.evaluate(image=image))
