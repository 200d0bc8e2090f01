"""Index-set splitting: a statement whose body has a select with an affine condition becomes one piece for each branch.

So does one whose indices are clipped, or wrap around.

    S[i]: select(i == 0, a, b)  on 0 <= i < N
    -->  S[i]: a  on i = 0;  S[i]: b  on 0 < i < N

The pieces keep the time of their statement, so that nothing is reordered; inner loops are generated without branches.
Executions that store an element where they load it are no piece. What is around a point, ``(i == N // 2) & (j == 0)``,
would be many pieces: in a vector loop, whose code tests it for each vector, such a select stays. Plain loops are cut,
so that a C compiler can make vectors of them; they are said to have copies. A body of more cases than are cut is cut
along the innermost loop alone (`cases_along_lanes`).
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Binary, Const, Expr, Iter, Select
from tiramisu_py.algorithm.traversal import rewrite, walk
from tiramisu_py.algorithm.types import bool_
from tiramisu_py.dependence.cases import Part, chooses, is_decided, split_by_cases
from tiramisu_py.dependence.idle_stores import may_be_idle
from tiramisu_py.dependence.strided_lanes import vector_loop
from tiramisu_py.lower.statements.cases_along_lanes import split_along
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass

#: With more convex pieces than this in all, pieces stay unions.
MOST_PIECES = 16
#: Loops of more iterations than this are long: what is computed once for each run of them takes no time.
MOST_SHORT = 64


@dataclass(frozen=True, eq=False)
class DomainPiece:
    """Some instances of a statement (in the tuple `name`), and the body that applies to them.

    It may be one of `copies` with this body `around` the point where a condition holds.
    """

    name: str
    statement: Statement
    instances: isl.Set
    body: Expr
    around: Expr | None = None
    copies: int = 1

    @property
    def frame(self) -> isl.Space:
        """The space of the instances."""
        return self.instances.get_space()


def iterator_names(program: Program, statement: Statement) -> tuple[str, ...]:
    """The names of the components of a statement's point in its body."""
    if statement.role is Role.COPY and isinstance(statement.body, Access):
        return tuple(str(getattr(index, "name", "")) for index in statement.body.indices)
    source = program.algorithm.source(statement.source)
    return tuple(getattr(source, "point_iterators", ()))


def point_forms(program: Program, statement: Statement) -> dict[str, isl.Aff]:
    """The iterators of a statement's body as forms on its instances."""
    names = iterator_names(program, statement)
    return dict(zip(names, sets.outputs(statement.point), strict=False))


def pieces_of(program: Program, statement: Statement, split: bool = True) -> list[DomainPiece]:
    """The pieces of a statement, disjoint and convex; one if nothing is to be split, none if nothing is executed.

    Unless `split`, bodies keep their selects: a thread of a GPU, which executes one instance, has no loop to cut.
    """
    instances = statement.instances.intersect_params(program.context)
    if instances.is_empty():
        return []
    parts: list[Part] = [(instances, statement.body)]
    lanes = vector_loop(program, statement)
    in_vectors = lanes is not None
    around: dict[Any, Expr] = {}

    def cuts(condition: Expr, body: Expr) -> bool:
        if not in_vectors:
            around[body.key()] = condition
        return not in_vectors

    if split:
        forms = point_forms(program, statement)
        reader = Affine(statement.frame, forms)
        indices = ChosenIndices(reader, instances, _moving(statement, forms))
        body = indices.as_selects(statement.body)
        if chooses(body):
            parts = split_by_cases(reader, instances, body, cuts)
            if not all(is_decided(reader, part, own, cuts) for part, own in parts):
                around.clear()
                depth = max(0, len(statement.loops) - 1) if lanes is None else statement.loops.index(lanes)
                parts = _inside_and_rest(reader, instances, body, parts, _moving_from(statement, forms, depth))
            parts = [(part, indices.as_written(body)) for part, body in parts]
        kept = [(changing(program, statement, reader, part, body), body) for part, body in parts]
        parts = [(part, body) for part, body in kept if not part.is_empty()]
        if not parts:
            return []
    if len(parts) > 1 or parts[0][0].n_basic_set() > 1:
        parts = _convex(parts)
    if len(parts) == 1:
        return [DomainPiece(statement.name, statement, *parts[0])]
    named = ((f"{statement.name}#{number}", part, body) for number, (part, body) in enumerate(parts))
    count = Counter(body.key() for _, body in parts) if around else Counter[Any]()
    return [
        DomainPiece(name, statement, sets.named(part, name), body, around.get(body.key()), count[body.key()] or 1)
        for name, part, body in named
    ]


def _inside_and_rest(
    reader: Affine, instances: isl.Set, body: Expr, parts: Sequence[Part], moving: Collection[str]
) -> list[Part]:
    """The parts that are decided and as large as all instances; what is left is cut along the innermost loop alone."""
    least = sets.thin_dimensions(instances)
    large = [
        (points, own)
        for points, own in parts
        if sets.thin_dimensions(points) <= least and is_decided(reader, points, own)
    ]
    for points, _ in large:
        instances = instances.subtract(points)
    instances = instances.coalesce()
    return large if instances.is_empty() else [*large, *split_along(reader, instances, body, moving)]


def _moving(statement: Statement, forms: Mapping[str, isl.Aff]) -> list[str]:
    """The iterators that move in the innermost loop that is long, and in short loops inside, which may be unrolled."""
    own = sets.graph(statement.coords, statement.instances)
    depth = max(0, len(statement.loops) - 1)
    while depth > 0 and _is_short(own, depth):
        depth -= 1
    return _moving_from(statement, forms, depth)


def _moving_from(statement: Statement, forms: Mapping[str, isl.Aff], depth: int) -> list[str]:
    """The iterators that move in the loop at a depth, and inside."""
    around = sets.graph(statement.prefix(depth), statement.instances).reverse()
    found = []
    for name, form in forms.items():
        values = around.apply_range(sets.graph(sets.function(statement.frame, None, [form])))
        if not values.is_single_valued():
            found.append(name)
    return found


def _is_short(own: isl.Map, depth: int) -> bool:
    """Whether each run of the loop at a depth has few iterations, whatever the sizes are."""
    coords = own.range()
    rest = isl.Map.from_domain_and_range(coords, coords)
    same = sets.equal_prefix(rest, depth)
    distance = sets.interval(same.deltas(), depth)
    return distance is not None and distance[1] < MOST_SHORT


def _convex(parts: list[Part]) -> list[Part]:
    convex = [(each, body) for part, body in parts for each in sets.basic_sets(part.coalesce())]
    return convex if len(convex) <= MOST_PIECES else parts


# -- indices that choose: ``min``, ``max`` and ``%`` of iterators and sizes as selects
#
#     a[min(i + 1, N - 1)]   -->  a[select(i + 1 <= N - 1, i + 1, N - 1)]
#     a[(i - 1) % N]         -->  a[select(i - 1 < 0, i - 1 + N, i - 1)]
#
# What no cut has decided is written as it was: a minimum is one instruction. An index that stays the same in the
# innermost loop is not cut: a row of a picture is clipped once for all its columns; a cut would repeat their loop.


class ChosenIndices:
    """The choices in the indices of a body that is executed for some instances; `reader` reads its iterators."""

    def __init__(self, reader: Affine, instances: isl.Set, moving: Collection[str]) -> None:
        self.reader = reader
        self.instances = instances
        #: The iterators that move in the innermost loop.
        self.moving = moving
        #: The operations that became selects, by the keys of the conditions.
        self.operations: dict[object, str] = {}

    def as_selects(self, body: Expr) -> Expr:
        """The body with selects in its indices."""
        return rewrite(body, self._access)

    def as_written(self, body: Expr) -> Expr:
        """A part's body with the minima and maxima that its instances do not decide."""

        def operation(e: Expr) -> Expr | None:
            op = self.operations.get(e.condition.key()) if isinstance(e, Select) else None
            if op is None or not isinstance(e, Select):
                return None
            return Binary(op, self.as_written(e.yes), self.as_written(e.no), e.dtype)

        return rewrite(body, operation) if self.operations else body

    def _access(self, e: Expr) -> Expr | None:
        if not isinstance(e, Access) or not e.indices:
            return None
        indices = tuple(rewrite(index, self._select) for index in e.indices)
        return e if all(map(operator.is_, indices, e.indices)) else e.rebuilt(indices)

    def _select(self, e: Expr) -> Expr | None:
        if not isinstance(e, Binary) or e.op not in ("min", "max", "%") or not self._moves(e) or not self._is_affine(e):
            return None
        if e.op == "%":
            return None if isinstance(e.right, Const) or not self._turns_once(e) else self._turned(e)
        condition = Binary("<=" if e.op == "min" else ">=", e.left, e.right, bool_)
        self.operations[condition.key()] = e.op
        yes, no = (rewrite(side, self._select) for side in (e.left, e.right))
        return Select(condition, yes, no, e.dtype)

    def _moves(self, e: Binary) -> bool:
        return any(isinstance(part, Iter) and part.name in self.moving for part in walk(e))

    def _is_affine(self, e: Binary) -> bool:
        try:
            self.reader.value(e.left), self.reader.value(e.right)
        except NotAffine:
            return False
        return True

    def _turns_once(self, e: Binary) -> bool:
        """Whether ``x % n`` has -n <= x < 2 n."""
        x, n = self.reader.value(e.left), self.reader.value(e.right)
        below, above = sets.as_set(x.lt_set(n.neg())), sets.as_set(x.ge_set(n.add(n)))
        return self.instances.is_disjoint(below.union(above))

    def _turned(self, e: Binary) -> Expr:
        """``x % n`` as ``x + n``, x or ``x - n``."""
        x, n, dtype = e.left, e.right, e.dtype
        inner = rewrite(x, self._select)
        zero = Const(0, x.dtype)
        beyond = Select(Binary(">=", x, n, bool_), Binary("-", inner, n, dtype), inner, dtype)
        return Select(Binary("<", x, zero, bool_), Binary("+", inner, n, dtype), beyond, dtype)


# -- stores that change nothing: an element of the host's memory is loaded, and stored where it was
#
#     A[i, j] = A[i, j]   -->
#
# The proof has seen these executions, which give the element the name of another value; as code they do nothing. So
# loops leave them out: the border of a recurrence that keeps its values in place, ``select(border, h[t - 1, i], ...)``,
# its first level in the array of an input, and the end of a time loop in that array.


def changing(program: Program, statement: Statement, reader: Affine, part: isl.Set, body: Expr) -> isl.Set:
    """The instances of a part of a statement that do not store an element where they have loaded it."""
    if not isinstance(body, Access) or not may_be_idle(program, statement):
        return part
    source, target = program.storage_for(statement, body.source), program.storages[statement.memory.target]
    if body.dtype != program.buffers[target.buffer].dtype:
        return part
    same = (
        source.buffer == target.buffer and program.in_scope(statement, source) and program.in_scope(statement, target)
    )
    if not same:
        return part
    try:
        indices = [reader.single(index) for index in body.indices]
    except NotAffine:
        return part
    value = sets.function(statement.frame, body.source, indices)
    loaded = program.place(statement, source, value, stored=False)
    stored = program.place(statement, target, program.value_of(statement))
    equal = sets.graph(loaded).intersect(sets.graph(stored)).domain()
    left = part.subtract(equal)
    return left.coalesce() if not left.is_equal(part) else part
