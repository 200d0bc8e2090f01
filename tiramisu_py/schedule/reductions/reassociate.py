"""A product of sums in another order: `rewriting.reassociation` in a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY

from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.rebuilding import added_before, check_unscheduled, rebuilt, without
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.reassociation import reassociated
from tiramisu_py.schedule.command_fields import Named, OnStatements

#: What decides whether weights are multiplied first.
BY = ("weights", "count")


@dataclass(frozen=True, eq=False)
class Reassociate(OnStatements):
    """Multiply weights with each other before they are multiplied with data: ``(x W) w`` becomes ``x (W w)``.

    ::

        hs[p, j] = sum of x[src[p], k] * W[type[p], k, j]     -->   atts_weights[r, k] = sum of W[r, k, j] * w[r, j]
        atts[p]  = sum of hs[p, j] * w[type[p], j]                  atts[p] = sum of x[src[p], k] * atts_weights[.., k]

    (``atts.reassociate(hs)``). `product` is the sum that `of` reads as a factor of its terms; where nothing else reads
    it, it is not computed any more. `Function.evaluate` computes the values as they were declared; they are the same as
    real numbers, and round in another way: the grade of bits is `everywhere`. `tm.vjp` has the gradients of the new
    form. What is multiplied first is to be of weights alone, which pays at any sizes (``by="weights"``); with
    ``by="count"`` it may be anything, where multiplications and additions are fewer at `sizes`, all of them by name.
    Give the command before others on both. Raises `CommandError` where something else, such as ``exp``, is between the
    two sums, where what would be multiplied first has a value for each position, so that it is no weight, and where
    ``by="count"`` finds no less work. Source: Wu, linear operator reordering.
    """

    product: Named
    _: KW_ONLY
    by: str = "weights"
    sizes: Mapping[str, int] | None = None

    def applied(self, program: Program) -> Program:
        algorithm = program.algorithm
        if not isinstance(self.product, Named) or self.product.source not in algorithm.computations:
            raise CommandError(f"{self.product!r} is no sum of {algorithm.name}: give the one that is read as a factor")
        if self.by not in BY or (self.by == "count") != (self.sizes is not None):
            raise CommandError(
                f"by={self.by!r} and sizes={self.sizes!r}: give by='count' with the sizes at which work is counted, "
                "or neither"
            )
        outer, inner = (algorithm.computations[name] for name in (self.computation, self.product.source))
        for each in (outer, inner):
            check_unscheduled(program, each, "reassociate")
        made = reassociated(algorithm, outer, inner, self.sizes)
        changed = made.algorithm
        program = added_before(program, [changed.computations[made.product]], outer.name)
        program = rebuilt(program, changed, changed.computations[outer.name])
        return without(program, inner.name) if made.unread else program
