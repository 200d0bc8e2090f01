"""Reads of a computation: their sources, and each index as a linear form of the iterators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Expr, Iter
from tiramisu_py.algorithm.traversal import accesses, walk
from tiramisu_py.errors import CommandError
from tiramisu_py.ir.arithmetic.linear import difference
from tiramisu_py.program.statement import Statement
from tiramisu_py.queries.iterations import has_values_at_all_of
from tiramisu_py.records import dataclass

#: A step of a read that goes to another row.
ANOTHER_ROW = 1 << 30


@dataclass(frozen=True, eq=False)
class LinearRead:
    """One read of a computation: the access, and for each index the coefficients of the iterators.

    An index that is no linear form has None, such as one that is a value, ``x[col[p]]``, or has a quotient, ``x[i //
    2]``. `constants` are what is added to the forms; None if that is no constant.

    ::

        a[i + 1, 2 * j]     -->     forms ({"i": 1}, {"j": 2}), constants (1, 0)
    """

    access: Access
    forms: tuple[dict[str, int] | None, ...]
    constants: tuple[int | None, ...]

    def step(self, iterator: str) -> int | None:
        """How many elements the read moves along an iterator: 0, 1, -1 or more; None at computed places."""
        if any(form is None for form in self.forms):
            return None
        moves = [form.get(iterator, 0) for form in self.forms if form is not None]
        if not any(moves):
            return 0
        return ANOTHER_ROW if any(moves[:-1]) else moves[-1]

    def offset(self, axis: int, iterator: str) -> int | None:
        """The constant that an index adds to an iterator; None for an index of another form."""
        return self.constants[axis] if self.forms[axis] == {iterator: 1} else None

    def mentions(self, iterator: str) -> bool:
        """Whether an index depends on an iterator; computed ones are said to."""
        return any(form is None or form.get(iterator, 0) for form in self.forms)

    @cached_property
    def alone(self) -> tuple[str, ...] | None:
        """The iterators that are its indices, one each; None if an index is anything else."""
        names = [index.name for index in self.access.indices if isinstance(index, Iter)]
        return tuple(names) if len(names) == len(self.access.indices) == len(set(names)) else None


def linear_reads(computation: Computation) -> tuple[LinearRead, ...]:
    """The reads of a computation's expression and conditions, each once; scalars are left out."""
    reader = Affine(computation.points.get_space())
    found: dict[object, LinearRead] = {}
    for expression in (computation.expr, *computation.guards):
        for node in walk(expression):
            if isinstance(node, Access) and node.indices and node.key() not in found:
                found[node.key()] = _linear(reader, node, computation.point_iterators)
    return tuple(found.values())


def _linear(reader: Affine, access: Access, names: Sequence[str]) -> LinearRead:
    forms: list[dict[str, int] | None] = []
    constants: list[int | None] = []
    for index in access.indices:
        form = _terms(reader, index)
        forms.append(None if form is None else {name: c for name, c in zip(names, form.dims, strict=True) if c})
        constants.append(None if form is None or form.params else form.constant)
    return LinearRead(access, tuple(forms), tuple(constants))


def _terms(reader: Affine, index: Expr) -> sets.Terms | None:
    """The coefficients of an index; None if it is no affine form, or has floors."""
    try:
        form = sets.terms(reader.single(index))
    except NotAffine:
        return None
    return None if form.divs or form.denominator != 1 else form


# -- who reads what


def sources_of(computation: Computation) -> list[str]:
    """The names that a computation reads, in its expression and in conditions, in order of first mention."""
    parts = (computation.expr, *computation.guards)
    return list(dict.fromkeys(access.source for part in parts for access in accesses(part)))


def behind(algorithm: Algorithm, name: str) -> list[str]:
    """The computations that one depends on, each before those that read it, and itself at the end."""
    computations, met = algorithm.computations, set[str]()

    def visit(name: str) -> Iterator[str]:
        met.add(name)
        for source in sorted(sources_of(computations[name])):
            if source in computations and source not in met:
                yield from visit(source)
        yield name

    return list(visit(name))


def readers_of(algorithm: Algorithm, source: str) -> list[str]:
    """The computations whose expressions read a source, in the order of declaration."""
    computations = algorithm.computations
    return [name for name, each in computations.items() if any(a.source == source for a in accesses(each.expr))]


# -- reads of statements, which earlier commands may have changed


def statement_sources(statement: Statement) -> tuple[str, ...]:
    """The sources that a statement reads, in order of first mention."""
    return tuple(dict.fromkeys(access.source for access in accesses(statement.body)))


def offsets(statement: Statement, source: str, dimension: int, iterator: Iter) -> list[int] | None:
    """The distances ``index - iterator`` of a dimension, in order; None if an index has another form.

    ``a[i - 1, j] + a[i + 1, j]`` gives ``[-1, 1]`` for dimension 0 and i.
    """
    found = set()
    for access in accesses(statement.body):
        if access.source == source:
            indices = access.indices
            distance = difference(indices[dimension], iterator) if dimension < len(indices) else None
            if distance is None:
                return None
            found.add(distance)
    return sorted(found)


def is_read_in_place(algorithm: Algorithm, source: str, reader: str) -> bool:
    """Whether a computation reads the values of another one at its own iterators alone, in their order.

    ::

        y[i, j] = 2 * x[i, j] + a[j]        x is read in place by y, a is not

    Where x has values y has some, so that y can keep each value of x where it computes its own.
    """
    own, other = algorithm.computations[reader], algorithm.computations[source]
    here = tuple(Iter(name).key() for name in own.iterators)
    reads = [access for part in (own.expr, *own.guards) for access in accesses(part) if access.source == source]
    in_place = all(tuple(index.key() for index in access.indices) == here for access in reads)
    return bool(reads) and in_place and has_values_at_all_of(own, other)


def reads_backwards(computation: Computation, read: Access) -> bool:
    """Whether no index of a read is larger than the iterator of the computation in its place."""
    reader = Affine(computation.points.get_space())
    for index, own in zip(read.indices, computation.iterators, strict=True):
        try:
            place, here = reader.single(index), reader.single(Iter(own))
        except NotAffine:
            return False
        if not computation.points.is_subset(place.le_set(here)):
            return False
    return True


def is_read_at_loop(statement: Statement, read: Access, axis: int, depth: int) -> bool:
    """Whether an index of a read is, in all executions, the iteration of the loop at this depth."""
    try:
        place = _reader(statement).single(read.indices[axis])
    except NotAffine:
        return False
    return bool(statement.instances.is_subset(place.eq_set(sets.outputs(statement.coords)[depth])))


def _reader(statement: Statement) -> Affine:
    space = statement.instances.get_space()
    return Affine(space, dict(zip(statement.dims, sets.variables(space), strict=True)))


def meets(statement: Statement, read: Access, other: Statement) -> bool:
    """Whether some execution reads an element that a part of a computation, another statement, has.

    Raises `CommandError` for a read at computed places.
    """
    reader = _reader(statement)
    try:
        place = sets.function(reader.space, None, [reader.single(index) for index in read.indices])
    except NotAffine as error:
        raise CommandError(f"{read} is read at computed places") from error
    read_there = sets.graph(place, statement.instances).intersect_range(sets.named(other.instances, None))
    return not read_there.domain().is_empty()
