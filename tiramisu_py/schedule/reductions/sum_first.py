"""A sum before its product: `rewriting.sums_before_products` in a program."""

from __future__ import annotations

from typing import ClassVar, Self

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.rebuilding import added_before, check_unscheduled, rebuilt, without
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.sums_before_products import summed_first
from tiramisu_py.schedule.command_fields import Named, OnStatements


@dataclass(frozen=True, eq=False)
class SumFirst(OnStatements):
    """Sum the rows that are multiplied with one matrix before they are multiplied: one product for each distinct
    combination of keys.

    ::

        msg[p, j] = sum of x[src[p], k] * W[type[p], k, j]   -->   msg_rows[u, k] = sum of norm[p] * x[src[p], k]
        out[n, j] = sum of norm[p] * msg[p, j]                                      where pairs_of[p] == u
                    where dst[p] == n                              msg_sums[u, j] = sum of msg_rows[u, k]
                                                                                    * W[pairs_type[u], k, j]
                                                                   out[n, j] = sum of msg_sums[u, j]
                                                                               where pairs_dst[u] == n

    (``out.sum_first(msg, dst[p], type[p], name="pairs")``). The keys are inputs that are read at the position: those
    that say where a term goes, and with which weights it is multiplied. The caller passes the combinations as the
    argument `name`: ``pairs=tm.distinct(dst, type)``; they are verified at a call. Where nothing else reads `product`
    it is not computed any more. `Function.evaluate` computes the values as they were declared; they are the same as
    real numbers, and round in another way: the grade of bits is `everywhere`. `tm.vjp` has the gradients of the new
    form. Give the command before others on both. Raises `CommandError`, naming what depends on the position beside its
    keys. It pays where there are fewer combinations than positions, and no more than `compact` would have. Source: Wu,
    linear operator reordering.
    """

    many: ClassVar[str] = "keys"
    spelled_out: ClassVar[tuple[str, ...]] = ("name",)

    product: Named
    keys: tuple[Expr, ...]
    name: str

    @classmethod
    def called(cls, of: Named, product: Named, *keys: Expr, name: str) -> Self:
        return cls(of, product, keys, name)

    def applied(self, program: Program) -> Program:
        algorithm = program.algorithm
        of = next((x for x in algorithm.inputs.values() if x.distinct and x.distinct.name == self.name), None)
        if of is None:
            raise CommandError(f"{self.name} are no distinct keys of {algorithm.name}")
        if not isinstance(self.product, Named) or self.product.source not in algorithm.computations:
            raise CommandError(f"{self.product!r} is no sum of {algorithm.name}: give the product that is summed")
        outer, inner = (algorithm.computations[name] for name in (self.computation, self.product.source))
        for each in (outer, inner):
            check_unscheduled(program, each, "sum_first")
        made = summed_first(algorithm, outer, inner, self.keys, of)
        changed = made.algorithm.computations
        program = added_before(program, [changed[made.rows], changed[made.sums]], outer.name)
        program = rebuilt(program, made.algorithm, changed[outer.name])
        return without(program, inner.name) if made.unread else program
