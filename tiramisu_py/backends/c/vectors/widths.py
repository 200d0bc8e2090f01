"""Conversions of vectors between types, in as few instructions as possible."""

from __future__ import annotations

from tiramisu_py.algorithm.types import DType, int8, int16, int32, int64
from tiramisu_py.backends.c.expressions.parentheses import Code, call, cast
from tiramisu_py.backends.c.vectors.vector_types import VectorTypes

#: The signed integers by width; masks are made of them.
SIGNED = {8: int8, 16: int16, 32: int32, 64: int64}


def converted(types: VectorTypes, code: Code, source: DType, target: DType, lanes: int) -> Code:
    """A vector in another type.

    An integer narrower than 32 bits becomes a float by way of the integer as wide as the float, and a float becomes one
    by way of int32. NaN and values out of range are as in scalar code. Not for floats to uint32 or uint64.
    """
    if source.is_float and target.is_integer:
        whole = int32 if target.bits < 32 else target
        code, source = call("TM_TRUNCATED", types.name(whole, lanes), f"tm_to_{whole.name}", code), whole
    elif source.is_integer and target.is_float and source.bits < 32:
        whole = SIGNED[target.bits]
        code, source = _step(types, code, source, whole, lanes), whole
    return code if source == target else _step(types, code, source, target, lanes)


def _step(types: VectorTypes, code: Code, source: DType, target: DType, lanes: int) -> Code:
    """A conversion in one step."""
    if source.is_integer and target.is_integer and source.bits == target.bits:
        return cast(types.name(target, lanes), code)
    if source.bits < target.bits or target.is_integer:
        return call(types.idioms.conversion(source, target, lanes), code)
    return call("__builtin_convertvector", code, types.name(target, lanes))


def joined(types: VectorTypes, parts: list[Code], source: DType, target: DType, lanes: int) -> Code:
    """Concatenated vectors of `lanes` lanes, in an integer type narrower by a factor of their number."""
    while len(parts) > 1:
        narrow = target if source.bits == 2 * target.bits else SIGNED[source.bits // 2]
        function = types.idioms.joined(source, narrow, lanes)
        parts = [call(function, *pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
        source, lanes = narrow, 2 * lanes
    return parts[0]
