"""Derivatives of one expression: backwards the adjoint of each of its reads, forwards its tangent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiramisu_py.algorithm.expressions import Access, Const, Expr, Select, as_typed, binary, select
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.partial_derivatives import Factor, dependences, where, zero

#: An array of values: its name, and of several values the number of the component.
Source = tuple[str, int | None]
#: Conditions on the way to a read, each with the side that is taken.
Path = tuple[tuple[Expr, bool], ...]


@dataclass(frozen=True, eq=False)
class ReadAdjoint:
    """The part that one read adds to the adjoint of what it reads: `value`, where all conditions of the path hold."""

    access: Access
    part: int | None
    path: Path
    value: Expr

    @property
    def source(self) -> Source:
        """The value that is read."""
        return self.access.source, self.part


def depends(expression: Expr, active: Callable[[Source], bool]) -> dict[tuple[int, int | None], bool]:
    """For each node, by its id and component: whether it depends smoothly on an active source."""
    found: dict[tuple[int, int | None], bool] = {}
    for node in walk(expression):
        for part in _parts(node):
            if isinstance(node, Access):
                found[id(node), part] = active((node.source, part))
            else:
                found[id(node), part] = node.dtype.kind in "ft" and any(
                    found.get((id(each.operand), each.part), False) for each in dependences(node, part)
                )
    return found


def _parts(node: Expr) -> Sequence[int | None]:
    return range(len(node.dtype.fields)) if isinstance(node.dtype, TupleType) else (None,)


def read_adjoints(
    expression: Expr,
    seeds: Sequence[tuple[int | None, Expr]],
    active: Callable[[Source], bool],
    is_affine: Callable[[Expr], bool],
) -> list[ReadAdjoint]:
    """The adjoints of all reads of active sources, of an expression with these adjoints of its components.

    An affine condition of a select restricts the instances, so it stays apart; any other one is a factor 0 or 1. Equal
    reads under equal conditions are one.
    """
    live = depends(expression, active)
    adjoints: dict[tuple[int, int | None], dict[object, tuple[Path, Expr]]] = {}
    for part, seed in seeds:
        if live.get((id(expression), part), False):
            _add(adjoints.setdefault((id(expression), part), {}), (), seed)
    reads: dict[object, ReadAdjoint] = {}
    for node in reversed(list(walk(expression))):
        for part in _parts(node):
            arrived = list(adjoints.get((id(node), part), {}).values())
            if isinstance(node, Access):
                for path, value in arrived:
                    _merge(reads, ReadAdjoint(node, part, path, value))
                continue
            for each in dependences(node, part) if arrived else ():
                if not live.get((id(each.operand), each.part), False):
                    continue
                into = adjoints.setdefault((id(each.operand), each.part), {})
                for path, by in arrived:
                    taken, value = path, _under_conditions(by, each.factor)
                    if each.condition is not None and is_affine(each.condition):
                        taken = (*path, (each.condition, each.truth))
                    elif each.condition is not None:
                        value = where(each.condition, value) if each.truth else _unless(each.condition, value)
                    _add(into, taken, _in_type_of(value, each.operand, each.part))
    return list(reads.values())


def _under_conditions(by: Expr, factor: Factor) -> Expr:
    """A factor of a multiplier inside its conditions: ``select(x == 0, 0, by / sqrt(x))``, and no 0 / 0 at x = 0."""
    match by:
        case Select(no=Const(value=0)):
            return select(by.condition, _under_conditions(by.yes, factor), by.no)
        case Select(yes=Const(value=0)):
            return select(by.condition, by.yes, _under_conditions(by.no, factor))
    return factor(by)


def _in_type_of(value: Expr, operand: Expr, part: int | None) -> Expr:
    dtype = operand.dtype.fields[part][1] if isinstance(operand.dtype, TupleType) else operand.dtype  # type: ignore[index]
    return value if dtype.weak else as_typed(value, dtype)


def _unless(condition: Expr, value: Expr) -> Expr:
    return select(condition, zero(value.dtype), value)


def _key_of(path: Path) -> object:
    return tuple((condition.key(), truth) for condition, truth in path)


def _add(into: dict[object, tuple[Path, Expr]], path: Path, value: Expr) -> None:
    key = _key_of(path)
    known = into.get(key)
    into[key] = (path, value if known is None else binary("+", known[1], value))


def _merge(reads: dict[object, ReadAdjoint], new: ReadAdjoint) -> None:
    key = (new.access.key(), new.part, _key_of(new.path))
    known = reads.get(key)
    value = new.value if known is None else binary("+", known.value, new.value)
    reads[key] = ReadAdjoint(new.access, new.part, new.path, value)


def tangent(
    expression: Expr, part: int | None, of_read: Callable[[Access, int | None], Expr], active: Callable[[Source], bool]
) -> Expr | None:
    """The tangent of an expression, or of one of its components; None where it depends on no active source."""
    live = depends(expression, active)
    if not live.get((id(expression), part), False):
        return None
    found: dict[tuple[int, int | None], Expr] = {}
    for node in walk(expression):
        for own in _parts(node):
            if not live[id(node), own]:
                continue
            if isinstance(node, Access):
                found[id(node), own] = of_read(node, own)
                continue
            sides: list[tuple[Expr | None, bool, Expr]] = []
            for each in dependences(node, own):
                inner = found.get((id(each.operand), each.part))
                if inner is not None:
                    sides.append((each.condition, each.truth, each.factor(inner)))
            found[id(node), own] = _in_type_of(_combined(sides), node, own)
    return found[id(expression), part]


def _combined(sides: Sequence[tuple[Expr | None, bool, Expr]]) -> Expr:
    """The sum of what the operands give; under a select the one that is taken."""
    condition = sides[0][0]
    if condition is not None:
        taken = {truth: value for _, truth, value in sides}
        some = next(iter(taken.values()))
        return select(condition, taken.get(True, zero(some.dtype)), taken.get(False, zero(some.dtype)))
    whole = sides[0][2]
    for _, _, value in sides[1:]:
        whole = binary("+", whole, value)
    return whole
