"""The recipe for reductions on ranks: blocks of values, or of terms that ranks combine, on few ranks and more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.recipes.texts import commands
from tests.selection import covering
from tiramisu_py.errors import ArgumentError
from tiramisu_py.recipes import Cpu

WIDE = Cpu(vector_bytes=64, registers=32, first=48 << 10, second=2 << 20)
M = tm.params("M")[0]
NAMES = h, w, x, y = tm.iters("h w x y")
#: Shapes, and the iterators of values; the others are reduced.
FORMS: dict[str, tuple[tuple[Any, ...], str]] = {
    "whole": ((103,), ""), "whole, joined": ((11, 10, 5), ""), "rows": ((13, M), "h"), "columns": ((M, 29), "w"),
    "rows, joined": ((9, 4, 10, 5), "hw"), "columns inside": ((5, M, 37), "hx"),
}  # fmt: skip


def reduced(form: str, dtype: tm.DType = tm.float32) -> tuple[tm.Function, tm.Reduction]:
    """A sum of twice the elements of an array."""
    shape, values = FORMS[form]
    names = NAMES[: len(shape)]
    f = tm.Function("reduced", params=[size for size in shape if not isinstance(size, int)])
    a = f.input("a", dtype, list(shape))
    extents = dict(zip(names, shape, strict=True))
    p = f.computation("p", extents, a[names] * tm.cast(dtype, 2))
    domain = {name: size for name, size in extents.items() if str(name) in values}
    over = {name: size for name, size in extents.items() if str(name) not in values}
    f.outputs(f.reduction("t", domain, over, tm.sum, p[names]))
    return f, f["t"]


@pytest.mark.parametrize(("form", "ranks"), covering([*FORMS], [1, 2, 3, 4, 7]))
def test_it_is_right_on_any_number_of_ranks(form: str, ranks: int) -> None:
    f, t = reduced(form)
    tm.recipes.reduction(t, on=tm.cores(ranks=range(ranks)), cpu=WIDE)
    f.derive_transfers()
    assert f.check().ok and f.check().determinism["t"] in ("everywhere", "ordered")
    shape = [size if isinstance(size, int) else 67 for size in FORMS[form][0]]
    a = np.random.default_rng(ranks).integers(0, 9, shape).astype(np.float32)
    np.testing.assert_array_equal(f.simulate(a=a), f.evaluate(a=a))


@pytest.mark.parametrize(("form", "ranks"), covering(["whole", "rows", "columns"], [1, 2, 3, 4, 7]))
def test_the_first_largest_element_is_that_of_all_ranks(form: str, ranks: int) -> None:
    shape, values = FORMS[form]
    names = NAMES[: len(shape)]
    params = [size for size in shape if not isinstance(size, int)]
    f = tm.Function("ends", params=params, assume="M >= 1" if params else None)
    a = f.input("a", tm.float32, list(shape))
    extents = dict(zip(names, shape, strict=True))
    domain = {name: size for name, size in extents.items() if str(name) in values}
    over = {name: size for name, size in extents.items() if str(name) not in values}
    t = f.reduction("t", domain, over, tm.argmax, a[names])
    f.outputs(t)
    text = tm.recipes.reduction(t, on=tm.cores(ranks=range(ranks)), cpu=WIDE)
    f.derive_transfers()
    assert f.check().ok and f.check().determinism["t"] == "ordered"
    assert ("t.update.tag_distribute(h_rank, combine=tm.TREE)" in text) == (form == "whole")
    given = np.random.default_rng(ranks).integers(0, 9, [n if isinstance(n, int) else 67 for n in shape])
    for x in (given.astype(np.float32), np.where(given == 4, np.nan, given).astype(np.float32)):
        axis = 0 if form != "rows" else 1
        _, index = f.simulate(a=x)
        np.testing.assert_array_equal(index, x.argmax(axis))


def test_the_terms_of_one_value_are_combined_in_a_tree_and_those_of_integers_by_mpi() -> None:
    f, t = reduced("whole")
    text = tm.recipes.reduction(t, on=tm.cores(ranks=range(4)), cpu=WIDE)
    assert commands(text) == [
        "f.grid(4)",
        "a.distribute_array([a0], rank=a0 // 26)",
        "t.update.split(h, 26, h_rank, h_part)",
        "t.update.split(h_part, 4096, h0, h1)",
        "t.update.rfactor(h_rank, h0)",
        "t_partial.tag_distribute(h_rank)",
        "t_partial.update.after(t_partial.init, h0)",
        "t_partial.update.parallelize(h0)",
        "t.update.tag_distribute(h_rank, combine=tm.TREE)",
        "t_partial.update.vectorize(h, 64, combine=tm.PRIVATE)",
        "p.inline()",
    ]
    other, t = reduced("whole")
    exec(text, {"tm": tm, "f": other})
    assert other.show("pseudocode") == f.show("pseudocode")
    _, whole_numbers = reduced("whole", tm.int32)
    text = tm.recipes.reduction(whole_numbers, on=tm.cores(ranks=range(4)), cpu=WIDE)
    assert "t.update.tag_distribute(h_rank, combine=tm.PRIVATE)" in text


@pytest.mark.parametrize(
    ("form", "options", "message"),
    [
        ("columns", {"on": tm.cores(ranks=2)}, r"or tm\.cores\(ranks=range\(4\)\) for four ranks"),
        ("whole", {"on": tm.cores(ranks=range(2)), "determinism": "ordered"}, "one rank would have all of them"),
    ],
)
def test_what_it_cannot_do_is_refused(form: str, options: dict[str, Any], message: str) -> None:
    f, t = reduced(form)
    before = f.show("pseudocode")
    with pytest.raises(ArgumentError, match=message):
        tm.recipes.reduction(t, cpu=WIDE, **options)
    assert f.show("pseudocode") == before


def test_blocks_of_ranks_need_a_constant_size() -> None:
    f = tm.Function("rows", params=[M])
    a = f.input("a", tm.float32, [M, 8])
    t = f.reduction("t", {h: M}, {w: 8}, tm.sum, a[h, w])
    f.outputs(t)
    with pytest.raises(ArgumentError, match="the loop h of t has no constant size"):
        tm.recipes.reduction(t, on=tm.cores(ranks=range(2)), cpu=WIDE)


def test_ranks_do_not_share_the_terms_of_an_operator_that_does_not_commute() -> None:
    k = tm.iters("k")[0]
    first = tm.operator("first", lambda a, b: tm.select(a == 0, b, a), 0, commutative=False)
    f = tm.Function("found", params=[])
    a = f.input("a", tm.int32, [1024])
    s = f.reduction("s", {}, {k: 1024}, first, a[k])
    f.outputs(s)
    with pytest.raises(
        ArgumentError, match=r"s is one value, and its operator is not commutative: .*: leave the ranks"
    ):
        tm.recipes.reduction(s, on=tm.cores(ranks=range(4)))
    assert not f.commands
