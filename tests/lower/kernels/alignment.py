"""Which accesses of several lanes are one access of a GPU: neighbours in memory, from an aligned address on."""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import DType
from tiramisu_py.ir import Ramp
from tiramisu_py.ir.arithmetic.linear import linear

#: The widths of vectors, and the bytes of the widest, that one instruction loads or stores.
WIDTHS = (2, 4)
MOST_BYTES = 16


def lanes_together(indices: Sequence[Expr], extents: Sequence[Expr], dtype: DType) -> int:
    """How many lanes of an access to a row-major array are one aligned access; 1 where that is not known.

    The last index alone has lanes, one apart; all that comes before the first lane is a multiple of the width. The
    array itself starts at a multiple of 16 bytes.
    """
    if not indices or not isinstance(indices[-1], Ramp) or any(isinstance(i, Ramp) for i in indices[:-1]):
        return 1
    lanes = indices[-1].lanes
    if lanes not in WIDTHS or lanes * dtype.bytes > MOST_BYTES:
        return 1
    rows = len(indices) == 1 or _multiple(extents[-1], lanes)
    return lanes if rows and _multiple(indices[-1].base, lanes) else 1


def _multiple(e: Expr, of: int) -> bool:
    """Whether an int64 expression is a multiple of a number, whatever its variables are."""
    form = linear(e)
    return form.exact and form.constant % of == 0 and all(factor % of == 0 for _, factor in form.terms.values())
