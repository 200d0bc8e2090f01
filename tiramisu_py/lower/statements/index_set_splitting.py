"""Index-set splitting: a statement whose body has a select with an affine condition becomes one piece for each branch.

So does one whose indices are clipped, or wrap around.

    S[i]: select(i == 0, a, b)  on 0 <= i < N
    -->  S[i]: a  on i = 0;  S[i]: b  on 0 < i < N

The pieces keep the time of their statement, so that nothing is reordered; inner loops are generated without branches.
Executions that store an element where they load it are no piece. What is around a point, ``(i == N // 2) & (j == 0)``,
would be many pieces: in a vector loop, whose code tests it for each vector, such a select stays. Plain loops are cut,
so that a C compiler can make vectors of them; they are said to have copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.expressions import Access, Expr
from tiramisu_py.dependence.cases import Part, chooses, split_by_cases
from tiramisu_py.dependence.strided_lanes import vector_loop
from tiramisu_py.lower.statements.chosen_indices import ChosenIndices
from tiramisu_py.lower.statements.idle_stores import changing
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
    in_vectors = vector_loop(program, statement) is not None
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


def _moving(statement: Statement, forms: Mapping[str, isl.Aff]) -> list[str]:
    """The iterators that move in the innermost loop that is long, and in short loops inside, which may be unrolled."""
    own = sets.graph(statement.coords, statement.instances)
    depth = max(0, len(statement.loops) - 1)
    while depth > 0 and _is_short(own, depth):
        depth -= 1
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
