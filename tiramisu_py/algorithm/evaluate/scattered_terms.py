"""Terms of a scatter, each with the value that it goes to: as many steps as terms, and not terms times values.

Of ``h[b]`` over r, c where ``b == level[r, c]``, the points are listed as (r, c), and b is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiramisu_py.algorithm.expressions import Binary, Call, Const, Expr, Iter
from tiramisu_py.algorithm.traversal import accesses, mentions, walk
from tiramisu_py.algorithm.types import int64
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class ScatteredTerms:
    """The terms that a reduction has by the conditions on them.

    `places` has the iterators of its values that a term chooses, each with its value and a constant to subtract from
    this; `conditions` are those on the terms alone; `rest` are those that also use a chosen iterator.
    """

    places: Mapping[str, tuple[Expr, int]]
    conditions: tuple[Expr, ...]
    rest: tuple[Expr, ...]

    def order(self, names: Sequence[str]) -> list[int]:
        """The positions of the iterators, those that a term chooses last."""
        chosen = [axis for axis, name in enumerate(names) if name in self.places]
        return [axis for axis in range(len(names)) if axis not in chosen] + chosen


def scattered_terms(iterators: Sequence[str], guards: Sequence[Expr]) -> ScatteredTerms | None:
    """The terms of a reduction that say which value they go to, or None if no condition (typed) says so.

    None, too, where a condition on a chosen iterator reads something: such a read may be out of bounds at points that
    are not terms.
    """
    parts = [part for guard in guards for part in _parts(guard)]
    found: dict[str, tuple[Expr, int]] = {}
    rest: list[Expr] = []
    for part in parts:
        place = _place(part, iterators)
        if place is not None and place[0] not in found:
            found[place[0]] = (place[1], place[2])
        else:
            rest.append(part)
    chosen = tuple(found)
    if not found or any(mentions(value, chosen) for value, _ in found.values()):
        return None
    after = tuple(part for part in rest if mentions(part, chosen))
    if any(accesses(part) or any(isinstance(node, Call) for node in walk(part)) for part in after):
        return None
    return ScatteredTerms(found, tuple(part for part in rest if not mentions(part, chosen)), after)


def _parts(condition: Expr) -> list[Expr]:
    if isinstance(condition, Binary) and condition.op == "&":
        return _parts(condition.left) + _parts(condition.right)
    return [condition]


def _place(condition: Expr, iterators: Sequence[str]) -> tuple[str, Expr, int] | None:
    """The iterator, the value and the constant of ``iterator + constant == value``, where the value is read."""
    if not isinstance(condition, Binary) or condition.op != "==":
        return None
    for side, value in ((condition.left, condition.right), (condition.right, condition.left)):
        moved = _moved(side)
        if moved is not None and moved[0] in iterators and value.dtype == int64 and accesses(value):
            return moved[0], value, moved[1]
    return None


def _moved(e: Expr) -> tuple[str, int] | None:
    match e:
        case Iter():
            return (e.name, 0) if e.dtype == int64 else None
        case Binary(op="+" | "-", left=Iter(name=name), right=Const(value=value)) if e.dtype == int64:
            return name, int(value) if e.op == "+" else -int(value)
    return None
