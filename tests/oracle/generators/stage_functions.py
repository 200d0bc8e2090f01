"""C functions over whole arrays for random programs: each element is from the other end of an array, or larger.

All that they compute is a larger of two values, which is exact in every type; each reads all that it may read.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import tiramisu_py as tm

Array = np.ndarray[Any, np.dtype[Any]]

_SOURCE = """
#ifndef TURNED_@NAME@
#define TURNED_@NAME@
static void @NAME@(@SIGNATURE@)
{
    @SIZES@
    for (int64_t e = 0; e < (m * n + 1) / 2; e++) {
        const int64_t o = m * n - 1 - e;
        const @T@ first = @A@[e / n * @A@0 + e % n * @A@1], last = @A@[o / n * @A@0 + o % n * @A@1];
        c[e / n * c0 + e % n * c1] = last;
        c[o / n * c0 + o % n * c1] = first;
    }
    for (int64_t e = 0; e < m * n; e++)
        for (int64_t p = 0; p < k; p++)
            if (b[p * b0] > c[e / n * c0 + e % n * c1]) c[e / n * c0 + e % n * c1] = b[p * b0];
}
#endif
"""


def turned(rank: int, dtype: str, in_place: bool) -> tm.ExternStage:
    """``c = max(a turned around, all b)``, of arrays of this rank; `in_place` of c itself."""
    return _made(rank, dtype, in_place)


@cache
def _made(rank: int, dtype: str, in_place: bool) -> tm.ExternStage:
    kind, name = getattr(tm, dtype), f"turned{rank}_{dtype}{'_in_place' if in_place else ''}"
    c_name = {"float32": "float", "float64": "double"}.get(dtype, f"{dtype}_t")
    arrays = {"c": (tm.updates if in_place else tm.writes)(kind, rank)}
    arrays = arrays if in_place else {"a": tm.reads(kind, rank), **arrays}
    parameters: dict[str, Any] = dict.fromkeys("mn"[2 - rank :], tm.int64)
    for array, of in {"a": arrays.get("a"), "b": tm.reads(kind, 1), "c": arrays["c"]}.items():
        if of is None:
            continue
        if array == "b":
            parameters["k"] = tm.int64
        parameters[array] = of
        parameters |= {f"{array}{d + 2 - of.rank if array != 'b' else 0}": tm.stride(array, d) for d in range(of.rank)}
    words = {"a": f"const {c_name} *a", "b": f"const {c_name} *b", "c": f"{c_name} *c"}
    signature = ", ".join(words.get(each, f"int64_t {each}") for each in parameters)
    missing = [] if rank == 2 else ["m = 1", "c0 = 0", *([] if in_place else ["a0 = 0"])]
    text = _SOURCE.replace("@SIGNATURE@", signature).replace("@A@", "c" if in_place else "a")
    text = text.replace("@SIZES@", f"const int64_t {', '.join(missing)};" if missing else "")
    text = text.replace("@T@", c_name).replace("@NAME@", name)
    return tm.extern_stage(name, parameters, _in_place if in_place else _apart, source=text)


def _apart(*given: Any) -> Array:
    """Sizes, an array, a number, and what every element is at least."""
    *_, a, _, b = given
    return _larger(a, b)


def _in_place(*given: Any) -> Array:
    *_, _, b, c = given
    return _larger(c, b)


def _larger(a: Array, b: Array) -> Array:
    turned_around = a.reshape(-1)[::-1].reshape(a.shape)
    return np.maximum(turned_around, b.max()) if b.size else turned_around
