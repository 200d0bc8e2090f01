"""Operations of Python and NumPy that expressions do not support: refused, with the replacement to write."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from tiramisu_py.errors import CallError, CommandError, DeclarationError, DTypeError, UnknownNameError

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
_NAMES = {
    "fabs": "absolute", "fmin": "minimum", "fmax": "maximum", "arctan2": "arctan2", "round": "rint", "around": "rint",
    "fix": "trunc", "abs": "absolute",
}  # fmt: skip
_FUNCTION_NAMES = """
sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
arctanh floor ceil rint trunc isnan isinf isfinite arctan2 hypot fmod copysign absolute minimum maximum clip where
"""
#: The functions of NumPy that this package has.
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
#: The operators of this package that reduce as functions and methods of NumPy do.
_REDUCTIONS = {
    "sum": "tm.sum", "prod": "tm.product", "max": "tm.max", "min": "tm.min", "amax": "tm.max", "amin": "tm.min",
    "all": "tm.all", "any": "tm.any", "argmax": "tm.argmax", "argmin": "tm.argmin", "mean": "tm.mean",
    "var": "tm.var", "norm": "tm.norm", "dot": "tm.sum", "matmul": "tm.sum", "einsum": "tm.sum", "inner": "tm.sum",
    "vdot": "tm.sum", "tensordot": "tm.sum",
}  # fmt: skip
_Item = TypeVar("_Item")


class NameTuple(tuple[_Item, ...]):
    """The tuple that `tm.params` and `tm.iters` give, whose items are taken out of it before they are used.

    ::

        N = tm.params("N")          -->   N + 1 is refused: (N,) = tm.params("N")
        (N,) = tm.params("N")       -->   N + 1 is an expression
    """

    function: str

    def __new__(cls, items: Iterable[_Item], function: str) -> NameTuple[_Item]:
        made = super().__new__(cls, items)
        made.function = function
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return NameTuple, (tuple(self), self.function)

    def advice(self) -> str:
        """The kind of thing that it is, and what to write."""
        names = [str(each) for each in self]
        return f"{self!r} is a tuple, as tm.{self.function} gives: write {taken_out(names, self.function)}"

    def __add__(self, other: Any) -> Any:
        return super().__add__(other) if isinstance(other, tuple) else self._refused()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) if isinstance(other, tuple) or not _is_operand(other) else self._refused()

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def _refused(self, *_: object) -> NoReturn:
        raise DeclarationError(self.advice())

    if not TYPE_CHECKING:
        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = _refused
        __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = _refused
        __lt__ = __le__ = __gt__ = __ge__ = __and__ = __rand__ = __or__ = __ror__ = __invert__ = _refused


def taken_out(variables: Sequence[str], function: str, names: Sequence[str] = ()) -> str:
    """The line of a script that makes parameters or iterators: ``(N,) = tm.params("N")``.

    `names` are theirs where these are not the variables.
    """
    left = f"({variables[0]},)" if len(variables) == 1 else ", ".join(variables)
    return f'{left} = tm.{function}("{" ".join(names or variables)}")'


def check_unpacked(*given: object, error: type[DeclarationError] | type[CommandError] = DeclarationError) -> None:
    """Refuse what `tm.params` and `tm.iters` give where one of its items is meant."""
    for each in given:
        if isinstance(each, NameTuple):
            raise error(each.advice())


def _is_operand(given: object) -> bool:
    return isinstance(given, bool | int | float | np.generic | Symbolic)


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
        return _refuse(self, f"np.{function.__name__}", _instead(function.__name__, ", ".join(map(str, inputs))))

    def __array_function__(self, function: Any, _: object, arguments: Any, named: Any) -> NoReturn:
        name = function.__name__
        shown = [*map(str, arguments), *(f"{key}={value}" for key, value in named.items())]
        _refuse(self, f"np.{name}", _instead(name, ", ".join(shown)))

    def __array__(self, *_: object, **__: object) -> NoReturn:
        _refuse(self, "an array of NumPy", "write tm.cast(tm.float32, ..) for np.float32(..), and f.input for an array")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raises `UnknownNameError`, which says what to write for attributes and methods of NumPy."""
            raise unknown_name(self, name)

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
    __lt__ = __le__ = __gt__ = __ge__ = __invert__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refused

    def _refused_bits(self, *_: object) -> NoReturn:
        raise DeclarationError(f"{without_indices(self)}; {PARENTHESES}")

    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refused_bits

    if not TYPE_CHECKING:

        def __call__(self, *arguments: object, **_: object) -> NoReturn:
            shown = ", ".join(map(str, arguments)) or "..."
            raise CallError(f"{self} is no function: its values are named in brackets, {self}[{shown}]")


def is_given_later(given: object) -> bool:
    """Whether it is a function that gives an expression, and none of the objects that refuse to be called."""
    return callable(given) and not isinstance(given, Symbolic) and not hasattr(given, "__tiramisu_expr__")


#: What to say where a comparison beside ``&`` has no parentheses.
PARENTHESES = "& and | bind more tightly than comparisons: put each in parentheses, (x > 0) & (y > 0)"


def unknown_name(given: Any, name: str, known: Sequence[str] = (), instead: str = "") -> AttributeError:
    """The error of an attribute that an object does not have: what to write `instead`, or a name of the `known` ones.

    Attributes and methods of NumPy's arrays are known here.
    """
    if name.startswith("_"):
        return AttributeError(f"{type(given).__name__!r} object has no attribute {name!r}", name=name, obj=given)
    one = str(given) if not isinstance(given, ManyValues) else f"{given}[...]"
    if instead:
        pass
    elif name == "astype":
        instead = f"write tm.cast(tm.float32, {one})"
    elif name in ("shape", "ndim", "size"):
        instead = "sizes are parameters, such as N of tm.params"
    elif name == "T":
        instead = "exchange the indices where the values are read"
    else:
        instead = _instead(name, one) if name in _REDUCTIONS or name in _FUNCTIONS or name in _NAMES else ""
    near = get_close_matches(name, known, 1)
    instead = f"did you mean {near[0]}" if near and not instead else instead
    subject = given if isinstance(given, Symbolic) else getattr(given, "name", given)
    words = f"{subject} has no {name}{f': {instead}' if instead else ''}"
    return UnknownNameError(words, name=name, obj=given)


def _instead(name: str, given: str) -> str:
    """The expression to write for a function of NumPy with some arguments."""
    own = _NAMES.get(name, name)
    if own in _FUNCTIONS:
        few = {"clip": ", low, high", "where": ", yes, no"}.get(own, "") if "," not in given else ""
        return f"write tm.{own}({given}{few})"
    if name in _REDUCTIONS:
        return f"write f.reduction(name, {{..}}, {{k: K}}, {_REDUCTIONS[name]}, ..)"
    return "tm has no function of that name"


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
