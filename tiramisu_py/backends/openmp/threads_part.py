"""OpenMP's part of a host function: parallel loops, atomic updates, pinned threads.

Atomic updates: OpenMP's if every term changes the element, else a loop that exchanges what has changed.

A sum is one locked instruction, which takes the cache line from all other cores. Most terms of a minimum, a maximum or
an "or" leave their element as it is, and then an ordinary load shows that nothing is to be stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.backends.c.expressions.scalars import Scalars, operand
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.c.part import HostPart, Lines, Printer
from tiramisu_py.backends.c.runtime_files import RuntimeFile
from tiramisu_py.backends.openmp import pinning
from tiramisu_py.backends.openmp.parallel_loops import ParallelLoops, shares
from tiramisu_py.ir import Load
from tiramisu_py.ir.arithmetic.lanes import is_half
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.storage import Memory

if TYPE_CHECKING:
    from tiramisu_py.algorithm.expressions import Expr
    from tiramisu_py.backends.c.expressions.scope import Scope
    from tiramisu_py.backends.c.statements import Statements
    from tiramisu_py.ir import Load, LoopFunction


class ThreadsPart(HostPart):
    """The threads of a function; every function may have some."""

    @classmethod
    def concerns(cls, function: LoopFunction) -> bool:
        """True for every function: the loops say whether they run on threads."""
        return True

    def runtime(self) -> tuple[RuntimeFile, ...]:
        """The headers that bind threads to CPUs, if they are pinned, and find the shares of balanced loops."""
        return (*pinning.runtime(self.function), *shares(self.function))

    def checked(self) -> Lines:
        """Pins the threads until the function ends."""
        return pinning.pinned(self.function, self.name, self.parts)

    def printers(self, statements: Statements) -> Mapping[type | Memory, Printer]:
        """The printer of parallel loops."""
        return {Parallel: ParallelLoops(statements).emit}

    def atomic(self, place: str, target: Load, value: Expr, scope: Scope) -> Lines:
        """An atomic update."""
        return atomic_update(place, target, value, scope)

    def thread_failed(self) -> Lines:
        """Sets a flag that the loop checks after all threads have finished."""
        return [cgen.Pragma("omp atomic write"), cgen.Statement("tm_failed = 1"), cgen.Statement("continue")]


#: The variable that the value reads in place of the element; no user's name looks like this.
_OLD = "<old>"
_OPERATORS = ("+", "*", "^")


def atomic_update(place: str, target: Load, value: Expr, scope: Scope) -> list[cgen.Generable]:
    """``target = value`` as an atomic update; the value reads the target."""
    term = _term(target, value)
    if term is not None:
        statement = cgen.Statement(f"{place} {term[0]}= {Scalars(scope).text(term[1])}")
        return [cgen.Pragma("omp atomic"), statement]
    return [cgen.Block(_exchange(place, target, value, scope))]


def _term(target: Load, value: Expr) -> tuple[str, Expr] | None:
    """The operator and the term of an update that OpenMP's ``atomic`` supports, else None."""
    simple = isinstance(value, Binary) and value.op in _OPERATORS and value.dtype == target.dtype
    if not simple or target.dtype.is_bool or is_half(target.dtype):
        return None
    assert isinstance(value, Binary)
    for side, other in ((value.left, value.right), (value.right, value.left)):
        if side.key() == target.key() and not _reads(other, target):
            return value.op, operand(other, target.dtype)
    return None


def _reads(e: Expr, target: Load) -> bool:
    return e.key() == target.key() or any(_reads(child, target) for child in e.children())


def _exchange(place: str, target: Load, value: Expr, scope: Scope) -> list[cgen.Generable]:
    key = target.key()

    def read(e: Expr) -> Expr | None:
        return Iter(_OLD, e.dtype) if isinstance(e, Load) and e.key() == key else None

    kind = target.dtype.c_name
    inside = replace(scope, names={**scope.names, _OLD: "tm_old"})
    new = Scalars(inside).text(operand(rewrite(value, read), target.dtype))
    return [
        cgen.Statement(f"{kind} *const tm_place = &{place}"),
        cgen.Statement(f"{kind} tm_old, tm_new"),
        cgen.Statement("__atomic_load(tm_place, &tm_old, __ATOMIC_RELAXED)"),
        cgen.Line("do {"),
        cgen.Statement(f"  tm_new = {new}"),
        cgen.Statement("  if (memcmp(&tm_new, &tm_old, sizeof tm_new) == 0) break"),
        cgen.Statement(
            "} while (!__atomic_compare_exchange(tm_place, &tm_old, &tm_new, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))"
        ),
    ]
