"""Words that choose one of several values."""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py.algorithm.expressions import Expr, Operand, as_expr, select
from tiramisu_py.errors import DeclarationError, DTypeError
from tiramisu_py.public_calls import own_call


@own_call
def mux(index: Operand, values: Sequence[Operand]) -> Expr:
    """The value with the number `index`: ``values[index]``, and the last one for any other number.

    Where the index is affine, a value is read only where it is chosen, as in `select`.
    """
    number = as_expr(index)
    if not number.dtype.is_integer:
        raise DTypeError(f"the index of mux is {number} ({number.dtype}), not an integer")
    if not isinstance(values, list | tuple) or not values:
        raise DeclarationError(f"mux chooses among a list of values, not {values!r:.60}")
    found = as_expr(values[-1])
    for position in reversed(range(len(values) - 1)):
        found = select(number == position, values[position], found)
    return found
