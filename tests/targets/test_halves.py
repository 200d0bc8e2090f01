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
    loops = hot_loops(f.lowered(size), processor)
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
    program = Program(known(kind), printed([f.lowered(known(kind).register) for f in functions]), tmp_path)
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
    return [node for node in walk(f.lowered().body) if isinstance(node, For) and node.variable == "lane"]


def test_only_float64_is_rounded_to_float16_lane_by_lane() -> None:
    assert lane_loops(operations(tm.float16, 16)) == []
    for source in (tm.float64, tm.int64, tm.uint32, tm.int16, tm.bool, tm.float32, tm.bfloat16):
        f = tm.Function("f", params=[N])
        x = f.input("x", source, [N])
        o = f.computation("o", {i: N}, tm.cast(tm.float16, x[i]))
        f.outputs(o)
        o.vectorize(i, 16, remainder="mask")
        assert bool(lane_loops(f)) == (source == tm.float64), source
