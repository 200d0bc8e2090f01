"""Mathematical functions: the C names of those that NumPy names differently."""

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
PREDICATES = ("isnan", "isinf", "isfinite")


def c_function(name: str, dtype: DType) -> str:
    """The C function of a mathematical function of floats (16-bit floats are computed as float)."""
    c_name = _C_NAMES.get(name, name)
    return c_name if dtype.bits == 64 or name in PREDICATES else f"{c_name}f"
