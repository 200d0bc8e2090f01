"""16-bit floats in vectors: whole registers of them are converted by one instruction, and rounded as NumPy rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.selection import some
from tests.targets.hot_loops import CLANG, ICELAKE, NEOVERSE, SAPPHIRE, ZEN, Processor, hot_loops
from tests.targets.programs import Call, Program, printed
from tests.targets.test_edges import KINDS, edges, known
from tiramisu_py.ir import For, Node
from tiramisu_py.ir.rewriting import walk

R, C, N = tm.params("R C N")
r, c, i = tm.iters("r c i")
HALVES = (tm.float16, tm.bfloat16)
#: Processors with the instructions that convert from and to float16.
CONVERSIONS = [
    *((each, "vcvtph2ps", "vcvtps2ph") for each in (ICELAKE, SAPPHIRE, ZEN, CLANG)),
    (NEOVERSE, "fcvtl", "fcvtn"),
]


def column_sums(processor: Processor, there_and_back: bool) -> tm.Function:
    """Sums of columns by the recipe: of halves in float32, or of floats that are rounded to halves first."""
    f = tm.Function("sums", params=[R, C])
    x = f.input("x", tm.float32 if there_and_back else tm.float16, [R, C])
    term = tm.cast(tm.float32, tm.cast(tm.float16, x[r, c]))
    total = f.reduction("total", {c: C}, {r: R}, tm.sum, term)
    f.outputs(total)
    tm.recipes.reduction(total, cpu=processor.cpu)
    return f


@pytest.mark.parametrize(("processor", "widen", "narrow"), CONVERSIONS, ids=str)
@pytest.mark.parametrize("there_and_back", [False, True])
def test_sums_of_halves_convert_whole_vectors_and_call_nothing(
    processor: Processor, widen: str, narrow: str, there_and_back: bool
) -> None:
    if processor.missing:
        pytest.skip(processor.missing)
    size = processor.vector_bytes
    f = column_sums(processor, there_and_back)
    loops = hot_loops(f.show("lowered", size), processor)
    loop = max(loops, key=lambda each: len(each.whole(size)))
    names = [each.name for each in loop.instructions]
    found = [each for each in loop.instructions if each.name == widen]
    assert len(found) >= 8 and {each.vector_bytes for each in found} == {size}
    assert names.count(narrow) == (len(found) if there_and_back else 0)
    assert not {"call", "callq", "bl"} & {*names}
    assert len(loop.spilled()) <= (2 if processor == CLANG else 0)  # clang loads an accumulator early, and puts it away


def operations(dtype: tm.DType, lanes: int) -> tm.Function:
    """Every operation that vectors of a 16-bit float have, and stores of them as they are."""
    f = tm.Function("f", params=[N])
    x, y = f.input("x", dtype, [N]), f.input("y", dtype, [N])
    a, b = x[i], y[i]
    values = [a + b, a - b, a * b, a / b, -a, tm.minimum(a, b), tm.maximum(a, b), a, a * b + 3, tm.cast(tm.float32, a)]
    outputs = [f.computation(f"o{k}", {i: N}, value) for k, value in enumerate(values)]
    f.outputs(*outputs)
    for each in outputs if lanes else ():
        each.vectorize(i, lanes, remainder="mask")
    return f


def same(found: Any, wanted: Any) -> bool:
    """Whether values are the same bits, a NaN any NaN."""
    number = wanted == wanted
    return bool(((found == found) == number).all() and found[number].tobytes() == wanted[number].tobytes())


@pytest.mark.parametrize("kind", some(KINDS, lambda kind: kind != "gcc-avx2"))
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_vectors_of_halves_have_the_values_of_numpy(dtype: tm.DType, kind: str, tmp_path: Path) -> None:
    if known(kind).missing:
        pytest.skip(known(kind).missing)
    values = edges(dtype)
    x, y = (np.ascontiguousarray(each.ravel()) for each in np.meshgrid(values, values))
    functions = [operations(dtype, lanes) for lanes in (4, 16)]
    program = Program(known(kind), printed([f.show("lowered", known(kind).register) for f in functions]), tmp_path)
    with np.errstate(all="ignore"):
        wanted = functions[0].evaluate(x, y)
    given = {"x": x, "y": y}
    for which, f in enumerate(functions):
        outputs = {name: np.zeros_like(value) for name, value in zip(f.algorithm.outputs, wanted, strict=True)}
        (results,) = program([Call(which, {"N": x.size}, {**given, **outputs})])
        for name, value in zip(f.algorithm.outputs, wanted, strict=True):
            assert same(results[name], value), (kind, dtype, name)


def lane_loops(f: tm.Function) -> list[Node]:
    """Loops that go lane by lane."""
    return [node for node in walk(f.show("lowered").body) if isinstance(node, For) and node.variable == "lane"]


def test_only_float64_is_rounded_to_float16_lane_by_lane() -> None:
    assert lane_loops(operations(tm.float16, 16)) == []
    for source in (tm.float64, tm.int64, tm.uint32, tm.int16, tm.bool, tm.float32, tm.bfloat16):
        f = tm.Function("f", params=[N])
        x = f.input("x", source, [N])
        o = f.computation("o", {i: N}, tm.cast(tm.float16, x[i]))
        f.outputs(o)
        o.vectorize(i, 16, remainder="mask")
        assert bool(lane_loops(f)) == (source == tm.float64), source


def placed(dtype: tm.DType, remainder: str) -> tm.Function:
    """Elements backwards, a few apart, at places from a table, and past the caches, in vectors of 16."""
    f = tm.Function("f", params=[N])
    x, t = f.input("x", dtype, [3 * N]), f.input("t", tm.int32, [N], values=(0, 7))
    table = f.input("table", dtype, [7])
    values = [x[N - 1 - i], x[2 * i], x[3 * i + 1], table[t[i]] * x[i], x[i] + 1, x[i]]
    outputs = [f.computation(f"o{k}", {i: N}, value) for k, value in enumerate(values)]
    f.outputs(*outputs)
    for each in outputs:
        each.vectorize(i, 16, remainder=remainder)
    outputs[4].store_nontemporal()
    return f


@pytest.mark.parametrize("remainder", ["mask", "overlap", "scalar"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_halves_are_found_wherever_they_are(dtype: tm.DType, remainder: str) -> None:
    f, random = placed(dtype, remainder), np.random.default_rng(1)
    kernel = f.compile()
    for size in (0, 5, 16, 67):
        given = random.standard_normal(3 * size).astype(dtype.numpy), random.integers(0, 7, size, np.int32)
        table = random.standard_normal(7).astype(dtype.numpy)
        for found, wanted in zip(kernel(*given, table), f.evaluate(*given, table), strict=True):
            assert same(found, wanted)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_stage_of_halves_slides_in_registers(dtype: tm.DType) -> None:
    f = tm.Function("blur", params=[R, C])
    x = f.input("x", dtype, [R + 2, C + 2])
    down = f.computation("down", {r: R, c: C + 2}, x[r, c] + x[r + 1, c] + x[r + 2, c])
    across = f.computation("across", {r: R, c: C}, (down[r, c] + down[r, c + 1]) * down[r, c + 2])
    f.outputs(across)
    r0, c0, r1, c1 = tm.iters("r0 c0 r1 c1")
    across.tile(r, c, 4, 16, r0, c0, r1, c1)
    across.parallelize(r0)
    across.vectorize(c1, 16, remainder="mask")
    down.compute_at(across, c0)
    down.slide(c0, c, 16)
    down.vectorize(c, 16, remainder="mask")
    down.store_in(tm.REGISTER)
    kernel, random = f.compile(), np.random.default_rng(2)
    for shape in ((3, 3), (9, 18), (21, 70)):
        given = random.standard_normal(shape).astype(dtype.numpy)
        assert same(kernel(given), f.evaluate(given))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_pairs_of_halves_are_stored_in_turn(dtype: tm.DType) -> None:
    f = tm.Function("pairs", params=[N])
    x, y = f.input("x", dtype, [N]), f.input("y", dtype, [N])
    pair = f.computation("pair", {i: N, c: 2}, tm.select(c == 0, x[i] + y[i], x[i] * y[i]))
    f.outputs(pair)
    pair.reorder(i, c)
    pair.unroll(c)
    pair.vectorize(i, 16, remainder="mask")
    random = np.random.default_rng(3)
    for size in (1, 16, 67):
        given = [random.standard_normal(size).astype(dtype.numpy) for _ in range(2)]
        assert same(f.compile()(*given), f.evaluate(*given))
