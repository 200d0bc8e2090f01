"""Sizes: parameters from the shapes of arrays, and extents from parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Param, Select, Unary
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.errors import ArgumentError, DeclarationError
from tiramisu_py.records import dataclass

#: A linear form: coefficients of parameters, and a constant.
Linear = tuple[dict[str, int], int]


@deep
def extent_value(expr: Expr, params: Mapping[str, int]) -> int:
    """The value of an integer expression of parameters; raises `ArgumentError` for a parameter without a value."""
    match expr:
        case Const():
            return int(expr.value)
        case Param():
            if expr.name not in params:
                raise ArgumentError(f"the parameter {expr.name} has no value; give {expr.name}=")
            return params[expr.name]
        case Unary(op="-"):
            return -extent_value(expr.operand, params)
        case Cast():
            return extent_value(expr.operand, params)
        case Select():
            chosen = expr.yes if extent_value(expr.condition, params) else expr.no
            return extent_value(chosen, params)
        case Binary() if expr.op in _OPERATIONS:
            left, right = extent_value(expr.left, params), extent_value(expr.right, params)
            if expr.op in ("//", "%") and right == 0:
                raise ArgumentError(f"{expr} divides by zero")
            operation: Callable[[int, int], int] = _OPERATIONS[expr.op]
            return operation(left, right)
    raise DeclarationError(f"{expr} is not an expression of parameters alone")


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": lambda a, b: a if a < b else b,
    "max": lambda a, b: b if a < b else a,
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
}


def shape_value(extents: Iterable[Expr], params: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of an array: its extents at parameter values, each at least 0."""
    return tuple(max(0, extent_value(extent, params)) for extent in extents)


def params_of(extent: Expr) -> frozenset[str]:
    """The parameters that an extent uses."""
    return frozenset(node.name for node in walk(extent) if isinstance(node, Param))


class ElementStrides(tuple[tuple[int, bool], ...]):
    """The distances of neighbours in an array, in elements, and whether something follows from each: nothing does
    where a dimension has no neighbours.
    """


def element_strides(name: str, array: Any) -> ElementStrides:
    """The strides of a NumPy array; raises `ArgumentError` where neighbours are not whole elements apart."""
    found: list[tuple[int, bool]] = []
    for extent, stride in zip(array.shape, array.strides, strict=True):
        has_neighbours = extent > 1 and array.size > 0
        if has_neighbours and stride % array.itemsize:
            why = f"are no multiples of its {array.itemsize}-byte elements"
            raise ArgumentError(f"the strides of {name}, {array.strides} bytes, {why}; pass a copy: {name}.copy()")
        elements = stride // array.itemsize
        found.append((elements, True) if has_neighbours else (max(elements, 0), False))
    return ElementStrides(found)


@dataclass(frozen=True)
class _Equation:
    """``extent = size``: dimension `axis` of an array that the caller passed, or the stride of one.

    An equation that is `free` only suggests a value: of the stride of a dimension without neighbours.
    """

    array: str
    shape: tuple[int, ...]
    axis: int
    extent: Expr
    size: int
    words: str = "shape"
    free: bool = False

    def unknowns(self, known: Mapping[str, int]) -> set[str]:
        return set(params_of(self.extent)) - set(known)


def infer_params(
    params: Sequence[str],
    arrays: Sequence[tuple[str, Sequence[Expr], Sequence[int] | ElementStrides]],
    given: Mapping[str, int],
) -> dict[str, int]:
    """The value of every parameter, from the shapes of arrays ``(name, extents, shape)`` and the `given` values.

    Raises `ArgumentError`, naming the array, for a wrong rank, for sizes that contradict each other, and for
    parameters that the shapes do not determine.
    """
    known = _given(params, given)
    origin = {name: f"{name} = {value} was given" for name, value in known.items()}
    equations = [equation for array in arrays for equation in _equations(*array)]
    _solve([equation for equation in equations if not equation.free], known, origin)
    _solve([equation for equation in equations if equation.free], known, origin)
    for equation in equations:
        if not equation.free and not equation.unknowns(known):
            _check(equation, known, origin)
    missing = [name for name in params if name not in known]
    if missing:
        raise ArgumentError(f"{_listed(missing)} not follow from the shapes of the arrays; give {missing[0]}=")
    return {name: known[name] for name in params}


def _solve(equations: list[_Equation], known: dict[str, int], origin: dict[str, str]) -> None:
    """Solve equations one after another, as long as there is one with one unknown."""
    waiting = equations
    while waiting:
        left = [equation for equation in waiting if not _solved(equation, known, origin)]
        if len(left) == len(waiting):
            return
        waiting = left


def _listed(names: Sequence[str]) -> str:
    return f"the parameter {names[0]} does" if len(names) == 1 else f"the parameters {', '.join(names)} do"


def _given(params: Sequence[str], given: Mapping[str, int]) -> dict[str, int]:
    known: dict[str, int] = {}
    for name, value in given.items():
        if name not in params:
            raise ArgumentError(f"{name} is not a parameter; the parameters are {', '.join(params) or 'none'}")
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ArgumentError(f"the parameter {name} is an integer, not {value!r}")
        known[name] = value.__index__()
        _check_sign(name, known[name], f"{name} = {known[name]} was given")
    return known


def _equations(name: str, extents: Sequence[Expr], shape: Sequence[int] | ElementStrides) -> list[_Equation]:
    if isinstance(shape, ElementStrides):
        own = tuple(stride for stride, _ in shape)
        found = enumerate(zip(extents, shape, strict=True))
        return [_Equation(name, own, k, e, stride, "strides", not follows) for k, (e, (stride, follows)) in found]
    sizes = tuple(int(size) for size in shape)
    if len(sizes) != len(extents):
        wanted = f"[{', '.join(map(str, extents))}]"
        raise ArgumentError(f"{name} has {len(sizes)} dimensions, shape {sizes}; it is declared as {wanted}")
    pairs = enumerate(zip(extents, sizes, strict=True))
    return [_Equation(name, sizes, axis, extent, size) for axis, (extent, size) in pairs]


def _solved(equation: _Equation, known: dict[str, int], origin: dict[str, str]) -> bool:
    """Solve an equation with at most one unknown, and add it to `known`; whether the equation is settled."""
    unknowns = equation.unknowns(known)
    if not unknowns:
        return True
    form = linear(equation.extent, known)
    if form is None:
        return False
    coefficients, constant = form
    remaining = {name: factor for name, factor in coefficients.items() if factor}
    if len(remaining) != 1:
        return False
    (name, factor), rest = next(iter(remaining.items())), equation.size - constant
    says = f"{equation.array} has {equation.words} {equation.shape}: {equation.extent} = {equation.size}"
    if equation.free:
        rest = max(rest, 0) // abs(factor) * factor if factor > 0 else 0
    if rest % factor:
        raise ArgumentError(f"{says} has no integer solution {name}")
    known[name] = rest // factor
    if equation.words == "strides" and known[name] < 0:
        raise ArgumentError(
            f"{says}, but parameters are at least 0; pass a copy: {equation.array}.copy(), or declare it with "
            f"strides= of the other sign"
        )
    origin[name] = says if str(equation.extent) == name else f"{says} gives {name} = {known[name]}"
    _check_sign(name, known[name], origin[name])
    return True


def _check_sign(name: str, value: int, why: str) -> None:
    if value < 0:
        raise ArgumentError(f"{why}, but parameters are at least 0")


def _check(equation: _Equation, known: Mapping[str, int], origin: Mapping[str, str]) -> None:
    value = extent_value(equation.extent, known)
    value = value if equation.words == "strides" else max(0, value)
    if value == equation.size:
        return
    names = sorted(params_of(equation.extent))
    which = f"its {'extent' if equation.words == 'shape' else 'stride'} {equation.axis}"
    given = f"{equation.array} has {equation.words} {equation.shape}, but {which}"
    if not names:
        raise ArgumentError(f"{given} is declared as {value}, not {equation.size}")
    because = "; ".join(origin[name] for name in names)
    raise ArgumentError(f"{given}, {equation.extent}, is {value}, not {equation.size}: {because}")


@deep
def linear(expr: Expr, known: Mapping[str, int]) -> Linear | None:
    """An extent as a linear form of the parameters that are not `known`; None if it is not linear."""
    if not set(params_of(expr)) - set(known):
        return {}, extent_value(expr, known)
    match expr:
        case Param():
            return {expr.name: 1}, 0
        case Unary(op="-"):
            return _scaled(linear(expr.operand, known), -1)
        case Cast():
            return linear(expr.operand, known)
        case Binary(op="+"):
            return _added(linear(expr.left, known), linear(expr.right, known))
        case Binary(op="-"):
            return _added(linear(expr.left, known), _scaled(linear(expr.right, known), -1))
        case Binary(op="*"):
            return _product(linear(expr.left, known), linear(expr.right, known))
    return None


def _scaled(form: Linear | None, factor: int) -> Linear | None:
    return None if form is None else ({name: factor * c for name, c in form[0].items()}, factor * form[1])


def _added(a: Linear | None, b: Linear | None) -> Linear | None:
    if a is None or b is None:
        return None
    names = [*a[0], *(name for name in b[0] if name not in a[0])]
    return {name: a[0].get(name, 0) + b[0].get(name, 0) for name in names}, a[1] + b[1]


def _product(a: Linear | None, b: Linear | None) -> Linear | None:
    if a is None or b is None:
        return None
    return _scaled(b, a[1]) if not a[0] else _scaled(a, b[1]) if not b[0] else None
