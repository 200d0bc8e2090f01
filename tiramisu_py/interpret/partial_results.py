"""Partial results: private copies of the arrays that a loop's threads update, and their combination."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiramisu_py.algorithm.declarations import Operator
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.types import DType, as_dtype
from tiramisu_py.interpret import arithmetic
from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.evaluator import Frame, bound
from tiramisu_py.interpret.memory import private
from tiramisu_py.ir import Private, Scalar
from tiramisu_py.program.loops import Combine


def privatised(reductions: Sequence[Private], frame: Frame) -> Frame:
    """A thread's view of the frame: private copies, each the neutral element, and the set of atomic buffers."""
    own = frame.branch()
    for reduction in reductions:
        if reduction.combine is Combine.ATOMIC:
            own.atomic |= {reduction.buffer}
        else:
            shared = frame.array(reduction.buffer)
            identity = reduction.operator.neutral(as_dtype(shared.data.dtype))
            assert isinstance(identity, Const)
            own.arrays[reduction.buffer] = private(shared, arithmetic.literal(identity.value, identity.dtype))
    return own


def combined(reductions: Sequence[Private], own: Frame, frame: Frame) -> None:
    """Fold the elements that a thread has updated into the shared arrays."""
    for reduction in reductions:
        if reduction.combine is Combine.ATOMIC:
            continue
        shared, partial = frame.array(reduction.buffer), own.array(reduction.buffer)
        where = f"the combination of {reduction.buffer}"
        for element in map(tuple, np.argwhere(partial.written)):
            value = apply(reduction.operator, shared.read(element, where), partial.data[element])
            shared.write(element, value, where)


def apply(operator: Operator, left: Value, right: Value) -> Value:
    """``operator(left, right)`` in the type of its operands."""
    dtype: DType = as_dtype(left.dtype)
    expression = operator(Scalar("left", dtype), Scalar("right", dtype))
    return arithmetic.convert(bound({"left": left, "right": right})(expression), dtype)
