"""A product of sums in another order: `rewriting.reassociation` in a program."""

from __future__ import annotations

from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.errors import CommandError
from tiramisu_py.program.initial import with_computation
from tiramisu_py.program.program import Program
from tiramisu_py.program.rebuilding import check_unscheduled, rebuilt, without
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.reassociation import reassociated
from tiramisu_py.schedule.command_fields import Named, OnStatements


@dataclass(frozen=True, eq=False)
class Reassociate(OnStatements):
    """Multiply weights with each other before they are multiplied with data: ``(x W) w`` becomes ``x (W w)``.

    ::

        hs[p, j] = sum of x[src[p], k] * W[type[p], k, j]     -->   atts_weights[r, k] = sum of W[r, k, j] * w[r, j]
        atts[p]  = sum of hs[p, j] * w[type[p], j]                  atts[p] = sum of x[src[p], k] * atts_weights[.., k]

    (``atts.reassociate(hs)``). `product` is the sum that `of` reads as a factor of its terms; where nothing else reads
    it, it is not computed any more. `Function.evaluate` computes the values as they were declared; they are the same as
    real numbers, and round in another way: the grade of bits is `everywhere`. `tm.vjp` has the gradients of the new
    form. Give the command before others on both. Raises `CommandError` where something else, such as ``exp``, is
    between the two sums, and where what would be multiplied first has a value for each position: it is no weight then.
    Source: Wu, linear operator reordering.
    """

    product: Named

    def applied(self, program: Program) -> Program:
        algorithm = program.algorithm
        if not isinstance(self.product, Named) or self.product.source not in algorithm.computations:
            raise CommandError(f"{self.product!r} is no sum of {algorithm.name}: give the one that is read as a factor")
        outer, inner = (algorithm.computations[name] for name in (self.computation, self.product.source))
        for each in (outer, inner):
            check_unscheduled(program, each, "reassociate")
        made = reassociated(algorithm, outer, inner)
        changed = made.algorithm
        program = _before(program, changed.computations[made.product], outer)
        program = rebuilt(program, changed, changed.computations[outer.name])
        return without(program, inner.name) if made.unread else program


def _before(program: Program, product: Computation, outer: Computation) -> Program:
    """The program with the product of weights computed before what reads it."""
    made = with_computation(program, product)
    own = [s for s in made.statements.values() if s.source == product.name]
    rest = program.with_(loops=made.loops, buffers=made.buffers, storages=made.storages)
    first = [s.name for s in program.statements.values() if s.source == outer.name]
    for statement in own:
        rest = rest.with_statement_before(statement, first)
    return rest
