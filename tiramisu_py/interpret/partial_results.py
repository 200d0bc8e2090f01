"""Partial results: private copies of the arrays that a loop's threads update, and their combination."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tiramisu_py.algorithm.components import combined as combined_parts
from tiramisu_py.algorithm.components import component_types
from tiramisu_py.algorithm.declarations import Operator
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.types import DType, as_dtype
from tiramisu_py.interpret import arithmetic
from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.evaluator import Frame, bound
from tiramisu_py.interpret.memory import private
from tiramisu_py.ir import Private, Scalar
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
        apply = application(reduction.operator, as_dtype(shared.data.dtype))
        for element in map(tuple, np.argwhere(partial.written)):
            (value,) = apply((shared.read(element, where),), (partial.data[element],))
            shared.write(element, value, where)


def application(operator: Operator, dtype: DType) -> Callable[[Parts, Parts], Parts]:
    """``operator(left, right)`` in the type of its operands, which are given by their components, as the result is."""
    types = component_types(dtype)
    left, right = ([f"{side}{k}" for k in range(len(types))] for side in ("left", "right"))
    operands = ([Scalar(name, own) for name, own in zip(side, types, strict=True)] for side in (left, right))
    found = combined_parts(operator, *operands, dtype)

    def apply(a: Parts, b: Parts) -> Parts:
        evaluate = bound(dict(zip([*left, *right], [*a, *b], strict=True)))
        return tuple(arithmetic.convert(evaluate(e), own) for e, own in zip(found, types, strict=True))

    return apply
