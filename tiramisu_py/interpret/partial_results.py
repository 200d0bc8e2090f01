"""Partial results: private copies of the arrays that a loop's threads update, and their combination."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.types import DType, as_dtype, component_types
from tiramisu_py.interpret import arithmetic
from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.evaluator import Frame, bound
from tiramisu_py.interpret.memory import private
from tiramisu_py.ir import Private, Scalar
from tiramisu_py.ir.arithmetic.components import combined as combined_parts
from tiramisu_py.ir.arithmetic.components import neutral
from tiramisu_py.program.loops import Combine

#: A value by its components; a scalar has one.
Parts = tuple[Value, ...]


def privatised(reductions: Sequence[Private], frame: Frame) -> Frame:
    """A thread's view of the frame: private copies, each the neutral element, and the set of atomic buffers."""
    own = frame.branch()
    for reduction in reductions:
        if reduction.combine is Combine.ATOMIC:
            own.atomic |= {reduction.buffer}
        else:
            identities = neutral(reduction.operator, _dtype(reduction, frame))
            for buffer, identity in zip(reduction.buffers, identities, strict=True):
                assert isinstance(identity, Const)
                start = arithmetic.literal(identity.value, identity.dtype)
                own.arrays[buffer] = private(frame.array(buffer), start)
    return own


def combined(reductions: Sequence[Private], own: Frame, frame: Frame) -> None:
    """Fold the elements that a thread has updated into the shared arrays."""
    for reduction in reductions:
        if reduction.combine is Combine.ATOMIC:
            continue
        shared, partial = ([at.array(buffer) for buffer in reduction.buffers] for at in (frame, own))
        where = f"the combination of {reduction.buffer}"
        apply = application(reduction.operator, _dtype(reduction, frame))
        for element in map(tuple, np.argwhere(partial[0].written)):
            held = tuple(array.read(element, where) for array in shared)
            values = apply(held, tuple(array.data[element] for array in partial))
            for array, value in zip(shared, values, strict=True):
                array.write(element, value, where)


def _dtype(reduction: Private, frame: Frame) -> DType:
    """The type of the values of a buffer, or of the buffers of their components."""
    return as_dtype(frame.array(reduction.buffer).data.dtype) if reduction.dtype is None else reduction.dtype


def application(operator: Operator, dtype: DType) -> Callable[[Parts, Parts], Parts]:
    """``operator(left, right)`` in the type of its operands, which are given by their components, as the result is."""
    types = component_types(dtype)
    left, right = ([f"{side}{k}" for k in range(len(types))] for side in ("left", "right"))
    mine, others = ([Scalar(name, own) for name, own in zip(side, types, strict=True)] for side in (left, right))
    found = combined_parts(operator, mine, others, dtype)

    def apply(a: Parts, b: Parts) -> Parts:
        evaluate = bound(dict(zip([*left, *right], [*a, *b], strict=True)))
        return tuple(arithmetic.convert(evaluate(e), own) for e, own in zip(found, types, strict=True))

    return apply
