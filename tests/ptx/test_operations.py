"""Every operation of every type: what is compiled of kernels gives what NumPy gives."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.c.expressions.test_c_arithmetic import COUNT, Case
from tests.backends.cuda.test_emit_arithmetic import OPERATIONS, compare
from tests.selection import first
from tiramisu_py.algorithm.types import DType

(N,) = tm.params("N")
i, i0, i1 = tm.iters("i i0 i1")
EACH = 8


def batched(cases: Iterable[tuple[str, Case]]) -> Iterator[dict[str, Case]]:
    """A few at a time: nvcc takes three times as long for one kernel of all."""
    left = [*cases]
    while left:
        yield dict(left[:EACH])
        del left[:EACH]


def elementwise(cases: dict[str, Case], dtype: DType) -> tm.Function:
    """A value of x[i] and y[i] for each case, all in one kernel."""
    f = tm.Function("each", params=[N])
    x, y = f.input("x", dtype, [N]), f.input("y", dtype, [N])
    values = [f.computation(f"r_{name}", {i: N}, case.value(x[i], y[i])) for name, case in cases.items()]
    f.outputs(*values)
    for value in values:
        value.split(i, 32, i0, i1)
        value.tag_gpu(blocks=[i0], threads=[i1])
    if len(values) > 1:
        f.order(*values, at=i1)
    f.derive_transfers()
    return f


@pytest.mark.ptx
@pytest.mark.parametrize(
    ("kind", "dtype"), first([(kind, dtype) for kind, (_, types) in OPERATIONS.items() for dtype in types], 0)
)
def test_operations_are_those_of_numpy(kind: str, dtype: DType) -> None:
    """As the simulator's are (`tests/backends/cuda/test_emit_arithmetic.py`)."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for cases, x, y in OPERATIONS[kind][0](dtype):
            for part in batched(cases.items()):
                found = elementwise(part, dtype).compile(device="gpu")(x, y)
                results = found if isinstance(found, tuple) else (found,)
                assert all(result.shape == (COUNT,) for result in results)
                compare(part, x, y, results)
