"""Values once for each distinct combination of the keys that they depend on: `rewriting.compaction` in a program."""

from __future__ import annotations

from typing import ClassVar, Self

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.rebuilding import check_unscheduled, rebuilt, with_bodies
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.compaction import compacted
from tiramisu_py.schedule.command_fields import Named, OnStatements


@dataclass(frozen=True, eq=False)
class Compact(OnStatements):
    """Compute values that depend on some keys of a position alone once for each distinct combination of the keys.

    ::

        for r: for p in types[r]:           -->     for r: for p in pairs_start[r]:           (fewer than positions)
            msg[r, p] = e(src[p], r)                    msg[r, p] = e(pairs_src[p], r)
        .. msg[r, p] ..                             .. msg[.., pairs_of[p]] ..    (msg.compact(src[p], r, name="pairs"))

    A key is an input that is read at the position, or, as the last one, the run that the position is in. The caller
    passes the combinations as the argument `name`: ``pairs=tm.distinct(src, etype)``; they are verified at a call. The
    same values are read: bits stay. `Function.evaluate` computes the values as they were declared, and `tm.vjp` the
    gradients of the compact ones. Loops keep their names. Give the command before others on `msg`; what reads it may be
    scheduled. Raises `CommandError`, naming what is read beside the keys. Source: Wu, compact materialization.
    """

    many: ClassVar[str] = "keys"
    spelled_out: ClassVar[tuple[str, ...]] = ("name",)

    keys: tuple[Expr, ...]
    name: str

    @classmethod
    def called(cls, of: Named, *keys: Expr, name: str) -> Self:
        return cls(of, keys, name)

    def applied(self, program: Program) -> Program:
        algorithm = program.algorithm
        of = next((x for x in algorithm.inputs.values() if x.distinct and x.distinct.name == self.name), None)
        if of is None or of.distinct is None:
            raise CommandError(f"{self.name} are no distinct keys of {algorithm.name}")
        whole = algorithm.computations[self.computation]
        changed, read = compacted(algorithm, whole, self.keys, of)
        check_unscheduled(program, whole, "compact")
        if program.storages[whole.name].chosen:
            raise CommandError(f"{whole.name} is stored where a command has put it: give compact first, and that then")
        made = rebuilt(program, changed, changed.computations[whole.name], new_array=True)
        return with_bodies(made, read, algorithm)
