"""Affine functions and integer expressions as plain Python: isl is asked only for coefficients and for points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter, Param, Select, Unary

Point = tuple[int, ...]

_IN, _OUT, _PARAM, _DIV = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.param, isl.dim_type.div


def function(of: isl.MultiAff, params: Mapping[str, int]) -> Callable[[Point], Point]:
    """The function at given parameter values, compiled to Python integers."""
    return _compiled(_Itself(of))(params)


class _Itself:
    """A function of isl as a key: isl cannot tell whether two of them are equal."""

    def __init__(self, of: isl.MultiAff) -> None:
        self.of = of

    def __hash__(self) -> int:
        return id(self.of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.of is other.of


@lru_cache(maxsize=256)
def _compiled(key: _Itself) -> Callable[[Mapping[str, int]], Callable[[Point], Point]]:
    """The function for all parameter values: compiled once, since a judge asks at many sizes."""
    of = key.of
    texts = [_text(of.get_at(i)) for i in range(of.dim(_OUT))]
    compiled: Callable[[Mapping[str, int]], Callable[[Point], Point]]
    compiled = eval(f"lambda n: lambda x: ({''.join(text + ', ' for text in texts)})")
    return compiled


def _text(aff: isl.Aff) -> str:
    """``numerator // denominator`` of an affine expression with its floors; exact where its value is an integer."""
    denominator = int(aff.get_denominator_val().to_python())

    def whole(value: isl.Val) -> int:
        scaled = value.mul(sets.integer(aff.get_ctx(), denominator))
        assert scaled.is_int()
        return int(scaled.to_python())

    terms = [str(whole(aff.get_constant_val()))]
    for i in range(aff.dim(_PARAM)):
        terms.append(f"{whole(aff.get_coefficient_val(_PARAM, i))} * n[{aff.get_dim_name(_PARAM, i)!r}]")
    for i in range(aff.dim(_IN)):
        terms.append(f"{whole(aff.get_coefficient_val(_IN, i))} * x[{i}]")
    for i in range(aff.dim(_DIV)):
        factor = whole(aff.get_coefficient_val(_DIV, i))
        terms.append(f"{factor} * ({_text(aff.get_div(i))})" if factor else "0")
    return f"({' + '.join(terms)}) // {denominator}"


def points(of: isl.Set, params: Mapping[str, int]) -> list[Point]:
    """The elements of a set at given parameter values."""
    return sets.points(sets.fixed(of, params))


class NotInteger(Exception):
    """The expression depends on more than integers that are known before the program runs."""


def integer(e: Expr, names: Mapping[str, int]) -> int:
    """The value of an integer expression or condition over iterators and parameters; raises `NotInteger`."""
    match e:
        case Const() if not isinstance(e.value, float) and not e.dtype.is_float:
            return int(e.value)
        case Iter() | Param():
            return names[e.name]
        case Unary(op="-"):
            return -integer(e.operand, names)
        case Unary(op="~") if e.operand.dtype.is_bool:
            return int(not integer(e.operand, names))
        case Cast() if e.dtype.name == "int64":
            return integer(e.operand, names)
        case Select():
            return integer(e.yes if integer(e.condition, names) else e.no, names)
        case Binary() if e.op in OPERATORS:
            return int(OPERATORS[e.op](integer(e.left, names), integer(e.right, names)))
    raise NotInteger(str(e))


def integers(expressions: Sequence[Expr], names: Mapping[str, int]) -> Point:
    """The values of several integer expressions."""
    return tuple(integer(e, names) for e in expressions)


OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b if b else -1,  # a remainder of nothing is no index
    "min": min,
    "max": max,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
}
