"""Mathematical functions: the C names of those that NumPy names differently, and those that have a form of our own."""

from __future__ import annotations

from tiramisu_py.algorithm.types import DType

_C_NAMES = {
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "abs": "fabs",
}
#: Functions of float32 with a form in `tm_runtime.h` that scalars and vectors share; 16-bit floats are computed in it.
OWN = ("exp",)
PREDICATES = ("isnan", "isinf", "isfinite")


def c_function(name: str, dtype: DType) -> str:
    """The C function of a mathematical function of floats (16-bit floats are computed as float)."""
    c_name = _C_NAMES.get(name, name)
    return c_name if dtype.bits == 64 or name in PREDICATES else f"{c_name}f"


def host_function(name: str, dtype: DType) -> str:
    """The function that the host calls: one of the runtime's own, or C's."""
    own = name in OWN and dtype.is_float and dtype.bits <= 32
    return f"tm_{name}_float32" if own else c_function(name, dtype)
