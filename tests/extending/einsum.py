"""A front end: Einstein's sums as functions, through the public interface alone.

::

    einsum("ik,kj->ij")      -->      C[i, j] = 0;  C[i, j] += in0[i, k] * in1[k, j]
"""

from __future__ import annotations

import re
from functools import reduce
from operator import mul

import tiramisu_py as tm


def einsum(subscripts: str, dtype: tm.DType = tm.float64) -> tm.Function:
    """The function of a sum such as ``"ik,kj->ij"``: inputs ``in0``, ``in1``, ..., and the output ``out``.

    Each letter is an iterator, whose extent is a parameter: ``N_i`` for i. A letter that no output
    has is summed over. Raises `ValueError` for text of another form, or an output index that no input has.
    """
    if not re.fullmatch(r"[a-z]*(,[a-z]*)*->[a-z]*", subscripts):
        raise ValueError(f"{subscripts!r} is no sum of products: write the indices as in 'ik,kj->ij'")
    left, _, result = subscripts.partition("->")
    operands = left.split(",")
    letters = sorted(set(left) - {","})
    if unknown := sorted(set(result) - set(letters)):
        raise ValueError(f"{subscripts!r}: no input has the index {', '.join(unknown)} of the output")
    iterators = {letter: tm.iters(letter)[0] for letter in letters}
    extents = {letter: tm.params(f"N_{letter}")[0] for letter in letters}
    f = tm.Function("einsum", params=list(extents.values()))
    inputs = [f.input(f"in{n}", dtype, [extents[i] for i in names]) for n, names in enumerate(operands)]
    factors = [a[tuple(iterators[i] for i in names)] for a, names in zip(inputs, operands, strict=True)]
    product = reduce(mul, factors)
    domain = {iterators[i]: extents[i] for i in result}
    summed = {iterators[i]: extents[i] for i in letters if i not in result}
    out = f.reduction("out", domain, summed, tm.sum, product) if summed else f.computation("out", domain, product)
    f.outputs(out)
    return f
