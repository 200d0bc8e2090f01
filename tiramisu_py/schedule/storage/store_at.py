"""The command `store_at`: one copy of a buffer for each iteration of a loop around it."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.program.program import Program
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import loop_name, scope_of
from tiramisu_py.schedule.command_fields import OnStatements, StatementsHandle, statements_given
from tiramisu_py.schedule.loops.order import Root
from tiramisu_py.schedule.storage.shared_scope import settled
from tiramisu_py.schedule.storage.store import store_at


@dataclass(frozen=True, eq=False)
class StoreAt(OnStatements):
    """Keep one copy of the buffer for each iteration of a surrounding loop (at `root`: one for the whole call).

    ::

        for r0:                 -->   for r0:
            for r1:                       allocate bx
                allocate bx               for r1:
                bx[..]                        bx[..]
                by[..] = f(bx)                by[..] = f(bx)          (bx.store_at(by, r0))

    The buffer shrinks to the values of one iteration; a layout of `store_in` or `fold` is kept, in either order.
    """

    former = (("level", "at"),)

    consumer: StatementsHandle
    at: Iter | Root

    def applied(self, program: Program) -> Program:
        names, others = self.names(program), statements_given(program, self.consumer)
        scope = () if isinstance(self.at, Root) else scope_of(program, others, loop_name(self.at))
        return settled(store_at(program, self.computation, names, scope))
