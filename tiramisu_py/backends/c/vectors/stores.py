"""Stores of vectors in C: of all lanes or of the first ones; side by side, evenly spaced, or anywhere."""

from __future__ import annotations

from collections.abc import Callable

import cgen

from tiramisu_py.algorithm.expressions import constant
from tiramisu_py.backends.c.expressions.parentheses import Code, call
from tiramisu_py.backends.c.expressions.scalars import operand
from tiramisu_py.backends.c.vectors.masks import first_stored
from tiramisu_py.backends.c.vectors.vectors import Vectors
from tiramisu_py.ir import Store

#: A store of whole vectors with their lanes side by side, from the type, the pointer and the value.
WholeStore = Callable[[str, str, Code], cgen.Statement]


def stored(vectors: Vectors, node: Store, whole: WholeStore | None = None) -> cgen.Statement:
    """A store of several lanes; `whole` stores all of them where they are side by side, if it is given."""
    array = vectors.scope.arrays[node.buffer]
    kind = vectors.type(array.dtype)
    value = vectors(operand(node.value, array.dtype))
    spaced = vectors.spaced(node.buffer, node.indices)
    if vectors.scope.mask is not None:
        return cgen.Statement(first_stored(vectors, node, value, spaced).text)
    if spaced is None:
        index = vectors(array.flat(node.indices))
        return cgen.Statement(call("TM_SCATTER", kind, array.name, index, value).text)
    place, step = spaced
    if constant(step) != 1:
        return cgen.Statement(call("TM_STORE_STRIDED", kind, f"&{place}", vectors.scalars(step), value).text)
    if whole is not None:
        return whole(kind, f"&{place}", value)
    return cgen.Statement(call("TM_STORE", kind, f"&{place}", value).text)
