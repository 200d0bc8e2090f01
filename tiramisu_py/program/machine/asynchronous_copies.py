"""Copies from a GPU's memory into shared memory that are under way while the kernel goes on."""

from __future__ import annotations

import math

from tiramisu_py.algorithm.expressions import Const, Expr

#: The sizes that one such copy may have, in bytes.
COPIED = (4, 8, 16)


def is_zero(e: Expr) -> bool:
    """Whether all bits of a value are zero, as a copy fills them: not those of -0.0."""
    return isinstance(e, Const) and e.value == 0 and not (e.dtype.is_float and math.copysign(1, float(e.value)) < 0)
