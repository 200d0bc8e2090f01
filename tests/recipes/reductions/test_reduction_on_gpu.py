"""The recipe for reductions on a GPU: its form by facts on sizes, odd sizes in the simulator, what nvcc makes of it."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.recipes.frames import frames_of
from tests.recipes.texts import commands
from tests.selection import covering
from tiramisu_py.errors import ArgumentError
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.images import Architecture
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc

H, N, M = tm.params("H N M")
NAMES = h, w, x, y = tm.iters("h w x y")
#: Shapes, the iterators of values (the others are reduced), and facts about sizes.
FORMS: dict[str, tuple[tuple[Any, ...], str, str | None]] = {
    "whole": ((N,), "", None), "whole, few": ((N,), "", "N <= 1000"), "whole, joined": ((H, 10, 5), "", None),
    "whole, two sizes": ((N, M), "", None), "rows": ((N, M), "h", None), "rows, aligned": ((N, M), "h", "M % 4 == 0"),
    "long rows": ((N, 4100), "h", None), "few rows": ((5, M), "h", None), "short rows": ((N, 7), "h", None),
    "rows, joined": ((H, 3, 10, 6), "hw", None), "rows between": ((H, 4, 10, 5), "w", None),
    "columns": ((N, M), "w", None), "columns inside": ((3, H, 37), "hx", None), "few columns": ((N, 96), "w", None),
    "narrow columns": ((N, 2), "w", None), "columns, joined": ((N, 16, 12, 8), "xy", None),
}  # fmt: skip
EXTENTS = [0, 1, 31, 33, 1025]
#: Forms whose threads load four floats at once, and others; architectures of NVIDIA's GPUs.
WIDE, ONE_BY_ONE = ("whole, joined", "rows, aligned", "long rows"), ("rows", "few rows", "columns", "columns, joined")
ARCHITECTURES = (75, 80, 90)
#: Operators with types; sums are of small whole numbers, exact in every type.
KINDS = [
    (tm.sum, tm.float32), (tm.max, tm.float32), (tm.sum, tm.int32), (tm.min, tm.int8), (tm.sum, tm.float64),
    (tm.logical_or, tm.bool), (tm.argmax, tm.float32),
]  # fmt: skip


def reduced(form: str, op: Any = tm.sum, dtype: tm.DType = tm.float32) -> tuple[tm.Function, tm.Reduction]:
    """A reduction of twice the elements of an array; of truth values, of the elements."""
    shape, values, assume = FORMS[form]
    names = NAMES[: len(shape)]
    params = [size for size in shape if not isinstance(size, int)]
    if op is tm.argmax:  # nothing has no place
        assume = " and ".join([*([assume] if assume else []), *(f"{size} >= 1" for size in params)])
    f = tm.Function("reduced", params=params, assume=assume or None)
    a = f.input("a", dtype, list(shape))
    extents = dict(zip(names, shape, strict=True))
    p = f.computation("p", extents, a[names] if dtype.is_bool else a[names] * tm.cast(dtype, 2))
    domain = {name: size for name, size in extents.items() if str(name) in values}
    over = {name: size for name, size in extents.items() if str(name) not in values}
    f.outputs(f.reduction("t", domain, over, op, (p[names], names[-1]) if op is tm.argmax else p[names]))
    return f, f["t"]


def sizes(form: str, extent: int) -> list[int]:
    """A shape of a form: its first symbolic size is the extent, others are at most 67."""
    shape, _, assume = FORMS[form]
    found = [size if isinstance(size, int) else min(extent, 67) if k else extent for k, size in enumerate(shape)]
    return [found[0], found[1] // 4 * 4] if assume == "M % 4 == 0" else [min(found[0], 1000)] if assume else found


@pytest.mark.parametrize(("form", "kind", "extent"), covering([*FORMS], [*range(len(KINDS))], EXTENTS))
def test_it_is_right_at_odd_sizes(form: str, kind: int, extent: int) -> None:
    op, dtype = KINDS[kind]
    f, t = reduced(form, op, dtype)
    tm.recipes.reduction(t, on=tm.gpu())
    f.derive_transfers()
    assert f.check().ok
    shape = sizes(form, max(extent, 4) if op is tm.argmax else extent)
    a = np.random.default_rng(extent).integers(0, 2 if dtype.is_bool else 4, shape).astype(dtype.numpy)
    got, wanted = f.compile(device="simulator", sanitize=True)(a), f.evaluate(a)
    for one, other in zip(*((each if isinstance(each, tuple) else (each,)) for each in (got, wanted)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_rounded_sums_have_the_bits_of_the_schedule_whatever_blocks_come_first() -> None:
    f, t = reduced("few rows")
    tm.recipes.reduction(t, on=tm.gpu(), sizes={"threads": 64, "group": 64, "loads": 1})
    f.derive_transfers()
    assert f.check().determinism["t"] == "everywhere"
    a = np.random.default_rng(0).standard_normal((5, 300), dtype=np.float32)
    kernel, wanted = f.compile(device="simulator"), f.evaluate(a, as_scheduled=True)
    for seed in range(3):
        np.testing.assert_array_equal(kernel.seeded(seed)(a), wanted)


def test_blocks_take_parts_of_a_tuple_in_two_passes_whatever_order_is_asked_for() -> None:
    text = tm.recipes.reduction(reduced("whole", tm.argmax)[1], on=tm.gpu(), determinism="not_guaranteed")
    assert "combine=tm.TREE, across=tm.TWO_PASS" in text
    for form, words in (
        ("rows", "blocks=[h0], threads=[h1, w2], combine=tm.TREE)"),
        ("long rows", "blocks=[h], threads=[w2], combine=tm.TREE)"),
        ("columns", "blocks=[w0], threads=[h2, w1], combine=tm.TREE)"),
    ):
        assert words in tm.recipes.reduction(reduced(form, tm.argmax)[1], on=tm.gpu())


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("whole", "blocks=[h0], threads=[h2], combine=tm.TREE, across=tm.TWO_PASS"),  # outputs do not fill the GPU
        ("whole, few", "blocks=[h0], threads=[h2], combine=tm.TREE)"),  # one block has all terms
        ("rows", "blocks=[h0], threads=[h1, w2], combine=tm.TREE)"),  # a warp a row
        ("long rows", "blocks=[h], threads=[w2], combine=tm.TREE)"),  # a block a row
        ("few rows", "blocks=[h, w0], threads=[w2], combine=tm.TREE, across=tm.TWO_PASS)"),
        ("short rows", "blocks=[h0], threads=[h1])"),  # a thread a row
        ("columns", "blocks=[w0], threads=[h2, w1], combine=tm.TREE)"),  # 32 x 8
    ],
)
def test_facts_about_sizes_choose_the_form(form: str, words: str) -> None:
    assert words in tm.recipes.reduction(reduced(form)[1], on=tm.gpu())


def test_the_text_says_what_was_done_and_gives_the_same_program() -> None:
    f, t = reduced("rows, aligned")
    text = tm.recipes.reduction(t, on=tm.gpu(stream=1))
    assert commands(text) == [
        "t.split(h, 8, h0, h1)",
        "t.update.after(t.init, h1)",
        "t.update.split(w, 128, w1, w2)",
        "t.update.split(w2, 4, w2, w3)",
        "t.update.vectorize(w3, 4, combine=tm.PRIVATE)",
        "t.tag_gpu(blocks=[h0], threads=[h1, w2], stream=1, combine=tm.TREE)",
        "p.inline()",
    ]
    other, t = reduced("rows, aligned")
    exec(text, {"tm": tm, "f": other})
    assert other.show("pseudocode") == f.show("pseudocode")


@pytest.mark.parametrize(("form", "architecture"), covering([*WIDE, *ONE_BY_ONE], ARCHITECTURES))
def test_four_floats_are_one_load_and_nothing_is_divided_or_spilled(form: str, architecture: int) -> None:
    compiler = find_nvcc(open_cache())
    if isinstance(compiler, str):
        pytest.skip(compiler)
    f, t = reduced(form)
    tm.recipes.reduction(t, on=tm.gpu())
    f.derive_transfers()
    text = f.source()["reduced.cu"]
    assert len(re.findall(r"tm_load(?:_apart)?<4>\(", text)) == (form in WIDE) and "tm_atomic" not in text
    assert frames_of(f, architecture) == {("0", "0", "0")}
    ptx, _ = compiler.compile("reduced.cu", f.source(), Architecture(architecture, virtual=True), ("-std=c++17",))
    code = ptx.decode()
    assert bool(re.search(r"ld\.global(\.nc)?\.v4", code)) == (form in WIDE)
    assert not re.search(r"\b(div|rem)\.|\bcall\b", code)


def test_sizes_are_given_by_name_and_tune_has_a_space_of_four() -> None:
    space = tm.recipes.reduction_space(reduced("few rows")[1], on=tm.gpu())
    assert {name: values for name, values in space.items() if len(values) > 1}.keys() == {"threads", "group", "loads"}
    assert len(space) == 4 and math.prod(map(len, space.values())) <= 64
    text = tm.recipes.reduction(reduced("rows")[1], on=tm.gpu(), sizes={"threads": 128, "group": 16})
    assert "t.split(h, 8, h0, h1)" in text and "t.update.split(w, 16, w1, w2)" in text
    f, t = reduced("whole")
    assert "TWO_PASS" not in tm.recipes.reduction(t, on=tm.gpu(), determinism="not_guaranteed")
    f.derive_transfers()
    assert f.check().determinism["t"] == "not_guaranteed"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": {"warps": 3}}, "there is no size 'warps' here: there are threads, group, vector, loads"),
        ({"sizes": {"group": 0}}, "group is 0: give an integer from 1 on"),
        ({"sizes": {"group": 7}}, "256 threads are no multiple of a group of 7"),
        ({"on": tm.gpu(tile=64)}, r"it chooses the threads itself: give tm\.gpu\(device, stream=\.\.\.\)"),
        ({"gpu": "A99"}, "'A99' is not a known GPU"),
        ({"determinism": "ordered"}, "t is one value, and a single thread would combine its terms"),
    ],
)
def test_what_it_cannot_do_is_refused(options: dict[str, Any], message: str) -> None:
    f, t = reduced("whole")
    before = f.show("pseudocode")
    with pytest.raises(ArgumentError, match=message):
        tm.recipes.reduction(t, **{"on": tm.gpu(), **options})
    assert f.show("pseudocode") == before
