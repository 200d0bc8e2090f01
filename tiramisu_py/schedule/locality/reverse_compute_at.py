"""reverse_compute_at: a reader inside its producer's loops, as soon as all that it reads is made.

::

    for k0:                               -->   for k0:
        for i: C[i] += p[i, k0]                     for i:
    for i: out[i] = max(C[i], 0)                        C[i] += p[i, k0]
                                                        if k0 is the last of C[i]: out[i] = max(C[i], 0)

The name is that of TVM (Feng et al., *TensorIR*, 2023), where the loops must not be those of a reduction.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import scope_of, statements
from tiramisu_py.schedule.command_fields import OnStatements, StatementsHandle, statements_given
from tiramisu_py.schedule.locality.compute_at import check_movable, placed_once, reads
from tiramisu_py.schedule.locality.reduction_ends import Makers
from tiramisu_py.schedule.loops.order import inner_level
from tiramisu_py.schedule.loops.single_iterations import without_single_iterations


def reverse_compute_at(
    program: Program, names: Sequence[str], producer: Sequence[str], level: str, command: str
) -> Program:
    """Run each execution in the last iteration of the producer's loops up to `level` that makes what it reads."""
    scope = scope_of(program, producer, level)
    source = statements(program, producer)[0].source
    makers = Makers.in_loops(program, source, scope)
    own = statements(program, names)
    check_movable(program, own[0].source, own)
    for reader in own:
        _check_reader(reader, source)
        program = placed_once(program, reader, scope, makers.last(reader))
        orders = [Order(maker.name, reader.name, scope[-1], command) for maker in makers.statements]
        program = program.with_(orders=(*program.orders, *orders))
    return without_single_iterations(program)


def _check_reader(reader: Statement, source: str) -> None:
    if reader.source == source:
        raise CommandError(f"{reader.handle} computes {source} itself: reverse_compute_at moves what reads it")
    if not reads(reader, source):
        copy = reader.memory.sources.get(source, source)
        why = f"does not read {source}" if copy == source else f"reads its copy {copy}, not {source}"
        raise CommandError(f"{reader.handle} {why}: reverse_compute_at moves readers of what is made in the loop")


# -- the command as a value


@dataclass(frozen=True, eq=False)
class ReverseComputeAt(OnStatements):
    """Compute each value in the iteration of a producer's loop that makes the last of what it reads.

    ::

        for k0, for i0, for i1:        -->   for k0, for i0:
            C[i] += p[i, k0]                     for i1: C[i] += p[i, k0]
        for i: out[i] = max(C[i], 0)             if k0 is the last:
                                                     for i: out[i] = max(C[i], 0)     (what the block has made)

    The loops up to `at` may be those of a reduction's terms: a value is then computed after the last term of
    all that it reads. Each value is computed once; those that read nothing made in the loops, results of no terms,
    stay where they are, as a part of their own. The producer must be complete by then: that is proven, as for any
    order. Source: TVM, ``reverse_compute_at``.
    """

    former = (("level", "at"),)

    producer: StatementsHandle
    at: Iter

    def applied(self, program: Program) -> Program:
        names, others = self.names(program), statements_given(program, self.producer)
        return reverse_compute_at(program, names, others, inner_level(self.at), self.text)
