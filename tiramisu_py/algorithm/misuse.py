"""Operations of Python and NumPy that expressions do not support: refused, with the replacement to write."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from tiramisu_py.errors import DeclarationError, DTypeError

#: The Python operator of each ufunc that NumPy's scalars and arrays call in its place, and reflected comparisons.
_OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "floor_divide": "floordiv",
    "remainder": "mod", "power": "pow", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
    "left_shift": "lshift", "right_shift": "rshift", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
}  # fmt: skip
_REFLECTED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": operator.neg,
    "positive": operator.pos,
    "absolute": abs,
    "invert": operator.invert,
}
#: The functions that have different names in this package and in NumPy.
_NAMES = {"fabs": "absolute", "fmin": "minimum", "fmax": "maximum", "arctan2": "arctan2", "round": "rint"}
_FUNCTION_NAMES = """
sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
arctanh floor ceil rint trunc isnan isinf isfinite arctan2 hypot fmod copysign absolute minimum maximum clip
"""
#: The functions of NumPy that this package has.
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())


class Symbolic:
    """An object that stands for values of a program that runs later, and has none now."""

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Any, **_: Any) -> Any:
        name = _OPERATORS.get(function.__name__)
        if method == "__call__" and name is not None:
            return _operated(name, *inputs)
        if method == "__call__" and function.__name__ in _UNARY:
            return _UNARY[function.__name__](inputs[0])
        if method != "__call__":
            _refuse(self, f"np.{function.__name__}.{method}", "write f.reduction(name, {..}, {k: K}, tm.sum, ..)")
        own = _NAMES.get(function.__name__, function.__name__)
        given = ", ".join(map(str, inputs))
        write = f"write tm.{own}({given})" if own in _FUNCTIONS else "tm has no function of that name"
        return _refuse(self, f"np.{function.__name__}", write)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        _refuse(self, "NumPy", "write tm.select for np.where, and f.reduction(.., tm.sum, ..) for np.sum")

    def __iter__(self) -> NoReturn:
        _refuse(self, "iteration (or Python's sum)", "a domain {i: N} loops, and f.reduction(.., tm.sum, ..) adds up")

    def __len__(self) -> NoReturn:  # noqa: PLE0303 (it raises)
        _refuse(self, "len", "sizes are parameters: make them with tm.params")

    def __index__(self) -> NoReturn:  # noqa: PLE0305 (it raises)
        _refuse(self, "range (or an index of a list)", "a domain {i: N} loops, and an input is a list")

    def __int__(self) -> NoReturn:
        _refuse(self, "int", f"write tm.cast(tm.int32, {self})")

    def __float__(self) -> NoReturn:
        _refuse(self, "float (or a function of math)", f"write tm.cast(tm.float64, {self}), or tm.sqrt, tm.exp, ...")

    def __complex__(self) -> NoReturn:
        _refuse(self, "complex", "there are no complex values: keep two")

    def __round__(self, digits: object = None) -> NoReturn:
        _refuse(self, "round", f"write tm.rint({self})")

    def __floor__(self) -> NoReturn:
        _refuse(self, "math.floor", f"write tm.floor({self})")

    def __ceil__(self) -> NoReturn:
        _refuse(self, "math.ceil", f"write tm.ceil({self})")

    def __trunc__(self) -> NoReturn:
        _refuse(self, "math.trunc", f"write tm.trunc({self})")

    def __divmod__(self, other: object) -> NoReturn:
        _refuse(self, "divmod", "write // and %")

    def __rdivmod__(self, other: object) -> NoReturn:
        _refuse(self, "divmod", "write // and %")

    def __matmul__(self, other: object) -> NoReturn:
        _refuse(self, "@", "write f.reduction(name, {i: N, j: M}, {k: K}, tm.sum, A[i, k] * B[k, j])")

    def __rmatmul__(self, other: object) -> NoReturn:
        self.__matmul__(other)

    def __setitem__(self, indices: object, value: object) -> NoReturn:
        _refuse(self, "an assignment", "values are defined once, by f.computation(name, domain, expression)")


class ManyValues(Symbolic):
    """A name that stands for many values; operators are for one of them, which its indices name."""

    def _refused(self, *_: object) -> NoReturn:
        raise without_indices(self)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refused
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = _refused
    __lt__ = __le__ = __gt__ = __ge__ = __and__ = __or__ = __invert__ = _refused


def without_indices(given: Any) -> DeclarationError:
    """The error of a name that stands for values, and not for one of them: how to name one."""
    name, rank = getattr(given, "name", repr(given)), getattr(given, "rank", -1)
    rank = given._rank() if hasattr(given, "_rank") else rank
    if rank == 0:
        return DeclarationError(f"{name} has no indices, and is not its value: write {name}[()]")
    return DeclarationError(f"{name} stands for many values: name one by its indices, {name}[...]")


def _operated(name: str, left: Any, right: Any) -> Any:
    """A Python operator that NumPy dispatched first, for its own operand: NumPy scalars come as arrays of rank 0."""
    left, right = (side[()] if isinstance(side, np.ndarray) and side.ndim == 0 else side for side in (left, right))
    if isinstance(left, Symbolic):
        return getattr(left, f"__{name}__")(right)
    return getattr(right, f"__{_REFLECTED.get(name, 'r' + name)}__")(left)


def _refuse(given: object, what: str, instead: str) -> NoReturn:
    raise DTypeError(f"{given} has no value before the program runs, and {what} needs one: {instead}")
