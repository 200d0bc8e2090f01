"""Every operation of every type: what is compiled of kernels gives what NumPy and the simulator give."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.c.expressions.test_c_arithmetic import COUNT
from tests.backends.cuda.test_emit_arithmetic import OPERATIONS, Case, compare
from tests.ptx import running
from tests.selection import first
from tiramisu_py.algorithm.types import DType

(N,) = tm.params("N")
i, i0, i1 = tm.iters("i i0 i1")


def elementwise(cases: dict[str, Case], dtype: DType) -> tm.Function:
    """A value of x[i] and y[i] for each case, all in one kernel."""
    f = tm.Function("each", params=[N])
    x, y = f.input("x", dtype, [N]), f.input("y", dtype, [N])
    values = [f.computation(f"r_{name}", {i: N}, case.value(x[i], y[i])) for name, case in cases.items()]
    f.outputs(*values)
    for value in values:
        value.split(i, 32, i0, i1)
        value.tag_gpu(blocks=[i0], threads=[i1])
    f.order(*values, at=i1)
    f.derive_transfers()
    return f


@pytest.mark.ptx
@pytest.mark.parametrize(
    ("kind", "dtype"), first([(kind, dtype) for kind, (_, types) in OPERATIONS.items() for dtype in types], 0)
)
def test_operations_are_those_of_numpy_and_of_the_simulator(kind: str, dtype: DType) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for cases, x, y in OPERATIONS[kind][0](dtype):
            f = elementwise(cases, dtype)
            running.choose("seed=1")
            found = f.compile(device="gpu")(x, y)
            assert all(result.shape == (COUNT,) for result in found)
            compare(cases, x, y, found)
            simulated = zip(cases.items(), f.compile(device="simulator")(x, y), strict=True)
            compare({name: Case(case.value, said, case.exact) for (name, case), said in simulated}, x, y, found)
