"""Calls of C functions over whole arrays: pointers to first elements, strides, and scalars."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Binary, Expr, constant
from tiramisu_py.algorithm.types import int64
from tiramisu_py.algorithm.words.stages import ArrayParameter, StrideParameter
from tiramisu_py.backends.c.expressions.scalars import Scalars, operand
from tiramisu_py.backends.c.expressions.scope import NamedArray
from tiramisu_py.ir import ArrayCall
from tiramisu_py.ir.arithmetic.linear import number


def call_text(node: ArrayCall, scalars: Scalars) -> str:
    """The call, ``gemm(M, N, K, &a[n*M*K], K, b, N, c, N)``."""
    names = [name for name, _ in node.stage.array_parameters]
    at = {name: (array, section) for name, array, section in zip(names, node.arrays, node.sections, strict=True)}
    given, words = iter(node.scalars), list[str]()
    for name, of in node.stage.parameters:
        if isinstance(of, ArrayParameter):
            array, section = at[name]
            words.append(_pointer(scalars, array, section.first))
        elif isinstance(of, StrideParameter):
            array, section = at[of.array]
            distance = _distance(scalars.scope.arrays[array], section.steps[of.dimension])
            words.append(scalars.text(operand(distance, of.dtype)))
        else:
            words.append(scalars.text(operand(next(given), of)))
    return f"{node.stage.name}({', '.join(words)})"


def _pointer(scalars: Scalars, buffer: str, first: tuple[Expr, ...]) -> str:
    array = scalars.scope.arrays[buffer]
    if not array.nested and constant(array.flat(first)) == 0:
        return array.name
    return f"&{scalars.element(buffer, first)}"


def _distance(array: NamedArray, steps: tuple[int, ...]) -> Expr:
    """The distance of neighbours, which of an array without elements is 1, since functions ask for a positive one."""
    found = array.distance(steps)
    if array.strides is not None or constant(found) is not None:
        return found
    return Binary("max", found, number(1), int64)
