"""Two functions compared: equal for all sizes, or not."""

from __future__ import annotations

from typing import Any

from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.equivalence.equivalent import Equivalence, compared
from tiramisu_py.errors import DeclarationError
from tiramisu_py.function.function import Function
from tiramisu_py.public_calls import own_call

__all__ = ["Equivalence", "equivalent"]


@own_call
def equivalent(f: Function, g: Function) -> Equivalence:
    """Whether two functions of the same inputs have equal outputs, at all sizes: a proof, a witness, or why neither.

    ::

        C[i, j] = sum of A[i, k] * B[k, j]   and the same in blocks of k   -->   .ok

    Only the definitions count, as commands such as `compact`, `gather` and `reassociate` have rewritten them, and no
    schedule. Keys, inverses and runs that one function declares of inputs of both are taken to be right, as a call
    verifies. Outputs are paired by their names, or in order if these differ. Equal are values that are sums of the
    same products of elements, in any order; as real numbers, so bits may differ. What is no sum of products (``exp``,
    maxima, a choice by values) is compared as written. ``.ok`` says that they are proven equal; ``.is_different``,
    that `evaluate` gives two values at the sizes ``.params`` in ``.element``; else neither is known, and ``str()``
    says why. Raises `DeclarationError` if inputs, parameters or the number of outputs differ.
    """
    return compared(_algorithm_of(f), _algorithm_of(g))


def _algorithm_of(f: Any) -> Algorithm:
    if not isinstance(f, Function):
        raise DeclarationError(f"tm.equivalent takes two functions of tiramisu_py, not {f!r}")
    f._refuse_in_group(f"tm.equivalent({f.name})", DeclarationError)
    return f.program.algorithm.as_rewritten
