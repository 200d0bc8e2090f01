"""How the accesses of a computation move through memory along its iterators: which loop should be innermost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Call, Expr, Iter
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.records import dataclass

#: What a vector of elements costs along a loop, relative to contiguous ones: the same element for all lanes, an
#: element in each lane from memory lines of its own, and elements at computed places.
SAME, APART, COMPUTED = 0.25, 8.0, 10.0
#: Elements at most so many apart are picked from as many whole vectors.
NEAR = 4


@dataclass(frozen=True, eq=False)
class Touch:
    """One access of a computation: its source, and for each index the coefficients of the iterators.

    An index that is no affine form has None. `constants` are what is added to them; None if that is no constant.
    """

    access: Access
    forms: tuple[dict[str, int] | None, ...]
    constants: tuple[int | None, ...]

    def step(self, iterator: str) -> int | None:
        """How many elements the access moves along an iterator: 0, 1, -1, or more; None at computed places."""
        if any(form is None for form in self.forms):
            return None
        moves = [form.get(iterator, 0) for form in self.forms if form is not None]
        if not any(moves):
            return 0
        if any(moves[:-1]):
            return APART_STEP
        return moves[-1]

    def offset(self, axis: int, iterator: str) -> int | None:
        """The constant that an index adds to an iterator; None for an index of another form."""
        return self.constants[axis] if self.forms[axis] == {iterator: 1} else None

    def cost(self, iterator: str) -> float:
        """What a vector of this access costs in a loop over the iterator."""
        step = self.step(iterator)
        if step is None:
            return COMPUTED
        if 1 < step <= NEAR:
            return float(step)
        return {0: SAME, 1: 1.0, -1: 1.5}.get(step, APART)

    def mentions(self, iterator: str) -> bool:
        """Whether an index depends on an iterator; computed ones are said to."""
        return any(form is None or form.get(iterator, 0) for form in self.forms)

    @cached_property
    def alone(self) -> tuple[str, ...] | None:
        """The iterators that are its indices, one each; None if an index is anything else."""
        names = [index.name for index in self.access.indices if isinstance(index, Iter)]
        return tuple(names) if len(names) == len(self.access.indices) == len(set(names)) else None


#: A step to another row.
APART_STEP = 1 << 30


def touches(algorithm: Algorithm, computation: Computation) -> tuple[Touch, ...]:
    """The accesses of a computation's expression and guards, each once; scalars are left out."""
    space = computation.points.get_space()
    reader = Affine(space)
    found: dict[object, Touch] = {}
    for expression in (computation.expr, *computation.guards):
        for node in walk(expression):
            if isinstance(node, Access) and node.indices and node.key() not in found:
                found[node.key()] = _touch(reader, node, computation.point_iterators)
    return tuple(found.values())


def _touch(reader: Affine, access: Access, names: Sequence[str]) -> Touch:
    forms: list[dict[str, int] | None] = []
    constants: list[int | None] = []
    for index in access.indices:
        form = _terms(reader, index)
        forms.append(None if form is None else {name: c for name, c in zip(names, form.dims, strict=True) if c})
        constants.append(None if form is None or form.params else form.constant)
    return Touch(access, tuple(forms), tuple(constants))


def _terms(reader: Affine, index: Expr) -> sets.Terms | None:
    """The coefficients of an index; None if it is no affine form, or has floors."""
    try:
        form = sets.terms(reader.single(index))
    except NotAffine:
        return None
    return None if form.divs or form.denominator != 1 else form


def result_cost(computation: Computation, iterator: str) -> float:
    """What storing the result costs in a vector loop over an iterator; a sum in registers costs nothing."""
    if iterator in computation.over:
        return 0.0
    return 1.0 if computation.iterators[-1:] == (iterator,) else APART


def loop_cost(found: Sequence[Touch], computation: Computation, iterator: str) -> float:
    """What one vector of all accesses costs in a loop over an iterator."""
    return sum(touch.cost(iterator) for touch in found) + result_cost(computation, iterator)


def best_iterator(found: Sequence[Touch], computation: Computation, allowed: Sequence[str]) -> str | None:
    """The iterator along which vectors are cheapest, the innermost of equal ones; None if none is allowed."""
    if not allowed:
        return None
    costs = {name: loop_cost(found, computation, name) for name in allowed}
    least = min(costs.values())
    return [name for name in allowed if costs[name] <= least][-1]


def operations(computation: Computation) -> int:
    """The arithmetic operations of one value or term; a call of a function counts as eight."""
    return sum(_weight(node) for node in walk(computation.expr))


def _weight(node: Expr) -> int:
    if isinstance(node, Call):
        return 8
    return 0 if isinstance(node, Access) or not list(node.children()) else 1
