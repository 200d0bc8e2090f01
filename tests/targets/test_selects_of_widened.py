"""A choice between widened values and others as wide, on every processor: gcc 12 makes one masked load of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.selection import some
from tests.targets.machines import TARGETS, Target, is_plain
from tests.targets.programs import Call, Program, printed
from tiramisu_py.lower import lower
from tiramisu_py.passes.pipeline import optimise

(N,) = tm.params("N")
(i,) = tm.iters("i")
INTEGERS = (tm.uint8, tm.int8, tm.uint16, tm.int32)
WIDENED = [
    *((a, b) for a in INTEGERS for b in (tm.int16, tm.int32, tm.int64) if a.bits < b.bits),
    (tm.int32, tm.float64),
    (tm.float32, tm.float64),
]
#: Vectors of 8 and of 4 bytes, and up to a whole one.
LANES = (2, 4, 8, 16)


def widened(source: tm.DType, target: tm.DType, lanes: int) -> tm.Function:
    """``b`` widened where c is over 3 and c elsewhere, and the other way round."""
    f = tm.Function("f", params=[N])
    b, c = f.input("b", source, [N]), f.input("c", target, [N])
    o = f.computation("o", {i: N}, tm.select(c[i] > 3, tm.cast(target, b[i]), c[i]))
    p = f.computation("p", {i: N}, tm.select(c[i] > 3, c[i], tm.cast(target, b[i])))
    f.outputs(o, p)
    o.vectorize(i, lanes)
    p.vectorize(i, lanes)
    return f


@pytest.mark.parametrize("target", some([t for t in TARGETS if "sanitised" not in t.name], is_plain), ids=str)
def test_every_compiler_takes_them(target: Target, tmp_path: Path) -> None:
    if target.missing:
        pytest.skip(target.missing)
    cases = [(a, b, n) for a, b in WIDENED for n in LANES if 4 <= a.bytes * n <= 8]
    functions = [widened(*case) for case in cases]
    whole = Target(target.name, target.compiler, (*target.flags, "-O2"), target.register, target.runner)
    program = Program(whole, printed([optimise(lower(f.program), target.register) for f in functions]), tmp_path)
    rng = np.random.default_rng(0)
    calls, wanted = [], []
    for k, (source, dtype, _) in enumerate(cases):
        b, c = rng.integers(0, 250, 35).astype(source.numpy), rng.integers(0, 7, 35).astype(dtype.numpy)
        none = np.zeros(35, dtype.numpy)
        calls.append(Call(k, {"N": 35}, {"b": b, "c": c, "o": none, "p": none}))
        wanted.append((np.where(c > 3, b.astype(dtype.numpy), c), np.where(c > 3, c, b.astype(dtype.numpy))))
    for case, found, (o, p) in zip(cases, program(calls), wanted, strict=True):
        np.testing.assert_array_equal(found["o"], o, err_msg=str(case))
        np.testing.assert_array_equal(found["p"], p, err_msg=str(case))
